"""NumPy's functions that arrange elements, over tensors.

What NumPy gives as a view is a view here, and what it copies is a copy. Views with negative
strides, which tensors lack, and views that may not be written to are left to NumPy.
"""

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt, equals, is_at_least, mod, shapes_agree
from dynajit.ops.calls.arguments import cast, constant, is_run_time_number, is_tensor
from dynajit.ops.calls.contents import holds
from dynajit.ops.functions.arrangement.arrangement import tensor_split
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.table import Order, left, stands_for
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
from dynajit.ops.table.result_layouts import is_row_major, strides_if_known

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


@stands_for(np.reshape, gives_arrays=True, keeps_numbers=True, is_view=True)
def reshape(a: Any, /, shape: Any, order: Any = "C", *, copy: Any = None) -> Any:
    """The elements row by row in another shape; a view where it can be."""
    refuse_given("reshape", copy=copy)
    a = as_tensor(a)
    if order == "F":
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        return transpose(shapes.reshape(transpose(a), sizes[::-1]))
    require_c_order(order)
    return shapes.view_as(a, a) if tuple(a.shape) == shape else shapes.reshape(a, shape)


@stands_for(method="reshape", gives_arrays=True, keeps_numbers=True, is_view=True)
def reshape_method(a: Any, *sizes: Any, order: Any = "C", copy: Any = None) -> Any:
    """As `reshape`, sizes one by one."""
    shape = sizes[0] if len(sizes) == 1 else sizes
    return reshape(a, shape, order, copy=copy)


@stands_for(np.ravel, method="ravel", is_view=True, needs_rows=Order.COPY)
def ravel(a: Any, order: Any = "C") -> Any:
    """The elements row by row in one dim; a view where it can be."""
    a = as_tensor(a)
    if order == "F" and len(a.shape) > 1:
        strides = strides_if_known(a)
        if strides is None or not is_row_major(tuple(a.shape), tuple(strides)):
            raise left("numpy.ravel by columns of dims in another order")
        return flatten(a, order)
    if order in ("K", "A"):
        strides = strides_if_known(a)
        if strides is None or not is_row_major(tuple(a.shape), tuple(strides)):
            raise left(f"numpy.ravel by order={order!r} of dims in another order")
        order = "C"
    require_c_order(order, "F")
    return reshape(a, -1)


@stands_for(method="flatten")
def flatten(a: Any, order: Any = "C") -> Any:
    """The elements row by row in one dim, as a copy; by columns for `order="F"`."""
    if order == "F":
        a = transpose(a)
    require_c_order(order, "F")
    return TABLE.clone(TABLE.reshape(a, shape=(a.numel(),)))


@stands_for(np.transpose, gives_arrays=True, keeps_numbers=True, is_view=True, permutes=True)
def transpose(a: Any, axes: Any = None) -> Any:
    """The dims in another order, as a view."""
    a = as_tensor(a)
    rank = len(a.shape)
    order = tuple(reversed(range(rank))) if axes is None else axes_of(a, axes)
    if len(order) != rank:
        raise ValueError("axes don't match array")
    return TABLE.permute(a, dims=order)


@stands_for(method="transpose", gives_arrays=True, keeps_numbers=True, is_view=True, permutes=True)
def transpose_method(a: Any, *axes: Any) -> Any:
    """As `transpose`, dims one by one."""
    if not axes or axes == (None,):
        return transpose(a)
    return transpose(a, axes[0] if isinstance(axes[0], (tuple, list)) else axes)


@stands_for(np.swapaxes, method="swapaxes", gives_arrays=True, is_view=True, permutes=True)
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """Two dims exchanged, as a view."""
    a = as_tensor(a)
    order = list(range(len(a.shape)))
    first, second = axis_of(a, axis1), axis_of(a, axis2)
    order[first], order[second] = order[second], order[first]
    return TABLE.permute(a, dims=tuple(order))


@stands_for(np.moveaxis, gives_arrays=True, is_view=True, permutes=True)
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


