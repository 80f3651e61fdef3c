"""Library functions that join, split, gather and scatter.

Contract: as in `ops.functions.shapes.shape`: the first parameter is the tensor (a sequence of them
for the joins), arguments take PyTorch's forms, nothing writes in place.
"""

import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    BoundsError,
    DTypeError,
    ShapeError,
    ShapeIndexError,
    ShapeValueError,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import equals, fits_within, shapes_agree
from dynajit.core.types.value_types import Shape, Size, numel
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast, constant, dim_of, is_tensor, placed, size, sizes
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.placing import contiguous
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.shapes.shape import reshape, sliced, unsqueeze
from dynajit.ops.rows.composites import count_operand
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.type_rules import broadcast_shapes, normalize_dim

_TRUTHS: Final = (dtypes.bool_, dtypes.uint8)

# ---------------------------------------------------------------------------------------------
# joining and splitting


@public(
    also=(
        "concat",
        "concatenate",
    )
)
@autocast(cpu=Autocast.WIDEST)
def cat(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None) -> Any:
    """Tensors one after another along `dim`; dtypes are promoted; 1-d empty ones are skipped.

    Raises:
        ArgumentError: one tensor instead of a sequence.
    """
    dim = dim if axis is None else axis
    given = tensors_in(tensors, "cat")
    if not given:
        raise ShapeValueError("cat(): expected a non-empty list of tensors.")
    dtype = arguments.common_dtype(given)
    ranks = [len(x.shape) for x in given]
    kept = given
    if 1 in ranks and max(ranks) > 1:
        kept = [x for x in given if tuple(x.shape) != (0,)] or given
    if 0 in ranks:
        raise ShapeError("cat(): zero-dimensional tensors cannot be concatenated.  Use stack.")
    d = 0 if all(tuple(x.shape) == (0,) for x in kept) else dim_of(kept[0], dim, "cat")
    return TABLE.cat(*[x if x.dtype is dtype else cast(x, dtype) for x in kept], dim=d)


def tensors_in(tensors: Sequence[Any], function: str) -> list[Any]:
    """The tensors that a function joins.

    Raises:
        ArgumentError: one tensor instead of a sequence, or something else in it.
    """
    if is_tensor(tensors):
        message = f"{function}(): argument 'tensors' must be tuple of Tensors, not Tensor"
        raise ArgumentError(message)
    given = list(tensors)
    for i, x in enumerate(given):
        if not is_tensor(x):
            arguments.require_tensor(x, function, f"tensors[{i}]")
    return given


@public()
@autocast(cpu=Autocast.WIDEST)
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of one shape side by side along a new dimension."""
    given = tensors_in(tensors, "stack")
    if not given:
        raise ShapeError("stack expects a non-empty list of tensors.")
    dtype = arguments.common_dtype(given)
    d = normalize_dim(dim, len(given[0].shape) + 1, "stack")
    return TABLE.stack(*[x if x.dtype is dtype else cast(x, dtype) for x in given], dim=d)


@public()
def hstack(tensors: Sequence[Any]) -> Any:
    """Joined along the second dim; one-dimensional tensors along their only one."""
    given = tensors_in(tensors, "hstack")
    if not given:
        raise ShapeError("hstack expects a non-empty list of tensors.")
    given = [reshape(x, 1) if not x.shape else x for x in given]
    return cat(given, dim=0 if len(given[0].shape) == 1 else 1)


@public()
def vstack(tensors: Sequence[Any]) -> Any:
    """Joined along the first dim; one-dimensional tensors are rows."""
    given = tensors_in(tensors, "vstack")
    rows = [reshape(x, 1, -1) if len(x.shape) < 2 else x for x in given]
    return cat(rows, dim=0)


def _given_together(source: Any, parts: Iterable[Any]) -> tuple[Any, ...]:
    """Views that one call gives: while gradients are recorded they are not written in place."""
    found = tuple(parts)
    source._note_parts(found)
    return found


@public(out=Out.ABSENT, numpy_names=False)
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of at most `split_size` along `dim`, or of the sizes in a list."""
    return _given_together(tensor, unsafe_split(tensor, split_size_or_sections, dim))


