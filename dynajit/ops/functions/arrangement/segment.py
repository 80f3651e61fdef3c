"""Reductions over segments that lie one after the other: `segment_reduce`.

Contract: composed of rows, so it has derivatives and is captured; only the checks of the contents
of `lengths` need them, which `unsafe` leaves out, as in PyTorch.
"""

from typing import Any

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import ShapeError, UnsupportedError
from dynajit.core.types.dtypes import Category, int64
from dynajit.core.types.symint import shapes_agree
from dynajit.ops.calls.arguments import cast, dim_of
from dynajit.ops.functions.arrangement.scatter import REDUCTIONS, scatter_reduce, start_of
from dynajit.ops.functions.arrangement.search import searchsorted
from dynajit.ops.functions.reductions.reduction import cumsum
from dynajit.ops.functions.shapes.shape import sliced, unsqueeze
from dynajit.ops.table.op_table import TABLE


def segment_reduce(
    data: Any,
    reduce: str,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """The sums (means, ...) of segments along a dim.

    Args:
        data: floating, shape (*, n, **), n at `axis`.
        reduce: "sum", "mean", "prod", "max" or "min".
        lengths: of the segments, integers, shape (*, s), which sum to n.
        offsets: instead, where they start, and the end of the last: shape (*, s + 1).
        indices: None.
        axis: the last dim of `lengths`.
        unsafe: do not look whether the lengths fit.
        initial: joins each segment; the result of an empty one.

    Returns:
        Shape (*, s, **), data's dtype. An empty segment gives 0, NaN, 1, -inf or inf.

    Raises:
        ShapeError: lengths do not fit, or there are none.
        UnsupportedError: data is not floating, or lengths are no integers.
    """
    name = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if name not in REDUCTIONS:
        raise ShapeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    if indices is not None:
        raise ShapeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise ShapeError("segment_reduce(): Either lengths or offsets must be defined.")
    if data.dtype.category is not Category.FLOATING:
        raise UnsupportedError(
            f'"_segment_reduce_cpu" not implemented for {data.dtype.name}.  Convert with float().'
        )
    bounds = lengths if offsets is None else offsets
    if bounds.dtype.category is not Category.INTEGER:
        raise UnsupportedError(
            f"segment_reduce(): lengths or offsets of {bounds.dtype.name}.  Expected int64 or "
            "int32."
        )
    dim = dim_of(data, axis, "segment_reduce")
    if len(bounds.shape) != dim + 1 or not shapes_agree(bounds.shape[:-1], data.shape[:dim]):
        raise ShapeError(
            f"segment_reduce(): lengths of shape {tuple(bounds.shape)} for data of shape "
            f"{tuple(data.shape)} along dim {axis}.  Expected data's dims before it, and one more."
        )
    if offsets is None:
        if not unsafe:
            _check(lengths, data.shape[dim])
        ends = cumsum(cast(lengths, int64), -1)
        starts = TABLE.sub(ends, cast(lengths, int64))
    else:
        count = offsets.shape[-1]
        ends = sliced(cast(offsets, int64), dim, 1, count)
        starts = sliced(cast(offsets, int64), dim, 0, count - 1)
    return _reduced(data, name, starts, ends, dim, initial)


def _check(lengths: Any, size: Any) -> None:
    array = any_arrays.as_numpy(lengths.detach().array)
    if (array < 0).any():
        raise ShapeError("lengths contains negative value!")
    if (array.sum(-1) != size).any():
        raise ShapeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )


def _reduced(data: Any, name: str, starts: Any, ends: Any, dim: int, initial: Any) -> Any:
    """Each element goes to the segment that ends behind it, those outside to one that is cut."""
    shape, count = tuple(data.shape), ends.shape[-1]
    places = TABLE.arange(0, 1, size=shape[dim], dtype=int64, device=data.device)
    places = TABLE.expand(places, shape=(*shape[:dim], shape[dim]))
    owner = searchsorted(ends, places, right=True)
    first = sliced(starts, dim, 0, 1) if count else None
    if first is not None:
        owner = TABLE.where(TABLE.lt(places, first), count, owner)
    for _ in shape[dim + 1 :]:
        owner, ends, starts = unsqueeze(owner, -1), unsqueeze(ends, -1), unsqueeze(starts, -1)
    owner = TABLE.expand(owner, shape=shape)
    whole = (*shape[:dim], count + 1, *shape[dim + 1 :])
    start = float(start_of(name, data.dtype)) if initial is None else initial
    base = TABLE.full(start, shape=whole, dtype=data.dtype, device=data.device)
    kind = "sum" if name == "mean" else name
    found = sliced(scatter_reduce(base, dim, owner, data, kind), dim, 0, count)
    if name != "mean":
        return found
    lengths = cast(TABLE.sub(ends, starts), data.dtype)
    if initial is None:
        return TABLE.div(found, lengths)
    return TABLE.where(TABLE.eq(lengths, 0), found, TABLE.div(found, lengths))