@stands_for(np.squeeze, method="squeeze", gives_arrays=True, keeps_numbers=True, is_view=True)
def squeeze(a: Any, axis: Any = None) -> Any:
    """Without dims of size 1, as a view."""
    a = as_tensor(a)
    chosen = range(len(a.shape)) if axis is None else axes_of(a, axis)
    ones = {d for d in chosen if isinstance(a.shape[d], int) and a.shape[d] == 1}
    if axis is not None and len(ones) != len(tuple(chosen)):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    kept = tuple(size for d, size in enumerate(a.shape) if d not in ones)
    return TABLE.reshape(a, shape=kept)


def _require_kind(casting: Any) -> None:
    """What is joined has one dtype, to which NumPy casts by its default rule."""
    if casting not in (None, "same_kind"):
        raise left(f"casting={casting!r}")


def _joined(arrays: Any, dtype: Any, name: str) -> list[Any]:
    if is_tensor(arrays):
        raise left(f"numpy.{name} of an array")
    given = [as_tensor(item) for item in arrays]
    if not given:
        raise ValueError("need at least one array")
    kind = common(given) if dtype is None else np.dtype(dtype)
    own_dtype(kind)
    return [in_dtype(item, kind) for item in given]


@stands_for(np.concatenate, gives_arrays=True, needs_rows=Order.SAME)
def concatenate(arrays: Any, /, axis: Any = 0, out: Any = None, *, dtype: Any = None,
                casting: Any = None) -> Any:  # fmt: skip
    """Arrays one after the other."""
    refuse_given("concatenate", out=out)
    _require_kind(casting)
    given = _joined(arrays, dtype, "concatenate")
    if axis is None:
        return TABLE.cat(*(TABLE.reshape(x, shape=(x.numel(),)) for x in given), dim=0)
    rank = len(given[0].shape)
    if not rank or any(len(x.shape) != rank for x in given):
        raise ValueError("all the input arrays must have same number of dimensions, and some")
    return TABLE.cat(*given, dim=axis_of(given[0], axis))


@stands_for(np.stack, gives_arrays=True, needs_rows=Order.NOT_KNOWN)
def stack(arrays: Any, axis: Any = 0, out: Any = None, *, dtype: Any = None,
          casting: Any = None) -> Any:  # fmt: skip
    """Arrays side by side, in a new dim."""
    refuse_given("stack", out=out)
    _require_kind(casting)
    given = _joined(arrays, dtype, "stack")
    rank = len(given[0].shape) + 1
    if type(axis) is not int or not -rank <= axis < rank:
        raise np.exceptions.AxisError(axis, rank)
    return TABLE.stack(*given, dim=axis % rank)


def _at_least(x: "TensorMethods", rank: int) -> Any:
    missing = rank - len(x.shape)
    return TABLE.reshape(x, shape=(*(1,) * missing, *x.shape)) if missing > 0 else x


@stands_for(np.vstack, needs_rows=Order.SAME)
def vstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    """Arrays one below the other."""
    _require_kind(casting)
    given = [_at_least(x, 2) for x in _joined(tup, dtype, "vstack")]
    return concatenate(given, 0)


@stands_for(np.hstack, needs_rows=Order.SAME)
def hstack(tup: Any, *, dtype: Any = None, casting: Any = None) -> Any:
    """Arrays one beside the other."""
    _require_kind(casting)
    given = [_at_least(x, 1) for x in _joined(tup, dtype, "hstack")]
    return concatenate(given, 0 if len(given[0].shape) == 1 else 1)


@stands_for(np.column_stack, needs_rows=Order.SAME)
def column_stack(tup: Any) -> Any:
    """Arrays of one dim as columns."""
    given = _joined(tup, None, "column_stack")
    columns = [x if len(x.shape) > 1 else TABLE.reshape(x, shape=(x.numel(), 1)) for x in given]
    return concatenate(columns, 1)


