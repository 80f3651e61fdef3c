"""Operations of whole arrays in a loop nest: by elements, as loops of their own.

Contract: what NumPy computes at once is a `Formula`, whose elements are computed where they are
asked for: in the loop that stores them, or adds them up. `held` gives it memory of its own, a
scratch array of the program. Shapes that do not fit refuse. What is stored is computed before
anything of it is overwritten: where a formula reads memory that it goes to, it is held first,
unless each element depends on no other element of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.nests.complex_numbers import common_complex, is_complex
from dynajit.capture.execution.nests.iteration import Iteration
from dynajit.capture.execution.nests.operators import common_dtype
from dynajit.capture.execution.nests.values import (
    WHOLE,
    Array,
    Complex,
    Elements,
    Formula,
    Group,
    Items,
    Listing,
    ListOf,
    Literal,
    Method,
    NotNest,
    Number,
    Place,
    as_number,
)
from dynajit.capture.execution.nests.views import ONE, ZERO, Whole
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ir.nests import Register, Step, Turn, scratch_slot

#: Elements of a scratch array, at most.
MOST_ELEMENTS: Final = 1 << 40

#: Operators whose result has the dtype of an array of integers beside an int of Python's.
_KEEPING: Final = frozenset(("+", "-", "*", "//", "%", "&", "|", "^"))


def is_whole(value: Any) -> bool:
    """Whether a value is an array with dims."""
    return isinstance(value, (Array, Formula))


class Formulas(Iteration):
    """See the module's text. Mutable: steps are appended.

    Args:
        share: whether two slots of operands may share memory.

    Attributes:
        scratch: the dtype of each scratch array.
        written: slots of the operands that are written.
        fresh: slots of scratch arrays that the instruction at hand has taken.
    """

    def __init__(self, share: Callable[[int, int], bool]) -> None:
        super().__init__()
        self._share = share
        self.scratch: list[DType] = []
        self.written: dict[int, None] = {}
        self.fresh: list[int] = []

    def in_use(self) -> Iterable[Any]:
        """The values that the program may still ask for."""
        raise NotImplementedError

    # -- formulas

    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """`a symbol b`."""
        if not (is_whole(a) or is_whole(b)):
            return super().binary(symbol, a, b)
        if symbol == "**":
            return self._power(a, b)
        a = self._beside(b, a)
        if symbol in _KEEPING and not (is_complex(a) or is_complex(b)):
            a, b = self._strong(a, b), self._strong(b, a)
        return self.formula(lambda x, y: Iteration.binary(self, symbol, x, y), a, b)

    def _beside(self, whole: Any, number: Any) -> Any:
        """A complex number of Python's as one of NumPy's, in front of an array of doubles."""
        is_double = is_whole(whole) and whole.dtype is dtypes.float64
        return self.numpy_number(number) if is_double else number

    def _strong(self, number: Any, other: Any) -> Any:
        """An int of Python's as one of the dtype of an array of integers, beside it."""
        is_int = isinstance(number, Number) and number.is_python and number.dtype is dtypes.int64
        if not is_int or not is_whole(other) or other.dtype.category is not Category.INTEGER:
            return number
        self.require_weak(number, other.dtype)
        return Number(self.cast(number, other.dtype), other.dtype, False)

    def _power(self, a: Any, b: Any) -> Any:
        literal = b.value if isinstance(b, Literal) else None
        if type(literal) is float and literal == 2.0:
            b = Literal(2)
        if type(literal) is float and literal == 0.5:
            return self.of_numpy("sqrt", (a,))
        if is_whole(a) and a.dtype.is_complex and literal in (2, 2.0):
            return self.of_numpy("square", (a,))
        return self.formula(lambda x, y: Iteration.binary(self, "**", x, y), a, b)

    def compare(self, symbol: str, a: Any, b: Any) -> Any:
        """`a symbol b`."""
        if not (is_whole(a) or is_whole(b)):
            return super().compare(symbol, a, b)
        a = self._beside(b, a)
        return self.formula(lambda x, y: Iteration.compare(self, symbol, x, y), a, b)

    def unary(self, symbol: str, value: Any) -> Any:
        """`-x`, `+x` or `~x`."""
        if not is_whole(value):
            return super().unary(symbol, value)
        if symbol == "~" and value.dtype is dtypes.bool_:
            return self.formula(self._opposite, value)
        return self.formula(lambda x: Iteration.unary(self, symbol, x), value)

    def _opposite(self, value: Number) -> Number:
        return Number(self.inverted(value).operand, dtypes.bool_, False)

    def absolute(self, value: Any) -> Any:
        """`abs(x)`."""
        if not is_whole(value):
            return super().absolute(value)
        return self.formula(lambda x: Iteration.absolute(self, x), value)

    def of_numpy(self, name: str, values: Sequence[Any]) -> Any:
        """`np.name(*values)`."""
        if not any(map(is_whole, values)):
            return super().of_numpy(name, values)
        return self.formula(lambda *given: Iteration.of_numpy(self, name, given), *values)

    def where(self, truth: Any, a: Any, b: Any) -> Any:
        """`np.where(truth, a, b)`."""
        return self.formula(self._either, truth, a, b)

    def _either(self, truth: Any, a: Any, b: Any) -> Number | Complex:
        if is_complex(a) or is_complex(b):
            return self.chosen(self.truth(truth).operand, a, b, common_complex(a, b))
        x, y = as_number(a), as_number(b)
        if x.is_python and y.is_python:
            dtype = max((x.dtype, y.dtype), key=lambda dtype: dtype.category)
        else:
            dtype = x.dtype if x.dtype is y.dtype else common_dtype(x, y)
        for number in (x, y):
            self.require_weak(number, dtype)
        found = self.emit(
            "select", dtype, self.truth(truth).operand, self.cast(x, dtype), self.cast(y, dtype),
            dtype=dtype,
        )  # fmt: skip
        return Number(found, dtype, False)

    def formula(self, function: Callable[..., Number | Complex], *operands: Any) -> Formula:
        """What a function of elements gives, of arrays, formulas and numbers.

        Raises:
            NotNest: the function is not one of such elements.
        """
        if not any(map(is_whole, operands)):
            raise NotNest
        sizes = self.broadcast([value.sizes for value in operands if is_whole(value)])
        return Formula(self.sampled(function, operands), sizes, function, operands)

    def sampled(self, function: Callable[..., Number | Complex], operands: Sequence[Any]) -> DType:
        """The dtype of what a function of elements gives."""
        steps, self.steps = self.steps, []
        try:
            samples = (
                self._sample(value.dtype) if is_whole(value) else value for value in operands
            )
            return function(*samples).dtype
        finally:
            self.steps = steps

    def _sample(self, dtype: DType) -> Number | Complex:
        """Any number of a dtype."""
        if not dtype.is_complex:
            return Number(self.register(dtype), dtype, False)
        real = dtypes.real_of(dtype)
        return Complex(*(Number(self.register(real), real, False) for _ in range(2)))

    def broadcast(self, shapes: Sequence[Sequence[Whole]]) -> tuple[Whole, ...]:
        """The sizes that arrays have together."""
        found: list[Whole] = []
        for dim in range(1, max(map(len, shapes)) + 1):
            sizes = [shape[-dim] for shape in shapes if len(shape) >= dim]
            sizes = [size for size in sizes if not _is_one(size)]
            known = [size for size in sizes if isinstance(size, Literal)]
            chosen = (known or sizes or [ONE])[0]
            for size in sizes:
                self.require_equal(size, chosen)
            found.append(chosen)
        return tuple(found[::-1])

    def element_of(self, value: Any, indices: Sequence[Whole]) -> Any:
        """An element of what is broadcast: of a formula, of an array, or the number."""
        if not is_whole(value):
            return value
        rank = len(value.sizes)
        own = [
            ZERO if _is_one(size) else index
            for size, index in zip(value.sizes, indices[len(indices) - rank :], strict=True)
        ]
        if isinstance(value, Array):
            return self.element(value, own)
        return value.function(*(self.element_of(operand, own) for operand in value.operands))

    def each(
        self, sizes: Sequence[Whole], body: Callable[[Sequence[Whole]], None],
        total: Register | None = None, indices: Sequence[Whole] = (),
    ) -> None:  # fmt: skip
        """Steps for all indices.

        Args:
            sizes: how many there are along each dim.
            body: makes the steps for one.
            total: see `Turn`.
        """
        if not sizes:
            body(indices)
            return
        size, *rest = sizes
        if _is_one(size):
            self.each(rest, body, total, (*indices, ZERO))
            return
        counter = Number(self.register(dtypes.int64), dtypes.int64, True, WHOLE)
        steps, self.steps = self.steps, []
        try:
            self.each(rest, body, total, (*indices, counter))
            inner = tuple(self.steps)
        finally:
            self.steps = steps
        is_last = not any(step.operation == "each" for step in inner)
        turn = Turn(inner, total if is_last else None)
        count = as_number(size).operand
        self.steps.append(Step("each", counter.operand, (count,), name=turn))

    # -- memory

    def new(self, dtype: DType, sizes: Sequence[Whole]) -> Array:
        """Memory with any contents."""
        count: Whole = ONE
        for size in sizes:
            is_known = isinstance(size, Literal) or isinstance(count, Literal)
            count = self.times(count, size) if is_known else self.int_step("mul_whole", count, size)
        if isinstance(count, Literal) and not 0 <= count.value <= MOST_ELEMENTS:
            raise NotNest
        if isinstance(count, Number):
            self.require_compared("le", dtypes.int64, count.operand, MOST_ELEMENTS)
        slot = self._free_slot(dtypes.real_of(dtype))
        stride: Whole = Literal(2) if dtype.is_complex else ONE
        room = as_number(self.times(count, stride)).operand
        self.steps.append(Step("scratch", operands=(room,), slot=slot))
        moves: list[tuple[int, Whole]] = []
        for dim in reversed(range(len(sizes))):
            moves.append((dim, stride))
            stride = self.times(stride, sizes[dim])
        return Array(slot, dtype, tuple(sizes), (Place(ZERO, tuple(moves[::-1])),))

    def _free_slot(self, dtype: DType) -> int:
        """A scratch array of which nothing is asked any more: where variables still hold one that
        an earlier turn has filled, the blocks that fill the other are others."""
        taken = {*self.fresh, *(slot for value in self.in_use() for slot in slots_in(value))}
        for number, known in enumerate(self.scratch):
            if known is dtype and scratch_slot(number) not in taken:
                break
        else:
            self.scratch.append(dtype)
            number = len(self.scratch) - 1
        self.fresh.append(scratch_slot(number))
        return scratch_slot(number)

    def held(self, value: Any, dtype: DType | None = None) -> Array:
        """A copy of an array or a formula."""
        found = self.new(dtype or value.dtype, value.sizes)
        self.fill(found, value)
        return found

    def filled(self, dtype: DType, sizes: Sequence[Whole], value: Any) -> Array:
        """An array of one number."""
        found = self.new(dtype, sizes)
        self.fill(found, value)
        return found

    def fill(self, target: Array, value: Any) -> None:
        """Give all elements those of a value."""
        if not is_whole(value):
            operand = self.stored(value, target.dtype)
            self.each(target.sizes, lambda at: self.set_element(target, at, operand))
            return

        def one(indices: Sequence[Whole]) -> None:
            number = self.element_of(value, indices)
            self.set_element(target, indices, self.stored(number, target.dtype))

        self.each(target.sizes, one)

    def assign(self, target: Array, value: Any) -> None:
        """`target[...] = value`."""
        if target.slot >= 0:
            self.written[target.slot] = None
            starts = (place.start for place in target.places)
            self.has_rows |= bool(target.sizes) and any(isinstance(at, Number) for at in starts)
        if is_whole(value):
            value = self._fitting(target, value)
            if isinstance(value, Array) and _are_same(target, value):
                return
            if not self._is_elementwise(target, value, target.sizes):
                value = self.held(value)
        self.fill(target, value)

    def _fitting(self, target: Array, value: Any) -> Any:
        """What can be broadcast to the target, without more dims; refuses what cannot."""
        extra = max(len(value.sizes) - len(target.sizes), 0)
        if any(not _is_one(size) for size in value.sizes[:extra]):
            raise NotNest
        if extra:
            value = self.held(value) if isinstance(value, Formula) else value
            value = self.part(value, Group((ZERO,) * extra))
        for size, wanted in zip(reversed(value.sizes), reversed(target.sizes), strict=False):
            if not _is_one(size):
                self.require_equal(size, wanted)
        return value

    def _is_elementwise(self, target: Array, value: Any, sizes: Sequence[Whole]) -> bool:
        """Whether no element of the target that is written changes an element read for another.

        It does not where memory is not shared, or where views go along it in one way: along the
        same dims in the same steps, at the same or at other indices of the others.
        """
        if isinstance(value, Formula):
            return all(self._is_elementwise(target, operand, sizes) for operand in value.operands)
        if not isinstance(value, Array):
            return True
        if value.slot != target.slot:
            return min(value.slot, target.slot) < 0 or not self._share(value.slot, target.slot)
        if len(value.sizes) != len(sizes):
            return False
        alike = zip(value.sizes, target.sizes, strict=True)
        if any(_is_one(size) and not _is_one(other) for size, other in alike):
            return False
        return all(_go_alike(a, b) for a, b in zip(value.places, target.places, strict=True))

    def changed(self, symbol: str, target: Array, value: Any) -> Array:
        """`target symbol= value`, for an array: it stays the same, with other elements."""
        found = self.binary(symbol, target, value)
        if not np.can_cast(found.dtype.numpy, target.dtype.numpy, "same_kind"):
            raise NotNest
        self.assign(target, found)
        return target

    # -- several rows

    def picked(self, array: Array, keys: Sequence[Any]) -> Array:
        """`array[[i, j], ...]`: a copy."""
        parts = self._parts(array, keys)
        found = self.new(array.dtype, (Literal(len(parts)), *parts[0].sizes))
        for number, part in enumerate(parts):
            self.fill(self.part(found, Literal(number)), part)
        return found

    def assign_picked(self, array: Array, keys: Sequence[Any], value: Any) -> None:
        """`array[[i, j], ...] = value`."""
        parts = self._parts(array, keys)
        sizes = (Literal(len(parts)), *parts[0].sizes)
        if is_whole(value):
            is_apart = isinstance(value, Array) and value.slot < 0 and value.slot != array.slot
            value = value if is_apart else self.held(value)
            is_each = len(value.sizes) == len(sizes) and not _is_one(value.sizes[0])
            if is_each:
                self.require_equal(value.sizes[0], sizes[0])
        else:
            is_each = False
        for number, part in enumerate(parts):
            self.assign(part, self.part(value, Literal(number)) if is_each else value)

    # -- elements by arrays of indices

    def gathered(self, array: Array, keys: Sequence[Any]) -> Array:
        """`array[rows]`, `array[i, columns]` and the like: a copy."""
        keys, sizes = self._spread(array, keys)
        found = self.new(array.dtype, (*sizes, *array.sizes[len(keys) :]))

        def one(at: Sequence[Whole]) -> None:
            row = self._row_at(array, keys, at)

            def move(rest: Sequence[Whole]) -> None:
                number = self.stored(self.element(row, rest), array.dtype)
                self.set_element(found, (*at, *rest), number)

            self.each(row.sizes, move)

        self.each(sizes, one)
        return found

    def scatter(self, array: Array, keys: Sequence[Any], value: Any) -> None:
        """`array[rows] = value` and the like: the last one stays where indices repeat."""
        keys, sizes = self._spread(array, keys)
        if array.slot >= 0:
            self.written[array.slot] = None
        if is_whole(value):
            target = replace(array, sizes=(*sizes, *array.sizes[len(keys) :]))
            value = self.held(self._fitting(target, value))

        def one(at: Sequence[Whole]) -> None:
            row = self._row_at(array, keys, at)

            def move(rest: Sequence[Whole]) -> None:
                number = self.element_of(value, (*at, *rest))
                self.set_element(row, rest, self.stored(number, array.dtype))

            self.each(row.sizes, move)

        self.each(sizes, one)

    def _spread(self, array: Array, keys: Sequence[Any]) -> tuple[list[Any], tuple[Whole, ...]]:
        """Indices that no memory that changes holds, and the sizes that they have together.

        Raises:
            NotNest: some are no ints.
        """
        if len(keys) > len(array.sizes):
            raise NotNest
        found = []
        for key, size in zip(keys, array.sizes, strict=False):
            if not is_whole(key):
                self._checked(key, size)  # also where an array has no indices
            elif key.dtype.category is not Category.INTEGER:
                raise NotNest
            found.append(self.held(key) if is_whole(key) else key)
        return found, self.broadcast([key.sizes for key in found if is_whole(key)])

    def _row_at(self, array: Array, keys: Sequence[Any], at: Sequence[Whole]) -> Array:
        return self.part(array, Group(tuple(self.element_of(key, at) for key in keys)))

    def _parts(self, array: Array, keys: Sequence[Any]) -> list[Array]:
        listing, *rest = keys
        if not listing.items:
            raise NotNest
        parts = [self.part(array, Group((item, *rest))) for item in listing.items]
        if not parts[0].sizes:
            raise NotNest
        return parts