def unsafe_split(input: Any, split_size: Any, dim: int = 0) -> tuple[Any, ...]:
    """`split`, whose parts may be written in place while gradients are recorded."""
    d = dim_of(input, dim, "split")
    n = tuple(input.shape)[d]
    if isinstance(split_size, (tuple, list)):
        parts = sizes(split_size, "split")
        if any(isinstance(part, int) and part < 0 for part in parts):
            raise ShapeError(
                f"split_with_sizes expects split_sizes of at least 0, but got {list(parts)}."
            )
        total = symint_sum(parts)
        if total != n:
            raise ShapeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
                f"at dimension {dim}), but got split_sizes={list(parts)}."
            )
    else:
        parts = _even_parts(size(split_size, "split"), n)
    views = []
    first: Any = 0
    for count in parts:
        views.append(sliced(input, d, first, first + count))
        first = first + count
    return tuple(views)


def symint_sum(values: Sequence[Any]) -> Any:
    """Sum of plain or symbolic integers."""
    total: Any = 0
    for value in values:
        total = total + value
    return total


def _even_parts(step: Size, n: Size) -> Shape:
    """The sizes of parts of `step` and what is left; how many there are is asked for."""
    if step < 0 or (isinstance(step, int) and step == 0 and not equals(n, 0)):
        raise ShapeError(f"split expects split_size to be positive, but got {step}.")
    if isinstance(n, int) and isinstance(step, int):
        return tuple(min(step, n - first) for first in range(0, n, step)) if n else (0,)
    if fits_within(n, step):
        return (n,)
    count = operator.index(-(-n // step))
    rest = n - step * (count - 1)
    return (*(step,) * (count - 1), 1 if equals(rest, 1) else rest)


@public(out=Out.ABSENT, method=True)
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` views of equal size along `dim` (the last may be smaller)."""
    return _given_together(input, unsafe_chunk(input, chunks, dim))


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """`chunk`, whose parts may be written in place while gradients are recorded."""
    d = dim_of(input, dim, "chunk")
    n, chunks = tuple(input.shape)[d], size(chunks, "chunk")
    if chunks <= 0:
        raise ShapeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}.")
    if not isinstance(n, int):
        part = n // chunks
        if part * chunks == n:
            return unsafe_split(input, [part] * chunks, d)
    elif n == 0:
        return unsafe_split(input, [0] * chunks, d)
    return unsafe_split(input, -(-n // chunks), d)


@public(out=Out.ABSENT, method=True)
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """The slices along `dim`, without that dimension."""
    d = dim_of(input, dim, "unbind")
    if not input.shape:
        raise BoundsError("unbind: dimension specified as 0 but tensor has no dimensions.")
    n = input.shape[d]
    slices = (TABLE.select(input, dim=d, index=i) for i in range(operator.index(n)))
    return _given_together(input, slices)


# ---------------------------------------------------------------------------------------------
# gather and scatter


@public(out=Out.SAME_DTYPE, method=True)
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Elements of input at `index` along `dim`; a number counts as a vector of one element, and an
    index without elements may have any shape."""
    d = dim_of(input, dim, "gather")
    rank, wanted = len(input.shape), len(index.shape)
    if rank == wanted:
        return TABLE.gather(input, index, dim=d)
    if numel(tuple(index.shape)) == 0:
        return TABLE.full(0, shape=tuple(index.shape), dtype=input.dtype, device=input.device)
    if rank + wanted != 1:
        return TABLE.gather(input, index, dim=d)
    found = TABLE.gather(reshape(input, -1), reshape(index, -1), dim=0)
    return reshape(found, tuple(index.shape))


@public(out=Out.SAME_DTYPE, method=True)
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` with broadcasting of the other dims; with `dim`, negative indices count from the
    end.

    Raises:
        DTypeError: with `dim`, the indices are not int64.
        ShapeError: with `dim`, input and indices have not as many dims.
    """
    if dim is None:
        return gather(reshape(input, -1), 0, reshape(indices, -1))
    if indices.dtype is not dtypes.int64:
        raise DTypeError(
            "take_along_dim(): dtype of indices should be Long but got "
            f"{indices.dtype.name}.  Cast them to int64."
        )
    if len(input.shape) != len(indices.shape):
        raise ShapeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but "
            f"got {len(input.shape)} dimensions for input, and {len(indices.shape)} dimensions for "
            "indices"
        )
    d = dim_of(input, dim, "take_along_dim")
    others = [tuple(1 if i == d else n for i, n in enumerate(x.shape)) for x in (input, indices)]
    shape = list(broadcast_shapes(others, "take_along_dim"))
    shape[d] = input.shape[d]
    wide = TABLE.expand(input, shape=tuple(shape))
    shape[d] = indices.shape[d]
    from_end = TABLE.add(indices, count_operand(TABLE, input.shape[d]))
    counted = TABLE.where(TABLE.lt(indices, 0), from_end, indices)
    return TABLE.gather(wide, TABLE.expand(counted, shape=tuple(shape)), dim=d)


def positions_along(index: Any) -> Any:
    """The positions of `index_select` and its kin, of which a zero-dim tensor holds one."""
    return index if index.shape else reshape(index, 1)


def source_of_zero_dims(function: str, source: Any) -> Any:
    """What is written into a zero-dim tensor, as the vector that a vector takes.

    Raises:
        ShapeError: source has dims.
    """
    if source.shape:
        raise ShapeError(
            f"{function}: source has the shape {list(source.shape)} for a zero-dim tensor.  "
            "Expected a zero-dim source."
        )
    return reshape(source, 1)


@public(out=Out.SAME_DTYPE, method=True)
def index_select(input: Any, dim: int, index: Any) -> Any:
    """Slices of input along `dim` at the positions in a 1-d (or zero-dim) index."""
    d = dim_of(input, dim, "index_select")
    index = positions_along(index)
    if not input.shape:
        if not equals(index.shape[0], 1):
            raise ShapeError(
                f"index_select: a zero-dim tensor and {index.shape[0]} positions.  Expected one."
            )
        return reshape(index_select(reshape(input, 1), 0, index), ())
    return TABLE.index_select(input, index, dim=d)


@public(out=Out.SAME_DTYPE, method=True)
def take(input: Any, index: Any) -> Any:
    """Elements of the flattened input at `index`, in the shape of `index`."""
    if not index.shape:
        return reshape(take(input, reshape(index, 1)), ())
    return TABLE.index(reshape(input, -1), unsqueeze(index, 0), dims=(0,))


def names_nothing(index: Any) -> bool:
    """True for an index without elements, which may have any shape where elements are scattered."""
    return any(type(n) is int and n == 0 for n in index.shape)


def _source_for(input: Any, index: Any, source: Any) -> Any:
    """The part of a scatter's source that its index covers; a number everywhere."""
    shape = tuple(index.shape)
    if not is_tensor(source):
        if not input.dtype.is_complex:
            refuse_complex(source, input.dtype, "scatter")
        return TABLE.full(source, shape=shape, dtype=input.dtype, device=input.device)
    if tuple(source.shape) == shape:
        return source
    if len(source.shape) != len(shape):
        raise ShapeError("scatter: index tensor must have the same number of dimensions as src.")
    bounds = tuple(symint.minimum(n, m) for n, m in zip(shape, source.shape, strict=True))
    if not all(map(equals, bounds, shape)):
        raise ShapeError(
            f"scatter: expected index {list(shape)} to be no larger than src "
            f"{list(source.shape)} in every dimension."
        )
    return TABLE.slice(source, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape))


@public(in_place=InPlace.METHOD, method=True)
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None,
    reduce: str | None = None,
) -> Any:  # fmt: skip
    """input with elements set at `index` along `dim`; `reduce` "add" or "multiply" combines them
    with those of input instead."""
    d = dim_of(input, dim, "scatter")
    if names_nothing(index):
        return TABLE.clone(input)
    source = _source_for(input, index, value if src is None else src)
    if reduce is None:
        return TABLE.scatter(input, index, source, dim=d)
    if reduce == "add":
        return TABLE.scatter_add(input, index, source, dim=d)
    if reduce == "multiply":
        index = cast(index, dtypes.int64)
        return TABLE.scatter_reduce(input, index, source, dim=d, mode="prod")
    raise ArgumentRuntimeError(f"scatter(reduce={reduce!r}): expected 'add' or 'multiply'.")


