"""Rows of kind MOVEMENT without loaded indices: views, padding, joining, copies.

Contract: attributes arrive normalised (dims counted from the front, slices clamped to the size,
-1 resolved): `ops.functions.shapes.shape` does that. `array` of a view row returns a NumPy view
wherever NumPy can make one; `read` is the index map that code generation substitutes, so it uses
only arithmetic on indices.
"""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import ArgumentError, DTypeError, InternalError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree, maximum, minimum, shapes_agree
from dynajit.core.types.value_types import Shape, Size, TensorType, ValueType, numel
from dynajit.ops.native import _native_forms, _native_orders
from dynajit.ops.table import identities, intervals, result_layouts, sample_rules
from dynajit.ops.table.families import common_device, composite, describe, movement, require_tensor


def _is_one(size: Size) -> bool:
    return isinstance(size, int) and size == 1


def _tensor(name: str, type: ValueType) -> TensorType:
    return require_tensor(type, describe(name, ("x",), (type,)), "x")


# ---------------------------------------------------------------------------------------------
# reshape


def matching_groups(old: Shape, new: Shape) -> list[tuple[int, int, int, int]]:
    """Runs of dims with equal element counts: `(old start, old stop, new start, new stop)`.

    A reshape moves elements only within a run, so index arithmetic stays within it, too. Sizes of
    1 belong to the run before them.
    """
    groups = []
    i = j = 0
    while i < len(old) or j < len(new):
        start = (i, j)
        left: Size = 1
        right: Size = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if i == len(old) and j == len(new):
                return [(0, len(old), 0, len(new))]
            if j == len(new) or (i < len(old) and _is_smaller(left, right)):
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        groups.append((start[0], i, start[1], j))
    return groups


def _is_smaller(left: Size, right: Size) -> bool:
    """Which side of a reshape to extend; with symbolic sizes a guess that any order survives."""
    if isinstance(left, int):
        return not isinstance(right, int) or left < right
    return False


def _reshape_infer(x: ValueType, *, shape: Shape) -> TensorType:
    type = _tensor("reshape", x)
    if not agree(numel(shape), type.numel):
        raise ShapeError(
            f"reshape(x: {type}, shape={list(shape)}): shape '{list(shape)}' is invalid for "
            f"input of size {type.numel}.  Expected sizes whose product is {type.numel}; one of "
            "them may be -1."
        )
    return type.with_shape(shape)


@movement(
    infer=_reshape_infer,
    array=lambda xp, x, *, shape: x.reshape(shape),
    view=True,
    vjp={"x": lambda ops, g, x_type: ops.reshape(g, shape=x_type.shape)},
    native=_native_forms.reshape,
    rearranges=True,
    shown=("x",),
    whole=lambda ops, x, part, *, shape: ops.reshape(part, shape=tuple(x.shape)),
    samples=sample_rules.reshaped,
    interval=intervals.unchanged,
    same=identities.always,
    twice=identities.the_later,
)
def reshape(m: Any, load: Any, index: Any, types: Any, *, shape: Shape) -> Any:
    """The same elements, row-major, under another shape of equal element count."""
    old = types[0].shape
    source: list[Any] = [0] * len(old)
    for old_start, old_stop, new_start, new_stop in matching_groups(old, shape):
        linear: Any = 0
        for d in range(new_start, new_stop):
            linear = linear * shape[d] + index[d]
        kept = [d for d in range(old_start, old_stop) if not _is_one(old[d])]
        for d in reversed(kept[1:]):
            size = 1 if isinstance(old[d], int) and old[d] == 0 else old[d]
            source[d] = linear % size
            linear = linear // size
        if kept:
            source[kept[0]] = linear
    return load(0, tuple(source))


# ---------------------------------------------------------------------------------------------
# permute, expand


def _permute_infer(x: ValueType, *, dims: tuple[int, ...]) -> TensorType:
    type = _tensor("permute", x)
    if sorted(dims) != list(range(type.rank)):
        raise ShapeError(
            f"permute(x: {type}, dims={dims}): not an order of {type.rank} dimensions.  "
            "Expected each dimension once."
        )
    return type.with_shape(tuple(type.shape[d] for d in dims))


