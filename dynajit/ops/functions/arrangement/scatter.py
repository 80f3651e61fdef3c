"""Library functions that write at computed places and combine what meets there.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too;
nothing writes in place. Sums and means are composed of scatters that add.
"""

import math
from typing import Any, Final

import numpy as np

from dynajit.core.errors import (
    ArgumentRuntimeError,
    BoundsError,
    BoundsRuntimeError,
    DTypeError,
    DTypeNotImplementedError,
    ShapeError,
    ShapeIndexError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.arguments import cast, describe_tensor, dim_of, misplaced
from dynajit.ops.calls.placing import as_computed, contiguous, copied_by_rows
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.shapes.index import _source_for as source_for
from dynajit.ops.functions.shapes.index import names_nothing, positions_along, source_of_zero_dims
from dynajit.ops.functions.shapes.shape import reshape
from dynajit.ops.table.families import broadcast_shapes
from dynajit.ops.table.op_table import TABLE, Kind

_ROWS: Final = {row.name: row for row in TABLE if row.kind is Kind.REDUCTION and row.rule.scatters}

REDUCTIONS: Final = frozenset({"sum", "mean", *_ROWS})


@public(in_place=InPlace.METHOD, method=True)
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """input combined with the elements of src at `index` along `dim`.

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: the elements of input take part; otherwise they are replaced where something
            is written.

    Raises:
        ShapeError: the reduction is not known, or the shapes do not fit.
        DTypeError: the index is not of integers.
    """
    if reduce not in REDUCTIONS:
        raise ShapeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    d = dim_of(input, dim, "scatter_reduce")
    source = src if names_nothing(index) else source_for(input, index, src)
    if source.dtype is not input.dtype:
        raise DTypeError("scatter(): Expected self.dtype to be equal to src.dtype")
    return _combined(input, index, source, d, reduce, include_self)


def _combined(input: Any, index: Any, source: Any, d: int, reduce: str, include_self: bool) -> Any:
    if _is_extreme(reduce) and input.dtype.is_complex:
        raise DTypeNotImplementedError(
            f"scatter_reduce: {reduce} is not implemented for {input.dtype.name}: complex numbers "
            "have no order.  Combine x.abs(), or the parts apart."
        )
    if names_nothing(index):
        return TABLE.clone(input)
    base = input
    if not include_self:
        start = start_of(reduce, input.dtype)
        starts = TABLE.full(start, shape=tuple(index.shape), dtype=input.dtype, device=input.device)
        base = TABLE.scatter(input, index, starts, dim=d)
    if reduce in _ROWS:
        return TABLE.scatter_reduce(base, index, source, dim=d, mode=reduce)
    total = TABLE.scatter_add(base, index, source, dim=d)
    if reduce == "sum":
        return total
    ones = TABLE.full(1, shape=tuple(index.shape), dtype=input.dtype, device=input.device)
    own = TABLE.full(
        int(include_self), shape=tuple(input.shape), dtype=input.dtype, device=input.device
    )
    count = TABLE.clamp_min(TABLE.scatter_add(own, index, ones, dim=d), 1)
    row = TABLE.div if input.dtype.is_floating_point else TABLE.floor_divide
    return row(total, count)


def start_of(reduce: str, dtype: dtypes.DType) -> Any:
    """The number that changes nothing when it is combined with another."""
    if reduce not in _ROWS:
        return 0
    rule = _ROWS[reduce].rule
    identity = rule.identity(dtype)
    if identity is not None:
        return identity[0]
    is_largest = rule.ufunc == "maximum"
    if dtype.is_floating_point:
        return -math.inf if is_largest else math.inf
    if dtype is dtypes.bool_:
        return not is_largest
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if is_largest else limits.max)


def _is_extreme(reduce: str) -> bool:
    """True for what begins with an element: no number is neutral to it in every dtype."""
    return reduce in _ROWS and _ROWS[reduce].rule.identity(dtypes.float32) is None