@public(in_place=InPlace.METHOD, method=True)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """input plus `src` at `index` along `dim`."""
    d = dim_of(input, dim, "scatter_add")
    if names_nothing(index):
        return TABLE.clone(input)
    return TABLE.scatter_add(input, index, _source_for(input, index, src), dim=d)


@public(in_place=InPlace.METHOD, method=True)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """input plus slices of `alpha * source` at the positions in `index` along `dim`."""
    d = dim_of(input, dim, "index_add")
    index = positions_along(index)
    if not input.shape:
        wide = source_of_zero_dims("index_add", source)
        return reshape(index_add(reshape(input, 1), 0, index, wide, alpha=alpha), ())
    alpha = arguments.coefficient(alpha, source.dtype)
    scaled = source if alpha == 1 else cast(TABLE.mul(source, alpha), source.dtype)
    return TABLE.index_add(input, index, scaled, dim=d)


@public(in_place=InPlace.METHOD, method=True)
@autocast(cpu=Autocast.WIDEST)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """input with slices along `dim` replaced at the positions in `index`.

    Raises:
        DTypeError: the index is not int64.
        ShapeIndexError: it has more than one dim, or source has not as many slices.
        BoundsError: a position is negative or too large.
    """
    d = dim_of(input, dim, "index_copy")
    if len(index.shape) > 1:
        raise ShapeIndexError(
            f"index_copy: the index has {len(index.shape)} dims.  Expected 1, or 0."
        )
    if index.dtype is not dtypes.int64:
        raise DTypeError(f"index_copy: the index is {index.dtype.name}.  Expected int64.")
    index = positions_along(index)
    if not input.shape:
        return reshape(index_copy(reshape(input, 1), 0, index, reshape(source, 1)), ())
    if not source.shape:
        source = reshape(source, (1,) * len(input.shape))
    if len(source.shape) != len(input.shape):
        raise ShapeIndexError(
            f"index_copy: source has {len(source.shape)} dims, input {len(input.shape)}.  Expected "
            "as many, or a number of both."
        )
    if not equals(source.shape[d], index.shape[0]):
        raise ShapeIndexError(
            f"index_copy: source has {source.shape[d]} slices along dim {d} for an index of "
            f"{index.shape[0]}.  Expected as many."
        )
    beyond = count_operand(TABLE, input.shape[d])
    index = TABLE.where(TABLE.lt(index, 0), beyond, index)  # the row counts from the end
    return contiguous(TABLE.index_put(input, unsqueeze(index, 0), source, dims=(d,)))


