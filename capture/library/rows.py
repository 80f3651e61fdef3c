"""What turns of a loop have left in lists that nobody has read, as rows of one tensor.

The end of a region makes thousands of items of one result in place of a result for each. A list
that holds a `Part` is built of its other items and of the rows of the part (`spread`).
"""

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


class Made(list[Any]):
    """Items that belong in a list in the place of the part that made them."""


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


def spread(items: Iterable[Any]) -> list[Any]:
    """A list of items, with what parts have made in their place."""
    found: list[Any] = []
    for item in items:
        if type(item) is Made:
            found += item
        else:
            found.append(item)
    return found


__all__ = ["ARRAYS", "NUMBERS", "NUMPY_NUMBERS", "TENSORS", "Part", "Rows", "spread"]
