"""Rows of tables looked up by integers, one by one or bag by bag.

Contract: tensors in, tensors out; neither writes its table (`nn.lookups` does where a largest norm
is asked for, and publishes both through `nn.functional`).
"""

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import (
    BoundsError,
    BoundsRuntimeError,
    DTypeError,
    ExpectationError,
    InvalidValueError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.symint import shapes_agree
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.arguments import cast, describe_tensor, misplaced, size
from dynajit.ops.calls.contents import occurs
from dynajit.ops.functions.reductions.reduction import max as greatest
from dynajit.ops.functions.reductions.reduction import norm
from dynajit.ops.functions.shapes.shape import sliced
from dynajit.ops.rows.composites import wide
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

MODES = ("sum", "mean", "max")


def looked_up(input: Any, weight: Any, padding_idx: int | None, scale_grad_by_freq: bool) -> Any:
    """Rows of weight (n, d) at the integers in input (*) -> (*, d).

    Args:
        padding_idx: a row without a gradient, or None.
        scale_grad_by_freq: whether the gradient of a row is divided by how often it was asked for.
    """
    if padding_idx is not None:
        padding_idx = row_number(padding_idx, weight.shape[0])
    row = TABLE.embedding_by_frequency if scale_grad_by_freq else TABLE.embedding
    try:
        return row(weight, input, padding_idx=padding_idx)
    except BoundsError as error:
        words = str(error)
    raise misplaced(words, _lookup_in_words("embedding", input, weight))


def _lookup_in_words(name: str, input: Any, weight: Any) -> str:
    return f"{name}(input: {describe_tensor(input)}, weight: {describe_tensor(weight)})"


def row_number(padding_idx: int, rows: Any) -> int:
    """`padding_idx` counted from the front.

    Raises:
        ExpectationError: there is no such row.
    """
    if type(padding_idx) is not int:
        padding_idx = operator.index(size(padding_idx, "embedding"))
    if not -rows <= padding_idx < rows:
        raise ExpectationError(
            f"Padding_idx must be within num_embeddings: {padding_idx} is no row of {rows}"
        )
    return int(padding_idx + rows) if padding_idx < 0 else padding_idx


def bagged(
    input: Any, weight: Any, offsets: Any, scale_grad_by_freq: bool, mode: str,
    look_up: Callable[..., Any], per_sample_weights: Any, include_last_offset: bool,
    padding_idx: int | None,
) -> Any:  # fmt: skip
    """Sums, means or maxima of looked-up rows: one per bag, (bags, d); see `lookups.embedding_bag`.

    Args:
        look_up: `looked_up`, or a function with its signature whose gradients are sparse.

    Raises:
        InvalidValueError: ranks, shapes, offsets or the mode do not fit.
        UnsupportedError: weights of samples with another mode than "sum".
    """
    _check_bags(input, weight, offsets, mode, scale_grad_by_freq, per_sample_weights)
    words = None
    try:
        rows = look_up(input, weight, None, scale_grad_by_freq)
    except BoundsError as error:
        words = str(error)
    if words is not None:
        call = _lookup_in_words("embedding_bag", input, weight)
        raise misplaced(words, call, BoundsRuntimeError)
    if per_sample_weights is not None:
        if per_sample_weights.dtype is not weight.dtype:
            raise DTypeError(
                "embedding_bag: expected weight and per_sample_weights to have the same dtype, "
                f"but got {weight.dtype.name} and {per_sample_weights.dtype.name}."
            )
        rows = TABLE.mul(wide(TABLE, rows), _with_one_column(wide(TABLE, per_sample_weights)))
    live = None
    if padding_idx is not None:
        live = TABLE.ne(input, row_number(padding_idx, weight.shape[0]))
    rows = wide(TABLE, rows)
    if len(input.shape) == 2:
        result = _of_equal_bags(rows, live, mode)
    else:
        result = _of_bags(rows, live, mode, *_bags_of(input, offsets, include_last_offset))
    return cast(result, weight.dtype)


def _check_bags(
    input: Any, weight: Any, offsets: Any, mode: str, scale_grad_by_freq: bool, sample_weights: Any
) -> None:
    if mode not in MODES:
        raise InvalidValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if mode == "max" and scale_grad_by_freq:
        raise InvalidValueError("max mode does not support scaling the gradient by the frequency")
    if len(weight.shape) != 2:
        raise InvalidValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {len(weight.shape)}"
        )
    rank = len(input.shape)
    if rank not in (1, 2):
        raise InvalidValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {rank}"
        )
    if rank == 2 and offsets is not None:
        raise InvalidValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences.  However, found offsets of type {type(offsets)}"
        )
    if rank == 1 and (offsets is None or len(offsets.shape) != 1):
        found = "None" if offsets is None else f"{len(offsets.shape)} dimensions"
        raise InvalidValueError(f"offsets has to be a 1D Tensor but got {found}")
    if sample_weights is None:
        return
    if not shapes_agree(sample_weights.shape, input.shape):
        raise InvalidValueError(
            f"embedding_bag: If per_sample_weights ({list(sample_weights.shape)}) is not None, "
            f"then it must have the same shape as the input ({list(input.shape)})"
        )
    if mode != "sum":
        raise UnsupportedError(
            "embedding_bag: per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}')."
        )


def _with_one_column(x: "TensorMethods") -> Any:
    return TABLE.reshape(x, shape=(*x.shape, 1))


# ---------------------------------------------------------------------------------------------
# bags of one size: (bags, size, d)


