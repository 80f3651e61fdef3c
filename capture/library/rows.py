"""What turns of a loop have left in lists that nobody has read, as rows of tensors.

The end of a region makes thousands of items of one result in place of a result for each. A list
that holds `Turns` is built of its other items and of what all turns append, turn by turn
(`spread`); that is made column by column: what one thing that a turn appends is in all of them.
Where a tensor has ended the loop, `count` says how many turns there were.
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
    """Items, each over one of the first `count` rows of a tensor: `tensor`, and of which kind."""


class Part:
    """Some of `rows`, from `first` to the one in front of `stop`."""


class Column:
    """What is over a tensor in every turn: `items` and parts."""


class Chain:
    """What is over a tensor in each of `count` turns: `firsts`, then `rows`, and what holds it
    behind the loop (`lasts`) in the place of the last."""


class Numbers:
    """The first `count` of what a number may be in turns: `numbers`."""


class Repeated:
    """What is the same `item` in `count` turns."""


class Tuples:
    """A tuple in every turn, of what `columns` hold."""


class Turns:
    """What all turns append, of `columns` turn by turn."""


class Made(list[Any]):
    """Items that belong in a list in the place of what made them."""


@rebuilds(Rows)
def _rows_of(tensor: Any, kind: str, count: int) -> list[Any]:
    array = tensor.array[:count]
    if kind == TENSORS:
        if tensor.requires_grad:
            return _with_gradients(tensor)
        return list(wrap_arrays(_copies(array)))
    if kind == ARRAYS:
        return _copies(array)
    return array.tolist() if kind == NUMBERS else list(array)


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


@rebuilds(Chain)
def _chain_of(
    firsts: Sequence[Any], rows: Sequence[Any], lasts: Sequence[Any], count: int
) -> list[Any]:
    found = [*firsts, *rows][:count]
    for place, item in zip(range(count - 1, len(firsts) - 1, -1), lasts, strict=False):
        found[place] = item
    return found


@rebuilds(Numbers)
def _numbers_of(numbers: Sequence[Any], count: int) -> list[Any]:
    return [*numbers[:count]]


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
    "ARRAYS", "NUMBERS", "NUMPY_NUMBERS", "TENSORS", "Chain", "Column", "Numbers", "Part",
    "Repeated", "Rows", "Tuples", "Turns", "spread",
]  # fmt: skip
