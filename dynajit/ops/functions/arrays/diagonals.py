"""NumPy's functions of diagonals and triangles, over tensors; offsets and sizes may vary."""

from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.symint import SymInt
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.reductions import sum_
from dynajit.ops.functions.arrays.shapes import value_for
from dynajit.ops.functions.arrays.table import left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, axis_of, in_dtype, own_dtype, refuse_given
from dynajit.ops.table.op_table import TABLE


def _on_diagonal(a: Any, offset: Any, first: int, second: int) -> Any:
    """The elements on a diagonal, as a view."""
    if type(offset) not in (int, SymInt) or first == second:
        raise ValueError("axis1 and axis2 cannot be the same")
    if type(offset) is int:
        return TABLE.diagonal(a, offset=offset, dim1=first, dim2=second)
    dim, behind = (second, offset) if offset >= 0 else (first, -offset)
    if behind > a.shape[dim]:
        raise left("a diagonal beyond the matrix")
    part = get_item(a, (*(slice(None),) * dim, slice(behind, None)))
    return TABLE.diagonal(part, offset=0, dim1=first, dim2=second)


@stands_for(np.diagonal, method="diagonal", is_view=True, gives_arrays=True, is_read_only=True)
def diagonal(a: Any, offset: Any = 0, axis1: Any = 0, axis2: Any = 1) -> Any:
    """A diagonal, as a view that may only be read."""
    a = as_tensor(a)
    return _on_diagonal(a, offset, axis_of(a, axis1), axis_of(a, axis2))


@stands_for(np.trace, method="trace")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: Any = None) -> Any:  # fmt: skip
    """Sums of diagonals."""
    refuse_given("trace", out=out)
    a = as_tensor(a)
    own_dtype(a.dtype.numpy)
    return sum_(_on_diagonal(a, offset, axis_of(a, axis1), axis_of(a, axis2)), -1, dtype)


@stands_for(np.diag, gives_arrays=True)
def diag(v: Any, k: Any = 0) -> Any:
    """A matrix with a vector as its diagonal."""
    v = as_tensor(v)
    if len(v.shape) != 1 or type(k) not in (int, SymInt):
        raise left("numpy.diag of a matrix, which is a view,")
    zero = as_tensor(in_dtype(0, v.dtype.numpy), v.dtype.numpy)
    is_above = k >= 0
    beyond = k if is_above else -k
    size = v.shape[0] + beyond
    ends = TABLE.full(in_dtype(0, v.dtype.numpy), shape=(beyond,), dtype=v.dtype, device=CPU)
    along = v if type(k) is int and not k else TABLE.cat(v, ends, dim=0)
    along = TABLE.reshape(along, shape=(size, 1) if is_above else (1, size))
    return TABLE.where(_equal_places(size, size, k), along, zero)


def _equal_places(rows: Any, columns: Any, k: Any) -> Any:
    """Where the number of the column is that of the row and `k` more, as truth values."""
    down, across = (
        TABLE.arange(start, 1, size=size, dtype=dtypes.int64, device=CPU)
        for start, size in ((k, rows), (0, columns))
    )
    return TABLE.eq(TABLE.reshape(down, shape=(rows, 1)), across)


@stands_for(np.diagflat, gives_arrays=True)
def diagflat(v: Any, k: Any = 0) -> Any:
    """A matrix with all elements of an array on a diagonal."""
    v = as_tensor(v)
    return diag(TABLE.reshape(v, shape=(v.numel(),)), k)


@stands_for(np.fill_diagonal, writes=True)
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> Any:
    """What a matrix holds whose diagonal was set to a number."""
    value = as_tensor(val)
    if len(a.shape) != 2 or value.shape or wrap:
        raise left("numpy.fill_diagonal of this")
    return TABLE.where(_equal_places(a.shape[0], a.shape[1], 0), value_for(a, value), a)


def _triangle(row: Any, m: Any, k: Any) -> Any:
    m = as_tensor(m)
    if len(m.shape) < 2 or type(k) is not int:
        raise left(f"numpy.{row.name} of this")
    return row(m, diagonal=k)


@stands_for(np.tril)
def tril(m: Any, k: Any = 0) -> Any:
    """0 above a diagonal."""
    return _triangle(TABLE.tril, m, k)


@stands_for(np.triu)
def triu(m: Any, k: Any = 0) -> Any:
    """0 below a diagonal."""
    return _triangle(TABLE.triu, m, k)
