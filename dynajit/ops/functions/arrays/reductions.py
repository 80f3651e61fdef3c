"""NumPy's sums, extremes, positions and running sums, over tensors.

Rows give the result in the dtype that NumPy chooses. Empty arrays are left to NumPy where it
raises.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt, larger
from dynajit.ops.calls.arguments import cast, is_tensor
from dynajit.ops.functions.arrays.host_made import of_arrays
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import (
    as_tensor,
    axes_of,
    axis_of,
    default_sum,
    in_dtype,
    refuse_given,
)
from dynajit.ops.functions.arrays.ufuncs import apply
from dynajit.ops.functions.reductions.reduction import argsort as positions
from dynajit.ops.functions.reductions.reduction import sort as sorted_values
from dynajit.ops.table.families import ACCUMULATED, TRUTH, broadcast_shapes
from dynajit.ops.table.op_table import TABLE, Kind, Op

_ABSENT: Any = np._NoValue


def _keeps(keepdims: Any) -> bool:
    return keepdims is not _ABSENT and bool(keepdims)


def _reduced(row: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    return row(a, dim=axes_of(a, axis), keepdim=_keeps(keepdims))


def _accumulated(row: Any, a: Any, axis: Any, dtype: Any, keepdims: Any) -> Any:
    """In the dtype that was asked for, or that NumPy takes for sums and products."""
    kind = default_sum(a.dtype.numpy) if dtype is None else np.dtype(dtype)
    return in_dtype(_reduced(row, in_dtype(a, kind), axis, keepdims), kind)


def _require_elements(a: Any, dims: tuple[int, ...], name: str) -> None:
    if any(isinstance(a.shape[d], int) and a.shape[d] == 0 for d in dims):
        raise ValueError(f"{name} of no elements")


def _chosen(a: Any, where: Any, neutral: Any) -> Any:
    """The elements that count, and others that change nothing."""
    if where is _ABSENT or where is True:
        return a
    if not is_tensor(where) or where.dtype is not dtypes.bool_:
        raise left("where= that is no array of truth values")
    if tuple(broadcast_shapes([tuple(a.shape), tuple(where.shape)], "where=")) != tuple(a.shape):
        raise left("where= of more dims than the array")
    return TABLE.where(where, a, in_dtype(neutral, a.dtype.numpy))


def _begun(name: str, found: Any, initial: Any) -> Any:
    """The result together with the number that a reduction begins with."""
    if initial is _ABSENT or initial is None:
        return found
    if type(initial) not in (bool, int, float):
        raise left("initial= that is no number of Python's")
    return apply(name, found, in_dtype(initial, found.dtype.numpy))


def _of_sums(row: Op) -> Callable[..., Any]:
    name = row.name
    (neutral,) = row.rule.identity(dtypes.float32)

    @stands_for(getattr(np, name), method=name)
    def accumulated(a: Any, axis: Any = None, dtype: Any = None, out: Any = None,
                    keepdims: Any = _ABSENT, initial: Any = _ABSENT,
                    where: Any = _ABSENT) -> Any:  # fmt: skip
        """Sums, or products, over some dims."""
        refuse_given(name, out=out)
        found = _accumulated(row, _chosen(as_tensor(a), where, neutral), axis, dtype, keepdims)
        return _begun(row.rule.ufunc, found, initial)

    return accumulated


def _count(a: Any, dims: tuple[int, ...]) -> Any:
    count: Any = 1
    for dim in dims:
        count = count * a.shape[dim]
    return count


def _mean_dtype(a: Any, dtype: Any) -> Any:
    """Of the result, and in which it is computed."""
    own = a.dtype.numpy
    if dtype is not None:
        return np.dtype(dtype), np.dtype(dtype)
    if own.kind in "biu":
        return np.dtype(np.float64), np.dtype(np.float64)
    return own, np.dtype(np.float32) if own == np.float16 else own


@stands_for(np.mean, method="mean")
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _ABSENT, *,
         where: Any = _ABSENT) -> Any:  # fmt: skip
    """Means over some dims."""
    refuse_given("mean", out=out)
    a = as_tensor(a)
    dims = axes_of(a, axis)
    given, kind = _mean_dtype(a, dtype)
    total = TABLE.sum(_chosen(in_dtype(a, kind), where, 0), dim=dims, keepdim=_keeps(keepdims))
    count = _count(a, dims)
    if where is not _ABSENT and where is not True:
        counted = TABLE.where(TABLE.expand(where, shape=tuple(a.shape)), 1.0, 0.0)
        count = TABLE.sum(in_dtype(counted, kind), dim=dims, keepdim=_keeps(keepdims))
    return in_dtype(TABLE.div(total, count), given)


def _variance(a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any) -> tuple[Any, Any]:
    dims = axes_of(a, axis)
    if a.dtype.category is Category.COMPLEX:
        raise left("numpy.var of complex numbers")
    if isinstance(ddof, bool) or not isinstance(ddof, (int, float, SymInt)):
        raise left("ddof= of numpy.var that is no number")
    given, kind = _mean_dtype(a, dtype)
    x = in_dtype(a, kind)
    center = TABLE.div(TABLE.sum(x, dim=dims, keepdim=True), _count(a, dims))
    away = TABLE.sub(x, center)
    total = TABLE.sum(TABLE.mul(away, away), dim=dims, keepdim=_keeps(keepdims))
    rest = _count(a, dims) - ddof
    least = max(rest, 0) if isinstance(rest, (int, float)) else larger(rest, 0)
    return TABLE.div(total, least), given


@stands_for(np.var, method="var")
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = _ABSENT, *, where: Any = _ABSENT, mean: Any = _ABSENT,
        correction: Any = _ABSENT) -> Any:  # fmt: skip
    """Variances over some dims."""
    refuse_given("var", out=out, where=where, mean=mean, correction=correction)
    found, kind = _variance(as_tensor(a), axis, dtype, ddof, keepdims)
    return in_dtype(found, kind)


@stands_for(np.std, method="std")
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0,
        keepdims: Any = _ABSENT, *, where: Any = _ABSENT, mean: Any = _ABSENT,
        correction: Any = _ABSENT) -> Any:  # fmt: skip
    """Standard deviations over some dims."""
    refuse_given("std", out=out, where=where, mean=mean, correction=correction)
    found, kind = _variance(as_tensor(a), axis, dtype, ddof, keepdims)
    return in_dtype(TABLE.sqrt(found), kind)


def _extreme(row: Any, of_bool: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    a = as_tensor(a)
    dims = axes_of(a, axis)
    _require_elements(a, dims, row.name)
    if a.dtype.category is Category.COMPLEX:
        raise left("an order of complex numbers")
    used = of_bool if a.dtype is dtypes.bool_ else row
    return used(a, dim=dims, keepdim=_keeps(keepdims))


@stands_for(np.max, np.amax, method="max")
def max_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _ABSENT,
        initial: Any = _ABSENT, where: Any = _ABSENT) -> Any:  # fmt: skip
    """The largest elements; NaN is larger than numbers."""
    refuse_given("max", out=out, where=where)
    found = _extreme(TABLE.amax, TABLE.any, a, axis, keepdims)
    return _begun("maximum", found, initial)


@stands_for(np.min, np.amin, method="min")
def min_(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _ABSENT,
        initial: Any = _ABSENT, where: Any = _ABSENT) -> Any:  # fmt: skip
    """The smallest elements; NaN is smaller than numbers."""
    refuse_given("min", out=out, where=where)
    found = _extreme(TABLE.amin, TABLE.all, a, axis, keepdims)
    return _begun("minimum", found, initial)


@stands_for(np.ptp)
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _ABSENT) -> Any:
    """From the smallest to the largest elements."""
    high, low = max_(a, axis, out, keepdims), min_(a, axis, out, keepdims)
    return apply("subtract", high, low)


def _of_truth(row: Op) -> Callable[..., Any]:
    name = row.name

    @stands_for(getattr(np, name), method=name)
    def known(a: Any, axis: Any = None, out: Any = None, keepdims: Any = _ABSENT, *,
              where: Any = _ABSENT) -> Any:  # fmt: skip
        """Whether some element, or every one, is not 0."""
        refuse_given(name, out=out, where=where)
        a = as_tensor(a)
        return _reduced(row, cast(a, dtypes.bool_), axis, keepdims)

    return known


#: Whether NumPy counts in ints of Python's, as older versions do.
GIVES_INTS: Final = isinstance(np.count_nonzero(np.zeros(1)), int)


@stands_for(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """How many elements are not 0.

    Over all of them older versions of NumPy give an int, which needs the contents.
    """
    if axis is None and not keepdims and GIVES_INTS:
        raise left("numpy.count_nonzero of a whole array, an int of Python's,")
    a = as_tensor(a)
    return _reduced(TABLE.sum, cast(cast(a, dtypes.bool_), dtypes.int64), axis, keepdims)


def _position(row: Any, a: Any, axis: Any, keepdims: Any) -> Any:
    a = as_tensor(a)
    if a.dtype.category is Category.COMPLEX:
        raise left("an order of complex numbers")
    if a.dtype is dtypes.bool_:
        a = cast(a, dtypes.uint8)
    rank = len(a.shape)
    _require_elements(a, axes_of(a, axis), row.name)
    if axis is None:
        found = row(TABLE.reshape(a, shape=(a.numel(),)), dim=(0,), keepdim=False)
        return TABLE.reshape(found, shape=(1,) * rank) if _keeps(keepdims) else found
    return row(a, dim=axes_of(a, (axis,)), keepdim=_keeps(keepdims))


def _of_positions(row: Op) -> Callable[..., Any]:
    name = row.name

    @stands_for(getattr(np, name), method=name)
    def position(a: Any, axis: Any = None, out: Any = None, *, keepdims: Any = _ABSENT) -> Any:
        """Where the element is that the row chooses, the first of several."""
        refuse_given(name, out=out)
        return _position(row, a, axis, keepdims)

    return position


def _running(row: Any, a: Any, axis: Any, dtype: Any) -> Any:
    a = as_tensor(a)
    kind = default_sum(a.dtype.numpy) if dtype is None else np.dtype(dtype)
    if axis is None or not a.shape:
        a = TABLE.reshape(a, shape=(a.numel(),))
        axis = 0 if axis is None else axis
    return in_dtype(row(in_dtype(a, kind), dim=axis_of(a, axis)), kind)


def _of_scans(row: Op) -> Callable[..., Any]:
    name = row.name

    @stands_for(getattr(np, name), method=name, needs_rows=Order.SAME)
    def running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Running sums, or products."""
        refuse_given(name, out=out)
        return _running(row, a, axis, dtype)

    return running


