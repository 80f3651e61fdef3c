"""Library functions that say where results of several rows lie in memory.

Contract: a result that lies already as it should is given back as it is; else it is copied by the
row `laid_out`, which graphs record. Strides are those that eager execution gives, also while a
graph is recorded.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import ArgumentError
from dynajit.core.types import dtypes
from dynajit.core.types.memory_format import (
    MemoryFormat,
    channels_last,
    channels_last_3d,
    contiguous_format,
    order_in,
)
from dynajit.core.types.value_types import Shape, contiguous_strides
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.table.families import broadcast_shapes
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import (
    Order,
    channels_last_order,
    is_channels_last,
    is_row_major,
    layout_of,
    lies_by_rows,
    order_of,
    order_of_chosen,
    strides_if_known,
    with_rows,
)

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


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


def copied_by_rows(x: "TensorMethods") -> Any:
    """A copy that lies row by row."""
    return TABLE.laid_out(x, order=tuple(range(len(x.shape))))


def copied_by_columns(x: "TensorMethods") -> Any:
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


def as_chosen(
    result: Any, laid: tuple[Shape, Shape | None], indices: Sequence[Any], dims: tuple[int, ...]
) -> Any:
    """What the row `index` gives, laid out as all index tensors say: the row sees one of them.

    Args:
        laid: sizes of the tensor that is indexed, and its strides; None if they are not known.
        indices: the index tensors, one per dim of `dims`, before they are broadcast together.
    """
    shape, strides = laid
    if strides is None:  # so are those of the result
        return result
    batch = broadcast_shapes([tuple(each.shape) for each in indices], "indexing")
    pairs = []
    for each in indices:
        steps = strides_if_known(each)
        if steps is None:
            return result
        pairs.append(_as_read(each, steps, batch))
    return _in_order(result, order_of_chosen(tuple(result.shape), (shape, strides), pairs, dims))


def _as_read(index: Any, strides: Shape, batch: Shape) -> tuple[Shape, Shape]:
    """Sizes and strides of an index tensor; one of another dtype than int64 is copied, row by row,
    where it is broadcast."""
    shape = tuple(index.shape)
    if index.dtype is dtypes.int64 or shape == batch:
        return shape, strides
    return batch, contiguous_strides(batch)


def is_chosen_by_rows(result: Any, x: Any, indices: Sequence[Any]) -> bool:
    """Whether the row `index` lays the result out as all the index tensors say: there is no dim of
    size 1, by whose strides others may be told apart, and they lie row by row.

    Numbers, of no dims, give a view.
    """
    if len(result.shape) < 2 or not any(len(each.shape) for each in indices):
        return True
    if any(type(size) is int and size == 1 for size in result.shape):
        return False
    first = tuple(indices[0].shape)
    are_alike = all(tuple(each.shape) == first for each in indices[1:])
    return all(map(_is_by_rows, indices)) and (are_alike or _is_by_rows(x))


def _is_by_rows(tensor: Any) -> bool:
    if hasattr(tensor, "builder"):
        strides = strides_if_known(tensor)
        return strides is not None and is_row_major(tuple(tensor.shape), strides)
    return lies_by_rows(tensor)


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