@stands_for(np.array_split, is_view=True, gives_arrays=True, needs_forward=True)
def array_split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """Parts along a dim, as views: as many as a number says, or between places."""
    given = indices_or_sections
    if is_tensor(given) or (isinstance(given, (list, tuple)) and any(map(is_tensor, given))):
        raise left("numpy.array_split at places that vary")
    ary = as_tensor(ary)
    sections = list(given) if isinstance(given, (list, tuple)) else operator.index(given)
    return list(tensor_split(ary, sections, axis_of(ary, axis)))


@stands_for(np.split, is_view=True, gives_arrays=True, needs_forward=True)
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """Equal parts along a dim, as views, or those between places."""
    if isinstance(indices_or_sections, (int, SymInt)):
        size = as_tensor(ary).shape[axis_of(ary, axis)]
        indices_or_sections = operator.index(indices_or_sections)
        if not equals(mod(size, indices_or_sections), 0):
            raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@stands_for(np.roll, gives_arrays=True, needs_rows=Order.ALONG)
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


@stands_for(np.repeat, method="repeat", needs_rows=Order.ROWS)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Every element several times."""
    a = as_tensor(a)
    if isinstance(repeats, (list, tuple)) and all(type(n) is int for n in repeats):
        dim, count = (0, a.numel()) if axis is None else (axis_of(a, axis), a.shape[axis])
        if type(count) is not int or count != len(repeats):
            raise left("numpy.repeat of sizes that vary")
        flat = TABLE.reshape(a, shape=(count,)) if axis is None else a
        return get_item(
            flat, (*(slice(None),) * dim, constant(np.repeat(np.arange(count), repeats), CPU))
        )
    if type(repeats) not in (int, SymInt) or repeats < 0:
        raise left("numpy.repeat by an array")
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
    if 0 in counts:
        raise left("numpy.tile by 0")
    counts = (*(1,) * (len(found.shape) - len(counts)), *counts)
    if all(count == 1 for count in counts):  # in the order that it has
        return TABLE.clone(_at_least(found, len(counts)))
    return shapes.repeat(found, counts)


@stands_for(np.broadcast_to, is_view=True, gives_arrays=True, is_read_only=True)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """An array repeated without a copy, as a view that may only be read."""
    return shapes.broadcast_to(as_tensor(array), sizes_of(shape))


def _enter_order(original: Any, step: int) -> None:
    """A function that gives an array whose memory goes along the dims in one order.

    Args:
        step: 1 for rows, -1 for columns.
    """

    @stands_for(original, is_view=True, gives_arrays=True, needs_forward=True)
    def in_order(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
        """The array itself where it lies so, else a copy that does."""
        name = original.__name__
        refuse_given(name, like=like)
        a = as_tensor(a, dtype)
        if not a.shape:
            return TABLE.reshape(a, shape=(1,))
        strides = strides_if_known(a)
        if strides is None:
            raise left(f"numpy.{name} of dims in an order that varies")
        if is_row_major(tuple(a.shape)[::step], tuple(strides)[::step]):
            return a
        return TABLE.laid_out(a, order=tuple(range(len(a.shape)))[::step])


_enter_order(np.ascontiguousarray, 1)
_enter_order(np.asfortranarray, -1)


@stands_for(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Elements at places along a dim, which differ along the others."""
    arr, indices = as_tensor(arr), as_tensor(indices)
    if indices.dtype.category is not Category.INTEGER or axis is None:
        raise left("numpy.take_along_axis of this")
    dim = axis_of(arr, axis)
    if len(arr.shape) != len(indices.shape):
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    others = [
        (a, b) for d, (a, b) in enumerate(zip(arr.shape, indices.shape, strict=True)) if d != dim
    ]
    if any(a != b for a, b in others) or arr.dtype.name == "float16":
        raise left("numpy.take_along_axis that broadcasts")
    size = arr.shape[dim]
    places = cast(indices, dtypes.int64)
    places = TABLE.where(TABLE.lt(places, 0), TABLE.add(places, size), places)
    return TABLE.gather(arr, places, dim=dim)


