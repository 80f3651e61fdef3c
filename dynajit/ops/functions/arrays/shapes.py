"""NumPy's functions that arrange elements, over tensors.

What NumPy gives as a view is a view here, and what it copies is a copy. Views with negative
strides, which tensors lack, and views that may not be written to are left to NumPy.
"""

from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import cast, is_run_time_number, is_tensor
from dynajit.ops.functions.arrangement.arrangement import tensor_split
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.table import left, stands_for
from dynajit.ops.functions.arrays.types import (
    as_tensor,
    axes_of,
    axis_of,
    common,
    in_dtype,
    kind_of,
    own_dtype,
    refuse_given,
    require_c_order,
    sizes_of,
)
from dynajit.ops.functions.arrays.ufuncs import apply
from dynajit.ops.functions.shapes import shape as shapes
from dynajit.ops.table.op_table import TABLE


@stands_for(np.reshape, gives_arrays=True, is_view=True)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: Any = None) -> Any:
    """The elements row by row in another shape; a view where it can be."""
    require_c_order(order)
    refuse_given("reshape", copy=copy)
    a = as_tensor(a)
    return shapes.view_as(a, a) if tuple(a.shape) == shape else shapes.reshape(a, shape)


@stands_for(method="reshape", gives_arrays=True, is_view=True)
def reshape_method(a: Any, *sizes: Any, order: Any = "C", copy: Any = None) -> Any:
    """As `reshape`, sizes one by one."""
    shape = sizes[0] if len(sizes) == 1 else sizes
    return reshape(a, shape, order, copy=copy)


@stands_for(np.ravel, method="ravel", is_view=True, needs_rows=True)
def ravel(a: Any, order: Any = "C") -> Any:
    """The elements row by row in one dim; a view where it can be."""
    require_c_order(order)
    return reshape(a, -1)


@stands_for(method="flatten")
def flatten(a: Any, order: Any = "C") -> Any:
    """The elements row by row in one dim, as a copy."""
    require_c_order(order)
    return TABLE.clone(TABLE.reshape(a, shape=(a.numel(),)))


@stands_for(np.transpose, gives_arrays=True, is_view=True)
def transpose(a: Any, axes: Any = None) -> Any:
    """The dims in another order, as a view."""
    a = as_tensor(a)
    rank = len(a.shape)
    order = tuple(reversed(range(rank))) if axes is None else axes_of(a, axes)
    if len(order) != rank:
        raise ValueError("axes don't match array")
    return TABLE.permute(a, dims=order)


@stands_for(method="transpose", gives_arrays=True, is_view=True)
def transpose_method(a: Any, *axes: Any) -> Any:
    """As `transpose`, dims one by one."""
    if not axes or axes == (None,):
        return transpose(a)
    return transpose(a, axes[0] if isinstance(axes[0], (tuple, list)) else axes)


@stands_for(np.swapaxes, method="swapaxes", gives_arrays=True, is_view=True)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """Two dims exchanged, as a view."""
    a = as_tensor(a)
    order = list(range(len(a.shape)))
    first, second = axis_of(a, axis1), axis_of(a, axis2)
    order[first], order[second] = order[second], order[first]
    return TABLE.permute(a, dims=tuple(order))


@stands_for(np.moveaxis, gives_arrays=True, is_view=True)
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Dims moved elsewhere, as a view."""
    a = as_tensor(a)
    moved, places = axes_of(a, source), axes_of(a, destination)
    if len(moved) != len(places):
        raise ValueError("source and destination differ in length")
    order = [dim for dim in range(len(a.shape)) if dim not in moved]
    for place, dim in sorted(zip(places, moved, strict=True)):
        order.insert(place, dim)
    return TABLE.permute(a, dims=tuple(order))


@stands_for(np.expand_dims, gives_arrays=True, is_view=True)
def expand_dims(a: Any, axis: Any) -> Any:
    """New dims of size 1, as a view."""
    a = as_tensor(a)
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = len(a.shape) + len(given)
    places = {dim % rank for dim in given if type(dim) is int and -rank <= dim < rank}
    if len(places) != len(given):
        raise ValueError("axis of expand_dims")
    rest = iter(a.shape)
    return TABLE.reshape(a, shape=tuple(1 if d in places else next(rest) for d in range(rank)))


@stands_for(np.squeeze, method="squeeze", gives_arrays=True, is_view=True)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Without dims of size 1, as a view."""
    a = as_tensor(a)
    chosen = range(len(a.shape)) if axis is None else axes_of(a, axis)
    ones = {d for d in chosen if isinstance(a.shape[d], int) and a.shape[d] == 1}
    if axis is not None and len(ones) != len(tuple(chosen)):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    kept = tuple(size for d, size in enumerate(a.shape) if d not in ones)
    return TABLE.reshape(a, shape=kept)


