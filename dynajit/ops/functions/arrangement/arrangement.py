"""Library functions that put tensors together, take them apart or turn them.

Contract: as in `ops.functions.shapes.shape`: the first parameter is the tensor (a sequence of them
for the joins), nothing writes in place. All are composed of rows, so they compile and
differentiate.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.errors import (
    ArgumentRuntimeError,
    ArgumentValueError,
    BoundsError,
    BoundsRuntimeError,
    DTypeError,
    DTypeTypeError,
    ShapeError,
    ShapeValueError,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, shapes_agree
from dynajit.core.types.value_types import Shape, numel
from dynajit.ops.calls.arguments import (
    cast,
    common_dtype,
    constant,
    dim_of,
    integers,
    is_integer,
    is_tensor,
    require_tensor,
    size,
    sizes,
    spread,
    unchanged_by,
    with_integers,
)
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.placing import as_computed, contiguous, copied_by_rows
from dynajit.ops.calls.positions import chosen_positions
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.arrangement.subscript import clamp_slice
from dynajit.ops.functions.creation.creation import arange, meshgrid
from dynajit.ops.functions.elements.complex import conj
from dynajit.ops.functions.matrices.matrix import mm, outer, plus_product
from dynajit.ops.functions.shapes.index import cat, split, stack, symint_sum, tensors_in
from dynajit.ops.functions.shapes.shape import diag, movedim, reshape, sliced, transpose, unsqueeze
from dynajit.ops.table.families import normalize_dim
from dynajit.ops.table.op_table import TABLE, Autocast
from dynajit.ops.table.type_rules import broadcast_shapes as common_shape

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# splitting


@public(out=Out.ABSENT, method=True)
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None,
    sections: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Views along `dim`: a number of parts of nearly equal size, or parts that end at indices.

    The first parts are larger by one where the size does not divide evenly.

    Raises:
        ShapeError: the tensor has no dims, or the number of parts is not positive, or a tensor that
            tells where to split has more than one dim.
        DTypeError: that tensor is not int64.
    """
    if not input.shape:
        raise ShapeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = dim_of(input, dim, "tensor_split")
    given: Any = next(v for v in (indices_or_sections, indices, sections, ()) if v is not None)
    if is_tensor(given):
        if given.dtype is not dtypes.int64:
            raise DTypeTypeError(f"tensor_split: split by a {given.dtype.name} tensor, not int64.")
        if len(given.shape) > 1:
            raise ShapeError(
                f"tensor_split: split by a tensor with {len(given.shape)} dims.  Expected 0 or 1."
            )
        given = given.tolist()
    n = input.shape[d]
    bounds: Shape = (
        _even_bounds(n, size(given, "tensor_split"))
        if is_integer(given)
        else sizes(given, "tensor_split")
    )
    edges = [0, *(_within(bound, n) for bound in bounds), n]
    return tuple(
        sliced(input, d, first, symint.larger(first, last))
        for first, last in itertools.pairwise(edges)
    )


def _even_bounds(n: Any, parts: int) -> tuple[int, ...]:
    if parts <= 0:
        raise ShapeError(f"number of sections must be larger than 0, got {parts}")
    share, more = n // parts, n % parts
    return tuple(share * (i + 1) + symint.minimum(more, i + 1) for i in range(parts - 1))


def _within(bound: Any, n: Any) -> Any:
    """A slice bound counted from the front and cut to [0, n]."""
    if isinstance(bound, int) and bound >= 0:
        return symint.smaller(bound, n)
    return symint.larger(bound + n, 0) if bound < 0 else symint.smaller(bound, n)


def _split_along(name: str, least: int, input: Any, sections: Any, dim: int) -> tuple[Any, ...]:
    if len(input.shape) < least:
        raise ShapeError(
            f"{name} requires a tensor with at least {least} dimension"
            f"{'s' if least > 1 else ''}, but got a tensor with {len(input.shape)} dimensions!"
        )
    if is_integer(sections) and sections > 0 and input.shape[dim] % sections:
        raise ShapeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{input.shape[dim]} is not divisible by the split_size {sections}!"
        )
    return tensor_split(input, sections, dim)


