"""Library functions that change shape and order: views, repetition, triangles, diagonals.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too.
Arguments take PyTorch's forms and are normalised here before a row is called. Nothing writes in
place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    ArgumentError,
    BoundsError,
    BoundsRuntimeError,
    DTypeNotImplementedError,
    ShapeError,
    ShapeTypeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.symint import SymInt, agree, equals, fits_within
from dynajit.core.types.value_types import Shape, numel
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import (
    cast,
    constant,
    dim_of,
    is_tensor,
    non_negative,
    placed,
    require_tensor,
    size,
    sizes,
    spread,
    with_integers,
)
from dynajit.ops.calls.contents import occurs
from dynajit.ops.calls.placing import contiguous, copied_by_rows
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.type_rules import broadcast_shapes, normalize_dim

# ---------------------------------------------------------------------------------------------
# reshape and its relatives


@public(out=Out.ABSENT, method=True)
def reshape(input: Any, *sizes_: Any, shape: Any = None) -> Any:
    """The same elements under another shape; one size may be -1.

    Raises:
        ShapeError: the element counts differ.
    """
    if not sizes_ and shape is None:
        raise ArgumentError("reshape(): expected sizes.")
    wanted, before = sizes(spread(sizes_, shape), "reshape"), input.shape
    for entry in wanted:
        if type(entry) is not int or entry < 0:
            wanted = arguments.resolve_shape(wanted, numel(before))
            break
    return TABLE.reshape(input, shape=wanted)


def _reshaped(input: Any, shape: Shape) -> Any:
    return TABLE.reshape(input, shape=tuple(shape))


def view(input: Any, *sizes_: Any, size: Any = None, dtype: Any = None) -> Any:
    """`reshape`; the bits seen as another dtype are for eager tensors, which have a method.

    Raises:
        ArgumentError: a dtype was given.
    """
    if dtype is not None or (len(sizes_) == 1 and isinstance(sizes_[0], dtypes.DType)):
        raise ArgumentError("view(dtype) is not available in graphs.")
    if not sizes_ and size is None:
        raise ArgumentError("view(): expected sizes, or a dtype.")
    try:
        return reshape(input, *sizes_, shape=size)
    except ShapeError as error:
        words = str(error)
    raise ShapeError(said_of_view(words))


def said_of_view(words: str) -> str:
    """What `reshape` says, where the program called `view`."""
    return f"view{words.removeprefix('reshape')}" if words.startswith("reshape") else words


def view_as(input: Any, other: Any) -> Any:
    """`input` under the shape of `other`."""
    require_tensor(other, "view_as", "other")
    return reshape(input, tuple(other.shape))


@public(out=Out.ABSENT, method=True)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dims start_dim .. end_dim in one; a zero-dim tensor becomes one-dimensional."""
    shape = tuple(input.shape)
    if not shape:
        return _reshaped(input, (1,))
    first, last = dim_of(input, start_dim, "flatten"), dim_of(input, end_dim, "flatten")
    if first > last:
        raise ShapeError("flatten() has invalid args: start_dim cannot come after end_dim.")
    if first == last:
        return input
    return _reshaped(input, (*shape[:first], numel(shape[first : last + 1]), *shape[last + 1 :]))


@public(out=Out.ABSENT, method=True)
def unflatten(input: Any, dim: int, sizes: Sequence[int]) -> Any:
    """Dimension `dim` split into `sizes`; one of them may be -1."""
    d = dim_of(input, dim, "unflatten")
    shape = tuple(input.shape)
    parts = arguments.resolve_shape(arguments.sizes(tuple(sizes), "unflatten"), shape[d])
    if not agree(numel(parts), shape[d]):
        raise ShapeError(
            f"unflatten: provided sizes {list(parts)} don't multiply up to the size of dim "
            f"{dim} ({shape[d]}) in the input tensor."
        )
    return _reshaped(input, (*shape[:d], *parts, *shape[d + 1 :]))


@public(out=Out.ABSENT, method=True)
def ravel(input: Any) -> Any:
    """`input` in one dimension: a view of what lies row by row, else a copy."""
    return reshape(contiguous(input), -1)


@public(out=Out.ABSENT, method=True)
def squeeze(input: Any, dim: Any = None) -> Any:
    """Without the dims of size 1, or without those of `dim` that have size 1."""
    shape = tuple(input.shape)
    if dim is None:
        chosen = set(range(len(shape)))
    else:
        given = dim if isinstance(dim, (tuple, list)) else (dim,)
        chosen = _distinct(input, given, "squeeze")
    kept = tuple([n for d, n in enumerate(shape) if d not in chosen or not _is_one(n)])
    return _reshaped(input, kept)


