"""What loops within a nest go over: ranges, arrays, tuples, and `enumerate` and `zip` of them; all
indices of a shape (`numpy.ndindex`, `numpy.ndenumerate`), and all elements of an array (`flat`).

Contract: `Iteration.has_next` and `next_of` are one turn's `FOR_ITER`. How many items an array or a
range has left is computed by the launch; those of a tuple are known, and so each has a turn of its
own in the program. The indices of a shape are loops within each other: `next_row` leads from the
end of a dim to the next index of the dim before.
"""

import builtins
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from dynajit.capture.execution.nests.values import (
    LARGEST_SMALL,
    SMALL,
    Array,
    Elements,
    Grid,
    Group,
    Items,
    ListOf,
    Literal,
    NotNest,
    Number,
    Range,
    as_number,
    extent_of,
)
from dynajit.capture.execution.nests.views import ZERO, Views
from dynajit.core.types import dtypes

Iterable: TypeAlias = Range | Elements | Grid | Items

#: Dims of a shape whose indices are gone over: each is a loop.
MOST_DIMS: Final = 8

#: An attribute of arrays, in place of a function: an iterator over all elements.
FLAT: Final = "flat"


class Iteration(Views):
    """See the module's text. Mutable: steps are appended."""

    def iterator_of(self, value: Any) -> Iterable:
        """`iter(value)`.

        Raises:
            NotNest: loops of nests do not go over it.
        """
        if isinstance(value, Group):
            return Items(value.items)
        if isinstance(value, (Array, ListOf)) and value.sizes:
            value = self.over(None, (value,))
        if not isinstance(value, (Range, Elements, Grid, Items)):
            raise NotNest
        return value if isinstance(value, (Grid, Items)) else replace(value, is_iterator=True)

    def over(self, function: Any, arguments: Sequence[Any]) -> Iterable:
        """What a loop goes over: an array, where there is no function, or what one gives of some.

        Raises:
            NotNest: it is something else.
        """
        if function is None:
            (array,) = arguments
            return Elements(as_number(Literal(0)), (_with_dims(array),))
        if function is FLAT:
            (array,) = arguments
            return replace(self.grid_of_array((array,)), has_indices=False)
        return ITERATION[id(function)](self, arguments)

    def grid_of_array(self, arguments: Sequence[Any]) -> Grid:
        """`numpy.ndenumerate(array)`."""
        if len(arguments) != 1:
            raise NotNest
        array = _with_dims(arguments[0])
        if isinstance(array, ListOf):
            raise NotNest
        return replace(self._grid(array.sizes), array=array)

    def grid_of_shape(self, arguments: Sequence[Any]) -> Grid:
        """`numpy.ndindex(*shape)`, or of one tuple."""
        first = arguments[0] if len(arguments) == 1 else None
        sizes = [*map(self._end_of_range, first.items if isinstance(first, Group) else arguments)]
        if not sizes:
            raise NotNest
        for size in sizes:
            if isinstance(size, Number):
                self.require_compared("ge", dtypes.int64, size.operand, 0)
            elif size.value < 0:
                raise NotNest
        return self._grid(tuple(sizes))

    def _grid(self, sizes: tuple[Any, ...]) -> Grid:
        """All indices: where there are none, each dim is at its end."""
        if len(sizes) > MOST_DIMS:
            raise NotNest
        is_empty: Any = Literal(False)
        for size in sizes:
            is_empty = self.either(is_empty, self.compare("==", size, ZERO))
        if isinstance(is_empty, Literal):
            starts = [as_number(size if is_empty.value else ZERO) for size in sizes]
        else:
            ends = map(as_number, sizes)
            starts = [self.selected(is_empty.operand, end, as_number(ZERO)) for end in ends]
        return Grid(tuple(replace(start, extent=SMALL) for start in starts), sizes)

    def next_row(self, found: Grid, dim: int) -> tuple[Grid, Any]:
        """Behind the last index along a dim and those after it: the first ones, of the next index
        of the dim before, and whether there is one."""
        at = found.at[dim - 1]
        after = self.int_step("add", at, Literal(1))
        following = replace(after, extent=SMALL)
        rest = tuple(as_number(ZERO) for _ in found.at[dim:])
        made = replace(found, at=(*found.at[: dim - 1], following, *rest))
        return made, self.compare("<", following, found.sizes[dim - 1])

    def range_of(self, arguments: Sequence[Any]) -> Range:
        """`range(*arguments)`."""
        if not 1 <= len(arguments) <= 3:
            raise NotNest
        step = arguments[2] if len(arguments) == 3 else Literal(1)
        step = self._end_of_range(step)
        if isinstance(step, Literal) and not step.value:
            raise NotNest
        if isinstance(step, Number):
            self.require_compared("ne", dtypes.int64, step.operand, 0)
        ends = arguments[:2] if len(arguments) > 1 else [Literal(0), *arguments]
        start, stop = map(self._end_of_range, ends)
        return Range(as_number(start), stop, step)

    def _end_of_range(self, value: Any) -> Any:
        """An int that is small, so that counters need no checks."""
        if isinstance(value, Literal):
            if type(value.value) is not int or extent_of(value.value) != SMALL:
                raise NotNest
            return value
        number = as_number(value)
        if number.dtype.category is not dtypes.int64.category:
            raise NotNest
        found = self.to_int(number)
        if found.extent != SMALL:
            self.require_between(found, -LARGEST_SMALL, LARGEST_SMALL)
        return replace(found, extent=SMALL)

    def has_next(self, found: Any) -> Any:
        """Whether there is a next item.

        Raises:
            NotNest: it is no iterator.
        """
        if isinstance(found, Items):
            return Literal(bool(found.items))
        if isinstance(found, Grid):
            return self.compare("<", found.at[-1], found.sizes[-1])
        if not isinstance(found, (Range, Elements)) or not found.is_iterator:
            raise NotNest
        if isinstance(found, Range):
            return self._is_in_range(found)
        truth = self.compare("<", found.at, found.arrays[0].sizes[0])
        for array in found.arrays[1:]:
            truth = self.both(truth, self.compare("<", found.at, array.sizes[0]))
        return truth

    def _is_in_range(self, found: Range) -> Any:
        if isinstance(found.step, Literal):
            return self.compare("<" if found.step.value > 0 else ">", found.start, found.stop)
        is_upwards = self.compare(">", found.step, Literal(0))
        below, above = (as_number(self.compare(s, found.start, found.stop)) for s in "<>")
        return self.selected(is_upwards.operand, below, above)

    def next_of(self, found: Iterable) -> list[Any]:
        """The iterator behind its next item, and the item."""
        if isinstance(found, Items):
            return [Items(found.items[1:]), found.items[0]]
        if isinstance(found, Grid):
            return self._next_of_grid(found)
        if isinstance(found, Range):
            item = replace(as_number(found.start), extent=SMALL)
            step = as_number(found.step)
            after = self.emit("add", dtypes.int64, item.operand, step.operand, dtype=dtypes.int64)
            start = Number(after, dtypes.int64, True, SMALL)
            return [replace(found, start=start), item]
        at = replace(as_number(found.at), extent=SMALL)
        items = [self.item(array, at) for array in found.arrays]
        given: Any = Group(tuple(items)) if found.is_group else items[0]
        if found.first is not None:
            count = self.binary("+", at, Literal(found.first)) if found.first else at
            given = Group((count, given))
        after = self.emit("add", dtypes.int64, at.operand, 1, dtype=dtypes.int64)
        return [replace(found, at=Number(after, dtypes.int64, True, SMALL)), given]

    def _next_of_grid(self, found: Grid) -> list[Any]:
        last = as_number(found.at[-1])
        after = self.emit("add", dtypes.int64, last.operand, 1, dtype=dtypes.int64)
        following = Number(after, dtypes.int64, True, SMALL)
        item: Any = Group(found.at)
        if found.array is not None:
            element = self.element(found.array, found.at)
            item = Group((item, element)) if found.has_indices else element
        return [replace(found, at=(*found.at[:-1], following)), item]


