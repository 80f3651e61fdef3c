"""Rows along one dimension that need all of it: running sums and products, and sorting orders.

Contract: rows of kind EXTERN; `dim` counts from the front; a zero-dim input is treated as one
element. NaN sorts last ascending and first descending, as in PyTorch; sorting is stable.
Called by the library functions (`cumsum`, `sort`, `topk`, ...).
"""

from typing import Any

import numpy as np

from dynajit.core import dtypes
from dynajit.core.dtypes import Category
from dynajit.core.errors import DTypeError
from dynajit.core.types import TensorType, ValueType
from dynajit.ops.families import describe, extern, require_tensor


def _scan_infer(name: str) -> Any:
    def infer(x: ValueType, *, dim: int) -> TensorType:
        type = require_tensor(x, describe(name, ("x",), (x,)), "x")
        whole = type.dtype.category <= Category.INTEGER
        return type.with_dtype(dtypes.int64 if whole else type.dtype)

    return infer


def _scan(function: Any, x: Any, dim: int) -> Any:
    """A running NumPy function in float32 for 16-bit floats and int64 for integers.

    The result lies row by row, as PyTorch's does.
    """
    if x.ndim == 0:
        return function(x[None], axis=0).reshape(())
    kind = dtypes.from_numpy(x.dtype)
    if kind.category <= Category.INTEGER:
        return np.ascontiguousarray(function(x, axis=dim, dtype=np.int64))
    wide = function(x, axis=dim, dtype=dtypes.compute_dtype(kind).numpy)
    return wide.astype(x.dtype, order="C", copy=False)


def _cumsum_vjp(ops: Any, g: Any, dim: int) -> Any:
    """The running sum from the other end."""
    if not g.shape:
        return g
    return ops.flip(ops.cumsum(ops.flip(g, dims=(dim,)), dim=dim), dims=(dim,))


@extern(infer=_scan_infer("cumsum"), vjp={"x": _cumsum_vjp})
def cumsum(xp: Any, x: Any, *, dim: int) -> Any:
    """Sums of the elements up to each position along `dim`. Dtype: int64 for bool and integers."""
    return _scan(xp.cumsum, x, dim)


@extern(infer=_scan_infer("cumprod"))
def cumprod(xp: Any, x: Any, *, dim: int) -> Any:
    """Products of the elements up to each position along `dim`; not differentiable here."""
    return _scan(xp.cumprod, x, dim)


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
