"""What rows do with sparse operands: the table `ROWS`.

Contract: each function takes a row's operands and attributes, as the row is called, and gives the
result, or NotImplemented for operands it does not take (the row then refuses by name). A sparse
operand x is an `eager.sparse.sparse_tensor.SparseTensor`; others are made of it (`x.like`,
`x.remade`). Indices and values are computed with by other rows, so the tape records what it would
for dense tensors. What is not at a position is 0, and stays 0 whatever it is multiplied by. Called
by `sparse.handle`.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types.dtypes import Category, int64
from dynajit.eager.sparse.positions import keys, keys_without, rows_of, sum_dtype, values_at, zeros
from dynajit.ops.calls.arguments import cast, common_dtype, describe_tensor, is_tensor
from dynajit.ops.functions.arrangement.search import bincount
from dynajit.ops.functions.creation.creation import arange
from dynajit.ops.functions.reductions.reduction import cumsum
from dynajit.ops.functions.shapes.shape import repeat_interleave
from dynajit.ops.table.op_table import TABLE, Op

if TYPE_CHECKING:
    from dynajit.eager.sparse.sparse_tensor import SparseTensor
    from dynajit.eager.tensor.tensor import Tensor

#: What a row does with sparse operands: `run(*inputs, **attributes)`.
ROWS: Final[dict[Op, Callable[..., Any]]] = {}


def _for(row: Op) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate what a row does with sparse operands."""

    def enter(run: Callable[..., Any]) -> Callable[..., Any]:
        ROWS[row] = run
        return run

    return enter


def _is_sparse(operand: object) -> "TypeGuard[SparseTensor]":
    return is_tensor(operand) and bool(operand.is_sparse)


# -- one operand -----------------------------------------------------------------------------------


@_for(TABLE.clone)
def _clone(x: "SparseTensor") -> Any:
    where = TABLE.clone(x._positions)
    elements = TABLE.clone(x._elements)
    return x.remade(where, elements, x._sizes, x._is_sorted)


@_for(TABLE.detach)
def _detach(x: "SparseTensor") -> Any:
    return x.like(TABLE.detach(x._elements))


@_for(TABLE.cast)
def _cast(x: "SparseTensor", *, dtype: Any) -> Any:
    return x.like(TABLE.cast(x._elements, dtype=dtype))


@_for(TABLE.to_device)
def _to_device(x: "SparseTensor", **attributes: Any) -> Any:
    where = TABLE.to_device(x._positions, **attributes)
    elements = TABLE.to_device(x._elements, **attributes)
    return x.remade(where, elements, x._sizes, x._is_sorted)


@_for(TABLE.neg)
def _neg(x: "SparseTensor") -> Any:
    return x.like(TABLE.neg(x._elements))


def _keep_zero(row: Op, x: Any, **attributes: Any) -> Any:
    once = x.coalesce()
    return once.like(row(once._elements, **attributes))


for _row in TABLE:
    if _row.keeps_zero:
        ROWS[_row] = functools.partial(_keep_zero, _row)


@_for(TABLE.pow)
def _pow(x: "SparseTensor", exponent: Any) -> Any:
    if not isinstance(exponent, (int, float)) or not exponent > 0:
        return NotImplemented
    once = x.coalesce()
    return once.like(TABLE.pow(once._elements, exponent))


@_for(TABLE.permute)
def _permute(x: "SparseTensor", *, dims: Sequence[int]) -> Any:
    """Sparse dims among themselves, dense dims among themselves."""
    sparse = x.sparse_dim()
    front, back = tuple(dims[:sparse]), tuple(dims[sparse:])
    if sorted(front) != list(range(sparse)):
        return NotImplemented
    where, elements = x._positions, x._elements
    is_same = front == tuple(range(sparse))
    if not is_same:
        where = rows_of(where, front)
    elements = TABLE.permute(elements, dims=(0, *(d - sparse + 1 for d in back)))
    sizes = [x._sizes[d] for d in dims]
    return x.remade(where, elements, sizes, x._is_sorted and is_same)


