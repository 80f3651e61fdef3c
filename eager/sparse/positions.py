"""Positions in sparse tensors, and sums of what they give, computed with dense tensors.

Contract: positions are int64 tensors (d, n), one column each; a position's number is its place in
row-major order. All is done by rows, so the tape records it.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from dynajit.core.errors import ShapeError
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import Category, DType, float32, int64
from dynajit.ops.calls.arguments import cast
from dynajit.ops.table.op_table import TABLE

_MOST: Final = (1 << 63) - 1


def keys(where: Any, sizes: Sequence[int]) -> Any:
    """The number of each position in row-major order, int64 (n,).

    Args:
        where: int64 (d, n).
        sizes: at least d sizes.

    Raises:
        ShapeError: there are more places than int64 can count.
    """
    dims, count = where.shape
    if math.prod(sizes[:dims]) > _MOST:
        raise ShapeError(
            f"a sparse tensor of size {tuple(sizes)} has more than 2**63 - 1 places, so this "
            "operation cannot number them.  Expected a smaller size."
        )
    if not dims:
        return zeros((count,), int64, where.device)
    found = TABLE.select(where, dim=0, index=0)
    for dim in range(1, dims):
        found = TABLE.add(TABLE.mul(found, sizes[dim]), TABLE.select(where, dim=0, index=dim))
    return found


def positions(numbers: Any, sizes: Sequence[int]) -> Any:
    """The inverse of `keys`: int64 (len(sizes), n)."""
    rows: list[Any] = []
    for size in reversed(sizes):
        rows.append(TABLE.remainder(numbers, max(size, 1)))
        numbers = TABLE.floor_divide(numbers, max(size, 1))
    if not rows:
        return zeros((0, numbers.shape[0]), int64, numbers.device)
    return TABLE.stack(*reversed(rows), dim=0)


def zeros(shape: Sequence[int], dtype: DType, device: Device) -> Any:
    """A tensor of zeros."""
    return TABLE.full(0, shape=tuple(shape), dtype=dtype, device=device)


def sum_dtype(dtype: DType) -> DType:
    """The dtype in which values are added: float32 for 16-bit floats, which are rounded once."""
    is_short = dtype.category is Category.FLOATING and dtype.itemsize == 2
    return float32 if is_short else dtype


def summed(elements: Any, groups: Any, count: int) -> Any:
    """The sums of values by group, (count, *dense sizes); bool values are joined by or.

    Args:
        elements: (n, *dense sizes).
        groups: int64 (n,), below `count`.
    """
    dtype = elements.dtype
    wide = int64 if dtype.category is Category.BOOL else sum_dtype(dtype)
    start = zeros((count, *elements.shape[1:]), wide, elements.device)
    total = TABLE.index_add(start, groups, cast(elements, wide), dim=0)
    return cast(total, dtype)


def values_at(dense: Any, where: Any) -> Any:
    """The values of a dense tensor at positions (d, n): (n, *rest)."""
    dims = where.shape[0]
    if dims == 0:
        shape = (1, *dense.shape)
        numbers = zeros((where.shape[1],), int64, where.device)
        return TABLE.index_select(TABLE.reshape(dense, shape=shape), numbers, dim=0)
    return TABLE.index(dense, where, dims=tuple(range(dims)))


def rows_of(where: Any, dims: Sequence[int]) -> Any:
    """Some of the rows of positions, in that order."""
    return TABLE.stack(*(TABLE.select(where, dim=0, index=d) for d in dims), dim=0)


def keys_without(where: Any, sizes: Sequence[int], dim: int) -> Any:
    """The numbers of positions in the dims but one: those of one line along `dim` are equal."""
    kept = [d for d in range(where.shape[0]) if d != dim]
    if len(kept) == 1:
        return TABLE.select(where, dim=0, index=kept[0])
    return keys(rows_of(where, kept), [sizes[d] for d in kept])
