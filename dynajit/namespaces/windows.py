"""Windows by the names and arguments of `torch.signal.windows`.

Contract: `sym` windows are symmetric, others leave out the last element of a symmetric one that is
longer by one. They are computed in float64 and rounded once to float32 or float64. A window of one
element is 1.

Source: F. J. Harris, "On the use of windows for harmonic analysis", Proceedings of the IEEE 66
(1978); A. H. Nuttall, IEEE Transactions on Acoustics 29 (1981).
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.core.process import late
from dynajit.core.types.dtypes import float32, float64
from dynajit.core.types.tensor_layouts import require_strided
from dynajit.ops import functions as f
from dynajit.ops.calls.arguments import size


def _window(name: str, M: int, sym: bool, shape: Callable[[Any, int], Any], options: Any) -> Any:
    """A window as a function of the positions 0, 1, ... and the number of steps between its ends.

    Raises:
        InvalidValueError: M is negative, or the dtype is neither float32 nor float64.
        UnsupportedError: a layout is asked for that is not the usual one.
    """
    require_strided(options.get("layout"))
    dtype = options.get("dtype")
    kind = f.ones(0).dtype if dtype is None else dtype
    M = size(M, name)
    if M < 0:
        raise InvalidValueError(f"{name} requires non-negative window length, got M={M}")
    if kind is not float32 and kind is not float64:
        raise InvalidValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
    device = options.get("device")
    if M <= 1:
        result = f.ones(M, dtype=kind, device=device)
    else:
        positions = f.arange(M, dtype=float64, device=device)
        result = shape(positions, M - 1 if sym else M).to(kind)
    return result.requires_grad_(True) if options.get("requires_grad") else result


def general_cosine(M: int, *, a: Iterable[float], sym: bool = True, **options: Any) -> Any:
    """The sum of (-1)^k a[k] cos(2 pi k * position), for positions from 0 to 1.

    Args:
        M: the number of elements.
        a: weights.
        sym: see the module.
        options: dtype, device, requires_grad.

    Raises:
        ArgumentError: `a` is no list.
        InvalidValueError: `a` is empty; as of the other windows.
    """
    if not isinstance(a, Iterable):
        raise ArgumentError("Coefficients must be a list/tuple")
    weights = [float(weight) for weight in a]
    if not weights:
        raise InvalidValueError("Coefficients cannot be empty")

    def shape(positions: Any, steps: int) -> Any:
        total: Any = weights[0]
        for k, weight in enumerate(weights[1:], 1):
            wave = f.cos(positions * (2 * math.pi * k / steps))
            total = total + (-weight if k % 2 else weight) * wave
        return total + positions * 0

    return _window("general_cosine", M, sym, shape, options)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """alpha - (1 - alpha) cos; arguments and errors as of `general_cosine`."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    """`general_hamming` with alpha 0.54."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    """`general_hamming` with alpha 0.5: 0 at its ends."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Two cosines: 0 at its ends."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Three cosines: small side lobes."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """A triangle: 0 at its ends; arguments as of `general_cosine`."""

    def shape(positions: Any, steps: int) -> Any:
        return 1 - f.abs(positions * (2 / steps) - 1)

    return _window("bartlett", M, sym, shape, options)


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Half a wave of the sine; arguments as of `general_cosine`."""

    def shape(positions: Any, steps: int) -> Any:
        return f.sin((positions + 0.5) * (math.pi / (steps + 1)))

    return _window("cosine", M, sym, shape, options)


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, **options: Any
) -> Any:
    """exp(-|n - center| / tau); arguments as of `general_cosine`.

    Raises:
        InvalidValueError: tau is not positive, or a symmetric window is given a center.
    """
    if tau <= 0:
        raise InvalidValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise InvalidValueError("Center must be None for symmetric windows")

    def shape(positions: Any, steps: int) -> Any:
        middle = steps / 2 if center is None else center
        return f.exp(f.abs(positions - middle) * (-1 / tau))

    return _window("exponential", M, sym, shape, options)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """exp(-(n - center)^2 / (2 std^2)); arguments as of `general_cosine`.

    Raises:
        InvalidValueError: std is not positive.
    """
    if std <= 0:
        raise InvalidValueError(f"Standard deviation must be positive, got: {std} instead.")

    def shape(positions: Any, steps: int) -> Any:
        return f.exp(-(((positions - steps / 2) / (std * math.sqrt(2))) ** 2))

    return _window("gaussian", M, sym, shape, options)


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """i0(beta sqrt(1 - x^2)) / i0(beta) for x from -1 to 1; arguments as of `general_cosine`.

    Raises:
        InvalidValueError: beta is negative.
    """
    if beta < 0:
        raise InvalidValueError(f"beta must be non-negative, got: {beta} instead.")

    def shape(positions: Any, steps: int) -> Any:
        x = positions * (2 / steps) - 1
        top = f.full((), float(beta), dtype=float64, device=positions.device)
        return f.i0(beta * f.sqrt((1 - x * x).clamp_min(0))) / f.i0(top)

    return _window("kaiser", M, sym, shape, options)


__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

late.show(__name__)
