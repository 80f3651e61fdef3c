"""Additions, combinations and writes at indices on a GPU, where indices may repeat.

Contract: `add_at` is `numpy.add.at` in every dtype, by default through CuPy's atomic additions,
whose order (and so the last digits of floats) varies from run to run; `combine_at` is the `at` of
any function, in a fixed order; `set_at` is `target[key] = values`. In deterministic mode (see
`core.process.determinism`) the order of all three is fixed. Keys are in range.
"""

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.process import determinism

_ATOMIC: Final = ("float16", "float32", "float64", "int32", "uint32", "uint64")


def add_at(cupy: Any, target: Any, key: Any, values: Any) -> None:
    """`numpy.add.at` in every dtype: bool is "or", integers wrap."""
    dtype = target.dtype
    if dtype.kind == "c":
        values = cupy.asarray(values, dtype)
        add_at(cupy, target.real, key, values.real)
        add_at(cupy, target.imag, key, values.imag)
    elif dtype.kind == "f" and determinism.is_required():
        combine_at(cupy, cupy.add, target, key, values)
    elif dtype.name in _ATOMIC:
        cupy.add.at(target, key, values)
    elif dtype == np.int64:  # two's complement: the bits are those of unsigned numbers
        cupy.add.at(target.view(np.uint64), key, cupy.asarray(values, np.int64).view(np.uint64))
    else:
        wide = target.astype(np.int32)
        cupy.add.at(wide, key, cupy.asarray(values).astype(np.int32))
        target[...] = (wide != 0) if dtype.kind == "b" else wide.astype(dtype)


def combine_at(
    cupy: Any, function: Callable[[Any, Any], Any], target: Any, key: Any, values: Any
) -> None:
    """`function.at(target, key, values)`, for an associative function, in a fixed order.

    What belongs to one element is brought together by a sort and combined pairwise.
    """
    positions, values = _in_order(cupy, target, key, values)
    if positions.size == 0:
        return
    numbers = cupy.arange(positions.size)
    begins = cupy.concatenate([cupy.ones(1, bool), positions[1:] != positions[:-1]])
    first = cupy.flatnonzero(begins)
    rank = numbers - first[cupy.cumsum(begins) - 1]
    longest = int(rank.max()) + 1
    reach = 1
    while reach < longest:
        meets = (positions[reach:] == positions[:-reach]) & (rank[:-reach] % (2 * reach) == 0)
        combined = function(values[:-reach], values[reach:])
        values[:-reach] = cupy.where(meets, combined, values[:-reach])
        reach *= 2
    place = _place(cupy, positions[first], target.shape)
    target[place] = function(target[place], values[first])


def set_at(cupy: Any, target: Any, key: Any, values: Any) -> None:
    """`target[key] = values`; in deterministic mode the last of repeated indices wins."""
    if not determinism.is_required():
        target[key] = values
        return
    positions, values = _in_order(cupy, target, key, values)
    if positions.size == 0:
        return
    ends = cupy.concatenate([positions[1:] != positions[:-1], cupy.ones(1, bool)])
    last = cupy.flatnonzero(ends)
    target[_place(cupy, positions[last], target.shape)] = values[last]


def _in_order(cupy: Any, target: Any, key: Any, values: Any) -> tuple[Any, Any]:
    """(row-major positions that the key selects, values), both sorted by position; equal positions
    keep their order."""
    positions = cupy.arange(target.size).reshape(target.shape)[key]
    values = cupy.asarray(values, target.dtype)
    values = cupy.broadcast_to(values, positions.shape).reshape(-1)
    positions = positions.reshape(-1)
    order = cupy.argsort(positions, kind="stable")
    return positions[order], values[order]


def _place(cupy: Any, positions: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The key of elements by their row-major positions."""
    place = []
    for size in reversed(shape):
        place.append(positions % size)
        positions = positions // size
    return tuple(reversed(place))