@stands_for(np.copyto, writes=True)
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> Any:
    """What an array holds into which another was copied."""
    src = as_tensor(src)
    if not np.can_cast(src.dtype.numpy, dst.dtype.numpy, casting):
        raise left("numpy.copyto of another kind of numbers")
    refuse_lossy(src, dst.dtype.numpy)
    value = shapes.broadcast_to(in_dtype(src, dst.dtype.numpy), tuple(dst.shape))
    return value if where is True else chosen_value(dst, value, where)


@stands_for(np.putmask, writes=True)
def putmask(a: Any, mask: Any, values: Any) -> Any:
    """What an array holds in which elements of a mask were set."""
    mask, values = as_tensor(mask), as_tensor(values)
    is_alike = not values.shape or shapes_agree(tuple(values.shape), tuple(a.shape))
    if not is_alike or mask.dtype is not dtypes.bool_ or tuple(mask.shape) != tuple(a.shape):
        raise left("numpy.putmask of more than one value")
    return TABLE.where(mask, value_for(a, values), a)


@stands_for(method="fill", writes=True)
def fill(a: Any, value: Any) -> Any:
    """What an array holds that was filled with a number."""
    value = as_tensor(value)
    if value.shape:
        raise ValueError("setting an array element with a sequence.")
    return shapes.broadcast_to(value_for(a, value), tuple(a.shape))


