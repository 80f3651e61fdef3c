"""Lists that a loop nest makes: their numbers are scratch memory, their lengths registers.

Contract: a list has one slot and one register for its length, wherever it is known by a name; a
list in another one is a row of it, and known by no name of its own. What one class of numbers
cannot hold, lists in two places, and what else changes lists than `append` and `pop` raise
`NotNest`. `Again` is raised where a list turns out to be of another class than was taken for
granted, or a parameter's to grow: the nest is made anew then, with the same `Findings`.
"""

import sys
from collections.abc import Sequence
from typing import Any, Final

from dynajit.capture.execution.nests.complex_numbers import (
    as_complex_number,
    as_python,
    is_complex,
)
from dynajit.capture.execution.nests.draws import Draws
from dynajit.capture.execution.nests.values import (
    Again,
    Array,
    Complex,
    Listing,
    ListOf,
    Literal,
    NotNest,
    Number,
    Place,
    Range,
    as_number,
    is_length,
    length_of,
)
from dynajit.capture.execution.nests.views import ONE, ZERO, Whole
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ir.nests import Register, Step

#: Python adds up floats with what rounding has left out from this version on.
IS_COMPENSATED: Final = sys.version_info >= (3, 12)

#: The same of complex numbers.
IS_COMPENSATED_OF_COMPLEX: Final = sys.version_info >= (3, 14)

ListKind = tuple[DType, int]
"""The dtype of numbers, and how many lists are within each other."""


class Findings:
    """What is known of a program's lists. Mutable.

    Attributes:
        kinds: by the instruction that makes an empty list.
        growing: the parameters whose lists change their lengths.
    """

    def __init__(self) -> None:
        self.kinds: dict[Any, ListKind] = {}
        self.growing: set[str] = set()