def inverse_permutation(dims: Sequence[int]) -> tuple[int, ...]:
    """The order that undoes `dims`."""
    return tuple(sorted(range(len(dims)), key=dims.__getitem__))


@movement(
    infer=_permute_infer,
    array=lambda xp, x, *, dims: x.transpose(dims),
    view=True,
    vjp={"x": lambda ops, g, dims: ops.permute(g, dims=inverse_permutation(dims))},
    native=_native_forms.permute,
    rearranges=True,
    shown=("x",),
    strides=lambda sizes, strides, wanted, *, dims: tuple(strides[d] for d in dims),
    whole=lambda ops, x, part, *, dims: ops.permute(part, dims=inverse_permutation(dims)),
    samples=sample_rules.ordered("dims"),
    same=identities.in_order,
    twice=identities.composed_orders,
)
def permute(m: Any, load: Any, index: Any, types: Any, *, dims: tuple[int, ...]) -> Any:
    """Dimension d of the result is dimension `dims[d]` of x."""
    return load(0, tuple(index[d] for d in inverse_permutation(dims)))


def _expand_infer(x: ValueType, *, shape: Shape) -> TensorType:
    type = _tensor("expand", x)
    extra = len(shape) - type.rank
    for d, size in enumerate(type.shape):
        if extra < 0 or (not _is_one(size) and not agree(size, shape[d + extra])):
            raise ShapeError(
                f"expand(x: {type}, shape={list(shape)}): the expanded size of the tensor must "
                "match the existing size at non-singleton dimensions.  Expected sizes equal to "
                f"{list(type.shape)} from the right, where 1 may become anything."
            )
    return type.with_shape(shape)


def _expand_array(xp: Any, x: Any, *, shape: Shape) -> Any:
    """A view that can be written if no element is repeated."""
    return x.reshape(shape) if x.size == math.prod(shape) else xp.broadcast_to(x, shape)


def _expanded_strides(sizes: Shape, strides: Shape, wanted: Shape, *, shape: Shape) -> Shape:
    extra = len(wanted) - len(sizes)
    kept = (
        0 if size == 1 and new != 1 else stride
        for size, stride, new in zip(sizes, strides, wanted[extra:], strict=True)
    )
    return (*(0 for _ in range(extra)), *kept)


def _expanded_whole(ops: Any, x: Any, part: Any, *, shape: Shape) -> Any:
    if math.prod(x.shape) != math.prod(part.shape):
        return None
    return ops.reshape(part, shape=tuple(x.shape))


@movement(
    infer=_expand_infer,
    array=_expand_array,
    view=True,
    vjp={"x": lambda g: g},
    native=_native_forms.expand,
    rearranges=True,
    shown=("x",),
    strides=_expanded_strides,
    whole=_expanded_whole,
    samples=sample_rules.reshaped,
    same=identities.always,
    twice=identities.the_later,
)
def expand(m: Any, load: Any, index: Any, types: Any, *, shape: Shape) -> Any:
    """x repeated along dims of size 1 and along new leading dims, without copying."""
    old = types[0].shape
    extra = len(shape) - len(old)
    return load(0, tuple(0 if _is_one(old[d]) else index[d + extra] for d in range(len(old))))


# ---------------------------------------------------------------------------------------------
# slices


def slice_sizes(start: Shape, stop: Shape, step: tuple[int, ...]) -> Shape:
    """Number of elements that each clamped slice takes."""
    return tuple(
        (last - first + by - 1) // by for first, last, by in zip(start, stop, step, strict=True)
    )


def _slice_infer(x: ValueType, *, start: Shape, stop: Shape, step: tuple[int, ...]) -> TensorType:
    type = _tensor("slice", x)
    if not len(start) == len(stop) == len(step) == type.rank:
        raise InternalError(f"slice(x: {type}): start, stop and step need one entry per dim")
    for first, last, size in zip(start, stop, type.shape, strict=True):
        if not isinstance(first, int) or not isinstance(last, int):
            continue
        if not 0 <= first <= last or (isinstance(size, int) and last > size):
            raise InternalError(f"slice(x: {type}): {first}:{last} is not clamped to {size}")
    return type.with_shape(slice_sizes(start, stop, step))


def _slice_array(xp: Any, x: Any, *, start: Shape, stop: Shape, step: tuple[int, ...]) -> Any:
    return x[tuple(map(slice, start, stop, step))]


