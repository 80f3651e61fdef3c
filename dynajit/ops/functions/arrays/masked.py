"""What is computed of the elements that a mask chooses, without taking them out of their array.

How many elements a mask chooses only the data say. What does not depend on where they would lie is
computed of the whole array: sums and products with neutral elements in the place of the others,
extremes with such as are never the result. Of no elements NumPy warns or raises where it is asked
for a mean or an extreme: the launch refuses them, and NumPy runs.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.contents import holds
from dynajit.ops.functions.arrays import reductions
from dynajit.ops.functions.arrays.shapes import in_dtype_of_loop, value_for
from dynajit.ops.functions.arrays.table import METHODS, left
from dynajit.ops.functions.arrays.types import as_tensor
from dynajit.ops.table.op_table import TABLE


def _dims(array: Any) -> tuple[int, ...]:
    return tuple(range(len(array.shape)))


def _beside(a: Any, mask: Any) -> Any:
    """A mask of the first dims of an array, with dims of one place for the others."""
    missing = len(a.shape) - len(mask.shape)
    return TABLE.reshape(mask, shape=(*mask.shape, *(1,) * missing)) if missing else mask


def _require_some(mask: Any, name: str) -> None:
    if not holds(TABLE.any(mask, dim=_dims(mask), keepdim=False)):
        raise left(f"numpy.{name} of no elements")


def count(mask: Any) -> Any:
    """How many elements of an array are not 0, as an int64."""
    whole = cast(cast(mask, dtypes.bool_), dtypes.int64)
    return TABLE.sum(whole, dim=_dims(whole), keepdim=False)


def _with_neutral(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(a: Any, mask: Any, dims: tuple[int, ...]) -> Any:
        return function(a, dims, where=_beside(a, mask))

    return reduce


def _mean(a: Any, mask: Any, dims: tuple[int, ...], keepdims: bool = False) -> Any:
    _require_some(mask, "mean")
    return reductions.mean(a, dims, keepdims=keepdims, where=_beside(a, mask))


def _extreme(name: str, row: Any, is_largest: bool) -> Callable[..., Any]:
    def reduce(a: Any, mask: Any, dims: tuple[int, ...]) -> Any:
        if a.dtype.category not in (Category.INTEGER, Category.FLOATING):
            raise left(f"numpy.{name} of {a.dtype.name}, which a mask chooses,")
        _require_some(mask, name)
        kind = a.dtype.numpy
        ends = (-np.inf, np.inf)
        if kind.kind in "iu":
            ends = (int(np.iinfo(kind).min), int(np.iinfo(kind).max))
        other = as_tensor(ends[0 if is_largest else 1], kind)
        return row(TABLE.where(_beside(a, mask), a, other), dim=dims, keepdim=False)

    return reduce


def _variance(a: Any, mask: Any, dims: tuple[int, ...]) -> Any:
    if a.dtype.category is not Category.FLOATING or a.dtype.name == "float16":
        raise left(f"numpy.var of {a.dtype.name}, which a mask chooses,")
    away = TABLE.sub(a, _mean(a, mask, dims, keepdims=True))
    return reductions.mean(TABLE.mul(away, away), dims, where=_beside(a, mask))


def _deviation(a: Any, mask: Any, dims: tuple[int, ...]) -> Any:
    return TABLE.sqrt(_variance(a, mask, dims))


def _any(a: Any, mask: Any, dims: tuple[int, ...]) -> Any:
    found = TABLE.logical_and(cast(a, dtypes.bool_), _beside(a, mask))
    return TABLE.any(found, dim=dims, keepdim=False)


def _all(a: Any, mask: Any, dims: tuple[int, ...]) -> Any:
    found = TABLE.logical_or(cast(a, dtypes.bool_), TABLE.logical_not(_beside(a, mask)))
    return TABLE.all(found, dim=dims, keepdim=False)


#: Function over elements -> the same of those that a mask chooses: of an array, the mask of its
#: first dims, and the dims over which it goes, those of the mask or all.
REDUCED: Final[dict[Callable[..., Any], Callable[..., Any]]] = {
    **{METHODS[name]: _with_neutral(METHODS[name]) for name in ("sum", "prod")},
    METHODS["mean"]: _mean,
    METHODS["max"]: _extreme("max", TABLE.amax, True),
    METHODS["min"]: _extreme("min", TABLE.amin, False),
    METHODS["var"]: _variance,
    METHODS["std"]: _deviation,
    METHODS["any"]: _any,
    METHODS["all"]: _all,
}


def put(target: Any, mask: Any, values: Any) -> Any:
    """What an array holds where elements of another one are written that the same mask chooses."""
    return TABLE.where(_beside(target, mask), value_for(target, values), target)


def updated(target: Any, values: Any) -> Any:
    """What chosen elements are after an operation in place: of their own dtype."""
    return in_dtype_of_loop(target, values)


__all__ = ["REDUCED", "count", "put", "updated"]