def _by_row() -> Iterator[tuple[Op, Callable[..., Any]]]:
    """Of rows that NumPy has under their names: which function stands for NumPy's."""
    for row in TABLE:
        if row.kind is Kind.EXTERN and "reverse" in row.attributes:
            yield row, _of_scans(row)
        elif row.kind is not Kind.REDUCTION:
            continue
        elif row.gives_positions:
            yield row, _of_positions(row)
        elif row.rule.compute is TRUTH.compute:
            yield row, _of_truth(row)
        elif row.rule.compute is ACCUMULATED.compute:
            yield row, _of_sums(row)


BY_ROW: Final[dict[Op, Callable[..., Any]]] = {
    **dict(_by_row()), TABLE.amax: max_, TABLE.amin: min_
}  # fmt: skip
"""Reduction or scan -> the function that stands for NumPy's."""

sum_ = BY_ROW[TABLE.sum]


def _to_sort(a: Any, axis: Any) -> tuple[Any, int]:
    a = as_tensor(a)
    if a.dtype.category is Category.COMPLEX:
        raise left("an order of complex numbers")
    if axis is None:
        a, axis = TABLE.reshape(a, shape=(a.numel(),)), 0
    return a, axis_of(a, axis)


@stands_for(np.sort)
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """Sorted elements, NaN last."""
    refuse_given("sort", order=order)
    a, dim = _to_sort(a, axis)
    return sorted_values(a, dim, stable=True)[0]