def _joined(arrays: Any, dtype: Any, name: str) -> list[Any]:
    if is_tensor(arrays):
        raise left(f"numpy.{name} of an array")
    given = [as_tensor(item) for item in arrays]
    if not given:
        raise ValueError("need at least one array")
    kind = common(given) if dtype is None else np.dtype(dtype)
    own_dtype(kind)
    return [in_dtype(item, kind) for item in given]


@stands_for(np.concatenate, gives_arrays=True, needs_rows=True)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None,
                casting: Any = None) -> Any:  # fmt: skip
    """Arrays one after the other."""
    refuse_given("concatenate", out=out, casting=casting)
    given = _joined(arrays, dtype, "concatenate")
    if axis is None:
        return TABLE.cat(*(TABLE.reshape(x, shape=(x.numel(),)) for x in given), dim=0)
    rank = len(given[0].shape)
    if not rank or any(len(x.shape) != rank for x in given):
        raise ValueError("all the input arrays must have same number of dimensions, and some")
    return TABLE.cat(*given, dim=axis_of(given[0], axis))


@stands_for(np.stack, gives_arrays=True, needs_rows=True)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None,
          casting: Any = None) -> Any:  # fmt: skip
    """Arrays side by side, in a new dim."""
    refuse_given("stack", out=out, casting=casting)
    given = _joined(arrays, dtype, "stack")
    rank = len(given[0].shape) + 1
    if type(axis) is not int or not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return TABLE.stack(*given, dim=axis % rank)


def _at_least(x: Any, rank: int) -> Any:
    missing = rank - len(x.shape)
    return TABLE.reshape(x, shape=(*(1,) * missing, *x.shape)) if missing > 0 else x


@stands_for(np.vstack, needs_rows=True)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    """Arrays one below the other."""
    refuse_given("vstack", casting=casting)
    given = [_at_least(x, 2) for x in _joined(tup, dtype, "vstack")]
    return concatenate(given, 0)


@stands_for(np.hstack, needs_rows=True)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    """Arrays one beside the other."""
    refuse_given("hstack", casting=casting)
    given = [_at_least(x, 1) for x in _joined(tup, dtype, "hstack")]
    return concatenate(given, 0 if len(given[0].shape) == 1 else 1)


@stands_for(np.column_stack, needs_rows=True)
def column_stack(tup: Any) -> Any:
    """Arrays of one dim as columns."""
    given = _joined(tup, None, "column_stack")
    columns = [x if len(x.shape) > 1 else TABLE.reshape(x, shape=(x.numel(), 1)) for x in given]
    return concatenate(columns, 1)


@stands_for(np.split, is_view=True, gives_arrays=True)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """Equal parts along a dim, as views."""
    dim = axis_of(ary, axis)
    if type(indices_or_sections) is not int:
        raise left("numpy.split at given places")
    if not isinstance(ary.shape[dim], int) or ary.shape[dim] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return list(tensor_split(ary, indices_or_sections, dim))