class Lists(Draws):
    """See the module's text. Mutable: steps are appended.

    Attributes:
        findings: what is known of the program's lists.
        has_guessed: of what class the numbers of a list are.
    """

    findings: Findings
    has_guessed = False

    def parameter_of(self, array: Array) -> str:
        """The parameter that an operand is given as.

        Raises:
            NotNest: there is none.
        """
        raise NotImplementedError

    # -- new lists

    def list_of(self, listing: Listing) -> ListOf:
        """`[a, b]`: of one class of numbers, which appended ones tell where there are none."""
        numbers = [*map(_number, listing.items)]
        if not numbers:
            return self._empty(listing.site)
        dtype = numbers[0].dtype
        if not all(number.is_python and number.dtype is dtype for number in numbers):
            raise NotNest
        found = self.new(dtype, (Literal(len(numbers)),))
        for place, number in enumerate(numbers):
            self.set_element(found, (Literal(place),), _operand_of(number))
        return self.growing(found)

    def _empty(self, site: Any) -> ListOf:
        self.has_guessed |= site not in self.findings.kinds
        dtype, rank = self.findings.kinds.get(site, (dtypes.float64, 1))
        found = self.new(dtype, (ZERO,) * rank)
        return self.growing(found, site)

    def repeated(self, listing: Listing, count: Any) -> ListOf:
        """`[number] * count`."""
        if len(listing.items) != 1:
            raise NotNest
        number = _number(listing.items[0])
        if not number.is_python:
            raise NotNest
        size = self.greater(self.as_int(count), ZERO)
        return self.growing(self.filled(number.dtype, (size,), number))

    def growing(self, array: Array, site: Any = None) -> ListOf:
        """A new array as a list: its length is the register of its slot from here on."""
        rank = len(array.sizes)
        sizes = tuple(length_of(array.slot, dim) for dim in range(rank))
        for size, given in zip(sizes, array.sizes, strict=True):
            self._set(size, as_number(given).operand)
        moves = _moves(array.dtype, sizes)
        return ListOf(Array(array.slot, array.dtype, sizes, (Place(ZERO, moves),)), site)

    def copy_of_list(self, target: Any) -> ListOf:
        """`list(numbers)`, and `numbers.copy()`."""
        if isinstance(target, Range):
            return self._list_of_range(target)
        if not isinstance(target, ListOf) or len(target.sizes) != 1:
            raise NotNest
        return self.growing(self.held(target.array))

    def _list_of_range(self, target: Range) -> ListOf:
        if target.is_iterator or not isinstance(target.step, Literal) or target.step.value != 1:
            raise NotNest
        start = self.as_int(target.start)
        count = self.greater(self.minus(self.as_int(target.stop), start), ZERO)
        found = self.new(dtypes.int64, (count,))
        self.each(
            found.sizes,
            lambda at: self.set_element(found, at, as_number(self.plus(at[0], start)).operand),
        )
        return self.growing(found)

    def slice_of_list(self, target: ListOf, key: Any) -> ListOf:
        """`numbers[a:b]`."""
        if len(target.sizes) != 1:
            raise NotNest  # the lists in it are in two places then
        return self.growing(self.held(self.part(target.array, key)))

    # -- what changes them

    def append(self, target: ListOf, value: Any) -> None:
        """`numbers.append(value)`, of a number or of a list that nobody else knows."""
        array = self._changing(target)
        if isinstance(value, ListOf):
            self._append_row(target, value)
            return
        number = _number(value)
        if not number.is_python:
            raise NotNest
        self._settle(target, (number.dtype, 1))
        count = array.sizes[0]
        after = self.emit("add", dtypes.int64, as_number(count).operand, 1, dtype=dtypes.int64)
        self._grow(array, after)
        self.set_element(array, (count,), _operand_of(number))
        self._set(count, after)
        self.forget_ints()

    def _append_row(self, target: ListOf, row: ListOf) -> None:
        """The row is copied: nobody else may know it (`Flow` looks)."""
        array, given = target.array, row.array
        if given.slot >= 0 or given.slot == array.slot or len(given.sizes) != 1:
            raise NotNest
        if self._is_guess(row):
            raise NotNest
        self._settle(target, (given.dtype, 2))
        count, width = (as_number(size).operand for size in array.sizes)
        length = as_number(given.sizes[0]).operand
        is_first = self.compared("eq", dtypes.int64, count, 0)
        chosen = self.emit("select", dtypes.int64, is_first, length, width, dtype=dtypes.int64)
        self._set(array.sizes[1], chosen)
        self.require_compared("eq", dtypes.int64, length, width)
        after = self.emit("add", dtypes.int64, count, 1, dtype=dtypes.int64)
        room = self.emit("mul_whole", dtypes.int64, after, width, dtype=dtypes.int64)
        self._grow(array, room)
        start = self.emit("mul", dtypes.int64, count, width, dtype=dtypes.int64)
        at = self.times(Number(start, dtypes.int64, True), _floats_in(array.dtype))
        moves = _moves(array.dtype, given.sizes)
        part = Array(array.slot, array.dtype, given.sizes, (Place(at, moves),))
        self.fill(part, given)
        self._set(array.sizes[0], after)
        self.forget_ints()

    def _is_guess(self, target: ListOf) -> bool:
        """Whether the class of a list's numbers is a guess, so far."""
        return target.site is not None and target.site not in self.findings.kinds

    def _grow(self, array: Array, count: Any) -> None:
        """Make room for so many numbers."""
        room = self.times(Number(count, dtypes.int64, True), _floats_in(array.dtype))
        operands = (as_number(room).operand,)
        self.steps.append(Step("grow", operands=operands, slot=array.slot))

    def popped(self, target: ListOf) -> Any:
        """`numbers.pop()`."""
        array = self._changing(target)
        if len(array.sizes) != 1:
            raise NotNest
        count = as_number(array.sizes[0]).operand
        self.require_compared("gt", dtypes.int64, count, 0)
        after = self.emit("sub", dtypes.int64, count, 1, dtype=dtypes.int64)
        found = as_python(self.element(array, (Number(after, dtypes.int64, True),)))
        self._set(array.sizes[0], after)
        self.forget_ints()
        return found

    def set_number(self, target: ListOf, key: Any, value: Any) -> None:
        """`numbers[key] = value`, of the class of the others."""
        chosen, number = self.part_of_list(target, key), _number(value)
        if chosen.sizes or not number.is_python or number.dtype is not chosen.dtype:
            raise NotNest
        if chosen.slot >= 0:
            self.written[chosen.slot] = None
        self.set_element(chosen, (), _operand_of(number))

    def _changing(self, target: ListOf) -> Array:
        """The array of a list whose length may change.

        Raises:
            NotNest: it is part of another list.
        """
        array = target.array
        if array.slot >= 0:
            name = self.parameter_of(array)
            if name in self.findings.growing:
                raise NotNest
            self.findings.growing.add(name)
            raise Again
        if not is_own_list(array):
            raise NotNest
        return array

    def _settle(self, target: ListOf, kind: ListKind) -> None:
        """Numbers of a kind are appended."""
        array = target.array
        if (array.dtype, len(array.sizes)) == kind:
            self.findings.kinds.setdefault(target.site, kind)
            return
        if target.site is None or target.site in self.findings.kinds:
            raise NotNest
        self.findings.kinds[target.site] = kind
        raise Again

    def _set(self, length: Whole, operand: Any) -> None:
        register = as_number(length).operand
        assert isinstance(register, Register)
        if operand != register:
            self.steps.append(Step("set", register, (operand,), dtypes.int64))

    # -- what they tell

    def length(self, target: Any) -> Whole:
        """`len(numbers)`, which is no other when they grow."""
        size: Whole = target.sizes[0]
        if not is_length(size):
            return size
        found = self.emit("set", dtypes.int64, as_number(size).operand)
        return Number(found, dtypes.int64, True)

    def truth(self, value: Any) -> Any:
        """Whether a number is true, or a list has items."""
        if isinstance(value, ListOf):
            return self.compare(">", value.sizes[0], ZERO)
        return super().truth(value)

    def joined_numbers(self, name: str, target: ListOf) -> Number | Complex:
        """`sum`, `min` and `max` of a list that has items; the sum of no floats is an int."""
        array = target.array
        if len(array.sizes) != 1 or self._is_guess(target):
            raise NotNest
        if name != "sum" or array.dtype.category >= Category.FLOATING:
            self.require_compared("gt", dtypes.int64, as_number(array.sizes[0]).operand, 0)
        if name != "sum":
            return self._extreme_number(array, "lt" if name == "min" else "gt")
        if array.dtype.is_complex:
            return self._sum_of_complex(array)
        if array.dtype is dtypes.float64:
            return self._sum_of_floats(array)
        total = self._started(dtypes.int64, 0)

        def one(indices: Sequence[Whole]) -> None:
            given = self.cast(self.element(array, indices), dtypes.int64)  # type: ignore[arg-type]
            self.steps.append(Step("add_whole", total, (total, given), dtypes.int64))

        self.each(array.sizes, one)
        return Number(total, dtypes.int64, True)

    def _sum_of_complex(self, array: Array) -> Complex:
        """Part by part, from 0 on."""
        if IS_COMPENSATED_OF_COMPLEX:
            raise NotNest
        parts = self.parts_of(array)
        totals = [self._started(dtypes.float64, 0.0) for _ in parts]

        def one(indices: Sequence[Whole]) -> None:
            for part, total in zip(parts, totals, strict=True):
                given = self._operand(part, indices)
                self.steps.append(Step("add", total, (total, given), dtypes.float64))

        self.each(array.sizes, one)
        return Complex(*(Number(total, dtypes.float64, True) for total in totals))

    def _sum_of_floats(self, array: Array) -> Number:
        real = dtypes.float64
        total, left = self._started(real, 0.0), self._started(real, 0.0)

        def one(indices: Sequence[Whole]) -> None:
            given = self._operand(array, indices)
            if not IS_COMPENSATED:
                self.steps.append(Step("add", total, (total, given), real))
                return
            after = self.emit("add", real, total, given, dtype=real)
            sizes = [self.emit("call", real, x, dtype=real, name="abs") for x in (total, given)]
            is_larger = self.compared("ge", real, *sizes)
            large = self.emit("select", real, is_larger, total, given, dtype=real)
            small = self.emit("select", real, is_larger, given, total, dtype=real)
            rest = self.emit("sub", real, large, after, dtype=real)
            lost = self.emit("add", real, rest, small, dtype=real)
            is_later = self.compared("gt", dtypes.int64, as_number(indices[0]).operand, 0)
            chosen = self.emit("select", real, is_later, lost, 0.0, dtype=real)
            self.steps.append(Step("add", left, (left, chosen), real))
            self.steps.append(Step("set", total, (after,)))

        self.each(array.sizes, one)
        if IS_COMPENSATED:
            # Python adds what was left out where that is finite and not zero.
            apart = self.emit("sub", real, left, left, dtype=real)
            is_finite = self.compared("eq", real, apart, 0.0)
            is_some = self.compared("ne", real, left, 0.0)
            is_added = self.emit("both", dtypes.bool_, is_finite, is_some)
            whole = self.emit("add", real, total, left, dtype=real)
            chosen = self.emit("select", real, is_added, whole, total, dtype=real)
            return Number(chosen, real, True)
        return Number(total, real, True)

    def _extreme_number(self, array: Array, comparison: str) -> Number:
        dtype = array.dtype
        if dtype.is_complex:
            raise NotNest
        found = self._started(dtype, self._operand(array, (ZERO,)))

        def one(indices: Sequence[Whole]) -> None:
            given = self._operand(array, indices)
            truth = self.compared(comparison, dtype, given, found)
            self.steps.append(Step("select", found, (truth, given, found), dtype))

        self.each(array.sizes, one)
        return Number(found, dtype, True)

    def _operand(self, array: Array, indices: Sequence[Whole]) -> Any:
        found = self.element(array, indices)
        assert isinstance(found, Number)
        return found.operand

    def _started(self, dtype: DType, start: Any) -> Register:
        found = self.register(dtype)
        self.steps.append(Step("set", found, (start,)))
        return found


