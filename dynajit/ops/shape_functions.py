"""Library functions that rearrange elements: views, joins, splits, gathers and scatters.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too.
Arguments take PyTorch's forms and are normalised here before a row is called. Nothing writes in
place.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core import dtypes, symint
from dynajit.core.dtypes import Category
from dynajit.core.errors import ArgumentError, BoundsError, ShapeError
from dynajit.core.types import Shape, numel
from dynajit.ops import arguments
from dynajit.ops.arguments import cast, dim_of, is_tensor, size, sizes, spread
from dynajit.ops.families import broadcast_shapes
from dynajit.ops.table import TABLE

# ---------------------------------------------------------------------------------------------
# reshape and its relatives


def reshape(input: Any, *sizes_: Any, shape: Any = None) -> Any:
    """The same elements under another shape; one size may be -1.

    Raises:
        ShapeError: the element counts differ.
    """
    wanted = sizes(spread(sizes_, shape), "reshape")
    return _reshaped(input, arguments.resolve_shape(wanted, numel(tuple(input.shape))))


def _reshaped(input: Any, shape: Shape) -> Any:
    return TABLE.reshape(input, shape=tuple(shape))


def view(input: Any, *sizes_: Any) -> Any:
    """`reshape`, or with a dtype argument the bits seen as another dtype (not available).

    Raises:
        ArgumentError: a dtype was given.
    """
    if len(sizes_) == 1 and isinstance(sizes_[0], dtypes.DType):
        raise ArgumentError("view(dtype) is not available.  Use .to(dtype) to convert values.")
    return reshape(input, *sizes_)


def view_as(input: Any, other: Any) -> Any:
    """`input` under the shape of `other`."""
    return reshape(input, tuple(other.shape))


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


def unflatten(input: Any, dim: int, sizes_: Sequence[int]) -> Any:
    """Dimension `dim` split into `sizes`; one of them may be -1."""
    d = dim_of(input, dim, "unflatten")
    shape = tuple(input.shape)
    parts = arguments.resolve_shape(sizes(tuple(sizes_), "unflatten"), shape[d])
    if numel(parts) != shape[d]:
        raise ShapeError(
            f"unflatten: provided sizes {list(parts)} don't multiply up to the size of dim "
            f"{dim} ({shape[d]}) in the input tensor."
        )
    return _reshaped(input, (*shape[:d], *parts, *shape[d + 1 :]))


def ravel(input: Any) -> Any:
    """`input` in one dimension."""
    return reshape(input, -1)


def squeeze(input: Any, dim: Any = None) -> Any:
    """Without the dims of size 1, or without those of `dim` that have size 1."""
    shape = tuple(input.shape)
    if dim is None:
        chosen = set(range(len(shape)))
    else:
        given = dim if isinstance(dim, (tuple, list)) else (dim,)
        chosen = {dim_of(input, d, "squeeze") for d in given}
    kept = tuple(n for d, n in enumerate(shape) if d not in chosen or not _is_one(n))
    return _reshaped(input, kept)


def _is_one(n: Any) -> bool:
    return isinstance(n, int) and n == 1


def unsqueeze(input: Any, dim: int) -> Any:
    """With a dimension of size 1 inserted at `dim`."""
    shape = tuple(input.shape)
    d = arguments.normalize_dim(dim, len(shape) + 1, "unsqueeze")
    return _reshaped(input, (*shape[:d], 1, *shape[d:]))


# ---------------------------------------------------------------------------------------------
# order of dims


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


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dims swapped."""
    a, b = dim_of(input, dim0, "transpose"), dim_of(input, dim1, "transpose")
    order = list(range(len(input.shape)))
    if order:
        order[a], order[b] = order[b], order[a]
    return TABLE.permute(input, dims=tuple(order))


def t(input: Any) -> Any:
    """Transpose of a matrix; vectors and zero-dim tensors stay."""
    if len(input.shape) > 2:
        raise ShapeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.shape}.")
    return input if len(input.shape) < 2 else transpose(input, 0, 1)


