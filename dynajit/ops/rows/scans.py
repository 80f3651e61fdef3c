"""Rows along one dimension that need all of it: running sums and products, and sorting orders.

Contract: rows of kind EXTERN; `dim` counts from the front; a zero-dim input is treated as one
element. NaN sorts last ascending and first descending, as in PyTorch; sorting is stable.
"""

from typing import Any

import numpy as np

from dynajit.core.errors import DTypeNotImplementedError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import fits_within
from dynajit.core.types.value_types import Size, TensorType, ValueType
from dynajit.ops.native import _native_orders
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import describe, extern, require_tensor
from dynajit.ops.table.op_table import Autocast


def _scan_infer(name: str) -> Any:
    def infer(x: ValueType, *, dim: int, reverse: bool) -> TensorType:
        type = require_tensor(x, describe(name, ("x",), (x,)), "x")
        whole = type.dtype.category <= Category.INTEGER
        return type.with_dtype(dtypes.int64 if whole else type.dtype)

    return infer


def accumulator_dtype(dtype: DType) -> DType:
    """dtype of a running value, as in PyTorch on CPUs: double for float, float for the 16-bit
    floats; int64 for bool and integers."""
    if dtype.category <= Category.INTEGER:
        return dtypes.int64
    return dtypes.float64 if dtype is dtypes.float32 else dtypes.compute_dtype(dtype)


def _turned(x: np.ndarray, dim: int) -> Any:
    """A view from the last element along `dim` on."""
    return x[(*(slice(None),) * dim, slice(None, None, -1))]


def _scan(xp: Any, function: Any, x: Any, dim: int, reverse: bool) -> Any:
    """A running NumPy function, from the last element on if `reverse`.

    The result lies row by row, as PyTorch's does.
    """
    kind = dtypes.from_numpy(x.dtype)
    result = np.dtype(np.int64) if kind.category <= Category.INTEGER else x.dtype
    if x.ndim == 0:
        return x.astype(result)
    given = _turned(x, dim) if reverse else x
    wide = function(given, axis=dim, dtype=accumulator_dtype(kind).numpy)
    wide = _turned(wide, dim) if reverse else wide
    return wide.astype(result, order="C", copy=not wide.flags.c_contiguous)


def _cumsum_vjp(ops: Any, g: Any, dim: int, reverse: bool) -> Any:
    """The running sum from the other end."""
    return ops.cumsum(g, dim=dim, reverse=not reverse)


@extern(
    infer=_scan_infer("cumsum"),
    vjp={"x": _cumsum_vjp},
    widens=True,
    native=_native_orders.cumsum,
    autocast=Autocast.FULL,
    linear=("x",),
    samples=sample_rules.along("dim"),
)
def cumsum(xp: Any, x: Any, *, dim: int, reverse: bool = False) -> Any:
    """Sums of the elements up to each position along `dim`, or from it on if `reverse`.

    Dtype: int64 for bool and integers.
    """
    return _scan(xp, xp.cumsum, x, dim, reverse)


def _cumprod_vjp(ops: Any, g: Any, x: Any, out: Any, dim: int, reverse: bool) -> Any:
    """The sum of g * out from each position on, divided by x: out is a product with x in it.

    That says nothing where x is zero: there the products are made again without it. At a second
    zero they have the first one as a factor, which is 0 and has a derivative. A third one would
    only be seen by a third derivative.
    """
    if not x.shape:
        return g

    def without(left_out: Any) -> Any:
        others = ops.cumprod(ops.where(left_out, 1, x), dim=dim, reverse=reverse)
        return ops.cumsum(ops.mul(g, others), dim=dim, reverse=not reverse)

    is_zero = ops.eq(x, 0)
    zeros = ops.cumsum(is_zero, dim=dim, reverse=reverse)
    is_first = ops.logical_and(is_zero, ops.eq(zeros, 1))
    is_second = ops.logical_and(is_zero, ops.eq(zeros, 2))
    first = ops.sum(ops.where(is_first, x, 0), dim=(dim,), keepdim=True)
    at_second = ops.mul(first, without(ops.logical_or(is_first, is_second)))
    at_zero = ops.where(is_first, without(is_first), ops.where(is_second, at_second, 0))
    with_x = ops.cumsum(ops.mul(g, out), dim=dim, reverse=not reverse)
    return ops.where(is_zero, at_zero, ops.div(with_x, ops.where(is_zero, 1, x)))


@extern(
    infer=_scan_infer("cumprod"),
    vjp={"x": _cumprod_vjp},
    widens=True,
    autocast=Autocast.FULL,
    samples=sample_rules.along("dim"),
)
def cumprod(xp: Any, x: Any, *, dim: int, reverse: bool = False) -> Any:
    """Products of the elements up to each position along `dim`, or from it on if `reverse`."""
    return _scan(xp, xp.cumprod, x, dim, reverse)


