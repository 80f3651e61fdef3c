"""NumPy's functions of places, over tensors: where elements lie, which lie there or beside."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt
from dynajit.ops.calls.arguments import cast, constant, is_tensor
from dynajit.ops.calls.contents import holds
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.host_made import of_arrays
from dynajit.ops.functions.arrays.reductions import argsort
from dynajit.ops.functions.arrays.shapes import refuse_lossy
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import (
    as_tensor,
    axis_of,
    common,
    in_dtype,
    refuse_given,
    sizes_of,
)
from dynajit.ops.table.op_table import TABLE


def _integers(name: str, given: Any) -> Any:
    """Places as int64."""
    x = as_tensor(given)
    if x.dtype.category is not Category.INTEGER:
        raise left(f"numpy.{name} of other than integers")
    return cast(x, dtypes.int64)


def _is_known(given: Any) -> bool:
    if isinstance(given, (tuple, list)):
        return all(map(_is_known, given))
    return type(given) is int


def _within(name: str, place: Any, size: Any) -> None:
    """Leave it to NumPy to say which place is not there."""
    if not holds(TABLE.logical_and(TABLE.ge(place, 0), TABLE.lt(place, size))):
        raise ValueError(f"numpy.{name}: a place out of range")


def _sizes(name: str, shape: Any, order: Any) -> tuple[Any, ...]:
    sizes = sizes_of(shape)
    if order != "C" or not sizes or any(type(size) is int and not size for size in sizes):
        raise left(f"numpy.{name} by columns, or of no places,")
    return sizes


@stands_for(np.unravel_index, needs_rows=Order.NOT_KNOWN)
def unravel_index(indices: Any, shape: Any, order: Any = "C") -> Any:
    """The index along each dim of places that are counted row by row."""
    sizes = _sizes("unravel_index", shape, order)
    if _is_known(indices) and _is_known(sizes):
        known = np.unravel_index(indices, sizes)
        return tuple(constant(np.asarray(part), CPU) for part in known)
    place, total = _integers("unravel_index", indices), 1
    found: list[Any] = []
    for size in sizes:
        total = total * size
    _within("unravel_index", place, total)
    for size in reversed(sizes[1:]):
        found.append(TABLE.remainder(place, size))
        place = TABLE.floor_divide(place, size)
    found = [place, *reversed(found)]
    if not place.shape:
        return tuple(found)
    whole = TABLE.stack(*found, dim=len(place.shape))  # NumPy's are columns of one array
    return tuple(
        TABLE.select(whole, dim=len(place.shape), index=number) for number in range(len(found))
    )


@stands_for(np.ravel_multi_index, needs_rows=Order.SAME)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: Any = "C") -> Any:
    """Places, counted row by row, by their indices along each dim."""
    sizes = _sizes("ravel_multi_index", dims, order)
    parts = _rows(multi_index, len(sizes))
    if len(parts) != len(sizes) or mode not in ("raise", "wrap", "clip"):
        raise left("numpy.ravel_multi_index of this")
    if _is_known(parts) and _is_known(sizes):
        return constant(np.asarray(np.ravel_multi_index(parts, sizes, mode)), CPU)
    place: Any = None
    for part, size in zip(parts, sizes, strict=True):
        index = _inside("ravel_multi_index", _integers("ravel_multi_index", part), size, mode)
        place = index if place is None else TABLE.add(TABLE.mul(place, size), index)
    return place


def _rows(given: Any, count: int) -> Sequence[Any]:
    if not is_tensor(given):
        return tuple(given)
    if not given.shape or given.shape[0] != count:
        raise left("numpy.ravel_multi_index of this")
    return [TABLE.select(given, dim=0, index=place) for place in range(count)]


def _inside(name: str, place: Any, size: Any, mode: str) -> Any:
    """Places as a mode takes those that are not there."""
    if mode == "wrap":
        return TABLE.remainder(place, size)
    if mode == "clip":
        return TABLE.minimum(TABLE.maximum(place, 0), size - 1)
    _within(name, place, size)
    return place


@stands_for(np.take, method="take")
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """Elements at places along a dim."""
    refuse_given("take", out=out)
    a, places = as_tensor(a), as_tensor(indices)
    if places.dtype.category is not Category.INTEGER:
        raise TypeError("places are integers")
    if axis is None:
        a, axis = TABLE.reshape(a, shape=(a.numel(),)), 0
    dim = axis_of(a, axis)
    if mode != "raise":
        if mode not in ("wrap", "clip"):
            raise left(f"numpy.take in mode {mode!r}")
        places = _inside("take", cast(places, dtypes.int64), a.shape[dim], mode)
    found = get_item(a, (*(slice(None),) * dim, places))
    return found if places.shape else TABLE.clone(found)  # one of them is no view, either


def _one_dim(a: Any, axis: Any) -> tuple[Any, int]:
    """An array and a dim of it; without an axis its elements row by row."""
    a = as_tensor(a)
    if axis is None:
        return TABLE.reshape(a, shape=(a.numel(),)), 0
    return a, axis_of(a, axis)


def _part(a: Any, dim: int, start: Any, stop: Any) -> Any:
    return get_item(a, (*(slice(None),) * dim, slice(start, stop)))


def _from_front(name: str, place: Any, size: Any, last: Any) -> Any:
    """A place counted from the front.

    Raises:
        IndexError: there is none, in words of NumPy's.
    """
    if type(place) not in (int, SymInt):
        raise left(f"numpy.{name} at this place")
    found = place + size if place < 0 else place
    if found < 0 or found > last:
        raise IndexError(f"numpy.{name}: a place out of range")
    return found


@stands_for(np.delete, needs_rows=Order.ENDS)
def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """An array without what is at one place along a dim, or at several known ones."""
    a, dim = _one_dim(arr, axis)
    size = a.shape[dim]
    given = obj if isinstance(obj, list) else [obj]
    places = [_from_front("delete", place, size, size - 1) for place in given]
    if len(places) > 1:
        if not all(type(place) is int for place in places):
            raise left("numpy.delete at places that vary")
        places = sorted(set(places))
    edges = [-1, *places, size]
    parts = [_part(a, dim, first + 1, last) for first, last in itertools.pairwise(edges)]
    return TABLE.cat(*parts, dim=dim)


@stands_for(np.insert, needs_rows=Order.ENDS)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """An array with others in front of one place along a dim."""
    a, dim = _one_dim(arr, axis)
    place = _from_front("insert", obj, a.shape[dim], a.shape[dim])
    new = as_tensor(values)
    refuse_lossy(new, a.dtype.numpy)
    new = in_dtype(new, a.dtype.numpy)
    missing = len(a.shape) - len(new.shape)
    if missing < 0:
        raise left("numpy.insert of more dims")
    new = TABLE.reshape(new, shape=(*(1,) * missing, *new.shape))
    order = list(range(1, len(a.shape)))
    order.insert(dim, 0)
    new = TABLE.permute(new, dims=tuple(order))
    shape = tuple(new.shape[d] if d == dim else size for d, size in enumerate(a.shape))
    parts = _part(a, dim, 0, place), TABLE.expand(new, shape=shape), _part(a, dim, place, None)
    return TABLE.cat(*parts, dim=dim)


@stands_for(np.isin, gives_arrays=True)
def isin(element: Any, test_elements: Any, assume_unique: Any = False, invert: Any = False, *,
         kind: Any = None) -> Any:  # fmt: skip
    """Which elements are among a few others."""
    x, others = as_tensor(element), as_tensor(test_elements)
    count = others.numel()
    if kind is not None or type(count) is not int or not 0 < count <= _FEW:
        raise left("numpy.isin of many others")
    both = common((x, others))
    x, others = in_dtype(x, both), TABLE.reshape(in_dtype(others, both), shape=(count,))
    equal = TABLE.eq(TABLE.reshape(x, shape=(*x.shape, 1)), others)
    found = TABLE.any(equal, dim=(len(x.shape),), keepdim=False)
    return TABLE.logical_not(found) if invert else found


#: Up to so many, comparing with each one is what NumPy does, too.
_FEW = 32


@stands_for(np.lexsort)
def lexsort(keys: Any, axis: Any = -1) -> Any:
    """The order by several keys, of which the last one counts most."""
    if not isinstance(keys, (tuple, list)) or not keys:
        raise left("numpy.lexsort of an array")
    given = [as_tensor(key) for key in keys]
    if axis not in (-1, 0) or any(len(key.shape) != 1 for key in given):
        raise left("numpy.lexsort of more dims")
    first, *others = given
    found = argsort(first, stable=True)
    for key in others:
        found = get_item(found, argsort(get_item(key, found), stable=True))
    return found


def _by_parts(name: str, a: Any, kth: Any, axis: Any, dtype: Any) -> Any:
    """`partition` or `argpartition`: which elements come in which order is NumPy's to say."""
    a, dim = _one_dim(a, axis)
    if a.dtype.category is Category.COMPLEX or type(kth) not in (int, SymInt):
        raise left(f"numpy.{name} by places that vary, or of complex numbers,")
    kind = a.dtype if dtype is None else dtype
    return of_arrays(name, (a,), (kth, dim), tuple(a.shape), kind)


@stands_for(np.partition, needs_rows=Order.NOT_KNOWN)
def partition(
    a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """Smaller elements in front of the k-th, larger ones behind it."""
    refuse_given("partition", order=order)
    return _by_parts("partition", a, kth, axis, None)


@stands_for(np.argpartition, method="argpartition", needs_rows=Order.NOT_KNOWN)
def argpartition(
    a: Any, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None
) -> Any:
    """The places of these elements."""
    refuse_given("argpartition", order=order)
    return _by_parts("argpartition", a, kth, axis, dtypes.int64)