def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Dims moved from `source` to `destination`; the others keep their order."""
    sources = source if isinstance(source, (tuple, list)) else (source,)
    targets = destination if isinstance(destination, (tuple, list)) else (destination,)
    if len(sources) != len(targets):
        raise ShapeError("movedim: source and destination must have the same number of entries.")
    from_ = [dim_of(input, d, "movedim") for d in sources]
    to = [dim_of(input, d, "movedim") for d in targets]
    rest = iter(d for d in range(len(input.shape)) if d not in from_)
    placed = dict(zip(to, from_, strict=True))
    order = tuple(placed[d] if d in placed else next(rest) for d in range(len(input.shape)))
    return TABLE.permute(input, dims=order)


def flip(input: Any, *order: Any, dims: Any = None) -> Any:
    """Reversed along the given dims, as a copy."""
    chosen = {dim_of(input, d, "flip") for d in spread(order, dims)}
    return TABLE.flip(input, dims=tuple(sorted(chosen)) if input.shape else ())


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved by `shifts` along `dims`, those beyond the end coming back in front."""
    if dims is None:
        return reshape(roll(reshape(input, -1), shifts, 0), tuple(input.shape))
    steps = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    along = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(steps) != len(along):
        raise ShapeError(f"roll: shifts and dimensions must align: {len(steps)}, {len(along)}.")
    for step, dim in zip(steps, along, strict=True):
        d = dim_of(input, dim, "roll")
        length = input.shape[d] if input.shape else 1
        if isinstance(length, int) and length == 0:
            continue
        cut = (length - step) % length
        if cut != 0:
            parts = narrow(input, d, cut, length - cut), narrow(input, d, 0, cut)
            input = TABLE.cat(*parts, dim=d)
    return input


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
        if keeps and d < extra:
            raise ShapeError(
                f"expand({list(wanted)}): the expanded size of the tensor (-1) isn't allowed in "
                "a leading, non-existing dimension."
            )
        result.append(shape[d - extra] if keeps else entry)
    return TABLE.expand(input, shape=tuple(result))


def expand_as(input: Any, other: Any) -> Any:
    """`expand` to the shape of `other`."""
    return expand(input, tuple(other.shape))


def broadcast_to(input: Any, size: Sequence[int]) -> Any:
    """`expand` to `size`."""
    return expand(input, tuple(size))


def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """All tensors expanded to their common shape."""
    given = spread(tensors)
    shape = broadcast_shapes([tuple(x.shape) for x in given], "broadcast_tensors")
    return tuple(TABLE.expand(x, shape=shape) for x in given)


def repeat(input: Any, *sizes_: Any) -> Any:
    """Copies side by side, `sizes[d]` of them along dimension d."""
    times = sizes(spread(sizes_), "repeat")
    shape = tuple(input.shape)
    if len(times) < len(shape):
        raise ShapeError(
            f"repeat({list(times)}): number of dimensions of repeat dims can not be smaller than "
            f"number of dimensions of tensor ({len(shape)})."
        )
    full = (1,) * (len(times) - len(shape)) + shape
    wide = tuple(n for pair in zip((1,) * len(full), full, strict=True) for n in pair)
    stretched = tuple(n for pair in zip(times, full, strict=True) for n in pair)
    spread_out = TABLE.expand(_reshaped(input, wide), shape=stretched)
    final = tuple(a * b for a, b in zip(times, full, strict=True))
    return TABLE.clone(_reshaped(spread_out, final))


def tile(input: Any, *sizes_: Any, dims: Any = None) -> Any:
    """`repeat`, with missing counts taken as 1 from the left."""
    times = spread(sizes_, dims)
    return repeat(input, (1,) * (len(input.shape) - len(times)) + tuple(times))