@public(out=Out.ABSENT, in_place=InPlace.METHOD, method=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """input with `value` in the slices along `dim` at the positions in `index`.

    Raises:
        DTypeError: a complex value for real elements.
    """
    d = dim_of(input, dim, "index_fill")
    if not input.dtype.is_complex and (not is_tensor(value) or value.dtype.is_complex):
        refuse_complex(value, input.dtype, "index_fill")
    index = positions_along(index)
    if not input.shape:
        return reshape(index_fill(reshape(input, 1), 0, index, value), ())
    if is_tensor(value):
        if value.shape:
            raise ShapeError(
                f"index_fill: value has {len(value.shape)} dims.  Expected a number, or a tensor "
                "without dims."
            )
        # The value's gradient counts every element once, however often the index names it.
        n = input.shape[d]
        written = TABLE.full(False, shape=(n,), dtype=dtypes.bool_, device=input.device)
        written = index_fill(written, 0, index, True)
        beside = tuple(n if i == d else 1 for i in range(len(input.shape)))
        filled = TABLE.full(value, shape=(), dtype=input.dtype, device=input.device)
        return TABLE.where(TABLE.reshape(written, shape=beside), filled, input)
    shape = tuple(index.shape[0] if i == d else n for i, n in enumerate(input.shape))
    filled = TABLE.full(value, shape=shape, dtype=input.dtype, device=input.device)
    return TABLE.index_put(input, unsqueeze(index, 0), filled, dims=(d,))


@public(out=Out.ABSENT, in_place=InPlace.METHOD, method=True)
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """input with `value`, a number or a tensor without dims, where the bool mask is True."""
    if arguments.require_tensor(mask, "masked_fill", "mask").dtype is not dtypes.bool_:
        raise DTypeError(
            f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype.name}."
        )
    is_number = arguments.is_number(value)
    if not is_number and len(value.shape):
        raise ShapeError(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value.shape)} dimension(s)."
        )
    kind = arguments.category_of(value) if is_number else value.dtype.category
    if kind is Category.COMPLEX and not input.dtype.is_complex:
        refuse_complex(value, input.dtype, "masked_fill")
    if is_number:
        value = _whole(arguments.fitting(value, input.dtype, "masked_fill"), input.dtype)
    return contiguous(cast(TABLE.where(mask, value, input), input.dtype))


def _whole(value: Any, dtype: dtypes.DType) -> Any:
    """A float without its fraction, where integers are filled.

    Raises:
        DTypeError: it is none, or infinite.
    """
    if not isinstance(value, float) or dtype.category is not Category.INTEGER:
        return value
    if not math.isfinite(value):
        raise DTypeError(f"value {value} cannot be converted to {dtype.name} without overflow.")
    return int(value)


