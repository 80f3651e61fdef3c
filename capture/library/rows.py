"""What turns of a loop have left in lists that nobody has read, as rows of tensors.

The end of a region makes thousands of items of one result in place of a result for each. A list
that holds `Turns` is built of its other items and of what all turns append, turn by turn
(`spread`); that is made column by column: what one thing that a turn appends is in all of them.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from dynajit.capture.library.table import rebuilds
from dynajit.eager import Tensor, enable_grad
from dynajit.eager._tensor import wrap_arrays

TENSORS, ARRAYS, NUMBERS, NUMPY_NUMBERS = "tensors", "arrays", "numbers", "numbers of NumPy's"


class Rows:
    """Items, each over a row of a tensor: `tensor`, and of which kind they are."""


class Part:
    """Some of `rows`, from `first` to the one in front of `stop`."""


class Column:
    """What is over a tensor in every turn: `items` and parts."""


class Repeated:
    """What is the same `item` in `count` turns."""


class Tuples:
    """A tuple in every turn, of what `columns` hold."""


class Turns:
    """What all turns append, of `columns` turn by turn."""


class Made(list[Any]):
    """Items that belong in a list in the place of what made them."""


@rebuilds(Rows)
def _rows_of(tensor: Any, kind: str) -> list[Any]:
    if kind == TENSORS:
        if tensor.requires_grad:
            return _with_gradients(tensor)
        return list(wrap_arrays(_copies(tensor.array)))
    if kind == ARRAYS:
        return _copies(tensor.array)
    return tensor.array.tolist() if kind == NUMBERS else list(tensor.array)


def _copies(array: Any) -> list[Any]:
    return [array[place, ...].copy() for place in range(len(array))]


def _with_gradients(tensor: Tensor) -> list[Tensor]:
    """In groups: the gradient of a row is one of its group, and that of a group one of all rows."""
    with enable_grad():
        groups = tensor.split(max(1, math.isqrt(len(tensor))))
        return [row.clone() for group in groups for row in group.unbind(0)]


@rebuilds(Part)
def _part_of(rows: Sequence[Any], first: int, stop: int) -> Made:
    return Made(rows[first:stop])


@rebuilds(Column)
def _column_of(items: Iterable[Any]) -> list[Any]:
    return spread(items)


@rebuilds(Repeated)
def _repeated(item: Any, count: int) -> list[Any]:
    return [item] * count


@rebuilds(Tuples)
def _tuples_of(columns: Iterable[Any]) -> list[Any]:
    return list(zip(*columns, strict=True))


@rebuilds(Turns)
def _turns_of(columns: Sequence[Any]) -> Made:
    if len(columns) == 1:
        return Made(columns[0])
    return Made(itertools.chain.from_iterable(zip(*columns, strict=True)))


def spread(items: Iterable[Any]) -> list[Any]:
    """A list of items, with what was made of rows in its place."""
    found: list[Any] = []
    for item in items:
        if type(item) is Made:
            found += item
        else:
            found.append(item)
    return found


__all__ = [
    "ARRAYS", "NUMBERS", "NUMPY_NUMBERS", "TENSORS", "Column", "Part", "Repeated", "Rows", "Tuples",
    "Turns", "spread",
]  # fmt: skip
