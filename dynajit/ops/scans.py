"""Rows along one dimension that need all of it: running sums and products, and sorting orders.

Contract: rows of kind EXTERN; `dim` counts from the front; a zero-dim input is treated as one
element. NaN sorts last ascending and first descending, as in PyTorch; sorting is stable.
Called by the library functions (`cumsum`, `sort`, `topk`, ...).
"""

from typing import Any

import numpy as np

from dynajit.core import dtypes
from dynajit.core.dtypes import Category, DType
from dynajit.core.errors import DTypeError
from dynajit.core.types import TensorType, ValueType
from dynajit.ops.families import describe, extern, require_tensor


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


def _scan(function: Any, x: Any, dim: int, reverse: bool) -> Any:
    """A running NumPy function, from the last element on if `reverse`.

    The result lies row by row, as PyTorch's does.
    """
    kind = dtypes.from_numpy(x.dtype)
    result = np.dtype(np.int64) if kind.category <= Category.INTEGER else x.dtype
    if x.ndim == 0:
        return x.astype(result)
    given = np.flip(x, dim) if reverse else x
    wide = function(given, axis=dim, dtype=accumulator_dtype(kind).numpy)
    wide = np.flip(wide, dim) if reverse else wide
    return wide.astype(result, order="C", copy=not wide.flags.c_contiguous)


def _cumsum_vjp(ops: Any, g: Any, dim: int, reverse: bool) -> Any:
    """The running sum from the other end."""
    return ops.cumsum(g, dim=dim, reverse=not reverse)


@extern(infer=_scan_infer("cumsum"), vjp={"x": _cumsum_vjp}, widens=True)
def cumsum(xp: Any, x: Any, *, dim: int, reverse: bool = False) -> Any:
    """Sums of the elements up to each position along `dim`, or from it on if `reverse`.

    Dtype: int64 for bool and integers.
    """
    return _scan(xp.cumsum, x, dim, reverse)


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


@extern(infer=_scan_infer("cumprod"), vjp={"x": _cumprod_vjp}, widens=True)
def cumprod(xp: Any, x: Any, *, dim: int, reverse: bool = False) -> Any:
    """Products of the elements up to each position along `dim`, or from it on if `reverse`."""
    return _scan(xp.cumprod, x, dim, reverse)


def _argsort_infer(x: ValueType, *, dim: int, descending: bool) -> TensorType:
    call = describe("argsort", ("x",), (x,))
    type = require_tensor(x, call, "x")
    if type.dtype.is_complex:
        raise DTypeError(f"{call}: complex numbers have no order.  Expected a real dtype.")
    return type.with_dtype(dtypes.int64)


@extern(infer=_argsort_infer)
def argsort(xp: Any, x: Any, *, dim: int, descending: bool = False) -> Any:
    """Positions along `dim` that put x in order; equal elements keep theirs. Dtype: int64."""
    if x.ndim == 0:
        return xp.zeros((), dtype=np.int64)
    wide = x.astype(dtypes.compute_dtype(dtypes.from_numpy(x.dtype)).numpy, copy=False)
    if not descending:
        return xp.argsort(wide, axis=dim, kind="stable").astype(np.int64)
    # Sorting the reversed slice keeps equal elements in order once the result is reversed back.
    order = xp.argsort(xp.flip(wide, dim), axis=dim, kind="stable")
    return (x.shape[dim] - 1 - xp.flip(order, dim)).astype(np.int64)
