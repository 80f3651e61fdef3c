"""Methods of NumPy's ufuncs, over tensors: `np.add.reduce`, `accumulate`, `outer` and `at`."""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import is_run_time_number, is_tensor
from dynajit.ops.functions.arrangement.search import cummax, cummin
from dynajit.ops.functions.arrays import reductions
from dynajit.ops.functions.arrays.host_made import of_arrays
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, axis_of, common, in_dtype, refuse_given
from dynajit.ops.functions.arrays.ufuncs import LOOPS, apply
from dynajit.ops.functions.shapes.index import index_put
from dynajit.ops.table.op_table import TABLE, Kind

_ABSENT: Any = np._NoValue

_REDUCTIONS: Final[dict[Any, Callable[..., Any]]] = {
    getattr(np, row.rule.ufunc): function
    for row, function in reductions.BY_ROW.items()
    if row.kind is Kind.REDUCTION and row.rule.ufunc
}


def _enter_reduction(ufunc: Any, reduction: Callable[..., Any]) -> None:
    @stands_for(ufunc.reduce)
    def reduce(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: Any = False,
               initial: Any = _ABSENT, where: Any = True) -> Any:  # fmt: skip
        refuse_given(f"{ufunc.__name__}.reduce", out=out)
        named = {} if dtype is None else {"dtype": dtype}
        if initial is not _ABSENT:
            named["initial"] = initial
        if where is not True:
            named["where"] = where
        x = as_tensor(array)
        if not x.shape:
            raise left(f"numpy.{ufunc.__name__}.reduce of a number")
        return reduction(x, axis, keepdims=keepdims, **named)


def _running_extreme(running: Any, array: Any, axis: Any) -> Any:
    x = as_tensor(array)
    if x.dtype.category not in (Category.FLOATING, Category.INTEGER):
        raise left("a running extreme of truth values or complex numbers")
    return running(x, axis_of(x, axis))[0]


_RUNNING: Final[dict[Any, Callable[..., Any]]] = {
    np.add: reductions.BY_ROW[TABLE.cumsum], np.multiply: reductions.BY_ROW[TABLE.cumprod],
    np.maximum: functools.partial(_running_extreme, cummax),
    np.minimum: functools.partial(_running_extreme, cummin),
}  # fmt: skip


def _enter_accumulation(ufunc: Any, running: Callable[..., Any]) -> None:
    @stands_for(ufunc.accumulate, needs_rows=Order.SAME)
    def accumulate(array: Any, axis: Any = 0, dtype: Any = None, out: Any = None) -> Any:
        refuse_given(f"{ufunc.__name__}.accumulate", out=out)
        if axis is None or not as_tensor(array).shape:
            raise left(f"numpy.{ufunc.__name__}.accumulate without an axis")
        return running(array, axis) if dtype is None else running(array, axis, dtype)


def _enter_outer(ufunc: Any) -> None:
    @stands_for(ufunc.outer, needs_rows=Order.NOT_KNOWN)
    def outer(A: Any, B: Any, /) -> Any:
        x, y = as_tensor(A), as_tensor(B)
        x = TABLE.reshape(x, shape=(*x.shape, *(1,) * len(y.shape)))
        return apply(ufunc.__name__, x, y)


def _places(name: str, a: Any, indices: Any) -> tuple[Any, ...]:
    """The indices along the first dims."""
    parts = indices if isinstance(indices, tuple) else (indices,)
    if not 0 < len(parts) <= len(a.shape):
        raise left(f"numpy.{name}.at of this index")
    if not all(is_tensor(part) or isinstance(part, list) for part in parts):
        raise left(f"numpy.{name}.at of slices or numbers")
    places = tuple(map(as_tensor, parts))
    if not all(x.dtype.category is Category.INTEGER and x.shape for x in places):
        raise left(f"numpy.{name}.at of an index of other than integers")
    return places


def _stays_in(ufunc: Any, kind: Any) -> bool:
    """Whether a function of two elements of a dtype gives a third one."""
    try:
        return set(ufunc.resolve_dtypes((kind, kind, None))) == {kind}
    except TypeError:
        return False


def _enter_at(ufunc: Any) -> None:
    if not any(_stays_in(ufunc, np.dtype(kind)) for kind in (np.int64, np.float64)):
        return
    name = ufunc.__name__

    @stands_for(ufunc.at, writes=True)
    def at(a: Any, indices: Any, b: Any, /) -> Any:
        places, kind = _places(name, a, indices), a.dtype.numpy
        value = as_tensor(b) if isinstance(b, (list, tuple)) else b
        if common((a, value)) != kind or not _stays_in(ufunc, kind) or kind.kind == "b":
            raise left(f"numpy.{name}.at of a value of another dtype")
        if ufunc in _SIGNS and kind != np.float16:
            value = as_tensor(in_dtype(value, kind), kind)
            return index_put(a, places, _SIGNS[ufunc](value), True)
        # One step after the other, of which each rounds, and in what NumPy takes a number for.
        if is_run_time_number(value):
            raise left(f"numpy.{name}.at of a number that varies")
        arrays, numbers = ((value,), ()) if is_tensor(value) else ((), (value,))
        return of_arrays(f"{name}.at", (a, *places, *arrays), numbers, a.shape, a.dtype)


#: What adds up -> the sign of what it adds.
_SIGNS: Final[dict[Any, Callable[[Any], Any]]] = {
    np.add: lambda value: value,
    np.subtract: TABLE.neg,
}


for _ufunc, _function in _REDUCTIONS.items():
    _enter_reduction(_ufunc, _function)
for _ufunc, _function in _RUNNING.items():
    _enter_accumulation(_ufunc, _function)
for _name in LOOPS:
    if getattr(np, _name).nin == 2:
        _enter_at(getattr(np, _name))
    if getattr(np, _name).nin == 2 and not _name.endswith("_shift"):
        _enter_outer(getattr(np, _name))