def _number(value: Any) -> Number | Complex:
    """A number, also for a literal one."""
    return as_complex_number(value) if is_complex(value) else as_number(value)


def _operand_of(number: Number | Complex) -> Any:
    """What `set_element` takes for a number."""
    return number if isinstance(number, Complex) else number.operand


def _floats_in(dtype: DType) -> Literal:
    """How many elements of memory a number is."""
    return Literal(2) if dtype.is_complex else ONE


def _moves(dtype: DType, sizes: Sequence[Whole]) -> tuple[tuple[int, Whole], ...]:
    """How far apart numbers lie along the dims of a list; those of a length once for each part of
    a number: it has no register with the product.

    Raises:
        NotNest: there are lists in lists in it.
    """
    one = _floats_in(dtype)
    if len(sizes) == 1:
        return ((0, one),)
    if len(sizes) != 2:
        raise NotNest
    return (*[(0, sizes[1])] * one.value, (1, one))


def is_own_list(array: Array) -> bool:
    """Whether an array is all of a list that the nest makes."""
    lengths = [length_of(array.slot, dim).operand for dim in range(len(array.sizes))]
    return array.slot < 0 and lengths == [as_number(size).operand for size in array.sizes]


__all__ = ["IS_COMPENSATED", "Findings", "Lists", "is_own_list"]
