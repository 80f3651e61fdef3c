"""NumPy's reductions that leave NaN out, over tensors: NumPy computes them, between kernels.

Where nothing is left NumPy warns; a call that is told to make an error of that runs plainly.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import is_at_least
from dynajit.ops.functions.arrays.host_made import of_arrays
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, axes_of, own_dtype

_ABSENT: Any = np._NoValue

#: Name of the function -> its parameters behind the axis, of the freedom that is taken away, and of
#: whether dims are kept.
_PARAMETERS: Final[dict[str, Callable[[Any, bool], tuple[Any, ...]]]] = {
    "nanmean": lambda ddof, keeps: (None, None, keeps),
    "nanprod": lambda ddof, keeps: (None, None, keeps),
    "nanmax": lambda ddof, keeps: (None, keeps),
    "nanmin": lambda ddof, keeps: (None, keeps),
    "nanmedian": lambda ddof, keeps: (None, False, keeps),
    "nanstd": lambda ddof, keeps: (None, None, ddof, keeps),
    "nanvar": lambda ddof, keeps: (None, None, ddof, keeps),
}


def _enter(name: str) -> None:
    original, takes_freedom = getattr(np, name), name in ("nanstd", "nanvar")

    @stands_for(original, needs_rows=Order.NOT_KNOWN)
    def reduced(a: Any, axis: Any = None, *, ddof: Any = 0, keepdims: Any = _ABSENT) -> Any:
        if not takes_freedom and ddof != 0:
            raise TypeError("ddof")
        if type(ddof) not in (int, float):
            raise left(f"numpy.{name} by a freedom that varies")
        a = as_tensor(a)
        dims, keeps = axes_of(a, axis), keepdims is not _ABSENT and bool(keepdims)
        if a.dtype.category is not Category.FLOATING or not a.shape:
            raise left(f"numpy.{name} of {a.dtype.name}, or of a number,")
        if not all(is_at_least(size, 1) for size in a.shape):
            raise left(f"numpy.{name} of no elements")
        found = own_dtype(original(np.ones(1, a.dtype.numpy)).dtype)
        kept = [1 if d in dims else size for d, size in enumerate(a.shape)]
        shape = kept if keeps else [size for d, size in enumerate(a.shape) if d not in dims]
        given = None if axis is None else tuple(dims) if isinstance(axis, tuple) else dims[0]
        numbers = (given, *_PARAMETERS[name](ddof, keeps))
        return of_arrays(name, (a,), numbers, tuple(shape), found)


for _name in _PARAMETERS:
    _enter(_name)