@_for(TABLE.sum)
def _sum(x: "SparseTensor", *, dim: Any, keepdim: bool) -> Any:
    """Dense where no sparse dim is left, else sparse, with positions that may repeat."""
    rank, sparse = x.ndim, x.sparse_dim()
    dims = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    chosen = {d % rank for d in dims} if rank else set()
    if len(chosen) == rank:
        total = TABLE.sum(x._elements, dim=tuple(range(len(x._elements.shape))), keepdim=False)
        return TABLE.reshape(total, shape=(1,) * rank) if keepdim else total
    inner = tuple(d - sparse + 1 for d in sorted(chosen) if d >= sparse)
    sizes = [1 if d in chosen else n for d, n in enumerate(x._sizes) if keepdim or d not in chosen]
    kept = [d for d in range(sparse) if d not in chosen]
    if not kept:
        return TABLE.reshape(_totals(x._elements, (0, *inner), False), shape=tuple(sizes))
    where = _kept_positions(x._positions, chosen, keepdim)
    elements = _totals(x._elements, inner, keepdim)
    return x.remade(where, elements, sizes, x._is_sorted and len(kept) == sparse)


def _totals(elements: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """Sums along dims, of which there may be none; integers are then int64 all the same."""
    if dims:
        return TABLE.sum(elements, dim=dims, keepdim=keepdim)
    is_exact = elements.dtype.category < Category.FLOATING
    return cast(elements, int64) if is_exact else elements


def _kept_positions(where: Any, summed_over: set[int], keepdim: bool) -> Any:
    rows = []
    for dim in range(where.shape[0]):
        row = TABLE.select(where, dim=0, index=dim)
        if dim not in summed_over:
            rows.append(row)
        elif keepdim:
            rows.append(TABLE.mul(row, 0))
    return TABLE.stack(*rows, dim=0)


# -- elementwise, two operands ---------------------------------------------------------------------


@_for(TABLE.mul)
def _mul(x: "Tensor | complex", y: Any) -> Any:
    if _is_sparse(x) and _is_sparse(y):
        return _product_of_sparse(x, y)
    sparse, other = (x, y) if _is_sparse(x) else (y, x)
    if not is_tensor(other) or not other.shape:
        return sparse.like(TABLE.mul(sparse._elements, other))
    if not _fits(tuple(other.shape), sparse._sizes):
        raise ShapeError(
            f"mul: a dense tensor of size {tuple(other.shape)} does not broadcast to the sparse "
            f"tensor's {sparse._sizes}.  Expected sizes of 1 or the same, from the last on; or "
            "call .to_dense() first."
        )
    wide = TABLE.expand(other, shape=sparse._sizes)
    return sparse.like(TABLE.mul(sparse._elements, values_at(wide, sparse._positions)))


def _fits(shape: tuple[int, ...], wide: tuple[int, ...]) -> bool:
    """Whether `shape` broadcasts to `wide`."""
    pairs = zip(reversed(shape), reversed(wide), strict=False)
    return len(shape) <= len(wide) and all(a in (1, b) for a, b in pairs)


def _product_of_sparse(x: "SparseTensor", y: Any) -> Any:
    """What both have a position for."""
    _same_form(x, y, "mul")
    x, y = x.coalesce(), y.coalesce()
    ours, theirs = keys(x._positions, x._sizes), keys(y._positions, y._sizes)
    if not y._nnz():
        chosen = other = zeros((0,), ours.dtype, ours.device)
    else:
        found = TABLE.searchsorted(theirs, ours, right=False)
        found = TABLE.clamp_max(found, y._nnz() - 1)
        is_common = TABLE.eq(TABLE.index_select(theirs, found, dim=0), ours)
        chosen = is_common.nonzero(as_tuple=True)[0]
        other = TABLE.index_select(found, chosen, dim=0)
    left = TABLE.index_select(x._elements, chosen, dim=0)
    right = TABLE.index_select(y._elements, other, dim=0)
    where = TABLE.index_select(x._positions, chosen, dim=1)
    return x.remade(where, TABLE.mul(left, right), x._sizes, True)


@_for(TABLE.div)
def _div(x: "SparseTensor", y: Any) -> Any:
    if _is_sparse(y) or (is_tensor(y) and y.shape):
        return NotImplemented
    return x.like(TABLE.div(x._elements, y))


@_for(TABLE.add)
def _add(x: "Tensor | complex", y: Any) -> Any:
    if not is_tensor(x) or not is_tensor(y):
        return NotImplemented
    if not _is_sparse(x) or not _is_sparse(y):
        dense = (z.to_dense() if _is_sparse(z) else z for z in (x, y))
        return TABLE.add(*dense)
    _same_form(x, y, "add")
    dtype = common_dtype((x, y))
    where = TABLE.cat(x._positions, y._positions, dim=1)
    elements = TABLE.cat(*(cast(z._elements, dtype) for z in (x, y)), dim=0)
    both = x.remade(where, elements, x._sizes, False)
    return both.coalesce() if x._is_sorted and y._is_sorted else both


@_for(TABLE.sub)
def _sub(x: "Tensor | complex", y: Any) -> Any:
    if not is_tensor(x) or not is_tensor(y):
        return NotImplemented
    if common_dtype((x, y)).category is Category.BOOL:
        raise DTypeError("sub: bool is refused.  Use bitwise_xor or logical_not on dense tensors.")
    return TABLE.add(x, TABLE.neg(y))


def _same_form(x: "SparseTensor", y: Any, name: str) -> None:
    if (x._sizes, x.sparse_dim()) != (y._sizes, y.sparse_dim()):
        raise ShapeError(
            f"{name}: expected two sparse tensors of one size and number of sparse dims, got "
            f"{x._sizes} with {x.sparse_dim()} and {y._sizes} with {y.sparse_dim()}."
        )


# -- products --------------------------------------------------------------------------------------


@_for(TABLE.matmul)
def _matmul(x: "Tensor", y: Any) -> Any:
    """Products of matrices, and of batches of one size; of two sparse matrices a sparse one."""
    _fitting(x, y)
    if not _is_sparse(x):
        turned = TABLE.matmul(_turned(y), _turned(x))
        return _turned(turned)
    if _is_sparse(y):
        return _matrix_of_sparse(x, y)
    rank = x.ndim
    if x.dense_dim() or rank not in (2, 3) or tuple(y.shape[:-2]) != x._sizes[:-2]:
        return NotImplemented
    *batch, rows, inner = x._sizes
    columns = y.shape[-1]
    above = keys_without(x._positions, x._sizes, rank - 1)
    below = keys_without(x._positions, x._sizes, rank - 2)
    if batch:
        y = TABLE.reshape(y, shape=(math.prod(batch) * inner, columns))
    elements, y = (cast(z, sum_dtype(x.dtype)) for z in (x._elements, y))
    total = TABLE.sparse_product(above, below, elements, y, count=math.prod(batch) * rows)
    total = cast(total, x.dtype)
    return TABLE.reshape(total, shape=(*batch, rows, columns)) if batch else total


def _turned(x: "Tensor") -> Any:
    """The last two dims swapped."""
    rank = len(x.shape)
    return TABLE.permute(x, dims=(*range(rank - 2), rank - 1, rank - 2))


def _fitting(x: "Tensor", y: Any) -> None:
    call = f"matmul(x: {describe_tensor(x)}, y: {describe_tensor(y)})"
    if x.dtype is not y.dtype:
        raise DTypeError(f"{call}: expected one dtype.  Cast one with .to(dtype).")
    if x.shape[-1] != y.shape[-2]:
        raise ShapeError(f"{call}: expected {x.shape[-1]} rows in y, got {y.shape[-2]}.")


def _matrix_of_sparse(x: "SparseTensor", y: Any) -> Any:
    """Each value of x meets the values of y in the row that its column names."""
    if x.ndim != 2 or y.ndim != 2 or x.dense_dim() or y.dense_dim():
        return NotImplemented
    y = y.coalesce()
    inner = TABLE.select(x._positions, dim=0, index=1)
    lengths = bincount(TABLE.select(y._positions, dim=0, index=0), minlength=y._sizes[0])
    starts = TABLE.sub(cumsum(lengths, 0), lengths)
    counts = TABLE.index_select(lengths, inner, dim=0)
    left = repeat_interleave(arange(x._nnz(), device=x.device), counts)
    before = TABLE.sub(cumsum(counts, 0), counts)
    numbers = arange(left.shape[0], device=left.device)
    within = TABLE.sub(numbers, TABLE.index_select(before, left, dim=0))
    first = TABLE.index_select(starts, TABLE.index_select(inner, left, dim=0), dim=0)
    right = TABLE.add(first, within)
    rows = TABLE.index_select(TABLE.select(x._positions, dim=0, index=0), left, dim=0)
    columns = TABLE.index_select(TABLE.select(y._positions, dim=0, index=1), right, dim=0)
    wide = sum_dtype(x.dtype)
    parts = TABLE.mul(
        TABLE.index_select(cast(x._elements, wide), left, dim=0),
        TABLE.index_select(cast(y._elements, wide), right, dim=0),
    )
    where = TABLE.stack(rows, columns, dim=0)
    result = x.remade(where, parts, (x._sizes[0], y._sizes[1]), False).coalesce()
    return result.like(cast(result._elements, x.dtype))