def _slice_vjp(
    ops: Any, g: Any, x_type: TensorType, start: Shape, stop: Shape, step: tuple[int, ...]
) -> Any:
    if all(by == 1 for by in step):
        after = tuple(size - last for size, last in zip(x_type.shape, stop, strict=True))
        return ops.pad(g, before=start, after=after, value=0)
    zeros = ops.full(0, shape=x_type.shape, dtype=g.dtype, device=g.device)
    return ops.slice_scatter(zeros, g, start=start, stop=stop, step=step)


@movement(
    infer=_slice_infer,
    array=_slice_array,
    view=True,
    vjp={"x": _slice_vjp},
    name="slice",
    native=_native_forms.slice,
    rearranges=True,
    strides=lambda sizes, strides, wanted, *, start, stop, step: tuple(
        stride * by for stride, by in zip(strides, step, strict=True)
    ),
    whole=lambda ops, x, part, **bounds: ops.slice_scatter(x, part, **bounds),
    samples=sample_rules.between(start=0, stop="all", step=1),
    same=identities.without_gaps,
)
def slice_(
    m: Any, load: Any, index: Any, types: Any, *, start: Shape, stop: Shape, step: tuple[int, ...]
) -> Any:
    """`x[start:stop:step]` along every dim; bounds lie within the size, steps are positive."""
    return load(0, tuple(start[d] + index[d] * step[d] for d in range(len(start))))


def _slice_scatter_infer(
    x: ValueType, source: ValueType, *, start: Shape, stop: Shape, step: tuple[int, ...]
) -> TensorType:
    call = describe("slice_scatter", ("x", "source"), (x, source))
    type = require_tensor(x, call, "x")
    given = require_tensor(source, call, "source")
    expected = slice_sizes(start, stop, step)
    if not shapes_agree(given.shape, expected) or given.dtype is not type.dtype:
        raise ShapeError(f"{call}: Expected source {type.dtype.name}{list(expected)}.")
    return type.with_shape(type.shape)


def _slice_scatter_array(
    xp: Any, x: Any, source: Any, *, start: Shape, stop: Shape, step: tuple[int, ...]
) -> Any:
    result = xp.array(x)
    result[tuple(map(slice, start, stop, step))] = source
    return result