@public(out=Out.ABSENT, method=True)
def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Views along the second dim (the only one of a vector), of equal sizes or up to indices."""
    return _split_along("hsplit", 1, input, indices_or_sections, 0 if len(input.shape) == 1 else 1)


@public(out=Out.ABSENT, method=True)
def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Views along the first dim, of equal sizes or up to indices."""
    return _split_along("vsplit", 2, input, indices_or_sections, 0)


@public(out=Out.ABSENT, method=True)
def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Views along the third dim, of equal sizes or up to indices."""
    return _split_along("dsplit", 3, input, indices_or_sections, 2)


@public(out=Out.ABSENT, method=True)
def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    """Views of the given sizes along `dim`."""
    return split(input, list(split_sizes), dim)


# ---------------------------------------------------------------------------------------------
# joining


def _each(tensors: tuple[Any, ...], function: Any) -> Any:
    """A function of one tensor for one, for several, or for a sequence of them."""
    given = spread(tensors)
    for x in given:
        require_tensor(x, "atleast_1d, 2d or 3d", "tensors")
    return (
        function(given[0]) if len(given) == 1 and given is tensors else tuple(map(function, given))
    )


@public(out=Out.ABSENT, numpy_names=False)
def atleast_1d(*tensors: Any) -> Any:
    """Tensors with at least one dim."""
    return _each(tensors, lambda x: x if x.shape else reshape(x, 1))


@public(out=Out.ABSENT, numpy_names=False)
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dims; a vector becomes a row."""

    def widened(x: "TensorMethods") -> Any:
        return x if len(x.shape) > 1 else reshape(x, 1, -1)

    return _each(tensors, widened)


def _atleast_3d(x: "TensorMethods") -> Any:
    rank = len(x.shape)
    if rank == 0:
        return reshape(x, 1, 1, 1)
    if rank == 1:
        return unsqueeze(unsqueeze(x, 0), 2)
    return unsqueeze(x, 2) if rank == 2 else x