@stands_for(np.roll, needs_rows=True)
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements moved, those beyond the end coming back in front."""
    a = as_tensor(a)
    if axis is None:
        return shapes.roll(a, shift)
    if isinstance(shift, (tuple, list)) != isinstance(axis, (tuple, list)):
        raise left("numpy.roll of one shift along several dims")
    moved = a
    steps = shift if isinstance(shift, (tuple, list)) else (shift,)
    dims = axis if isinstance(axis, (tuple, list)) else (axis,)
    if len(steps) != len(dims):
        raise ValueError("shift and axis differ in length")
    for step, dim in zip(steps, dims, strict=True):
        moved = shapes.roll(moved, step, axis_of(a, dim))
    return moved


@stands_for(np.pad, needs_rows=True)
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0) -> Any:
    """Constants around an array."""
    array = as_tensor(array)
    if (
        mode != "constant"
        or isinstance(constant_values, (tuple, list))
        or is_tensor(constant_values)
    ):
        raise left(f"numpy.pad in mode {mode!r}, or with several constants,")
    rank = len(array.shape)
    if type(pad_width) is int:
        widths: Any = ((pad_width, pad_width),) * rank
    elif isinstance(pad_width, (tuple, list)):
        widths = np.broadcast_to(np.asarray(pad_width), (rank, 2)).tolist()
    else:
        raise left("numpy.pad by this pad_width")
    if any(type(n) is not int for pair in widths for n in pair):
        raise left("numpy.pad by this pad_width")
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    value = in_dtype(constant_values, array.dtype.numpy)
    for d, pair in enumerate(widths):
        parts = []
        for n in pair:
            size = tuple(n if d == e else s for e, s in enumerate(array.shape))
            parts.append(TABLE.full(value, shape=size, dtype=array.dtype, device=array.device))
        array = TABLE.cat(parts[0], array, parts[1], dim=d)
    return array


@stands_for(np.repeat, method="repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Every element several times."""
    if type(repeats) is not int or repeats < 0:
        raise left("numpy.repeat by an array")
    a = as_tensor(a)
    if axis is None:
        a, axis = TABLE.reshape(a, shape=(a.numel(),)), 0
    dim = axis_of(a, axis)
    shape = tuple(a.shape)
    wide = TABLE.reshape(a, shape=(*shape[: dim + 1], 1, *shape[dim + 1 :]))
    wide = TABLE.expand(wide, shape=(*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    grown = (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :])
    return TABLE.clone(TABLE.reshape(wide, shape=grown))


@stands_for(np.tile)
def tile(A: Any, reps: Any) -> Any:
    """The whole array several times."""
    found = as_tensor(A)
    counts = sizes_of(reps)
    rank = max(len(counts), len(found.shape))
    found = _at_least(found, rank)
    counts = (*(1,) * (rank - len(counts)), *counts)
    for dim, count in enumerate(counts):
        if count == 0:
            raise left("numpy.tile by 0")
        found = TABLE.cat(*[found] * count, dim=dim) if count > 1 else found
    return TABLE.clone(found)


@stands_for(np.where, gives_arrays=True, by_elements=True)
def where(condition: Any, /, x: Any = None, y: Any = None) -> Any:
    """Elements of `x` where the condition holds, else of `y`."""
    if x is None or y is None:
        raise left("numpy.where of a condition only")
    choice = cast(as_tensor(condition), dtypes.bool_)
    first, second = (as_tensor(v) if isinstance(v, (list, tuple)) else v for v in (x, y))
    kind = common((first, second))
    own_dtype(kind)
    return TABLE.where(choice, as_tensor(first, kind), as_tensor(second, kind))


@stands_for(np.clip, method="clip", by_elements=True)
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, *, min: Any = None,
         max: Any = None) -> Any:  # fmt: skip
    """Elements no smaller and no larger than the bounds."""
    refuse_given("clip", out=out)
    low = a_min if min is None else min
    high = a_max if max is None else max
    a = as_tensor(a)
    for name, bound in (("maximum", low), ("minimum", high)):
        if bound is None:
            continue
        whole = isinstance(bound, int) and a.dtype.category is Category.INTEGER
        if whole and not np.iinfo(a.dtype.numpy).min <= bound <= np.iinfo(a.dtype.numpy).max:
            raise left("numpy.clip to bounds that the dtype lacks")
        a = apply(name, a, bound)
    return a


@stands_for(np.round, np.around, method="round")
def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """Rounded to even."""
    refuse_given("round", out=out)
    a = as_tensor(a)
    if type(decimals) is not int or decimals:
        raise left("numpy.round to decimals")
    if a.dtype.category is Category.FLOATING:
        return TABLE.round(a)
    if a.dtype.category is not Category.INTEGER:
        raise left(f"numpy.round of {a.dtype.name}")
    return a