def _distinct(input: Any, dims: Any, function: str) -> set[int]:
    """The dims, counted from the front.

    Raises:
        BoundsError: a dim is out of range.
        ShapeError: a dim appears twice.
    """
    chosen = {dim_of(input, d, function) for d in dims}
    if len(chosen) != len(dims):
        raise ShapeError(
            f"{function}: dims={tuple(dims)} names a dimension twice.  Expected each once."
        )
    return chosen


def _is_one(size: Any) -> bool:
    return size == 1 if type(size) is int else equals(size, 1)


@public(out=Out.ABSENT, method=True)
def unsqueeze(input: Any, dim: int) -> Any:
    """With a dimension of size 1 inserted at `dim`."""
    shape = tuple(input.shape)
    is_plain = type(dim) is int and 0 <= dim <= len(shape)
    d = dim if is_plain else normalize_dim(dim, len(shape) + 1, "unsqueeze")
    return _reshaped(input, (*shape[:d], 1, *shape[d:]))


# ---------------------------------------------------------------------------------------------
# order of dims


@public(out=Out.ABSENT, method=True, sparse=True)
def permute(input: Any, *order: Any, dims: Any = None) -> Any:
    """Dims in the given order."""
    given = spread(order, dims)
    rank = len(input.shape)
    if len(given) != rank:
        raise ShapeError(
            f"permute(dims={list(given)}): number of dimensions in the tensor input does not "
            f"match the length of the desired ordering: {rank} and {len(given)}."
        )
    chosen = tuple(dim_of(input, d, "permute") for d in given)
    if rank == 0:
        return TABLE.permute(input, dims=())
    return TABLE.permute(input, dims=chosen)


@public(also=("swapdims",), out=Out.ABSENT, method=True, sparse=True)
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dims swapped."""
    a, b = dim_of(input, dim0, "transpose"), dim_of(input, dim1, "transpose")
    order = list(range(len(input.shape)))
    if order:
        order[a], order[b] = order[b], order[a]
    return TABLE.permute(input, dims=tuple(order))


@public(out=Out.ABSENT, method=True, sparse=True)
def t(input: Any) -> Any:
    """Transpose of a matrix, as a view; vectors and zero-dim tensors keep their order."""
    rank = len(input.shape)
    if rank > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.shape}.")
    return TABLE.permute(input, dims=tuple(reversed(range(rank))))


@public(also=("moveaxis",), out=Out.ABSENT, method=True)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Dims moved from `source` to `destination`; the others keep their order."""
    sources = source if isinstance(source, (tuple, list)) else (source,)
    targets = destination if isinstance(destination, (tuple, list)) else (destination,)
    if len(sources) != len(targets):
        raise ShapeTypeError(
            "movedim: source and destination must have the same number of entries."
        )
    from_ = [dim_of(input, d, "movedim") for d in sources]
    to = [dim_of(input, d, "movedim") for d in targets]
    for name, dims in (("source", from_), ("destination", to)):
        if len(set(dims)) != len(dims):
            raise ShapeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    rest = iter(d for d in range(len(input.shape)) if d not in from_)
    placed = dict(zip(to, from_, strict=True))
    order = tuple(placed[d] if d in placed else next(rest) for d in range(len(input.shape)))
    return TABLE.permute(input, dims=order)


@public(out=Out.ABSENT, method=True)
def flip(input: Any, *order: Any, dims: Any = None) -> Any:
    """Reversed along the given dims, as a copy.

    Raises:
        ArgumentError: no dims are given.
    """
    if not order and dims is None:
        raise ArgumentError("flip() is missing dims.  Expected one, or several, or ().")
    chosen = _distinct(input, spread(order, dims), "flip")
    return TABLE.flip(input, dims=tuple(sorted(chosen)) if input.shape else ())