def repeat_interleave(
    input: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element repeated `repeats` times in place; a tensor of counts needs its contents."""
    if dim is None:
        input, dim = reshape(input, -1), 0
    d = dim_of(input, dim, "repeat_interleave")
    if is_tensor(repeats):
        import_counts = TABLE.clone(_counts_to_positions(repeats, input.shape[d]))
        return TABLE.index_select(input, import_counts, dim=d)
    times = size(repeats, "repeat_interleave")
    shape = tuple(input.shape)
    wide = _reshaped(input, (*shape[: d + 1], 1, *shape[d + 1 :]))
    grown = TABLE.expand(wide, shape=(*shape[: d + 1], times, *shape[d + 1 :]))
    return TABLE.clone(_reshaped(grown, (*shape[:d], shape[d] * times, *shape[d + 1 :])))


def _counts_to_positions(repeats: Any, length: Any) -> Any:
    counts = repeats.array
    if counts.size == 1:
        counts = counts.reshape(1).repeat(length)
    if counts.shape != (length,):
        raise ShapeError(
            f"repeat_interleave: repeats must have the same size as input along dim, {length}, "
            f"but has shape {list(counts.shape)}."
        )
    positions = counts.cumsum() * 0
    return (positions + range(length)).repeat(counts)


# ---------------------------------------------------------------------------------------------
# joining and splitting


def cat(tensors: Sequence[Any], dim: int = 0, *, axis: int | None = None) -> Any:
    """Tensors one after another along `dim`; dtypes are promoted; 1-d empty ones are skipped."""
    dim = dim if axis is None else axis
    given = list(tensors)
    if not given:
        raise ShapeError("cat(): expected a non-empty list of tensors.")
    for i, x in enumerate(given):
        arguments.require_tensor(x, "cat", f"tensors[{i}]")
    dtype = arguments.common_dtype(given)
    rank = max(len(x.shape) for x in given)
    kept = [x for x in given if rank == 1 or tuple(x.shape) != (0,)] or given
    if any(len(x.shape) == 0 for x in kept):
        raise ShapeError("cat(): zero-dimensional tensors cannot be concatenated.  Use stack.")
    d = dim_of(kept[0], dim, "cat")
    return TABLE.cat(*(cast(x, dtype) for x in kept), dim=d)


def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    """Tensors of one shape side by side along a new dimension."""
    given = list(tensors)
    if not given:
        raise ShapeError("stack expects a non-empty list of tensors.")
    dtype = arguments.common_dtype(given)
    d = arguments.normalize_dim(dim, len(given[0].shape) + 1, "stack")
    return TABLE.stack(*(cast(x, dtype) for x in given), dim=d)


def hstack(tensors: Sequence[Any]) -> Any:
    """Joined along the second dim; one-dimensional tensors along their only one."""
    given = [reshape(x, 1) if not x.shape else x for x in tensors]
    return cat(given, dim=0 if len(given[0].shape) == 1 else 1)


def vstack(tensors: Sequence[Any]) -> Any:
    """Joined along the first dim; one-dimensional tensors are rows."""
    rows = [reshape(x, 1, -1) if len(x.shape) < 2 else x for x in tensors]
    return cat(rows, dim=0)


def narrow(input: Any, dim: int, start: Any, length: Any) -> Any:
    """`length` elements along `dim` from `start` on, as a view."""
    d = dim_of(input, dim, "narrow")
    n = input.shape[d]
    first, count = size(start, "narrow"), size(length, "narrow")
    if isinstance(first, int) and first < 0:
        first = first + n
    known = all(isinstance(v, int) for v in (first, count, n))
    if known and not (first >= 0 and count >= 0 and first + count <= n):  # type: ignore[operator]
        raise BoundsError(
            f"narrow: start ({start}) + length ({length}) exceeds dimension size ({n})."
        )
    return _sliced(input, d, first, first + count)


def _sliced(input: Any, d: int, first: Any, last: Any, step: int = 1) -> Any:
    shape = tuple(input.shape)
    start = tuple(first if i == d else 0 for i in range(len(shape)))
    stop = tuple(last if i == d else n for i, n in enumerate(shape))
    steps = tuple(step if i == d else 1 for i in range(len(shape)))
    return TABLE.slice(input, start=start, stop=stop, step=steps)


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
    if isinstance(number, int):
        if isinstance(n, int) and not -n <= number < n:
            raise BoundsError(
                f"index {number} is out of bounds for dimension {dim} with size {n}.  Expected "
                f"a value in [{-n}, {n - 1}]."
            )
        return number + n if number < 0 else number
    return number


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    """Views of at most `split_size` along `dim`, or of the sizes in a list."""
    d = dim_of(tensor, dim, "split")
    n = tensor.shape[d]
    if isinstance(split_size_or_sections, (tuple, list)):
        parts = sizes(split_size_or_sections, "split")
        total = symint_sum(parts)
        if total != n:
            raise ShapeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
                f"at dimension {dim}), but got split_sizes={list(parts)}."
            )
    else:
        parts = _even_parts(size(split_size_or_sections, "split"), n)
    views = []
    first: Any = 0
    for count in parts:
        views.append(_sliced(tensor, d, first, first + count))
        first = first + count
    return tuple(views)


def symint_sum(values: Sequence[Any]) -> Any:
    """Sum of plain or symbolic integers."""
    total: Any = 0
    for value in values:
        total = total + value
    return total


def _even_parts(step: Any, n: Any) -> Shape:
    if not isinstance(n, int) or not isinstance(step, int):
        raise ShapeError("split: the number of parts of a symbolic size is not known.")
    if step < 0 or (step == 0 and n != 0):
        raise ShapeError(f"split expects split_size to be positive, but got {step}.")
    if n == 0:
        return (0,)
    return tuple(min(step, n - first) for first in range(0, n, step))


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """At most `chunks` views of equal size along `dim` (the last may be smaller)."""
    d = dim_of(input, dim, "chunk")
    n = input.shape[d]
    if chunks <= 0:
        raise ShapeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}.")
    if not isinstance(n, int):
        part = n // chunks
        if part * chunks == n:
            return split(input, [part] * chunks, d)
        raise ShapeError("chunk: the number of parts of a symbolic size is not known.")
    if n == 0:
        return split(input, [0] * chunks, d)
    return split(input, -(-n // chunks), d)


def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """The slices along `dim`, without that dimension."""
    d = dim_of(input, dim, "unbind")
    if not input.shape:
        raise BoundsError("unbind: dimension specified as 0 but tensor has no dimensions.")
    n = input.shape[d]
    if not isinstance(n, int):
        raise ShapeError("unbind: the number of slices of a symbolic size is not known.")
    return tuple(TABLE.select(input, dim=d, index=i) for i in range(n))


# ---------------------------------------------------------------------------------------------
# triangles, diagonals, windows


def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of the last two dims; zero elsewhere."""
    return TABLE.tril(input, diagonal=diagonal)


def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of the last two dims; zero elsewhere."""
    return TABLE.triu(input, diagonal=diagonal)


def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A diagonal of two dims, as the last dim."""
    a, b = dim_of(input, dim1, "diagonal"), dim_of(input, dim2, "diagonal")
    return TABLE.diagonal(input, offset=offset, dim1=a, dim2=b)


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
    """Windows of `size` every `step` along a dimension, as a new last dim."""
    d = dim_of(input, dimension, "unfold")
    n = input.shape[d] if input.shape else 1
    if isinstance(n, int) and size > n:
        raise ShapeError(
            f"unfold: maximum size for tensor at dimension {dimension} is {n} but size is {size}."
        )
    if step <= 0:
        raise ShapeError(f"unfold: step is {step} but must be > 0.")
    return TABLE.unfold(input if input.shape else reshape(input, 1), dim=d, size=size, step=step)


# ---------------------------------------------------------------------------------------------
# gather and scatter


def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Elements of input at `index` along `dim`."""
    return TABLE.gather(input, index, dim=dim_of(input, dim, "gather"))


def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` with broadcasting of the other dims; negative indices are refused."""
    if dim is None:
        return gather(reshape(input, -1), 0, reshape(indices, -1))
    d = dim_of(input, dim, "take_along_dim")
    others = [tuple(1 if i == d else n for i, n in enumerate(x.shape)) for x in (input, indices)]
    shape = list(broadcast_shapes(others, "take_along_dim"))
    shape[d] = input.shape[d]
    wide = TABLE.expand(input, shape=tuple(shape))
    shape[d] = indices.shape[d]
    return TABLE.gather(wide, TABLE.expand(indices, shape=tuple(shape)), dim=d)


def index_select(input: Any, dim: int, index: Any) -> Any:
    """Slices of input along `dim` at the positions in a 1-d (or zero-dim) index."""
    d = dim_of(input, dim, "index_select")
    index = index if index.shape else reshape(index, 1)
    return TABLE.index_select(input, index, dim=d)


def take(input: Any, index: Any) -> Any:
    """Elements of the flattened input at `index`, in the shape of `index`."""
    return TABLE.index(reshape(input, -1), unsqueeze(index, 0), dims=(0,))


def _source_for(input: Any, index: Any, source: Any) -> Any:
    """The part of a scatter's source that its index covers; a number everywhere."""
    shape = tuple(index.shape)
    if not is_tensor(source):
        return TABLE.full(source, shape=shape, dtype=input.dtype, device=input.device)
    if tuple(source.shape) == shape:
        return source
    if len(source.shape) != len(shape):
        raise ShapeError("scatter: index tensor must have the same number of dimensions as src.")
    bounds = tuple(symint.minimum(n, m) for n, m in zip(shape, source.shape, strict=True))
    if bounds != shape:
        raise ShapeError(
            f"scatter: expected index {list(shape)} to be no larger than src "
            f"{list(source.shape)} in every dimension."
        )
    return TABLE.slice(source, start=(0,) * len(shape), stop=shape, step=(1,) * len(shape))


def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None,
    reduce: str | None = None,
) -> Any:  # fmt: skip
    """input with elements set at `index` along `dim`; `reduce="add"` adds instead."""
    d = dim_of(input, dim, "scatter")
    source = _source_for(input, index, value if src is None else src)
    if reduce is None:
        return TABLE.scatter(input, index, source, dim=d)
    if reduce == "add":
        return TABLE.scatter_add(input, index, source, dim=d)
    raise ArgumentError(f"scatter(reduce={reduce!r}): only reduce='add' is available.")