def _argsort_infer(
    x: ValueType, *, dim: int, descending: bool, start: Size, stop: Size | None
) -> TensorType:
    call = describe("argsort", ("x",), (x,))
    type = require_tensor(x, call, "x")
    if type.dtype.is_complex:
        raise DTypeNotImplementedError(
            f"{call}: complex numbers have no order.  Expected a real dtype."
        )
    if not type.shape:
        return type.with_dtype(dtypes.int64)
    size = type.shape[dim]
    last = size if stop is None else stop
    if not (fits_within(0, start) and fits_within(start, last) and fits_within(last, size)):
        raise ShapeError(
            f"{call}: positions {start} to {last} of an order of {size}.  Expected "
            f"0 <= start <= stop <= {size}."
        )
    shape = (*type.shape[:dim], last - start, *type.shape[dim + 1 :])
    return type.with_shape(shape).with_dtype(dtypes.int64)


@extern(
    infer=_argsort_infer,
    native=_native_orders.argsort,
    gives_positions=True,
    samples=sample_rules.along("dim"),
)
def argsort(
    xp: Any, x: Any, *, dim: int, descending: bool = False, start: Size = 0,
    stop: Size | None = None,
) -> Any:  # fmt: skip
    """Positions along `dim` that put x in order: `order[start:stop]` of them. Dtype: int64.

    Equal elements keep their order, also where some of them are left out.
    """
    if x.ndim == 0:
        return xp.zeros((), dtype=np.int64)
    size = x.shape[dim]
    last = size if stop is None else stop
    if x.size == 0:
        return xp.zeros((*x.shape[:dim], last - start, *x.shape[dim + 1 :]), dtype=np.int64)
    wide = x.astype(dtypes.compute_dtype(dtypes.from_numpy(x.dtype)).numpy, copy=False)
    if last - start < size and x.size >= _FEW_ELEMENTS:
        rows = xp.moveaxis(wide, dim, -1)
        found = _some_positions(xp, rows.reshape(-1, size), descending, start, last)
        if found is not None:
            found = found.reshape(*rows.shape[:-1], last - start)
            return xp.ascontiguousarray(xp.moveaxis(found, -1, dim))
    if descending:
        # Sorting the reversed slice keeps equal elements in order once the result is reversed back.
        order = xp.argsort(_turned(wide, dim), axis=dim, kind="stable")
        order = size - 1 - _turned(order, dim)
    else:
        order = xp.argsort(wide, axis=dim, kind="stable")
    part = order[(*(slice(None),) * dim, slice(start, last))]
    return xp.ascontiguousarray(part) if part.size == order.size else part.copy()


_FEW_ELEMENTS = 2048
"""Elements from which on something else than sorting them all may be faster."""


def _some_positions(xp: Any, x: Any, descending: bool, start: Any, stop: Any) -> Any:
    """Positions of a part of each row's order without sorting the row; None if that is no gain."""
    if start == stop:
        return xp.zeros((len(x), 0), np.int64)
    if 0 < stop <= x.shape[1] // 4:
        first = _first_positions(xp, x, descending, stop)
        return None if first is None else first[:, start:]
    return _position(xp, x, descending, start) if start + 1 == stop else None


def _position(xp: Any, x: Any, descending: bool, at: int) -> Any:
    """The position of the element of each row with number `at` in the order."""
    number = x.shape[1] - 1 - at if descending else at
    value = xp.partition(x, number, axis=1)[:, number : number + 1]
    is_same = (x == value) | ((x != x) & (value != value))
    is_larger = (x > value) | ((x != x) & (value == value))
    is_before = is_larger if descending else ~(is_larger | is_same)
    earlier = at - is_before.sum(1, keepdims=True)  # of the equal ones
    return (is_same & (xp.cumsum(is_same, axis=1) == earlier + 1)).argmax(1)[:, None]


_WIDEST_BLOCK = 16
"""Elements of a block: what is done with one number per block hardly counts any more."""


def _first_positions(xp: Any, x: Any, descending: bool, count: int) -> Any:
    """The first positions of each row's order; None where many elements are equal.

    The best elements of `count` blocks are no worse than the worst of them, so what is worse than
    that is not among the first `count`. Few elements are left, and are sorted.
    """
    rows, size = x.shape
    width = min(size // (2 * count), _WIDEST_BLOCK)
    blocks = x[:, : size // width * width].reshape(rows, width, -1)
    # A NaN makes a block's best NaN, which is the largest here: no better than it is.
    best = blocks.max(1) if descending else blocks.min(1)
    last = best.shape[1] - count if descending else count - 1
    bound = xp.partition(best, last, axis=1)[:, last : last + 1]
    left = xp.flatnonzero(~(x < bound) if descending else ~(x > bound))
    if left.size > x.size // 4:
        return None
    row, position = left // size, left % size
    values = x.reshape(-1)[left]
    if descending:  # the reverse of the reversed order, so that equal elements keep theirs
        order = left.size - 1 - xp.lexsort((values[::-1], -row[::-1]))[::-1]
    else:
        order = xp.lexsort((values, row))
    held = xp.bincount(row, minlength=rows)
    starts = xp.cumsum(held) - held
    return position[order][starts[:, None] + xp.arange(count)]
