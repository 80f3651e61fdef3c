"""`xp` for arrays on a GPU: CuPy, with what rows use of NumPy and CuPy lacks.

Contract: `arrays()` has the names of `numpy` that rows call, on arrays of CuPy, with NumPy's
meaning; what is not spelled here is CuPy's own. Calls run on the current device and stream.
Differences that rows must know: CuPy's keys wrap where they are out of range (rows check them),
results of no dimensions are arrays, and a float that does not fit an integer becomes what the GPU
makes of it.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.gpu import scatter as gpu_scatter
from dynajit.core.arrays.gpu.linalg import GpuLinearAlgebra
from dynajit.core.errors import BoundsError


class GpuArrays:
    """CuPy by NumPy's names. Immutable.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        for name, (reduce, accumulate) in _FUNCTIONS.items():
            whole = None if reduce is None else getattr(cupy, reduce)
            setattr(self, name, _Function(cupy, getattr(cupy, name), whole, accumulate))
        self.add.at = functools.partial(gpu_scatter.add_at, cupy)
        self.linalg = GpuLinearAlgebra(cupy)
        self.ogrid = _OpenGrid(cupy)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.cupy, name)
        setattr(self, name, found)
        return found

    def matmul(self, a: Any, b: Any) -> Any:
        """Matrix products; those of threads for which less is exact enough wait."""
        with gpu.exclusive_products():
            return self.cupy.matmul(a, b)

    def combine_at(self, name: str, target: Any, key: Any, values: Any) -> None:
        """`numpy.<name>.at(target, key, values)`, in a fixed order."""
        gpu_scatter.combine_at(self.cupy, getattr(self.cupy, name), target, key, values)

    def set_at(self, target: Any, key: Any, values: Any) -> None:
        """`target[key] = values`, in a fixed order where that is asked for."""
        gpu_scatter.set_at(self.cupy, target, key, values)

    def lexsort(self, keys: Sequence[Any]) -> Any:
        """Positions in the order of the last key, then of the one before it, and so on."""
        order = self.cupy.argsort(keys[0], kind="stable")
        for key in keys[1:]:
            order = order[self.cupy.argsort(key[order], kind="stable")]
        return order


class _Function:
    """A ufunc of CuPy whose `reduce` and `accumulate` work."""

    def __init__(
        self, cupy: Any, ufunc: Any, whole: Callable[..., Any] | None, accumulates: bool
    ) -> None:
        self._ufunc = ufunc
        self._whole = whole
        self._accumulates = accumulates
        self._cupy = cupy
        self.at: Callable[..., Any] = ufunc.at

    def __call__(self, *operands: Any, **options: Any) -> Any:
        return self._ufunc(*operands, **options)

    def reduce(self, x: Any, axis: Any = 0, keepdims: bool = False) -> Any:
        """The function over all elements along one or several dims."""
        if self._whole is None:
            raise NotImplementedError(f"{self._ufunc}.reduce on a GPU")
        return self._whole(x, axis=axis, keepdims=keepdims)

    def accumulate(self, x: Any, axis: int = 0) -> Any:
        """Running values: each pass reaches back twice as far as the one before."""
        if not self._accumulates:
            return self._ufunc.accumulate(x, axis=axis)
        size, reach = x.shape[axis], 1
        before = (slice(None),) * (axis % x.ndim)
        while reach < size:
            combined = self._ufunc(
                x[(*before, slice(reach, None))], x[(*before, slice(0, size - reach))]
            )
            x = self._cupy.concatenate([x[(*before, slice(0, reach))], combined], axis=axis)
            reach *= 2
        return x


# name: (function over whole dims, whether running values are ours)
_FUNCTIONS: Final[dict[str, tuple[str | None, bool]]] = {
    "add": ("sum", False),
    "multiply": ("prod", False),
    "maximum": ("max", True),
    "minimum": ("min", True),
    "logical_or": ("any", False),
    "logical_and": ("all", False),
    "logaddexp": (None, True),
}


class _OpenGrid:
    """`ogrid[:2, :3]`, and `ogrid[:2,]`: a list of one array per slice."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def __getitem__(self, key: tuple[slice, ...]) -> list[Any]:
        rank = len(key)
        return [
            self._cupy.arange(part.start or 0, part.stop).reshape(
                (1,) * d + (-1,) + (1,) * (rank - d - 1)
            )
            for d, part in enumerate(key)
        ]


_made: list[GpuArrays] = []


def arrays() -> GpuArrays:
    """The array module of GPU arrays.

    Raises:
        DeviceError: no GPU can be used.
    """
    cupy = gpu.module()
    if not _made or _made[0].cupy is not cupy:
        _made[:] = [GpuArrays(cupy)]
    return _made[0]


def check_key(shape: tuple[int, ...], key: tuple[Any, ...], what: str) -> None:
    """Refuse a key whose arrays of integers are out of range: CuPy wraps them.

    Args:
        shape: of the array that the key selects from.
        key: integers, slices, None, Ellipsis, and arrays of CuPy.
        what: who asked, for the message.

    Raises:
        BoundsError: an integer is out of range.
    """
    used = sum(_dims_used(entry) for entry in key)
    dim = 0
    for entry in key:
        if entry is Ellipsis:
            dim += len(shape) - used
            continue
        if gpu.is_gpu_array(entry) and entry.dtype.kind in "iu" and entry.size and dim < len(shape):
            low, high, size = int(entry.min()), int(entry.max()), shape[dim]
            if low < -size or high >= size:
                wrong = low if low < -size else high
                raise BoundsError(
                    f"{what}: index {wrong} is out of bounds for dimension {dim} with size {size}"
                )
        dim += _dims_used(entry)


def _dims_used(entry: Any) -> int:
    """How many dims an entry of a key selects from."""
    if entry is None or entry is Ellipsis:
        return 0
    is_mask = getattr(entry, "dtype", None) == np.bool_
    return int(entry.ndim) if is_mask else 1