def _enumerated(nest: Iteration, arguments: Sequence[Any]) -> Iterable:
    if len(arguments) not in (1, 2):
        raise NotNest
    first = arguments[1] if len(arguments) == 2 else Literal(0)
    if not isinstance(first, Literal) or type(first.value) is not int:
        raise NotNest
    if extent_of(first.value) != SMALL:
        raise NotNest
    (inner, *_) = arguments
    if isinstance(inner, Group):
        numbers = range(first.value, first.value + len(inner.items))
        pairs = zip(map(Literal, numbers), inner.items, strict=True)
        return Items(tuple(Group(pair) for pair in pairs))
    if isinstance(inner, Elements) and not inner.is_iterator and inner.first is None:
        return replace(inner, first=first.value)
    return Elements(as_number(Literal(0)), (_with_dims(inner),), first.value)


def _zipped(nest: Iteration, arguments: Sequence[Any]) -> Iterable:
    if not arguments:
        raise NotNest
    if all(isinstance(argument, Group) for argument in arguments):
        rows = zip(*(argument.items for argument in arguments), strict=False)
        return Items(tuple(map(Group, rows)))
    return Elements(as_number(Literal(0)), tuple(map(_with_dims, arguments)), is_group=True)


def _with_dims(value: Any) -> Any:
    if not isinstance(value, (Array, ListOf)) or not value.sizes:
        raise NotNest
    return value


# By id: a class may hash by code of the program's.
ITERATION: Final[dict[int, Callable[[Iteration, Sequence[Any]], Iterable]]] = {
    id(builtins.range): Iteration.range_of,
    id(builtins.enumerate): _enumerated,
    id(builtins.zip): _zipped,
    id(np.ndindex): Iteration.grid_of_shape,
    id(np.ndenumerate): Iteration.grid_of_array,
}


__all__ = ["FLAT", "ITERATION", "Iterable", "Iteration"]
