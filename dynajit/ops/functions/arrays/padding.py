"""NumPy's `pad`, over tensors: constants or elements of the array around it; widths may vary."""

from typing import Any

import numpy as np

from dynajit.core.types.device import CPU
from dynajit.core.types.symint import SymInt, is_at_least
from dynajit.ops.calls.arguments import constant, is_tensor
from dynajit.ops.functions.arrangement.subscript import get_item
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, in_dtype
from dynajit.ops.table.op_table import TABLE


@stands_for(np.pad, gives_arrays=True, needs_rows=Order.ENDS)
def pad(array: Any, pad_width: Any, mode: Any = "constant", *, constant_values: Any = 0) -> Any:
    """Constants around an array."""
    array = as_tensor(array)
    if mode in _MIRRORED:
        return _pad_by_places(array, pad_width, mode, constant_values)
    if mode != "constant" or is_tensor(constant_values):
        raise left(f"numpy.pad in mode {mode!r}, or with constants that vary,")
    values = _pairs(array, constant_values)
    if not all(type(value) in (bool, int, float, complex) for pair in values for value in pair):
        raise left("numpy.pad with constants that vary")
    for d, (pair, around) in enumerate(zip(_pad_widths(array, pad_width), values, strict=True)):
        parts = []
        for n, value in zip(pair, around, strict=True):
            size = tuple(n if d == e else s for e, s in enumerate(array.shape))
            number = in_dtype(value, array.dtype.numpy)
            parts.append(TABLE.full(number, shape=size, dtype=array.dtype, device=array.device))
        array = TABLE.cat(parts[0], array, parts[1], dim=d)
    return array


#: Modes that repeat elements -> NumPy's name of them.
_MIRRORED = ("edge", "reflect", "symmetric", "wrap")


def _pairs(array: Any, given: Any) -> Any:
    """Two numbers for each dim: of its start and of its end."""
    return np.broadcast_to(np.asarray(given, object), (len(array.shape), 2)).tolist()


def _pad_widths(array: Any, pad_width: Any) -> Any:
    if not isinstance(pad_width, (int, SymInt, tuple, list)):
        raise left("numpy.pad by this pad_width")
    widths = _pairs(array, pad_width)
    if any(type(n) not in (int, SymInt) for pair in widths for n in pair):
        raise left("numpy.pad by this pad_width")
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError("index can't contain negative values")
    return widths


def _between_ends(array: Any, dim: int, mode: str, before: Any, after: Any) -> Any:
    """An array between parts of it: contiguous reads, where places would be looked up."""
    size = array.shape[dim]

    def part(start: int, stop: int) -> Any:
        return get_item(array, (*(slice(None),) * dim, slice(start, stop)))

    def end(count: int, is_first: bool) -> Any:
        if mode == "edge":
            one = part(0, 1) if is_first else part(size - 1, size)
            shape = tuple(count if d == dim else n for d, n in enumerate(array.shape))
            return TABLE.expand(one, shape=shape)
        if mode == "wrap":
            return part(size - count, size) if is_first else part(0, count)
        apart = 1 if mode == "reflect" else 0
        near = part(apart, count + apart) if is_first else part(size - count - apart, size - apart)
        return TABLE.flip(near, dims=(dim,))

    ends = [end(count, k == 0) if count else None for k, count in enumerate((before, after))]
    return TABLE.cat(*(x for x in (ends[0], array, ends[1]) if x is not None), dim=dim)


def _pad_by_places(array: Any, pad_width: Any, mode: str, constant_values: Any) -> Any:
    """Elements of the array around it: NumPy says by numbers which ones."""
    if constant_values != 0 or type(constant_values) is not int:
        raise ValueError("unsupported keyword arguments for mode")
    for dim, pair in enumerate(_pad_widths(array, pad_width)):
        size = array.shape[dim]
        if not is_at_least(size, 1):
            raise left("numpy.pad of no elements")
        if not any(pair):
            continue
        if mode == "edge" or max(pair) < size:
            array = _between_ends(array, dim, mode, *pair)
        elif not all(type(n) is int for n in (size, *pair)):
            raise left(f"numpy.pad in mode {mode!r} by more than an array has")
        else:
            places = constant(np.pad(np.arange(size), tuple(pair), mode), CPU)  # type: ignore[call-overload]
            array = get_item(array, (*(slice(None),) * dim, places))
    return array