@public(out=Out.ABSENT, method=True)
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved by `shifts` along `dims`, those beyond the end coming back in front; always
    as a copy.  Without dims the tensor is moved as if it were flat."""
    steps = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    if not steps:
        raise ShapeError("roll: `shifts` required.  Expected an integer, or one per dim.")
    if dims is None or (isinstance(dims, (tuple, list)) and not dims and len(steps) == 1):
        return reshape(roll(reshape(input, -1), shifts, 0), tuple(input.shape))
    along = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(steps) != len(along):
        raise ShapeError(f"roll: shifts and dimensions must align: {len(steps)}, {len(along)}.")
    if along and not input.shape:
        raise BoundsError(f"roll: Dimension specified as {along[0]} but tensor has no dimensions")
    result = input
    for step, dim in zip(steps, along, strict=True):
        d = dim_of(input, dim, "roll")
        length = input.shape[d] if input.shape else 1
        if isinstance(length, int) and length == 0:
            continue
        wanted = size(step, "roll")
        cut = (length - wanted) % length
        if not isinstance(wanted, int):  # any of the elements may be the first
            places = TABLE.arange(0, 1, size=length, dtype=dtypes.int64, device=input.device)
            places = TABLE.remainder(TABLE.add(places, cut), length)
            result = TABLE.index_select(result, places, dim=d)
        elif cut != 0:
            parts = narrow(result, d, cut, length - cut), narrow(result, d, 0, cut)
            result = TABLE.cat(*parts, dim=d)
        else:
            result = copied_by_rows(result)
    return TABLE.clone(input) if result is input else result


# ---------------------------------------------------------------------------------------------
# expansion and repetition


def expand(input: Any, *sizes_: Any, size: Any = None) -> Any:
    """Repeated along dims of size 1 and new leading dims, as a view; -1 keeps a size."""
    wanted = sizes(spread(sizes_, size), "expand")
    shape = tuple(input.shape)
    extra = len(wanted) - len(shape)
    if extra < 0:
        raise ShapeError(
            f"expand({list(wanted)}): the number of sizes provided ({len(wanted)}) must be "
            f"greater or equal to the number of dimensions in the tensor ({len(shape)})."
        )
    result = []
    for d, entry in enumerate(wanted):
        keeps = isinstance(entry, int) and entry == -1
        if isinstance(entry, int) and entry < 0 and d < extra:
            raise ShapeError(
                f"expand({list(wanted)}): the expanded size of the tensor ({entry}) isn't allowed "
                "in a leading, non-existing dimension."
            )
        result.append(shape[d - extra] if keeps else entry)
    return TABLE.expand(input, shape=non_negative(tuple(result), "expand"))


def expand_as(input: Any, other: Any) -> Any:
    """`expand` to the shape of `other`."""
    require_tensor(other, "expand_as", "other")
    return expand(input, tuple(other.shape))


@public(out=Out.ABSENT, method=True)
def broadcast_to(input: Any, size: Any) -> Any:
    """`expand` to `size`, the sizes of all dims, or of the only one."""
    return expand(input, tuple(size) if isinstance(size, Sequence) else (size,))


@public(out=Out.ABSENT)
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All tensors expanded to their common shape; themselves where they have it."""
    given = [require_tensor(x, "broadcast_tensors", "tensors") for x in spread(tensors)]
    shape = broadcast_shapes([tuple(x.shape) for x in given], "broadcast_tensors")
    return tuple(x if tuple(x.shape) == shape else TABLE.expand(x, shape=shape) for x in given)


def repeat(input: Any, *sizes_: Any, repeats: Any = None) -> Any:
    """Copies side by side, `sizes[d]` of them along dimension d."""
    times = sizes(spread(sizes_, repeats), "repeat")
    shape = tuple(input.shape)
    if len(times) < len(shape):
        raise ShapeError(
            f"repeat({list(times)}): number of dimensions of repeat dims can not be smaller than "
            f"number of dimensions of tensor ({len(shape)})."
        )
    full = (1,) * (len(times) - len(shape)) + shape
    non_negative(times, "repeat")
    wide = tuple(n for pair in zip((1,) * len(full), full, strict=True) for n in pair)
    stretched = tuple(n for pair in zip(times, full, strict=True) for n in pair)
    spread_out = TABLE.expand(_reshaped(input, wide), shape=stretched)
    final = tuple(a * b for a, b in zip(times, full, strict=True))
    return copied_by_rows(_reshaped(spread_out, final))


@public(out=Out.ABSENT, method=True)
def tile(input: Any, *sizes_: Any, dims: Any = None) -> Any:
    """`repeat`, with missing counts taken as 1 from the left."""
    times = spread(sizes_, dims)
    return repeat(input, (1,) * (len(input.shape) - len(times)) + tuple(times))


