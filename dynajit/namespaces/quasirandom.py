"""Points that fill a cube evenly, by PyTorch's path: `SobolEngine`.

Contract: without scrambling the points are PyTorch's, exact in float32 and float64; scrambled ones
have other random numbers (those of SciPy, seeded). SciPy holds the direction numbers.
"""

import copy
from typing import Any, Final

import numpy as np

from dynajit.core.errors import InvalidValueError
from dynajit.core.process import late
from dynajit.core.process.optional import load
from dynajit.eager.modes.defaults import get_default_dtype
from dynajit.eager.tensor.creation import tensor


class SobolEngine:
    """Draws points of a Sobol' sequence in [0, 1) ** dimension. Mutable: goes on where it ended.

    Args:
        dimension: 1 to 21201.
        scramble: permute digits at random (Owen, by SciPy); the points keep their evenness.
        seed: of the scrambling.

    Raises:
        ValueError: another dimension.
        UnsupportedError: SciPy is not installed.

    Source: direction numbers of S. Joe and F. Y. Kuo (2008), as SciPy has them.
    """

    MAXBIT: Final = 30
    MAXDIM: Final = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise InvalidValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]"
            )
        self.dimension = dimension
        self.scramble = scramble
        self.seed = seed
        self.num_generated = 0
        qmc = load("scipy.stats.qmc", needed_for="SobolEngine", install="scipy")
        self._first = qmc.Sobol(dimension, scramble=scramble, bits=self.MAXBIT, rng=seed)
        self._points = copy.deepcopy(self._first)

    def draw(self, n: int = 1, out: Any = None, dtype: Any = None) -> Any:
        """The next `n` points, (n, dimension).

        Args:
            out: a tensor that takes them.
            dtype: of the points; None: the default dtype.
        """
        kind = dtype or get_default_dtype()
        if n == 0:
            points = tensor([], dtype=kind).reshape(0, self.dimension)
        else:
            points = tensor(self._drawn(n), dtype=kind)
        self.num_generated += n
        if out is None:
            return points
        return out.resize_(points.shape).copy_(points)

    def _drawn(self, n: int) -> Any:
        """SciPy warns of counts that are no power of 2: PyTorch does not."""
        first = self._points.num_generated == 0 and n > 1
        if not first:
            return self._points.random(n)
        head = self._points.random(1)
        return np.concatenate([head, self._points.random(n - 1)])

    def draw_base2(self, m: int, out: Any = None, dtype: Any = None) -> Any:
        """The next 2 ** m points.

        Raises:
            ValueError: what was drawn and these are no power of 2 together.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1) != 0:
            raise InvalidValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> "SobolEngine":
        """Begin again with the first point."""
        self._points = copy.deepcopy(self._first)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> "SobolEngine":
        """Leave out the next `n` points."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        settings = [f"dimension={self.dimension}"]
        if self.scramble:
            settings.append("scramble=True")
        if self.seed is not None:
            settings.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(settings)})"


__all__ = ["SobolEngine"]

late.show(__name__)