def refuse_complex(value: Any, dtype: dtypes.DType, function: str) -> None:
    """Refuse a complex number for real elements.

    Raises:
        DTypeError: it is one.
    """
    if is_tensor(value) or arguments.category_of(value) is Category.COMPLEX:
        raise DTypeError(
            f"{function}: the complex value {value!r} cannot be converted to {dtype.name} without "
            "overflow or loss.  Take .real, or cast the input."
        )


@public(out=Out.ABSENT, in_place=InPlace.BOTH, method=True)
def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`input[indices] = values` (or `+=`); indices are tensors of integers, or masks of the dims
    that they cover. Gives a new tensor.

    Raises:
        BoundsError: there are more indices than dims, a mask has another shape than these, or an
            index is no tensor of integers or bools.
        DTypeError: values have another dtype than the input; see `refuse_other_dtype`.
    """
    if is_tensor(indices) or not indices:
        raise ShapeError("index_put: expected indices as a sequence of at least one tensor.")
    refuse_other_dtype(input, indices, values, accumulate)
    entries: list[Any] = []
    for index in indices:
        index = placed(arguments.require_tensor(index, "index_put", "indices"), input.device)
        if index.dtype is dtypes.uint8:
            index = TABLE.ne(index, 0)
        if index.dtype.category > Category.INTEGER:
            raise BoundsError(
                f"index_put: an index is {index.dtype.name}.  Expected integers or bools."
            )
        if index.dtype is not dtypes.bool_:
            entries.append(index)
            continue
        covered = tuple(input.shape)[len(entries) : len(entries) + len(index.shape)]
        if not shapes_agree(tuple(index.shape), covered):
            raise BoundsError(
                f"index_put: the shape of the mask {list(index.shape)} at index {len(entries)} "
                f"does not match the shape of the indexed tensor {list(input.shape)}."
            )
        entries.extend(mask_positions(index))
    if len(entries) > len(input.shape):
        raise BoundsError(
            f"index_put: too many indices for tensor of dimension {len(input.shape)}: "
            f"{len(entries)} given."
        )
    from_dims = tuple(range(len(entries)))
    is_mask = len(indices) == 1 and indices[0].dtype is dtypes.bool_
    if is_mask and is_single(values) and not accumulate:
        values = reshape(values, ())
    stacked = stack_indices(entries)
    row = TABLE.index_accumulate if accumulate else TABLE.index_put
    batch = tuple(stacked.shape[1:])
    shape = (*batch, *tuple(input.shape)[len(entries) :])
    source = (
        placed(cast(values, input.dtype), input.device)
        if is_tensor(values)
        else TABLE.full(values, shape=(), dtype=input.dtype, device=input.device)
    )
    return row(input, stacked, TABLE.expand(source, shape=shape), dims=from_dims)


def refuse_other_dtype(
    input: Any, indices: Sequence[Any], value: Any, is_added: bool = False
) -> None:
    """Only what fills a mask with one element is converted; numbers of Python's always are.

    Raises:
        DTypeError: a tensor would have to be converted.
    """
    if not is_tensor(value) or value.dtype is input.dtype:
        return
    is_mask = len(indices) == 1 and is_tensor(indices[0]) and indices[0].dtype in _TRUTHS
    if not is_mask or is_added or not is_single(value):
        raise DTypeError(
            "Index put requires the source and destination dtypes match, got "
            f"{input.dtype.name} for the destination and {value.dtype.name} for the source.  "
            "Cast the source with .to(dtype)."
        )
    if value.dtype.is_complex and not input.dtype.is_complex:
        refuse_complex(value, input.dtype, "index_put")


def is_single(value: Any) -> bool:
    """True for a tensor of one element."""
    return is_tensor(value) and all(isinstance(n, int) and n == 1 for n in value.shape)


def mask_positions(mask: Any) -> list[Any]:
    """One int64 tensor per dim of a bool tensor: where it is True. Needs the contents."""
    with any_arrays.on_device_of(mask.array):
        found = mask.array.nonzero()
    return [constant(positions, mask.device) for positions in found]


def stack_indices(indices: Sequence[Any]) -> Any:
    """Index tensors broadcast together and stacked, as the rows `index` and `index_put` take."""
    try:
        shape = broadcast_shapes([tuple(i.shape) for i in indices], "indexing")
    except ShapeError as error:
        raise ShapeIndexError(*error.args) from None
    if len(indices) == 1:
        return TABLE.reshape(indices[0], shape=(1, *shape))
    wide = [TABLE.expand(cast(i, dtypes.int64), shape=shape) for i in indices]
    return TABLE.stack(*wide, dim=0)


# PyTorch's other names for the same function.
concat = concatenate = cat