@stands_for(method="astype", gives_arrays=True, is_view=True)
def astype(a: Any, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True,
           copy: bool = True) -> Any:  # fmt: skip
    """The elements in another dtype, as a copy."""
    require_c_order(order, "K", "A")
    kind = np.dtype(dtype)
    if not np.can_cast(a.dtype.numpy, kind, casting):
        raise TypeError("cannot cast")
    refuse_lossy(a, kind)
    found = in_dtype(a, kind)
    return TABLE.clone(found) if found is a and copy else found


def refuse_lossy(a: Any, kind: Any) -> None:
    """Leave to NumPy what warns, or what C leaves undefined and processors differ in."""
    source = a.dtype
    if source.category is Category.COMPLEX and kind.kind != "c" and kind.kind != "b":
        raise left("discarding the imaginary part")
    if source.category is Category.FLOATING and kind.kind == "u":
        raise left("a cast from floats to unsigned integers")


@stands_for(np.copy, gives_arrays=True)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """The same elements in other memory."""
    require_c_order(order, "K", "A")
    return TABLE.clone(as_tensor(a))


@stands_for(method="copy", gives_arrays=True)
def copy_method(a: Any, order: Any = "C") -> Any:
    """The same elements in other memory, row by row."""
    require_c_order(order)
    return TABLE.laid_out(a, order=tuple(range(len(a.shape)))) if a.shape else TABLE.clone(a)


@stands_for(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """Elements at places along a dim."""
    refuse_given("take", out=out)
    if mode != "raise":
        raise left(f"numpy.take in mode {mode!r}")
    a, places = as_tensor(a), as_tensor(indices)
    if places.dtype.category is not Category.INTEGER:
        raise TypeError("places are integers")
    if axis is None:
        a, axis = TABLE.reshape(a, shape=(a.numel(),)), 0
    return get_item(a, (*(slice(None),) * axis_of(a, axis), places))


def _triangle(row: Any, m: Any, k: Any) -> Any:
    m = as_tensor(m)
    if len(m.shape) < 2 or type(k) is not int:
        raise left(f"numpy.{row.name} of this")
    return row(m, diagonal=k)


@stands_for(np.tril)
def tril(m: Any, k: Any = 0) -> Any:
    """0 above a diagonal."""
    return _triangle(TABLE.tril, m, k)


@stands_for(np.triu)
def triu(m: Any, k: Any = 0) -> Any:
    """0 below a diagonal."""
    return _triangle(TABLE.triu, m, k)


def dtype_of(x: Any) -> Any:
    """NumPy's dtype of an operand."""
    return np.dtype(kind_of(x))


def value_for(target: Any, value: Any) -> Any:
    """What is written into an array: cast as NumPy does."""
    if is_run_time_number(value):
        return in_dtype(value, target.dtype.numpy)
    value = as_tensor(value)
    refuse_lossy(value, target.dtype.numpy)
    return in_dtype(value, target.dtype.numpy)


def value_of_loop(target: Any, value: Any) -> Any:
    """What an operation writes into an array that it was given for its result.

    Raises:
        UFuncTypeError: NumPy would lose more than precision.
        ValueError: the shapes differ.
    """
    value = as_tensor(value)
    if not np.can_cast(value.dtype.numpy, target.dtype.numpy, "same_kind"):
        raise TypeError("cannot cast the result of an operation")
    if tuple(value.shape) != tuple(target.shape):
        raise ValueError("non-broadcastable output operand")
    return in_dtype(value, target.dtype.numpy)


def read_item(a: Any, key: Any) -> Any:
    """`a[key]`; a slice with a negative step is left to NumPy."""
    for entry in key if isinstance(key, tuple) else (key,):
        if isinstance(entry, slice) and isinstance(entry.step, int) and entry.step < 0:
            raise left("a slice with a negative step")
        if isinstance(entry, bool):
            raise left("a truth value as an index")
        if is_tensor(entry) and entry.dtype.category not in (Category.BOOL, Category.INTEGER):
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
    if isinstance(key, list) and not key:
        raise left("an empty list as an index")
    return get_item(a, key)