@public(out=Out.ABSENT, method=True)
def repeat_interleave(
    input: Any = None, repeats: Any = None, dim: int | None = None, *,
    output_size: int | None = None,
) -> Any:  # fmt: skip
    """Each element repeated `repeats` times in place; a tensor of counts needs its contents, unless
    `output_size` says what they add up to. With counts alone: their places, each as often as its
    count says, in the counts' dtype.

    Raises:
        ShapeError: a count is negative, or counts alone are no vector.
    """
    if input is None or repeats is None:
        return _repeated_places(repeats if input is None else input, output_size)
    if dim is None:
        input, dim = reshape(input, -1), 0
    d = dim_of(input, dim, "repeat_interleave")
    if is_tensor(repeats):
        if output_size is not None:
            positions = _positions_of_counts(repeats, input.shape[d], output_size)
            return TABLE.index_select(input, placed(positions, input.device), dim=d)
        import_counts = constant(_counts_to_positions(repeats, input.shape[d]), input.device)
        return TABLE.index_select(input, import_counts, dim=d)
    times = size(repeats, "repeat_interleave")
    if isinstance(times, int) and times < 0:
        raise ShapeError(f"repeat_interleave: repeats must be non-negative, got {times}.")
    shape = tuple(input.shape)
    wide = _reshaped(input, (*shape[: d + 1], 1, *shape[d + 1 :]))
    grown = TABLE.expand(wide, shape=(*shape[: d + 1], times, *shape[d + 1 :]))
    return copied_by_rows(_reshaped(grown, (*shape[:d], shape[d] * times, *shape[d + 1 :])))


def _repeated_places(counts: Any, output_size: int | None) -> Any:
    require_tensor(counts, "repeat_interleave", "repeats")
    if counts.dtype not in (dtypes.int32, dtypes.int64):
        raise DTypeNotImplementedError(
            f"repeat_interleave: not implemented for {counts.dtype.name}.  Expected int32 or int64."
        )
    if len(counts.shape) != 1:
        raise ShapeError(
            f"repeat_interleave: repeats alone has shape {list(counts.shape)}.  Expected a vector."
        )
    places = TABLE.arange(0, 1, size=counts.shape[0], dtype=dtypes.int64, device=counts.device)
    found = repeat_interleave(places, counts, 0, output_size=output_size)
    return cast(found, counts.dtype)


def _positions_of_counts(repeats: Any, length: Any, total: Any) -> Any:
    """`_counts_to_positions` of what adds up to `total`, without a look at contents."""
    if repeats.dtype.category is not dtypes.Category.INTEGER:
        raise DTypeNotImplementedError(
            f"repeat_interleave: repeats of {repeats.dtype.name}.  Expected integers."
        )
    if len(repeats.shape) > 1 or (repeats.shape and not agree(repeats.shape[0], length)):
        raise ShapeError(
            f"repeat_interleave: repeats must have the same size as input along dim, {length}, "
            f"but has shape {list(repeats.shape)}."
        )
    counts = TABLE.expand(repeats, shape=(length,))
    ends = TABLE.cumsum(counts, dim=0)
    wanted = total if isinstance(total, int) else TABLE.integer(value=total)
    last = TABLE.select(ends, dim=0, index=length - 1)
    if occurs(TABLE.ne(last, wanted)) or occurs(TABLE.lt(counts, 0)):
        raise ShapeError("repeat_interleave: output_size is not the sum of repeats.")
    places = TABLE.arange(0, 1, size=total, dtype=dtypes.int64, device=repeats.device)
    return TABLE.searchsorted(ends, places, right=True)


def _counts_to_positions(repeats: Any, length: Any) -> Any:
    counts = any_arrays.as_numpy(repeats.array)
    if repeats.dtype.category is not dtypes.Category.INTEGER:
        raise DTypeNotImplementedError(
            f"repeat_interleave: repeats of {repeats.dtype.name}.  Expected integers."
        )
    if counts.size == 1:
        counts = counts.reshape(1).repeat(length)
    if (counts < 0).any():
        raise ShapeError("repeat_interleave: repeats can not be negative.")
    if counts.shape != (length,):
        raise ShapeError(
            f"repeat_interleave: repeats must have the same size as input along dim, {length}, "
            f"but has shape {list(counts.shape)}."
        )
    return np.arange(length).repeat(counts)


# ---------------------------------------------------------------------------------------------
# parts of one dimension


@public(out=Out.ABSENT, method=True)
def narrow(input: Any, dim: int, start: Any, length: Any) -> Any:
    """`length` elements along `dim` from `start` on, as a view."""
    d = dim_of(input, dim, "narrow")
    if not input.shape:
        raise ShapeError("narrow() cannot be applied to a 0-dim tensor.")
    n = input.shape[d]
    if is_tensor(start) and (start.shape or start.dtype is dtypes.bool_):
        raise ShapeError("narrow: start must be an 0-dim integral Tensor.")
    first, count = size(start, "narrow"), size(length, "narrow")
    if isinstance(first, int) and first < 0:
        first = first + n
    known = all(isinstance(v, int) for v in (first, count, n))
    if known and not (first >= 0 and count >= 0 and first + count <= n):
        raise BoundsRuntimeError(
            f"narrow: start ({start}) + length ({length}) exceeds dimension size ({n})."
        )
    return sliced(input, d, first, first + count)