@movement(
    infer=_slice_scatter_infer,
    array=_slice_scatter_array,
    vjp={
        "x": lambda ops, g, source_type, start, stop, step: ops.slice_scatter(
            g,
            ops.full(0, shape=source_type.shape, dtype=g.dtype, device=g.device),
            start=start,
            stop=stop,
            step=step,
        ),
        "source": lambda ops, g, start, stop, step: ops.slice(g, start=start, stop=stop, step=step),
    },
    layout=result_layouts.as_first,
    shown=("source",),
    samples=sample_rules.between(start=0, stop="all", step=1),
)
def slice_scatter(
    m: Any, load: Any, index: Any, types: Any, *, start: Shape, stop: Shape, step: tuple[int, ...]
) -> Any:
    """x with `x[start:stop:step] = source` along every dim, as a new value."""
    inside: Any = None
    for d, size in enumerate(types[0].shape):
        for condition in _within(m, index[d], size, start[d], stop[d], step[d]):
            inside = condition if inside is None else m.logical_and(inside, condition)
    taken = load(1, tuple((index[d] - start[d]) // step[d] for d in range(len(start))))
    return taken if inside is None else m.where(inside, taken, load(0, index))


def _within(m: Any, i: Any, size: Size, start: Size, stop: Size, step: int) -> list[Any]:
    """The conditions, without those that always hold, that index i is in the slice."""
    conditions = []
    if start != 0:
        conditions.append(m.less(start - 1, i))
    if stop != size:
        conditions.append(m.less(i, stop))
    if step != 1:
        conditions.append(m.equal((i - start) % step, 0))
    return conditions


def _select_infer(x: ValueType, *, dim: int, index: int) -> TensorType:
    type = _tensor("select", x)
    size = type.shape[dim]
    if isinstance(size, int) and isinstance(index, int) and not 0 <= index < size:
        raise InternalError(f"select(x: {type}): index {index} is not in dim {dim}")
    return type.with_shape(type.shape[:dim] + type.shape[dim + 1 :])


def _select_vjp(ops: Any, g: Any, x_type: TensorType, dim: int, index: int) -> Any:
    shape = x_type.shape
    kept = ops.reshape(g, shape=(*shape[:dim], 1, *shape[dim + 1 :]))
    before = tuple(index if d == dim else 0 for d in range(len(shape)))
    after = tuple(shape[d] - index - 1 if d == dim else 0 for d in range(len(shape)))
    return ops.pad(kept, before=before, after=after, value=0)


def _selected_whole(ops: Any, x: Any, part: Any, *, dim: int, index: Any) -> Any:
    sizes = tuple(x.shape)
    source = ops.reshape(part, shape=(*sizes[:dim], 1, *sizes[dim + 1 :]))
    start = tuple(index if d == dim else 0 for d in range(len(sizes)))
    stop = tuple(index + 1 if d == dim else size for d, size in enumerate(sizes))
    return ops.slice_scatter(x, source, start=start, stop=stop, step=(1,) * len(sizes))


@movement(
    infer=_select_infer,
    array=lambda xp, x, *, dim, index: x[(slice(None),) * dim + (index, ...)],
    view=True,
    vjp={"x": _select_vjp},
    native=_native_forms.select,
    rearranges=True,
    strides=lambda sizes, strides, wanted, *, dim, index: (*strides[:dim], *strides[dim + 1 :]),
    whole=_selected_whole,
    samples=sample_rules.along("dim"),
)
def select(m: Any, load: Any, index_: Any, types: Any, *, dim: int, index: int) -> Any:
    """The slice at position `index` of dimension `dim`, without that dimension."""
    return load(0, (*index_[:dim], index, *index_[dim:]))


# ---------------------------------------------------------------------------------------------
# pad, flip, cat, stack


def _pad_infer(x: ValueType, *, before: Shape, after: Shape, value: Any) -> TensorType:
    type = _tensor("pad", x)
    if any(isinstance(size, int) and size < 0 for size in (*before, *after)):
        raise InternalError(f"pad(x: {type}): negative amounts are slices")
    return type.with_shape(
        tuple(a + size + b for a, size, b in zip(before, type.shape, after, strict=True))
    )


def _pad_array(xp: Any, x: Any, *, before: Shape, after: Shape, value: Any) -> Any:
    shape = [a + size + b for a, size, b in zip(before, x.shape, after, strict=True)]
    result = xp.full(shape, value, dtype=x.dtype)
    result[tuple(slice(a, a + size) for a, size in zip(before, x.shape, strict=True))] = x
    return result


def _pad_vjp(ops: Any, g: Any, x_type: TensorType, before: Shape) -> Any:
    stop = tuple(a + size for a, size in zip(before, x_type.shape, strict=True))
    return ops.slice(g, start=before, stop=stop, step=(1,) * len(before))


@movement(
    infer=_pad_infer,
    array=_pad_array,
    vjp={"x": _pad_vjp},
    layout=result_layouts.suggested,
    shown=("x",),
    tangent=lambda ops, x_tangent, before, after: ops.pad(
        x_tangent, before=before, after=after, value=0
    ),
    samples=sample_rules.between(before=0, after=0),
)
def pad(
    m: Any, load: Any, index: Any, types: Any, *, before: Shape, after: Shape, value: Any
) -> Any:
    """x with `before[d]` and `after[d]` elements equal to `value` added around dimension d."""
    inside: Any = None
    shape = types[0].shape
    for d, size in enumerate(shape):
        full = before[d] + size + after[d]
        for condition in _within(m, index[d], full, before[d], before[d] + size, 1):
            inside = condition if inside is None else m.logical_and(inside, condition)
    taken = load(0, tuple(index[d] - before[d] for d in range(len(shape))))
    return taken if inside is None else m.where(inside, taken, value)


@movement(
    infer=lambda x, *, dims: _tensor("flip", x).with_shape(x.shape),
    array=lambda xp, x, *, dims: xp.flip(x, dims).copy(),
    vjp={"x": lambda ops, g, dims: ops.flip(g, dims=dims)},
    layout=result_layouts.as_first,
    rearranges=True,
    shown=("x",),
    samples=sample_rules.along("dims"),
)
def flip(m: Any, load: Any, index: Any, types: Any, *, dims: tuple[int, ...]) -> Any:
    """x in reverse order along `dims`, as a copy."""
    shape = types[0].shape
    return load(0, tuple(shape[d] - 1 - i if d in dims else i for d, i in enumerate(index)))


def _cat_infer(*types: ValueType, dim: int) -> TensorType:
    call = describe("cat", ("tensors",), types)
    if not types:
        raise ShapeError("cat(): expected a non-empty list of tensors.")
    tensors = [require_tensor(type, call, f"tensors[{i}]") for i, type in enumerate(types)]
    first = tensors[0]
    total: Size = 0
    for i, type in enumerate(tensors):
        if type.dtype is not first.dtype:
            raise DTypeError(f"{call}: dtypes differ.  Expected one dtype; cast with .to(dtype).")
        fits = type.rank == first.rank and all(
            d == dim or agree(size, first.shape[d]) for d, size in enumerate(type.shape)
        )
        if not fits:
            raise ShapeError(
                f"{call}: sizes of tensor {i} and tensor 0 must match except in dimension {dim}; "
                f"got {list(type.shape)} and {list(first.shape)}."
            )
        total = total + type.shape[dim]
    shape = (*first.shape[:dim], total, *first.shape[dim + 1 :])
    return TensorType(shape, first.dtype, common_device(tensors, call))


def _cat_vjp(ops: Any, g: Any, inputs_types: Sequence[TensorType], dim: int) -> list[Any]:
    gradients = []
    offset: Size = 0
    for type in inputs_types:
        end = offset + type.shape[dim]
        start = tuple(offset if d == dim else 0 for d in range(type.rank))
        stop = tuple(end if d == dim else size for d, size in enumerate(type.shape))
        gradients.append(ops.slice(g, start=start, stop=stop, step=(1,) * type.rank))
        offset = end
    return gradients


def _cat_array(xp: Any, *tensors: Any, dim: int) -> Any:
    """Row by row, but channels that are all last stay so, as in PyTorch."""
    result = xp.concatenate(tensors, axis=dim)
    if result.flags.c_contiguous:
        return result
    order = (0, *range(2, result.ndim), 1)
    is_channels_last = result.ndim in (4, 5) and result.transpose(order).flags.c_contiguous
    return result if is_channels_last else result.copy()


@movement(
    infer=_cat_infer,
    array=_cat_array,
    vjp={"tensors": _cat_vjp},
    native=_native_forms.cat,
    layout=result_layouts.suggested_by_all,
    shown=("tensors",),
    samples=sample_rules.along("dim"),
)
def cat(m: Any, load: Any, index: Any, types: Any, *, dim: int) -> Any:
    """The inputs one after another along `dim`; other sizes, dtypes and devices are equal."""
    offsets: list[Size] = [0]
    for type in types:
        offsets.append(offsets[-1] + type.shape[dim])
    chosen: Any = None
    for k in reversed(range(len(types))):
        i = index[dim] - offsets[k]
        value = load(k, (*index[:dim], i, *index[dim + 1 :]))
        end = offsets[k + 1]
        chosen = value if chosen is None else m.where(m.less(index[dim], end), value, chosen)
    return chosen


def _stack_array(xp: Any, *tensors: Any, dim: int) -> Any:
    """As `cat` of the tensors with another dim, if they are alike."""
    first = tensors[0]
    for tensor in tensors:
        if tensor.shape != first.shape or tensor.dtype != first.dtype:
            return NotImplemented
    wide = (*first.shape[:dim], 1, *first.shape[dim:])
    return _cat_array(xp, *[tensor.reshape(wide) for tensor in tensors], dim=dim)


@composite(
    array=_stack_array,
    native=_native_forms.stack,
    layout=result_layouts.stacked,
    samples=sample_rules.inserted,
)
def stack(ops: Any, *tensors: Any, dim: int) -> Any:
    """The inputs, all of one shape, side by side along a new dimension `dim`."""
    shape = tuple(tensors[0].shape)
    for i, tensor in enumerate(tensors):
        if not shapes_agree(tensor.shape, shape):
            raise ShapeError(
                f"stack: expected tensors of equal size, got {list(shape)} at entry 0 and "
                f"{list(tensor.shape)} at entry {i}."
            )
    wide = (*shape[:dim], 1, *shape[dim:])
    return ops.cat(*(ops.reshape(tensor, shape=wide) for tensor in tensors), dim=dim)


# ---------------------------------------------------------------------------------------------
# copies and triangles


@movement(
    infer=lambda x: _tensor("detach", x).with_shape(x.shape),
    interval=intervals.unchanged,
    array=lambda xp, x: x,
    view=True,
    native=_native_forms.detach,
    rearranges=True,
    shown=("x",),
    strides=lambda sizes, strides, wanted: strides,
    whole=lambda ops, x, part: part,
    samples=sample_rules.leading,
    same=identities.always,
)
def detach(m: Any, load: Any, index: Any, types: Any) -> Any:
    """x, cut off from its history: no gradient flows through."""
    return load(0, index)


@movement(
    infer=lambda x: _tensor("read_again", x).with_shape(x.shape),
    array=lambda xp, x: x,
    view=True,
    vjp={"x": lambda g: g},
    rearranges=True,
    shown=("x",),
    samples=sample_rules.leading,
)
def read_again(m: Any, load: Any, index: Any, types: Any) -> Any:
    """x, read by what shall not be computed by the kernels that make x: see `ir.recomputation`."""
    return load(0, index)


@movement(
    infer=lambda x: _tensor("clone", x).with_shape(x.shape),
    array=lambda xp, x: xp.array(x, order="C" if x.flags.c_contiguous else "K"),
    vjp={"x": lambda g: g},
    layout=result_layouts.as_first,
    rearranges=True,
    shown=("x",),
    samples=sample_rules.leading,
    interval=intervals.unchanged,
    same=identities.always,
)
def clone(m: Any, load: Any, index: Any, types: Any) -> Any:
    """A copy of x without gaps, its dims in the same order in memory."""
    return load(0, index)


def _in_order(xp: Any, x: Any, *, order: Any) -> Any:
    inverse = [0] * len(order)
    for place, d in enumerate(order):
        inverse[d] = place
    return xp.array(x.transpose(order), order="C").transpose(inverse)


@movement(
    infer=lambda x, *, order: _tensor("laid_out", x).with_shape(x.shape),
    array=_in_order,
    vjp={"x": lambda g: g},
    native=_native_forms.laid_out,
    layout=result_layouts.named,
    rearranges=True,
    shown=("x",),
    samples=sample_rules.ordered("order"),
    same=identities.always,
)
def laid_out(m: Any, load: Any, index: Any, types: Any, *, order: Any) -> Any:
    """A copy of x with its dims in an order in memory: `order` from the outermost on."""
    return load(0, index)


def _overwrite_infer(x: ValueType, source: ValueType) -> TensorType:
    call = describe("overwrite", ("x", "source"), (x, source))
    type = require_tensor(x, call, "x")
    given = require_tensor(source, call, "source")
    if given.shape != type.shape or given.dtype is not type.dtype:
        raise ShapeError(f"{call}: Expected a source with the shape and dtype of x.")
    return type.with_shape(type.shape)


@movement(
    infer=_overwrite_infer,
    array=lambda xp, x, source: xp.array(source, order="C"),
    vjp={
        "x": lambda ops, g: ops.full(0, shape=g.shape, dtype=g.dtype, device=g.device),
        "source": lambda g: g,
    },
    shown=("source",),
    samples=sample_rules.leading,
)
def overwrite(m: Any, load: Any, index: Any, types: Any) -> Any:
    """The elements of `source`: what x holds after `x.copy_(source)`, whose gradient for x is 0."""
    return load(1, index)


@movement(
    infer=_overwrite_infer,
    array=lambda xp, x, source: xp.array(source, order="C"),
    vjp={"x": lambda g: g},
    shown=("source",),
    linear=("x", "source"),
    samples=sample_rules.leading,
)
def overwrite_unrecorded(m: Any, load: Any, index: Any, types: Any) -> Any:
    """The elements of `source` with the history of x: a write while no gradients are recorded."""
    return load(1, index)


def _triangle_infer(x: ValueType, *, diagonal: int) -> TensorType:
    type = _tensor("tril or triu", x)
    if isinstance(diagonal, (str, float)):
        raise ArgumentError(f"tril or triu: diagonal={diagonal!r}.  Expected an integer.")
    if type.rank < 2:
        raise ShapeError(f"tril or triu(x: {type}): expected at least 2 dimensions.")
    return type.with_shape(type.shape)


@movement(
    infer=_triangle_infer,
    array=lambda xp, x, *, diagonal=0: xp.tril(x, diagonal),
    vjp={"x": lambda ops, g, diagonal: ops.tril(g, diagonal=diagonal)},
    native=_native_orders.tril,
    samples=sample_rules.leading,
)
def tril(m: Any, load: Any, index: Any, types: Any, *, diagonal: int) -> Any:
    """The lower triangle of the last two dims up to `diagonal`; zero elsewhere."""
    return m.where(m.less(index[-1] - index[-2], diagonal + 1), load(0, index), 0)


@movement(
    infer=_triangle_infer,
    array=lambda xp, x, *, diagonal=0: xp.triu(x, diagonal),
    vjp={"x": lambda ops, g, diagonal: ops.triu(g, diagonal=diagonal)},
    native=_native_orders.triu,
    samples=sample_rules.leading,
)
def triu(m: Any, load: Any, index: Any, types: Any, *, diagonal: int) -> Any:
    """The upper triangle of the last two dims from `diagonal`; zero elsewhere."""
    return m.where(m.less(diagonal - 1, index[-1] - index[-2]), load(0, index), 0)


def _diagonal_infer(x: ValueType, *, offset: int, dim1: int, dim2: int) -> TensorType:
    type = _tensor("diagonal", x)
    if dim1 == dim2:
        raise ShapeError(f"diagonal(x: {type}): dim1 and dim2 are both {dim1}.  Expected two.")
    rows, columns = type.shape[dim1], type.shape[dim2]
    length = minimum(rows + min(offset, 0), columns - max(offset, 0))
    kept = tuple(size for d, size in enumerate(type.shape) if d not in (dim1, dim2))
    return type.with_shape((*kept, maximum(length, 0)))


def _diagonal_array(xp: Any, x: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    result = xp.diagonal(x, offset, dim1, dim2)
    if hasattr(result.flags, "writeable"):  # NumPy protects it, for reasons of its history
        result.flags.writeable = x.flags.writeable
    return result


def _diagonal_vjp(ops: Any, g: Any, x_type: TensorType, offset: int, dim1: int, dim2: int) -> Any:
    """Spread g over a row dimension, keep the diagonal, and put the dims back in place."""
    rows, columns = x_type.shape[dim1], x_type.shape[dim2]
    batch = tuple(g.shape[:-1])
    rank = len(batch)
    first = minimum(max(-offset, 0), rows)  # an offset beyond the rows leaves an empty diagonal
    missing = rows - first - g.shape[-1]
    lane = ops.pad(g, before=(0,) * rank + (first,), after=(0,) * rank + (missing,), value=0)
    column = ops.reshape(lane, shape=(*batch, rows, 1))
    square = ops.expand(column, shape=(*batch, rows, columns))
    only = ops.triu(ops.tril(square, diagonal=offset), diagonal=offset)
    others = [d for d in range(x_type.rank) if d not in (dim1, dim2)]
    return ops.permute(only, dims=inverse_permutation((*others, dim1, dim2)))


def _diagonal_strides(
    sizes: Shape, strides: Shape, wanted: Shape, *, offset: int, dim1: int, dim2: int
) -> Shape:
    others = (stride for d, stride in enumerate(strides) if d not in (dim1, dim2))
    return (*others, strides[dim1] + strides[dim2])


def _diagonal_whole(ops: Any, x: Any, part: Any, *, offset: int, dim1: int, dim2: int) -> Any:
    """Spread the part over the rows' dimension, and choose it where column - row is `offset`."""
    sizes = tuple(x.shape)
    rows, columns = sizes[dim1], sizes[dim2]
    if not math.prod(part.shape):
        return x
    batch, length = tuple(part.shape[:-1]), part.shape[-1]
    first = max(-offset, 0)
    before, after = (0,) * len(batch) + (first,), (0,) * len(batch) + (rows - first - length,)
    lane = ops.reshape(ops.pad(part, before=before, after=after, value=0), shape=(*batch, rows, 1))
    square = ops.expand(lane, shape=(*batch, rows, columns))
    others = [d for d in range(len(sizes)) if d not in (dim1, dim2)]
    spread = ops.permute(square, dims=inverse_permutation((*others, dim1, dim2)))
    row = ops.arange(0, 1, size=rows, dtype=dtypes.int64, device=x.device)
    column = ops.arange(0, 1, size=columns, dtype=dtypes.int64, device=x.device)
    row = ops.reshape(row, shape=tuple(rows if d == dim1 else 1 for d in range(len(sizes))))
    column = ops.reshape(
        column, shape=tuple(columns if d == dim2 else 1 for d in range(len(sizes)))
    )
    chosen = ops.eq(ops.sub(column, row), offset)
    return ops.where(chosen, spread, x)


@movement(
    infer=_diagonal_infer,
    array=_diagonal_array,
    view=True,
    vjp={"x": _diagonal_vjp},
    rearranges=True,
    strides=_diagonal_strides,
    whole=_diagonal_whole,
    samples=sample_rules.along("dim1", "dim2"),
)
def diagonal(
    m: Any, load: Any, index: Any, types: Any, *, offset: int, dim1: int, dim2: int
) -> Any:
    """Elements of dims dim1 and dim2 whose column minus row is `offset`, as the last dim."""
    others = iter(index[:-1])
    row = index[-1] + max(-offset, 0)
    column = index[-1] + max(offset, 0)
    chosen = {dim1: row, dim2: column}
    source = (chosen[d] if d in chosen else next(others) for d in range(len(types[0].shape)))
    return load(0, tuple(source))


def _unfold_infer(x: ValueType, *, dim: int, size: int, step: int) -> TensorType:
    type = _tensor("unfold", x)
    count = (type.shape[dim] - size) // step + 1
    return type.with_shape((*type.shape[:dim], count, *type.shape[dim + 1 :], size))


def _unfold_array(xp: Any, x: Any, *, dim: int, size: int, step: int) -> Any:
    # CuPy's sliding_window_view gives no views that may be written.
    count, stride = (x.shape[dim] - size) // step + 1, x.strides[dim]
    shape = (*x.shape[:dim], count, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], stride * step, *x.strides[dim + 1 :], stride)
    view = _native_forms.strided(x, shape, strides, 0)  # whose base tells where it begins
    return xp.lib.stride_tricks.as_strided(x, shape, strides) if view is NotImplemented else view


def _unfold_vjp(ops: Any, g: Any, x_type: TensorType, dim: int, size: int, step: int) -> Any:
    """Each element of g goes back to position `window * step + offset`; overlaps add up."""
    count = g.shape[dim]
    dims = (*range(dim), dim, len(g.shape) - 1, *range(dim + 1, len(g.shape) - 1))
    flat_shape = (*x_type.shape[:dim], count * size, *x_type.shape[dim + 1 :])
    source = ops.reshape(ops.permute(g, dims=dims), shape=flat_shape)
    where = _window_positions(ops, count, size, step, g.device)
    zeros = ops.full(0, shape=x_type.shape, dtype=g.dtype, device=g.device)
    return ops.index_add(zeros, where, source, dim=dim)


def _window_positions(ops: Any, count: Size, size: int, step: int, device: Any) -> Any:
    windows = ops.arange(0, step, size=count, dtype=dtypes.int64, device=device)
    offsets = ops.arange(0, 1, size=size, dtype=dtypes.int64, device=device)
    return ops.reshape(
        ops.add(ops.reshape(windows, shape=(count, 1)), offsets), shape=(count * size,)
    )


@movement(
    infer=_unfold_infer,
    array=_unfold_array,
    view=True,
    vjp={"x": _unfold_vjp},
    rearranges=True,
    strides=lambda sizes, strides, wanted, *, dim, size, step: (
        *strides[:dim],
        strides[dim] * step,
        *strides[dim + 1 :],
        strides[dim],
    ),
    samples=sample_rules.along("dim"),
)
def unfold(m: Any, load: Any, index: Any, types: Any, *, dim: int, size: int, step: int) -> Any:
    """Windows of `size` elements every `step` along `dim`, as a new last dimension."""
    source = list(index[:-1])
    source[dim] = index[dim] * step + index[-1]
    return load(0, tuple(source))