def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """input plus `src` at `index` along `dim`."""
    d = dim_of(input, dim, "scatter_add")
    return TABLE.scatter_add(input, index, _source_for(input, index, src), dim=d)


def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """input plus slices of `alpha * source` at the positions in `index` along `dim`."""
    d = dim_of(input, dim, "index_add")
    scaled = source if alpha == 1 else cast(TABLE.mul(source, alpha), source.dtype)
    return TABLE.index_add(input, index, scaled, dim=d)


def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """input with slices along `dim` replaced at the positions in `index`."""
    d = dim_of(input, dim, "index_copy")
    return TABLE.index_put(input, unsqueeze(index, 0), source, dims=(d,))


def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """input with `value` in the slices along `dim` at the positions in `index`."""
    d = dim_of(input, dim, "index_fill")
    shape = tuple(index.shape[0] if i == d else n for i, n in enumerate(input.shape))
    filled = TABLE.full(value, shape=shape, dtype=input.dtype, device=input.device)
    return TABLE.index_put(input, unsqueeze(index, 0), filled, dims=(d,))


def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """input with `value` where the bool mask is True."""
    if mask.dtype is not dtypes.bool_:
        raise dtypes.DTypeError(
            f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype.name}."
        )
    if not is_tensor(value) and arguments.category_of(value) > input.dtype.category:
        wrong = input.dtype.category < Category.FLOATING
        if wrong and arguments.category_of(value) >= Category.FLOATING:
            raise dtypes.DTypeError(
                f"masked_fill: value {value!r} cannot be converted to {input.dtype.name} without "
                "overflow or loss.  Cast the input first."
            )
    return cast(TABLE.where(mask, value, input), input.dtype)


def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`input[indices] = values` (or `+=`), as a new tensor; indices are integer tensors."""
    from_dims = tuple(range(len(indices)))
    stacked = stack_indices(list(indices))
    row = TABLE.index_accumulate if accumulate else TABLE.index_put
    batch = tuple(stacked.shape[1:])
    shape = (*batch, *tuple(input.shape)[len(indices) :])
    source = (
        cast(values, input.dtype)
        if is_tensor(values)
        else TABLE.full(values, shape=(), dtype=input.dtype, device=input.device)
    )
    return row(input, stacked, TABLE.expand(source, shape=shape), dims=from_dims)


def stack_indices(indices: Sequence[Any]) -> Any:
    """Index tensors broadcast together and stacked, as the rows `index` and `index_put` take."""
    shape = broadcast_shapes([tuple(i.shape) for i in indices], "indexing")
    if len(indices) == 1:
        return TABLE.reshape(indices[0], shape=(1, *shape))
    wide = [TABLE.expand(cast(i, dtypes.int64), shape=shape) for i in indices]
    return TABLE.stack(*wide, dim=0)