@public(out=Out.ABSENT, numpy_names=False)
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dims; a matrix gets a last dim of size 1."""
    return _each(tensors, _atleast_3d)


@public()
def dstack(tensors: Sequence[Any]) -> Any:
    """Joined along the third dim."""
    return cat([_atleast_3d(x) for x in tensors_in(tensors, "dstack")], dim=2)


@public()
def column_stack(tensors: Sequence[Any]) -> Any:
    """Joined along the second dim; vectors are columns."""
    given = tensors_in(tensors, "column_stack")
    return cat([x if len(x.shape) > 1 else reshape(x, -1, 1) for x in given], dim=1)


@public(out=Out.ABSENT, numpy_names=False)
def block_diag(*tensors: Any) -> Any:
    """The matrix with the given ones along its diagonal and zeros elsewhere.

    Raises:
        ShapeError: one has more than two dims.
    """
    for i, x in enumerate(tensors):
        if len(x.shape) > 2:
            raise ShapeError(
                f"block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{len(x.shape)} dimensions"
            )
    if not tensors:
        return TABLE.full(0.0, shape=(1, 0), dtype=dtypes.default_floating(), device=CPU)
    blocks = [x if len(x.shape) == 2 else reshape(x, 1, -1) for x in tensors]
    width = symint_sum([x.shape[1] for x in blocks])
    rows, left = [], 0
    for x in blocks:
        after = (0, width - left - x.shape[1])
        rows.append(TABLE.pad(x, before=(0, left), after=after, value=0))
        left = left + x.shape[1]
    return cat(rows, dim=0)


@public(out=Out.ABSENT)
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each vector, (n, number of vectors).

    Raises:
        ShapeError: a tensor is no vector.
    """
    for x in tensors:
        if len(x.shape) != 1:
            raise ShapeError(f"cartesian_prod: Expect a 1D vector, but got shape {list(x.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([reshape(grid, -1) for grid in meshgrid(*tensors)], dim=1)


@public(out=Out.ABSENT)
@with_integers
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All r elements of a vector in the order of their positions, (n, r).

    Raises:
        ShapeError: the tensor is no vector.
        ArgumentError: r is negative.
    """
    if len(input.shape) != 1:
        raise ShapeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise ArgumentRuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return TABLE.full(0, shape=(0,), dtype=input.dtype, device=input.device)
    size = input.shape[0]
    if not isinstance(size, int):
        chosen = _computed_combinations(size, r, with_replacement, input.device)
        return stack([TABLE.index_select(input, column, dim=0) for column in chosen], dim=1)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    found = list(choose(range(size), r))
    columns = [
        constant(np.array([row[i] for row in found], np.int64), input.device) for i in range(r)
    ]
    return stack([TABLE.index_select(input, column, dim=0) for column in columns], dim=1)


def _computed_combinations(n: Any, r: int, with_replacement: bool, device: Any) -> tuple[Any, ...]:
    """The positions of `combinations` of a symbolic number of elements, one tensor per element."""
    grids = meshgrid(*[arange(n, device=device)] * r, indexing="ij")
    rises = TABLE.le if with_replacement else TABLE.lt
    pairs = [rises(a, b) for a, b in itertools.pairwise(grids)]
    wanted = functools.reduce(TABLE.logical_and, pairs) if pairs else TABLE.ge(grids[0], 0)
    first = n if with_replacement else n - r + 1
    count = math.prod((first + i for i in range(r)), start=1) // math.factorial(r)
    return chosen_positions(wanted, count)


# ---------------------------------------------------------------------------------------------
# turning and mirroring


@public(out=Out.ABSENT, method=True)
@with_integers
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Turned by k quarters from the first of two dims towards the second.

    Raises:
        ShapeError: there are not two different dims.
    """
    if len(dims) != 2:
        raise ShapeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if len(input.shape) < 2:
        raise ShapeError(f"expected total dims >= 2, but got total dims = {len(input.shape)}")
    a, b = (dim_of(input, dim, "rot90") for dim in dims)
    if a == b:
        raise ShapeError(f"expected rotation dims to be different, but got {list(dims)}")
    quarter = k % 4
    if quarter == 0:
        return copied_by_rows(input)
    if quarter == 2:
        return TABLE.flip(input, dims=tuple(sorted((a, b))))
    if quarter == 1:
        return transpose(TABLE.flip(input, dims=(b,)), a, b)
    return transpose(TABLE.flip(input, dims=(a,)), a, b)


@public(out=Out.ABSENT, method=True)
def fliplr(input: Any) -> Any:
    """The second dim in reverse order."""
    if len(input.shape) < 2:
        raise ShapeError("Input must be >= 2-d.")
    return TABLE.flip(input, dims=(1,))


@public(out=Out.ABSENT, method=True)
def flipud(input: Any) -> Any:
    """The first dim in reverse order."""
    if not input.shape:
        raise ShapeError("Input must be >= 1-d.")
    return TABLE.flip(input, dims=(0,))


# ---------------------------------------------------------------------------------------------
# diagonals and products of matrices


@public(out=Out.ABSENT, method=True)
@autocast(cpu=Autocast.FULL)
def trace(input: Any) -> Any:
    """The sum of the diagonal of a matrix."""
    if len(input.shape) != 2:
        raise ShapeError("trace: expected a matrix")
    on_diagonal = TABLE.diagonal(input, offset=0, dim1=0, dim2=1)
    return TABLE.sum(on_diagonal, dim=(0,), keepdim=False)


@public(out=Out.ABSENT, method=True)
@with_integers
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dim of input as a diagonal and zeros elsewhere."""
    rank = len(input.shape) + 1
    a = normalize_dim(dim1, rank, "diag_embed")
    b = normalize_dim(dim2, rank, "diag_embed")
    if a == b:
        raise ShapeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    if a > b:  # the diagonal's offset counts from the first of the two dims
        offset, a, b = -offset, b, a
    n, k = input.shape[-1], abs(offset)
    wide = unsqueeze(input, -1)
    low, high = (k, 0) if offset < 0 else (0, k)
    before = (*(0,) * (rank - 2), low, 0)
    after = (*(0,) * (rank - 2), high, 0)
    lane = TABLE.pad(wide, before=before, after=after, value=0)
    square = TABLE.expand(lane, shape=(*input.shape[:-1], n + k, n + k))
    whole = TABLE.triu(TABLE.tril(square, diagonal=offset), diagonal=offset)
    return contiguous(movedim(whole, (-2, -1), (a, b)))


@public(out=Out.ABSENT, method=True)
@with_integers
def diagflat(input: Any, offset: int = 0) -> Any:
    """The matrix that has the flattened input as its diagonal."""
    return diag(reshape(input, -1), offset)


@public(method=True)
def kron(input: Any, other: Any) -> Any:
    """Kronecker product: every element of input times all of other, dim by dim."""
    rank = max(len(input.shape), len(other.shape))
    a = (1,) * (rank - len(input.shape)) + tuple(input.shape)
    b = (1,) * (rank - len(other.shape)) + tuple(other.shape)
    left = reshape(input, tuple(n for size in a for n in (size, 1)))
    right = reshape(other, tuple(n for size in b for n in (1, size)))
    return reshape(TABLE.mul(left, right), tuple(n * m for n, m in zip(a, b, strict=True)))


@public(out=Out.ABSENT)
@with_integers
def vander(x: "TensorMethods", N: int | None = None, increasing: bool = False) -> Any:
    """Powers of the elements of a vector, (n, N): from N - 1 down to 0, or rising.

    Raises:
        ShapeError: x is no vector.
    """
    if len(x.shape) != 1:
        raise ShapeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise ArgumentRuntimeError(f"N must be non-negative, got {count}")
    kind = dtypes.int64 if x.dtype.category < dtypes.Category.FLOATING else x.dtype
    if not isinstance(count, int):
        first = TABLE.full(1, shape=(x.shape[0], 1), dtype=kind, device=x.device)
        factors = TABLE.expand(reshape(cast(x, kind), (-1, 1)), shape=(x.shape[0], count - 1))
        found = TABLE.cumprod(TABLE.cat(first, factors, dim=1), dim=1)
        return found if increasing else TABLE.flip(found, dims=(1,))
    rows = [TABLE.full(1, shape=tuple(x.shape), dtype=kind, device=x.device)]
    for _ in range(count - 1):
        rows.append(TABLE.mul(rows[-1], cast(x, kind)))
    if count == 0:
        return TABLE.full(0, shape=(x.shape[0], 0), dtype=kind, device=x.device)
    return stack(rows if increasing else rows[::-1], dim=1)


@public(out=Out.SAME_DTYPE, method=True)
def inner(input: Any, other: Any) -> Any:
    """Products summed over the last dims of both; with a zero-dim operand the product."""
    if not input.shape or not other.shape:
        return TABLE.mul(input, other)
    if not agree(input.shape[-1], other.shape[-1]):
        raise ShapeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    n = input.shape[-1]
    rows, columns = tuple(input.shape[:-1]), tuple(other.shape[:-1])
    left = reshape(input, (numel(rows), n))
    right = transpose(reshape(other, (numel(columns), n)), 0, 1)
    product = mm(left, right) if rows or columns else TABLE.matmul(left, right)
    return reshape(product, (*rows, *columns))


@public(out=Out.SAME_DTYPE, method=True)
def vdot(input: Any, other: Any) -> Any:
    """Sum of the products of two vectors of one length, the first one conjugated."""
    if len(input.shape) != 1 or len(other.shape) != 1:
        raise ShapeError(
            f"vdot: 1D tensors expected, but got {len(input.shape)}D and {len(other.shape)}D "
            "tensors"
        )
    return inner(conj(input), other)


@public(method=True)
def ger(input: Any, vec2: Any) -> Any:
    """`outer` by its older name."""
    return outer(input, vec2)


def _factor_of_outer(name: str, value: Any, tensors: Sequence[Any]) -> Any:
    """beta or alpha of `addr`: a truth value for tensors of bool and for no others, no float for
    integers, no complex number for real tensors."""
    dtype = common_dtype(tensors)
    if isinstance(value, bool) and dtype is not dtypes.bool_:
        raise DTypeError(f"addr: {name} is a bool for tensors of {dtype.name}.  Expected a number.")
    if isinstance(value, complex) and not dtype.is_complex:
        raise DTypeError(f"addr: {name} is {value} for tensors of {dtype.name}, which are real.")
    if dtype.category < Category.FLOATING and isinstance(value, float):
        raise DTypeError(
            f"addr: {name} is {value!r} for tensors of {dtype.name}.  Expected an integer, or a "
            "floating tensor: cast one with .float()."
        )
    return bool(value) if dtype is dtypes.bool_ else value


@public(in_place=InPlace.METHOD, method=True)
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * outer(vec1, vec2); with beta 0 input is not read."""
    product = outer(vec1, vec2)
    beta, alpha = (
        _factor_of_outer(name, value, (input, vec1, vec2))
        for name, value in (("beta", beta), ("alpha", alpha))
    )
    scaled = product if alpha == 1 else cast(TABLE.mul(product, alpha), product.dtype)
    dtype = dtypes.promote(input.dtype, product.dtype)  # also where input has no dims
    if beta == 0:
        return cast(unchanged_by(scaled, input), dtype)
    return cast(TABLE.add(input if beta == 1 else TABLE.mul(input, beta), scaled), dtype)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * the sum of the products of two batches of matrices, which is the
    product of all rows side by side with all columns one below the other."""
    if len(batch1.shape) != 3 or len(batch2.shape) != 3:
        raise ShapeError("addbmm: batch1 and batch2 must be 3D tensors")
    if not (agree(batch1.shape[0], batch2.shape[0]) and agree(batch1.shape[2], batch2.shape[1])):
        raise ShapeError(
            f"addbmm: batches of {list(batch1.shape)} and {list(batch2.shape)} do not go together."
            "  Expected (b, n, k) and (b, k, m)."
        )
    (count, rows, inner), columns = batch1.shape, batch2.shape[2]
    left = reshape(TABLE.permute(batch1, dims=(1, 0, 2)), (rows, count * inner))
    right = reshape(batch2, (count * inner, columns))
    return plus_product(input, TABLE.matmul(left, right), beta, alpha)


@public()
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def chain_matmul(*matrices: Any) -> Any:
    """The product of matrices, from left to right; of one a copy."""
    given = spread(matrices)
    if not given:
        raise ShapeError("chain_matmul: expected one or more matrices.")
    result = given[0]
    for x in given[1:]:
        result = TABLE.matmul(result, x)
    return result if len(given) > 1 else TABLE.clone(result)


# ---------------------------------------------------------------------------------------------
# other views, and copies of them


@public(out=Out.ABSENT, numpy_names=False)
def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape to which tensors of these shapes broadcast (an int is a shape of one dim).

    Raises:
        ShapeError: they do not; ShapeValueError: a size is negative.
    """
    given = [integers(shape, "broadcast_shapes") for shape in shapes]
    if any(isinstance(n, int) and n < 0 for shape in given for n in shape):
        raise ShapeValueError("broadcast_shapes: attempting to broadcast a negative length.")
    found = common_shape(given, "broadcast_shapes")
    kinds = [type(shape) for shape in shapes if hasattr(shape, "numel")]
    return kinds[0](found) if kinds else found  # of a tensor's shape, another such shape


@public(out=Out.ABSENT, numpy_names=False)
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Per dim of `shape`, the index of the elements at positions of the flattened tensor.

    Raises:
        DTypeError: the positions are not integers.
        ArgumentValueError: a size is negative.
    """
    shape = integers(shape, "unravel_index")
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ArgumentValueError(f"'shape' cannot have negative values, but got {tuple(shape)}")
    if indices.dtype.category is not dtypes.Category.INTEGER:
        raise DTypeTypeError(
            f"expected 'indices' to be integer dtype, but got {indices.dtype.name}"
        )
    found, left = [], cast(indices, dtypes.int64)
    for n in reversed(shape):
        found.append(TABLE.remainder(left, n))
        left = TABLE.floor_divide(left, n)
    return tuple(reversed(found))


@public(out=Out.ABSENT)
def as_strided(
    input: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Any:
    """The memory of an eager tensor at the given strides, as a view; it breaks graphs.

    Raises:
        ShapeError: sizes and strides differ in number, or elements lie outside the memory.
    """
    return input.as_strided(size, stride, storage_offset)


def places_of(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """Where elements lie, counted from the first of the input: int64, shape (product of sizes,)."""
    position: Any = np.full((), offset, np.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        column = np.arange(n, dtype=np.int64) * step
        position = position + column.reshape(*(1,) * d, n, *(1,) * (len(size) - d - 1))
    return np.ascontiguousarray(position).reshape(-1)


def elements_at(input: Any, size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """Elements of the flattened input at `offset` and the given strides, as a copy."""
    places = constant(places_of(size, stride, offset), input.device)
    return reshape(TABLE.index_select(reshape(input, -1), places, dim=0), tuple(size))


def strided_extent(size: Sequence[int], stride: Sequence[int], offset: int, available: Any) -> None:
    """Check what `as_strided` asks for.

    Raises:
        ShapeError: sizes and strides differ in number, or elements lie outside the memory.
    """
    if len(size) != len(stride):
        raise ShapeError(
            "mismatch in length of strides and shape: as_strided needs one stride per size, got "
            f"{len(stride)} for {len(size)}."
        )
    if any(step < 0 for step in stride):
        raise ShapeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(stride)}"
        )
    if any(isinstance(n, int) and n < 0 for n in size):
        raise ShapeError(f"as_strided: sizes {list(size)} are negative.  Expected 0 or more.")
    if any(n == 0 for n in size):
        return
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if offset < 0 or last >= available:
        raise ShapeError(
            f"as_strided: setStorage: sizes {list(size)}, strides {list(stride)}, storage offset "
            f"{offset} require elements up to {last}, which are out of bounds for storage of "
            f"{available} elements."
        )


@public(method=True)
@with_integers
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    """`narrow` as a copy."""
    d = dim_of(input, dim, "narrow_copy")
    if not input.shape:
        raise ShapeError("narrow_copy() cannot be applied to a 0-dim tensor.")
    n = input.shape[d]
    first = start + n if start < 0 else start
    if not 0 <= first <= first + length <= n:
        raise BoundsRuntimeError(
            f"narrow_copy: start ({start}) + length ({length}) exceeds dimension size ({n})."
        )
    return copied_by_rows(sliced(input, d, first, first + length))


@public(out=Out.ABSENT, method=True)
@with_integers
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """input with the slice at `index` of `dim` replaced by src."""
    d = dim_of(input, dim, "select_scatter")
    n = input.shape[d]
    if not -n <= index < n:
        raise BoundsError(f"select_scatter: index {index} is out of range for size {n}.")
    at = index + n if index < 0 else index
    return slice_scatter(input, unsqueeze(src, d), d, at, at + 1)


@public(out=Out.SAME_DTYPE, method=True)
@with_integers
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Any:  # fmt: skip
    """input with `input[start:end:step]` along `dim` replaced by src.

    Raises:
        ShapeError: src does not have the slice's shape.
    """
    d = dim_of(input, dim, "slice_scatter")
    first, last, _ = clamp_slice(slice(start, end, step), input.shape[d])
    shape = tuple(-(-(last - first) // step) if i == d else n for i, n in enumerate(input.shape))
    if not shapes_agree(src.shape, shape):
        raise ShapeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}"
        )
    return TABLE.slice_scatter(
        input,
        cast(src, input.dtype),
        start=tuple(first if i == d else 0 for i in range(len(shape))),
        stop=tuple(last if i == d else n for i, n in enumerate(input.shape)),
        step=tuple(step if i == d else 1 for i in range(len(shape))),
    )


@public(out=Out.ABSENT, method=True)
@with_integers
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """input with a diagonal of two dims replaced by src."""
    a, b = dim_of(input, dim1, "diagonal_scatter"), dim_of(input, dim2, "diagonal_scatter")
    part = TABLE.diagonal(input, offset=offset, dim1=a, dim2=b)
    if not shapes_agree(part.shape, src.shape):
        raise ShapeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(part.shape)}"
        )
    count = numel(tuple(input.shape))
    numbers = reshape(
        TABLE.arange(0, 1, size=count, dtype=dtypes.int64, device=input.device), tuple(input.shape)
    )
    where = reshape(TABLE.diagonal(numbers, offset=offset, dim1=a, dim2=b), (1, -1))
    source = reshape(cast(src, input.dtype), -1)
    written = TABLE.index_put(reshape(input, -1), where, source, dims=(0,))
    return as_computed(reshape(written, tuple(input.shape)), input)