@stands_for(np.argsort, method="argsort", needs_rows=Order.ROWS)
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *,
            stable: Any = None) -> Any:  # fmt: skip
    """Where sorted elements come from; which of equal ones comes first is NumPy's to say."""
    refuse_given("argsort", order=order)
    a, dim = _to_sort(a, axis)
    if kind in ("stable", "mergesort") or stable is True:
        return positions(a, dim, stable=True)
    refuse_given("argsort", stable=stable)
    return of_arrays("argsort", (a,), (dim, kind), tuple(a.shape), dtypes.int64)


@stands_for(method="sort", writes=True)
def sort_method(a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *,
                stable: Any = None) -> Any:  # fmt: skip
    """What an array holds when it was sorted."""
    return sort(a, axis_of(a, axis), kind, order, stable=stable)


@stands_for(np.diff, is_view=True)
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = _ABSENT, append: Any = _ABSENT) -> Any:
    """Differences of neighbours."""
    refuse_given("diff", prepend=prepend, append=append)
    a = as_tensor(a)
    if type(n) is not int or n < 0:
        raise ValueError("order must be non-negative")
    if not a.shape:
        raise ValueError("diff requires input that is at least one dimensional")
    dim = axis_of(a, axis)
    name = "not_equal" if a.dtype is dtypes.bool_ else "subtract"
    for _ in range(n):
        size = a.shape[dim]
        if isinstance(size, int) and size == 0:
            return a
        everything = (slice(None),) * dim
        after, before = a[(*everything, slice(1, size))], a[(*everything, slice(0, size - 1))]
        a = apply(name, after, before)
    return a


@stands_for(np.ediff1d)
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours in one dim."""
    refuse_given("ediff1d", to_end=to_end, to_begin=to_begin)
    ary = as_tensor(ary)
    if ary.dtype is dtypes.bool_:
        raise left("numpy.ediff1d of truth values")
    return diff(TABLE.reshape(ary, shape=(ary.numel(),)))


@stands_for(np.nansum)
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = _ABSENT,
           initial: Any = _ABSENT, where: Any = _ABSENT) -> Any:  # fmt: skip
    """Sums, where NaN counts as 0."""
    a = as_tensor(a)
    if a.dtype.category is Category.COMPLEX:
        raise left("numpy.nansum of complex numbers")
    if a.dtype.category is Category.FLOATING:
        a = TABLE.where(TABLE.isnan(a), in_dtype(0, a.dtype.numpy), a)
    return sum_(a, axis, dtype, out, keepdims, initial, where)