def sliced(input: Any, d: int, first: Any, last: Any, step: int = 1) -> Any:
    """`input[first:last:step]` along dimension d; the bounds lie within the size."""
    shape = tuple(input.shape)
    before, after = d, len(shape) - d - 1
    start = (*(0,) * before, first, *(0,) * after)
    stop = (*shape[:d], last, *shape[d + 1 :])
    steps = (*(1,) * before, step, *(1,) * after)
    return TABLE.slice(input, start=start, stop=stop, step=steps)


@public(out=Out.ABSENT, method=True)
def select(input: Any, dim: int, index: Any) -> Any:
    """The slice at `index` of dimension `dim`."""
    d = dim_of(input, dim, "select")
    if not input.shape:
        raise BoundsError("select() cannot be applied to a 0-dim tensor.")
    return TABLE.select(input, dim=d, index=position(index, input.shape[d], d))


def position(index: Any, n: Any, dim: int) -> Any:
    """An index in [-n, n) counted from the front.

    Raises:
        BoundsError: it is out of range.
    """
    number = size(index, "select")
    if isinstance(number, SymInt) or isinstance(n, SymInt):
        return _symbolic_position(number, n, dim)
    if isinstance(n, int) and not -n <= number < n:
        raise BoundsError(
            f"index {number} is out of bounds for dimension {dim} with size {n}.  Expected "
            f"a value in [{-n}, {n - 1}]."
        )
    return number + n if number < 0 else number


def _symbolic_position(number: Any, n: Any, dim: int) -> Any:
    """`position` where a number is symbolic; what the ranges do not tell is decided."""
    at = number + n if number < 0 else number
    if not (fits_within(0, at) and fits_within(at, n - 1)):
        raise BoundsError(f"index {number} is out of bounds for dimension {dim} with size {n}.")
    return at


# ---------------------------------------------------------------------------------------------


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of the last two dims; zero elsewhere."""
    if type(diagonal) is not int:
        diagonal = size(diagonal, "tril")
    return TABLE.tril(input, diagonal=diagonal)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of the last two dims; zero elsewhere."""
    if type(diagonal) is not int:
        diagonal = size(diagonal, "triu")
    return TABLE.triu(input, diagonal=diagonal)


@public(out=Out.ABSENT, method=True)
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of two dims, as the last dim."""
    a, b = dim_of(input, dim1, "diagonal"), dim_of(input, dim2, "diagonal")
    return TABLE.diagonal(input, offset=size(offset, "diagonal"), dim1=a, dim2=b)


@public(out=Out.SAME_DTYPE, method=True)
@with_integers
def diag(input: Any, diagonal: int = 0) -> Any:
    """The diagonal of a matrix, or the matrix that has a vector as its diagonal."""
    if len(input.shape) == 2:
        return TABLE.clone(TABLE.diagonal(input, offset=diagonal, dim1=0, dim2=1))
    if len(input.shape) != 1:
        raise ShapeError(f"diag: expected a 1-d or 2-d tensor, got {len(input.shape)}-d.")
    n, k = input.shape[0], abs(diagonal)
    low, high = (k, 0) if diagonal < 0 else (0, k)
    lane = TABLE.pad(_reshaped(input, (n, 1)), before=(low, 0), after=(high, 0), value=0)
    square = TABLE.expand(lane, shape=(n + k, n + k))
    return TABLE.triu(TABLE.tril(square, diagonal=diagonal), diagonal=diagonal)


def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of `size` every `step` along a dimension, as a new last dim; of a zero-dim tensor the
    one window that there is, a vector."""
    d = dim_of(input, dimension, "unfold")
    n = input.shape[d] if input.shape else 1
    size, step = arguments.size(size, "unfold"), arguments.size(step, "unfold")
    if size < 0:
        raise ShapeError(f"unfold: size is {size} but must be >= 0.")
    if isinstance(n, int) and size > n:
        raise ShapeError(
            f"unfold: maximum size for tensor at dimension {dimension} is {n} but size is {size}."
        )
    if step <= 0:
        raise ShapeError(f"unfold: step is {step} but must be > 0.")
    if not input.shape:
        return sliced(reshape(input, 1), 0, 0, size)
    return TABLE.unfold(input, dim=d, size=size, step=step)


@public(out=Out.ABSENT, method=True, sparse=True)
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """Two dims swapped: NumPy's name for `transpose`."""
    return transpose(input, axis0, axis1)


# PyTorch's other names for the same functions.
swapdims = transpose
moveaxis = movedim