def _of_equal_bags(rows: Any, live: Any, mode: str) -> Any:
    if mode == "max":
        return _greatest_of_equal(rows, live)
    if live is not None:
        rows = TABLE.where(_with_one_column(live), rows, 0.0)
    total = TABLE.sum(rows, dim=(1,), keepdim=False)
    if mode == "sum":
        return total
    if live is None:
        return TABLE.div(total, max(rows.shape[1], 1))
    return _over_counts(total, TABLE.sum(live, dim=(1,), keepdim=False))


def _over_counts(total: Any, counts: Any) -> Any:
    """Means; zeros of empty bags stay."""
    return TABLE.div(total, _with_one_column(cast(TABLE.clamp_min(counts, 1), total.dtype)))


def _greatest_of_equal(rows: Any, live: Any) -> Any:
    if rows.shape[1] == 0:
        return TABLE.sum(rows, dim=(1,), keepdim=False)
    if live is None:
        return greatest(rows, 1).values
    found = greatest(TABLE.where(_with_one_column(live), rows, float("-inf")), 1).values
    is_empty = TABLE.logical_not(TABLE.any(live, dim=(1,), keepdim=False))
    return TABLE.where(_with_one_column(is_empty), 0.0, found)


# ---------------------------------------------------------------------------------------------
# bags that begin at offsets: (samples, d)


def _bags_of(input: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, Any]:
    """(the bag of each sample, number of bags)."""
    if include_last_offset:
        if offsets.shape[0] < 1:
            raise ShapeError(
                "embedding_bag: include_last_offset: number of offset should be at least 1"
            )
        offsets = sliced(offsets, 0, 0, offsets.shape[0] - 1)
    samples, count = input.shape[0], offsets.shape[0]
    if count:
        _check_offsets(offsets, samples)
    # A bag begins where its offset is, so it is the number of offsets up to a sample, less one.
    starts = TABLE.full(0, shape=(samples + 1,), dtype=dtypes.int64, device=input.device)
    ones = TABLE.full(1, shape=(count,), dtype=dtypes.int64, device=input.device)
    starts = TABLE.index_add(starts, offsets, ones, dim=0)
    begun = TABLE.cumsum(sliced(starts, 0, 0, samples), dim=0)
    return TABLE.sub(begun, 1), count


def _check_offsets(offsets: Any, samples: Any) -> None:
    first = TABLE.select(offsets, dim=0, index=0)
    last = TABLE.select(offsets, dim=0, index=offsets.shape[0] - 1)
    if occurs(TABLE.ne(first, 0)):
        raise ShapeError(
            "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has "
            f"to start from position 0.  However, got {int(first)}"
        )
    if occurs(TABLE.gt(last, samples)):
        raise ShapeError(
            f"embedding_bag: offsets[-1] can not be greater than input's length {samples} but got "
            f"offsets[-1] of {int(last)}"
        )


def _of_bags(rows: Any, live: Any, mode: str, bags: Any, count: Any) -> Any:
    if mode == "max" and rows.shape[0] > 0:
        return _greatest_of_bags(rows, live, bags, count)
    if live is not None:
        rows = TABLE.where(_with_one_column(live), rows, 0.0)
    zeros = TABLE.full(0, shape=(count, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    total = TABLE.index_add(zeros, bags, rows, dim=0)
    return _over_counts(total, _sizes(bags, live, count)) if mode == "mean" else total


def _sizes(bags: Any, live: Any, count: Any) -> Any:
    """How many samples of each bag count."""
    zeros = TABLE.full(0, shape=(count,), dtype=dtypes.int64, device=bags.device)
    if live is None:
        ones = TABLE.full(1, shape=tuple(bags.shape), dtype=dtypes.int64, device=bags.device)
    else:
        ones = cast(live, dtypes.int64)
    return TABLE.index_add(zeros, bags, ones, dim=0)


def _greatest_of_bags(rows: Any, live: Any, bags: Any, count: Any) -> Any:
    """Each column is ordered by value, then by bag: a bag's greatest comes first in it.

    Both orders are stable, so the first of equal values is chosen, as in PyTorch.
    """
    samples, columns = rows.shape
    sizes = _sizes(bags, live, count)
    if live is not None:
        bags = TABLE.where(live, bags, count)
    by_value = TABLE.argsort(rows, dim=0, descending=True)
    wide = TABLE.expand(TABLE.reshape(bags, shape=(samples, 1)), shape=(samples, columns))
    by_bag = TABLE.argsort(TABLE.gather(wide, by_value, dim=0), dim=0)
    order = TABLE.gather(by_value, by_bag, dim=0)
    starts = TABLE.sub(TABLE.cumsum(sizes, dim=0), sizes)
    # An empty bag at the end begins behind the last sample; what it finds is not used.
    starts = TABLE.clamp_max(starts, samples - 1)
    found = TABLE.index_select(order, starts, dim=0)
    is_empty = TABLE.eq(sizes, 0)
    return TABLE.where(_with_one_column(is_empty), 0.0, TABLE.gather(rows, found, dim=0))


# ---------------------------------------------------------------------------------------------
# the largest norm


def shortened_rows(input: Any, weight: Any, max_norm: float, norm_type: float) -> tuple[Any, Any]:
    """(positions (count), rows (count, d)): those looked up, longer ones at the norm `max_norm`."""
    positions = TABLE.reshape(input, shape=(numel(tuple(input.shape)),))
    rows = TABLE.index_select(weight, positions, dim=0)
    length = norm(rows, norm_type, 1, keepdim=True)
    scale = TABLE.div(max_norm, TABLE.add(length, 1e-7))
    return positions, TABLE.where(TABLE.gt(length, max_norm), TABLE.mul(rows, scale), rows)
