"""Views of arrays in a loop nest: elements, rows, slices and new axes, by NumPy's basic indices.

Contract: `Views.part` gives the view that an index chooses, `item` the element where no dim is
left. A view holds where its elements are (`values.Place`), and costs a few steps of ints. Indices
that are out of range refuse; bounds of slices are cut as Python cuts them. What is computed of
equal operands in one block has one register, so that equal views have equal places.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.execution.nests.complex_numbers import (
    ComplexNumbers,
    as_python,
    real_view,
)
from dynajit.capture.execution.nests.values import (
    LARGEST_SMALL,
    WHOLE,
    Array,
    Complex,
    Group,
    ListOf,
    Literal,
    NotNest,
    Number,
    Place,
    Slice,
    as_number,
)
from dynajit.core.types import dtypes
from dynajit.ir.nests import Size, Step

Whole = Literal | Number
"""An int: a literal, or a number of Python's."""

ZERO: Final = Literal(0)
ONE: Final = Literal(1)
_NONE: Final = Literal(None)


class Views(ComplexNumbers):
    """See the module's text. Mutable: steps are appended.

    Attributes:
        has_moving: there is a slice whose bounds are computed.
        has_turning: there is one whose bounds may differ between turns.
        has_rows: turns write to rows, which may be others in other turns.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_moving = self.has_turning = self.has_rows = False
        self._memo: dict[int, tuple[list[Step], dict[Any, Number]]] = {}

    # -- ints

    def int_step(self, operation: str, *given: Whole) -> Number:
        """A step of ints that gives one, once for equal operands."""
        operands = tuple(as_number(value).operand for value in given)
        known = self._known_ints()
        key = operation, operands
        if key not in known:
            found = self.emit(operation, dtypes.int64, *operands, dtype=dtypes.int64)
            known[key] = Number(found, dtypes.int64, True, WHOLE)
        return known[key]

    def _known_ints(self) -> dict[Any, Number]:
        """What the steps at hand have computed: registers that they read change behind them."""
        return self._memo.setdefault(id(self.steps), (self.steps, {}))[1]

    def plus(self, a: Whole, b: Whole) -> Whole:
        """`a + b`, of numbers whose sum fits."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return Literal(a.value + b.value)
        if isinstance(b, Literal) and not b.value:
            return a
        if isinstance(a, Literal):
            return self.plus(b, a) if a.value else b
        return self.int_step("add", a, b)

    def minus(self, a: Whole, b: Whole) -> Whole:
        """`a - b`, of numbers whose difference fits."""
        if isinstance(b, Literal):
            return self.plus(a, Literal(-b.value))
        return ZERO if _are_equal(a, b) else self.int_step("sub", a, b)

    def times(self, a: Whole, b: Whole) -> Whole:
        """`a * b`, of numbers whose product fits."""
        for one, other in ((a, b), (b, a)):
            if isinstance(one, Literal):
                if isinstance(other, Literal):
                    return Literal(one.value * other.value)
                if one.value in (0, 1):
                    return other if one.value else ZERO
        return self.int_step("mul", a, b)

    def lesser(self, a: Whole, b: Whole) -> Whole:
        """The lesser of two."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return Literal(min(a.value, b.value))
        return a if _are_equal(a, b) else self._chosen("lt", a, b)

    def greater(self, a: Whole, b: Whole) -> Whole:
        """The greater of two."""
        if isinstance(a, Literal) and isinstance(b, Literal):
            return Literal(max(a.value, b.value))
        return a if _are_equal(a, b) else self._chosen("gt", a, b)

    def _chosen(self, operation: str, a: Whole, b: Whole) -> Number:
        x, y = as_number(a).operand, as_number(b).operand
        truth = self.compared(operation, dtypes.int64, x, y)
        found = self.emit("select", dtypes.int64, truth, x, y, dtype=dtypes.int64)
        return Number(found, dtypes.int64, True, WHOLE)

    def require_equal(self, a: Whole, b: Whole) -> None:
        """Refuse where two ints differ."""
        if _are_equal(a, b):
            return
        self.require_compared("eq", dtypes.int64, as_number(a).operand, as_number(b).operand)

    def as_int(self, value: Any) -> Whole:
        """An index or a bound.

        Raises:
            NotNest: it is no int.
        """
        if isinstance(value, Literal):
            if type(value.value) is not int or abs(value.value) >= 1 << 62:
                raise NotNest
            return value
        number = as_number(value)
        if number.dtype.category is not dtypes.int64.category:
            raise NotNest
        found: Number = replace(self.to_int(number), extent=WHOLE)
        return found

    def forget_ints(self) -> None:
        """What ints are computed of has changed."""
        self._memo.pop(id(self.steps), None)

    # -- indices

    def item(self, array: Array | ListOf, key: Any) -> Any:
        """`array[key]`: an element, or a view; of a list a number, or a list in it."""
        if isinstance(array, ListOf):
            chosen = self.part_of_list(array, key)
            if chosen.sizes:
                return ListOf(chosen)
            return as_python(self.element(chosen, ()))
        found = self.part(array, key)
        return found if found.sizes else self.element(found, ())

    def part_of_list(self, given: ListOf, key: Any) -> Array:
        """The part of its array that is an item of a list.

        Raises:
            NotNest: the key is no int.
        """
        if not isinstance(key, (Literal, Number)):
            raise NotNest
        return self.part(given.array, self.as_int(key))

    def part(self, array: Array, key: Any) -> Array:
        """The part of an array that a basic index chooses.

        Raises:
            NotNest: the index is none.
        """
        keys = _spelled_out(key.items if isinstance(key, Group) else (key,), len(array.sizes))
        starts = [place.start for place in array.places]
        moves: list[list[tuple[int, Whole]]] = [[] for _ in array.places]
        sizes: list[Whole] = []
        dim = 0
        for given in keys:
            if _is_none(given):
                sizes.append(ONE)
                continue
            size = array.sizes[dim]
            if isinstance(given, Slice):
                start, step, count = self._cut(given, size)
                self._begin_at(array, dim, starts, start)
                for found, place in zip(moves, array.places, strict=True):
                    along = [self.times(step, by) for other, by in place.moves if other == dim]
                    found += [(len(sizes), by) for by in along]
                sizes.append(count)
            else:
                self._begin_at(array, dim, starts, self._checked(given, size))
            dim += 1
        places = tuple(map(Place, starts, map(tuple, moves)))
        return replace(array, sizes=tuple(sizes), places=places, is_given=False)

    def _begin_at(self, array: Array, dim: int, starts: list[Whole], index: Whole) -> None:
        """Begin at an index along a dim."""
        for number, place in enumerate(array.places):
            for other, by in place.moves:
                if other == dim:
                    starts[number] = self.plus(starts[number], self.times(index, by))

    def _checked(self, index: Any, size: Whole) -> Whole:
        given = self.as_int(index)
        if isinstance(given, Literal) and isinstance(size, Literal):
            if not -size.value <= given.value < size.value:
                self.require(False)
                return ZERO
            return Literal(given.value % size.value)
        return self.int_step("index", given, size)

    def _cut(self, given: Slice, size: Whole) -> tuple[Whole, Whole, Whole]:
        """(first index, step, how many) of a slice."""
        step = ONE if _is_none(given.step) else self.as_int(given.step)
        if isinstance(step, Number):
            self.require_between(step, 1, LARGEST_SMALL)
        elif not step.value or abs(step.value) > LARGEST_SMALL:
            raise NotNest
        is_upwards = isinstance(step, Number) or step.value > 0
        low = ZERO if is_upwards else Literal(-1)
        high = size if is_upwards else self.minus(size, ONE)
        ends = (low, high) if is_upwards else (high, low)
        start, stop = (
            end if _is_none(bound) else self._end_of_slice(bound, size, low, high)
            for bound, end in zip((given.start, given.stop), ends, strict=True)
        )
        span = self.minus(stop, start) if is_upwards else self.minus(start, stop)
        span = self.greater(span, ZERO) if not _is_all(start, stop, size) else span
        width = Literal(abs(step.value)) if isinstance(step, Literal) else step
        if isinstance(width, Literal) and width.value == 1:
            return start, step, span
        count = self.plus(span, self.minus(width, ONE))
        if isinstance(count, Literal) and isinstance(width, Literal):
            return start, step, Literal(count.value // width.value)
        return start, step, self.int_step("floordiv", count, width)

    def _end_of_slice(self, bound: Whole, size: Whole, low: Whole, high: Whole) -> Whole:
        """A bound of a slice, counted from the front and cut to what there is."""
        given = self.as_int(bound)
        self.has_moving |= isinstance(given, Number)
        self.has_turning |= isinstance(given, Number) and not self.is_fixed(given.operand)
        if isinstance(given, Literal):
            if not given.value and low is ZERO:
                return ZERO
            if given.value >= 0:
                return self.lesser(given, high)
            return self.greater(self.plus(given, size), low)
        key = "bound", given.operand, *(as_number(value).operand for value in (size, low, high))
        known = self._known_ints()
        if key in known:
            return known[key]
        is_negative = self.compared("lt", dtypes.int64, given.operand, 0)
        counted = as_number(self.plus(given, size)).operand
        from_front = self.emit(
            "select", dtypes.int64, is_negative, counted, given.operand, dtype=dtypes.int64
        )
        found = Number(from_front, dtypes.int64, True, WHOLE)
        known[key] = as_number(self.lesser(self.greater(found, low), high))
        return known[key]

    def transposed(self, array: Array) -> Array:
        """`array.T`."""
        last = len(array.sizes) - 1
        places = tuple(
            Place(place.start, tuple((last - dim, by) for dim, by in place.moves))
            for place in array.places
        )
        return replace(array, sizes=array.sizes[::-1], places=places, is_given=False)

    def parts_of(self, array: Array) -> tuple[Array, Array]:
        """`array.real` and `array.imag`, of complex numbers."""
        real = real_view(array)
        *places, last = real.places
        last = replace(last, start=self.plus(last.start, ONE))
        return real, replace(real, places=(*places, last))

    # -- elements

    def element(self, array: Array, indices: Sequence[Whole]) -> Number | Complex:
        """An element, by indices that are in range."""
        if array.dtype.is_complex:
            real, imag = (self.element(part, indices) for part in self.parts_of(array))
            assert isinstance(real, Number) and isinstance(imag, Number)
            return Complex(real, imag)
        found = self.emit("load", array.dtype, *self._address(array, indices), slot=array.slot)
        return Number(found, array.dtype, False)

    def set_element(self, array: Array, indices: Sequence[Whole], operand: Any) -> None:
        """Give an element a value of the array's dtype: an operand, or a Complex."""
        if isinstance(operand, Complex):
            numbers = (operand.real, operand.imag)
            for part, number in zip(self.parts_of(array), numbers, strict=True):
                self.set_element(part, indices, number.operand)
            return
        operands = (*self._address(array, indices), operand)
        self.steps.append(Step("store", operands=operands, slot=array.slot))

    def _address(self, array: Array, indices: Sequence[Whole]) -> list[Any]:
        found = []
        for number, place in enumerate(array.places):
            index = place.start
            for dim, by in place.moves:
                index = self.plus(index, self.times(indices[dim], by))
            if number in array.flipped:
                size = Number(Size(array.slot, number), dtypes.int64, True, WHOLE)
                index = self.minus(self.minus(size, ONE), index)
            found.append(as_number(index).operand)
        return found


def _are_equal(a: Whole, b: Whole) -> bool:
    """Whether two ints are known to be equal."""
    return bool(as_number(a).operand == as_number(b).operand)


def _is_none(value: Any) -> bool:
    return isinstance(value, Literal) and value.value is None


def _is_all(start: Whole, stop: Whole, size: Whole) -> bool:
    """Whether bounds are those of all of a dim."""
    return start == ZERO and stop == size


def _spelled_out(keys: Sequence[Any], rank: int) -> list[Any]:
    """An index for each dim, in place of `...` and of nothing."""
    dots = [n for n, key in enumerate(keys) if isinstance(key, Literal) and key.value is ...]
    used = sum(not _is_none(key) for key in keys) - len(dots)
    if len(dots) > 1 or used > rank:
        raise NotNest
    rest = [Slice(_NONE, _NONE, _NONE)] * (rank - used)
    at = dots[0] if dots else len(keys)
    return [*keys[:at], *rest, *keys[at + 1 :]]


__all__ = ["ONE", "ZERO", "Views", "Whole"]