def listed(key: Any) -> Sequence[Any] | None:
    """The parts of an index that begins with a list."""
    keys = key.items if isinstance(key, Group) else (key,)
    return keys if keys and isinstance(keys[0], Listing) else None


def with_arrays(key: Any) -> Sequence[Any] | None:
    """The parts of an index, if some are arrays."""
    keys = key.items if isinstance(key, Group) else (key,)
    return keys if any(map(is_whole, keys)) else None


def _is_one(size: Whole) -> bool:
    return isinstance(size, Literal) and size.value == 1


def _operands(values: Iterable[Whole]) -> list[Any]:
    return [as_number(value).operand for value in values]


def _go_alike(a: Place, b: Place) -> bool:
    """See `_is_elementwise`."""
    if [dim for dim, _ in a.moves] != [dim for dim, _ in b.moves]:
        return False
    if not a.moves:
        return True
    steps = _operands(by for _, by in a.moves) == _operands(by for _, by in b.moves)
    return steps and _operands((a.start,)) == _operands((b.start,))


def _are_same(a: Array, b: Array) -> bool:
    """Whether two views have the same elements in the same order."""
    if (a.slot, a.dtype) != (b.slot, b.dtype) or _operands(a.sizes) != _operands(b.sizes):
        return False
    pairs = [*zip(a.places, b.places, strict=True)]
    return all(_go_alike(x, y) and _operands((x.start,)) == _operands((y.start,)) for x, y in pairs)


def slots_in(value: Any) -> Iterator[int]:
    """The scratch arrays that a value is made of."""
    match value:
        case Array(slot=slot) if slot < 0:
            yield slot
        case (
            Formula(operands=items) | Group(items=items) | Listing(items=items) | Items(items=items)
        ):
            for item in items:
                yield from slots_in(item)
        case Elements(arrays=arrays):
            for array in arrays:
                yield from slots_in(array)
        case Method(target=target) | ListOf(array=target):
            yield from slots_in(target)


__all__ = ["Formulas", "is_whole", "listed", "slots_in", "with_arrays"]
