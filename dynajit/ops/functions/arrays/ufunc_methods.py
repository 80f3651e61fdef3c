"""Methods of NumPy's ufuncs, over tensors: `np.add.reduce`, `accumulate`, `outer` and `at`."""

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.types.dtypes import Category
from dynajit.ops.functions.arrangement.search import cummax, cummin
from dynajit.ops.functions.arrays import reductions
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


def _enter_at(ufunc: Any, sign: Callable[[Any], Any]) -> None:
    @stands_for(ufunc.at, writes=True)
    def at(a: Any, indices: Any, b: Any = 1, /) -> Any:
        places, value = as_tensor(indices), as_tensor(b)
        if places.dtype.category is not Category.INTEGER or not places.shape or not a.shape:
            raise left(f"numpy.{ufunc.__name__}.at of this index")
        if common((a, b)) != a.dtype.numpy or a.dtype.category is Category.BOOL:
            raise left(f"numpy.{ufunc.__name__}.at of a value of another dtype")
        value = sign(in_dtype(value, a.dtype.numpy))
        return index_put(a, (places,), value, True)


for _ufunc, _function in _REDUCTIONS.items():
    _enter_reduction(_ufunc, _function)
for _ufunc, _function in _RUNNING.items():
    _enter_accumulation(_ufunc, _function)
for _name in LOOPS:
    if getattr(np, _name).nin == 2 and not _name.endswith("_shift"):
        _enter_outer(getattr(np, _name))
_enter_at(np.add, lambda value: value)
_enter_at(np.subtract, TABLE.neg)