@public(in_place=InPlace.METHOD, method=True)
def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """input combined with slices of source at the positions in `index` along `dim`.

    Args:
        reduce: "prod", "mean", "amax" or "amin".

    Raises:
        ShapeError: the reduction is not known, or the shapes do not fit.
    """
    if reduce == "sum" or reduce not in REDUCTIONS:
        raise ShapeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if index.dtype not in (dtypes.int32, dtypes.int64):
        raise DTypeError(
            f"index_reduce(): Expected dtype int32/int64 for index but got: {index.dtype.name}"
        )
    d = dim_of(input, dim, "index_reduce")
    index = positions_along(index)
    if not input.shape:
        wide = source_of_zero_dims("index_reduce", source)
        vector = reshape(input, 1)
        result = index_reduce(vector, 0, index, wide, reduce, include_self=include_self)
        return reshape(result, ())
    if len(index.shape) != 1 or not agree(index.shape[0], source.shape[d]):
        raise ShapeError(
            "index_reduce(): Number of indices should be equal to source.size(dim): "
            f"{list(index.shape)} for {list(source.shape)}"
        )
    column = reshape(index, tuple(-1 if i == d else 1 for i in range(len(source.shape))))
    wide = TABLE.expand(cast(column, dtypes.int64), shape=tuple(source.shape))
    return _combined(input, wide, source, d, reduce, include_self)


@public(out=Out.ABSENT, in_place=InPlace.METHOD, method=True)
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """input with elements of source at the positions `index` of the flattened tensor, set or
    added."""
    if index.dtype is not dtypes.int64:
        raise DTypeError(f"put_(): Expected a long tensor for index, but got {index.dtype.name}")
    if source.dtype is not input.dtype:
        raise DTypeError(
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{input.dtype.name} and source.dtype = {source.dtype.name}"
        )
    if numel(tuple(index.shape)) != numel(tuple(source.shape)):
        raise ShapeIndexError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {numel(tuple(source.shape))}, index.numel() = "
            f"{numel(tuple(index.shape))}"
        )
    row = TABLE.index_accumulate if accumulate else TABLE.index_put
    flat = row(reshape(input, -1), reshape(index, (1, -1)), reshape(source, -1), dims=(0,))
    return as_computed(reshape(flat, tuple(input.shape)), input)


@public(out=Out.ABSENT, in_place=InPlace.METHOD, method=True)
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """input with the elements of source, one after another, where the bool mask holds.

    Raises:
        DTypeError: the mask is not bool, or the dtypes differ.
        BoundsError: the mask holds more often than source has elements.
    """
    if mask.dtype is not dtypes.bool_:
        raise DTypeError(
            "masked_scatter_ only supports boolean masks, but got mask with dtype "
            f"{mask.dtype.name}"
        )
    if source.dtype is not input.dtype:
        raise DTypeError(
            f"masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype.name} and {source.dtype.name}"
        )
    shape = broadcast_shapes([tuple(input.shape), tuple(mask.shape)], "masked_scatter")
    wide, chosen = TABLE.expand(input, shape=shape), TABLE.expand(mask, shape=shape)
    if numel(tuple(source.shape)) == 0:
        if numel(shape) and bool(TABLE.any(chosen, dim=tuple(range(len(shape))), keepdim=False)):
            raise ArgumentRuntimeError(
                "masked_scatter: source has no elements, and the mask holds."
            )
        return copied_by_rows(wide)
    flat = reshape(chosen, -1)
    number = TABLE.sub(TABLE.cumsum(flat, dim=0, reverse=False), 1)
    place = TABLE.where(flat, number, 0)
    words = None
    try:
        taken = TABLE.index_select(reshape(source, -1), place, dim=0)
    except BoundsError as error:
        words = str(error)
    if words is not None:
        held = f"masked_scatter(source: {describe_tensor(source)}): the mask holds too often"
        raise misplaced(words, held, BoundsRuntimeError)
    return contiguous(TABLE.where(chosen, reshape(taken, shape), wide))