@stands_for(np.select, gives_arrays=True)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Elements of the first choice whose condition holds."""
    if is_tensor(condlist) or is_tensor(choicelist) or len(condlist) != len(choicelist):
        raise left("numpy.select of this")
    conditions = [as_tensor(condition) for condition in condlist]
    if not conditions or any(c.dtype is not dtypes.bool_ for c in conditions):
        raise left("numpy.select of conditions that are no truth values")
    choices = [value if is_tensor(value) else as_tensor(value) for value in choicelist]
    if any(not is_tensor(value) for value in choicelist):
        raise left("numpy.select of numbers")
    kind = common([*choices, default])
    found = as_tensor(default, kind)
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        found = TABLE.where(condition, in_dtype(choice, kind), found)
    return TABLE.laid_out(found, order=tuple(range(len(found.shape)))) if found.shape else found


@stands_for(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """Coordinates of a grid, each as an array of all its points."""
    if not copy or indexing not in ("xy", "ij") or not xi:
        raise left("numpy.meshgrid without copies")
    given = [as_tensor(x) for x in xi]
    flat = [TABLE.reshape(x, shape=(x.numel(),)) for x in given]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[:2] = 1, 0
    sizes = tuple(flat[k].shape[0] for k in order)
    found = []
    for k, x in enumerate(flat):
        dim = order.index(k)
        alone = tuple(x.shape[0] if d == dim else 1 for d in range(len(flat)))
        wide = TABLE.reshape(x, shape=alone)
        if sparse:
            found.append(TABLE.clone(wide))
            continue
        wide = TABLE.expand(wide, shape=sizes)
        found.append(TABLE.laid_out(wide, order=tuple(range(len(flat)))))
    return tuple(found)


@stands_for(np.cross)
def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    """Vectors at right angles to two others."""
    if (axisa, axisb, axisc) != (-1, -1, -1) or axis is not None:
        raise left("numpy.cross along other dims than the last")
    x, y = as_tensor(a), as_tensor(b)
    if not x.shape or not y.shape or x.shape[-1] != 3 or y.shape[-1] != 3:
        raise left("numpy.cross of other vectors than of three numbers")
    kind = common((x, y))
    if kind.kind not in "iuf":
        raise left(f"numpy.cross of {kind}")
    p, q = (
        [get_item(v, (..., k)) for k in range(3)] for v in (in_dtype(x, kind), in_dtype(y, kind))
    )
    parts = [
        TABLE.sub(TABLE.mul(p[i], q[j]), TABLE.mul(p[j], q[i])) for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return TABLE.stack(*parts, dim=len(parts[0].shape))


@stands_for(np.kron)
def kron(a: Any, b: Any) -> Any:
    """Blocks of one matrix, multiplied by the elements of another."""
    x, y = as_tensor(a), as_tensor(b)
    if len(x.shape) == len(y.shape) == 1:
        rows = apply("multiply", TABLE.reshape(x, shape=(x.numel(), 1)), y)
        return TABLE.reshape(rows, shape=(x.numel() * y.numel(),))
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise left("numpy.kron of other than matrices or vectors")
    x = TABLE.reshape(x, shape=(x.shape[0], 1, x.shape[1], 1))
    y = TABLE.reshape(y, shape=(1, y.shape[0], 1, y.shape[1]))
    shape = (x.shape[0] * y.shape[1], x.shape[2] * y.shape[3])
    return TABLE.laid_out(TABLE.reshape(apply("multiply", x, y), shape=shape), order=(0, 1))


@stands_for(np.nan_to_num)
def nan_to_num(x: object, copy: bool = True, nan: Any = 0.0, posinf: Any = None,
               neginf: Any = None) -> Any:  # fmt: skip
    """Numbers in the place of NaN and of infinity."""
    x = as_tensor(x)
    if copy is not True or any(
        type(n) not in (int, SymInt, float, type(None)) for n in (nan, posinf, neginf)
    ):
        raise left("numpy.nan_to_num in place, or by numbers that vary,")
    if x.dtype.category in (Category.BOOL, Category.INTEGER):
        return TABLE.clone(x)
    if x.dtype.category is not Category.FLOATING:
        raise left("numpy.nan_to_num of complex numbers")
    kind = x.dtype.numpy
    high = np.finfo(kind).max.item() if posinf is None else posinf
    low = np.finfo(kind).min.item() if neginf is None else neginf
    found = TABLE.where(TABLE.isnan(x), as_tensor(nan, kind), x)
    infinite = TABLE.isinf(x)
    found = TABLE.where(TABLE.logical_and(infinite, TABLE.gt(x, 0)), as_tensor(high, kind), found)
    return TABLE.where(TABLE.logical_and(infinite, TABLE.lt(x, 0)), as_tensor(low, kind), found)


@stands_for(method="conj")
def conj(a: Any) -> Any:
    """Conjugates; of real numbers a copy."""
    return apply("conjugate", a)


@stands_for(np.lib.stride_tricks.sliding_window_view, is_view=True, gives_arrays=True,
            is_read_only=True)  # fmt: skip
def sliding_window_view(x: object, window_shape: Any, axis: Any = None, *, subok: bool = False,
                        writeable: bool = False) -> Any:  # fmt: skip
    """All windows of an array, as a view that may only be read."""
    found = as_tensor(x)
    windows = sizes_of(window_shape)
    dims = axes_of(found, axis)
    if writeable or len(windows) != len(dims):
        raise left("numpy.lib.stride_tricks.sliding_window_view of this")
    for dim, size in zip(dims, windows, strict=True):
        have = found.shape[dim]
        size = operator.index(size)
        if not is_at_least(have, size) and have < size:
            raise left("numpy.lib.stride_tricks.sliding_window_view of longer windows")
        found = TABLE.unfold(found, dim=dim, size=size, step=1)
    return found


@stands_for(np.where, gives_arrays=True, by_elements=True)
def where(condition: Any, /, x: object = None, y: Any = None) -> Any:
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


@stands_for(np.round, np.around, method="round", needs_rows=Order.DIGITS)
def round(a: Any, decimals: Any = 0, out: Any = None) -> Any:
    """Rounded to even."""
    refuse_given("round", out=out)
    a = as_tensor(a)
    if type(decimals) not in (int, SymInt):
        raise left("numpy.round to decimals that are no int of Python's")
    decimals = operator.index(decimals)
    if a.dtype.category is Category.INTEGER and decimals >= 0:
        return a
    if a.dtype.category is not Category.FLOATING or a.dtype.name == "float16":
        raise left(f"numpy.round of {a.dtype.name}")
    if not decimals:
        return TABLE.round(a)
    if abs(decimals) > _MOST_DECIMALS:
        raise left("numpy.round to so many decimals")
    there, back = (TABLE.mul, TABLE.div) if decimals > 0 else (TABLE.div, TABLE.mul)
    factor = as_tensor(10.0 ** abs(decimals), a.dtype.numpy)
    return back(TABLE.round(there(a, factor)), factor)


#: Powers of ten up to which are exact in float64.
_MOST_DECIMALS = 22


@stands_for(method="astype", gives_arrays=True, keeps_numbers=True, is_view=True)
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
    if source.category is Category.FLOATING and kind.kind == "u" and kind.itemsize > 4:
        raise left("a cast from floats to long unsigned integers")


@stands_for(np.copy, gives_arrays=True)
def copy(a: Any, order: Any = "K", subok: bool = False) -> Any:
    """The same elements in other memory."""
    require_c_order(order, "K", "A")
    return TABLE.clone(as_tensor(a))


@stands_for(method="copy", gives_arrays=True, keeps_numbers=True)
def copy_method(a: Any, order: Any = "C") -> Any:
    """The same elements in other memory, row by row."""
    require_c_order(order)
    return TABLE.laid_out(a, order=tuple(range(len(a.shape)))) if a.shape else TABLE.clone(a)


def dtype_of(x: object) -> Any:
    """NumPy's dtype of an operand."""
    return np.dtype(kind_of(x))


