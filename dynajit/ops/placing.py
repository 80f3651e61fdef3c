"""Library functions that say where results of several rows lie in memory.

Contract: a result that lies already as it should is given back as it is; else it is copied by the
row `laid_out`, which graphs record. Strides are those that eager execution gives, also while a
graph is recorded. Called by library functions whose rows would lay their results out otherwise
than PyTorch's kernels do.
"""

from typing import Any

from dynajit.core.errors import ArgumentError
from dynajit.core.memory_format import (
    MemoryFormat,
    channels_last,
    channels_last_3d,
    contiguous_format,
    order_in,
)
from dynajit.ops.arguments import is_tensor
from dynajit.ops.result_layouts import (
    Order,
    channels_last_order,
    is_channels_last,
    is_row_major,
    layout_of,
    lies_by_rows,
    order_of,
    with_rows,
)
from dynajit.ops.table import TABLE


def contiguous(input: Any, memory_format: Any = None) -> Any:
    """input in that memory format, by default row by row: itself where it lies so, else a copy.

    Raises:
        ArgumentError: `preserve_format` is asked for.
    """
    if memory_format is None and lies_by_rows(input):
        return input
    wanted = contiguous_format if memory_format is None else memory_format
    order = order_in(wanted, len(input.shape))
    if order is None:
        raise ArgumentError("contiguous: Expected a memory format other than preserve_format.")
    return _in_order(input, order)


def _in_order(result: Any, order: Order) -> Any:
    if order is None:
        order = tuple(range(len(result.shape)))
    shape, strides = layout_of(result)
    if is_row_major(tuple(shape[d] for d in order), tuple(strides[d] for d in order)):
        return result
    return TABLE.laid_out(result, order=order)


def copied_by_rows(x: Any) -> Any:
    """A copy that lies row by row."""
    return TABLE.laid_out(x, order=tuple(range(len(x.shape))))


def copied_by_columns(x: Any) -> Any:
    """A copy of matrices that lies column by column, as LAPACK leaves them."""
    rank = len(x.shape)
    return TABLE.laid_out(x, order=(*range(rank - 2), rank - 1, rank - 2))


def by_columns(result: Any) -> Any:
    """Matrices that lie column by column, as LAPACK gives them."""
    rank = len(result.shape)
    if lies_by_rows(result) and result.shape[-1] > 1 and result.shape[-2] > 1:
        return copied_by_columns(result)
    return _in_order(result, (*range(rank - 2), rank - 1, rank - 2))


def as_computed(result: Any, *operands: Any) -> Any:
    """A new tensor laid out as what one row computes element by element of these operands."""
    if all(map(lies_by_rows, operands)):
        return result
    tensors = [each for each in operands if is_tensor(each)]
    return _in_order(result, order_of(tuple(result.shape), [layout_of(each) for each in tensors]))


def as_suggested(result: Any, like: Any, rows: bool = False) -> Any:
    """A new tensor row by row, or with its channels last where `like` looks so.

    Args:
        rows: tensors of rank 3 are seen as ones of rank 4.
    """
    if lies_by_rows(like):
        return result
    shape, strides = layout_of(like)
    laid = with_rows(shape, strides) if rows else (shape, strides)
    rank = len(result.shape)
    is_last = rank == len(shape) and is_channels_last(*laid)
    return _in_order(result, channels_last_order(rank) if is_last else None)


def formatted(input: Any, result: Any, memory_format: Any, copied: bool) -> Any:
    """What `to` gives in a memory format.

    Args:
        input: the tensor.
        result: the same in another dtype, or on another device, or itself.
        copied: itself will not do.
    """
    order = order_in(memory_format, len(input.shape))
    if order is None:
        return TABLE.clone(input) if copied and result is input else result
    if result is input and not copied and suggested_format(input) is memory_format:
        return input
    return TABLE.laid_out(result, order=order)


def suggested_format(input: Any) -> MemoryFormat:
    """The memory format that a tensor looks to be in, with or without gaps."""
    shape, strides = layout_of(input)
    if not is_channels_last(shape, strides):
        return contiguous_format
    return channels_last if len(shape) == 4 else channels_last_3d