def value_for(target: Any, value: Any) -> Any:
    """What is written into an array: cast as NumPy does."""
    if is_run_time_number(value):
        return in_dtype(value, target.dtype.numpy)
    value = as_tensor(value)
    refuse_lossy(value, target.dtype.numpy)
    return in_dtype(value, target.dtype.numpy)


def value_for_element(target: Any, value: Any) -> Any:
    """A number of NumPy's that is written into one element: an integer dtype must hold it.

    Raises:
        OverflowError: it does not, or it is NaN.
    """
    value = as_tensor(value)
    given, wanted = value.dtype.numpy, target.dtype.numpy
    if wanted.kind in "iu" and given.kind in "iuf" and not np.can_cast(given, wanted, "safe"):
        low, high = np.iinfo(wanted).min, np.iinfo(wanted).max
        if given.kind == "f":
            wide = cast(value, dtypes.float64)
            inside = TABLE.gt(wide, float(low) - 1.0), TABLE.lt(wide, float(high) + 1.0)
        else:
            wide = cast(value, dtypes.int64)
            inside = TABLE.ge(wide, int(low)), TABLE.le(wide, int(high))
        if not holds(TABLE.logical_and(*inside)):
            raise OverflowError(f"{wanted} does not hold the number")
    return value_for(target, value)


def value_of_loop(target: Any, value: Any) -> Any:
    """What an operation writes into an array that it was given for its result.

    Raises:
        UFuncTypeError: NumPy would lose more than precision.
        ValueError: the shapes differ.
    """
    value = in_dtype_of_loop(target, value)
    if tuple(value.shape) != tuple(target.shape):
        raise ValueError("non-broadcastable output operand")
    return value


def in_dtype_of_loop(target: Any, value: Any) -> Any:
    """The result of an operation in the dtype of the array that it is written into.

    Raises:
        UFuncTypeError: NumPy would lose more than precision.
    """
    value = as_tensor(value)
    if not np.can_cast(value.dtype.numpy, target.dtype.numpy, "same_kind"):
        raise TypeError("cannot cast the result of an operation")
    return in_dtype(value, target.dtype.numpy)


def chosen_value(target: Any, value: Any, condition: Any) -> Any:
    """What an operation leaves in an array where it computes only where a condition holds."""
    if not is_tensor(condition) or condition.dtype is not dtypes.bool_:
        raise left("where= that is no array of truth values")
    value = in_dtype_of_loop(target, value)
    return TABLE.where(condition, value, target)


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
