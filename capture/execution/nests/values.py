"""What a loop nest over single elements computes with: values of which only registers vary.

Contract: `key_of` tells values apart for which different code is right; values with equal keys
differ in what their numbers are at most, and `with_numbers` puts others in their place.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import CodeType
from typing import Any, Final, TypeAlias

from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ir.nests import Register, Size
from dynajit.ops.table.scalar import SUFFIX


class NotNest(Exception):
    """A loop is no nest over single elements; it is captured in other ways."""


class Again(NotNest):
    """Something was found out about lists that earlier steps have to know (`lists.Findings`)."""


class Returns(NotNest):
    """A loop is no nest, since it ends in several ways; all that follows it may be one with it."""


#: How large an int of Python's may be: SMALL ones and their products need no check, nor do MEDIUM
#: ones and their sums; others are any that int64 holds.
SMALL, MEDIUM, WHOLE = range(3)
LARGEST_SMALL: Final = 1 << 31
LARGEST_MEDIUM: Final = 1 << 40


@record(eq=False)
class Literal:
    """A number, a text or None that is known."""

    value: Any


@record(eq=False)
class Number:
    """A number.

    Args:
        operand: the register, size or literal that it is.
        dtype: of NumPy's, or that of Python's bool, int or float.
        is_python: it is Python's.
        extent: of an int of Python's: SMALL, MEDIUM or WHOLE.
    """

    operand: Any
    dtype: DType
    is_python: bool
    extent: int = WHOLE


@record(eq=False)
class Complex:
    """A complex number, by its parts: two floats of one dtype.

    Args:
        real, imag: the parts, both Python's or both NumPy's.
    """

    real: Number
    imag: Number

    @property
    def dtype(self) -> DType:
        """Complex."""
        return dtypes.complex_of(self.real.dtype)

    @property
    def is_python(self) -> bool:
        """It is Python's."""
        return self.real.is_python


@record(eq=False)
class Place:
    """Where elements lie along one dim of memory: at `start`, and further by indices of a view.

    Args:
        start: of the first one.
        moves: (dim of the view, what an index along it adds once).
    """

    start: "Literal | Number"
    moves: tuple[tuple[int, "Literal | Number"], ...] = ()


@record(eq=False)
class Array:
    """An array, or a view of it.

    Args:
        slot: of the operand, or of a scratch array.
        dtype: of its elements.
        sizes: a Literal or a Number for each dim.
        places: one for each dim of the memory; of complex numbers it is memory of floats, in which
            an imaginary part lies one further along the last dim than the real part.
        flipped: dims of the memory that go from its end to its start.
        is_given: it is the object that the nest is given, no view that turns make.
    """

    slot: int
    dtype: DType
    sizes: tuple["Literal | Number", ...]
    places: tuple[Place, ...]
    flipped: tuple[int, ...] = ()
    is_given: bool = False


def whole_array(
    slot: int, dtype: DType, sizes: Sequence["Literal | Number"], flipped: tuple[int, ...] = ()
) -> Array:
    """All of an operand."""
    moves = [((dim, Literal(1)),) for dim in range(len(sizes))]
    places = [Place(Literal(0), move) for move in moves]
    if dtype.is_complex:
        places.append(Place(Literal(0)))
    return Array(slot, dtype, (*sizes,), (*places,), flipped, is_given=True)


@record(eq=False)
class Formula:
    """An array whose elements are computed when they are asked for.

    It stays on the stack of one block, and no memory changes meanwhile.

    Args:
        dtype, sizes: of the array.
        function: gives an element, of elements.
        operands: arrays, formulas and numbers, which are broadcast.
    """

    dtype: DType
    sizes: tuple["Literal | Number", ...]
    function: Callable[..., "Number | Complex"]
    operands: tuple[Any, ...]


@record(eq=False)
class ListOf:
    """A list of Python's numbers, or of such lists, whose numbers are elements of an array.

    It is no array: nothing is done with it but what Python does with a list.

    Args:
        array: holds the numbers.
        site: the instruction that makes it with nothing in it; None: the class of its numbers is
            known.
    """

    array: Array
    site: Any = None

    @property
    def sizes(self) -> tuple["Literal | Number", ...]:
        """Its length, and those of the lists in it."""
        return self.array.sizes


@record(eq=False)
class Slice:
    """`start:stop:step`, each a number or Literal(None)."""

    start: "Literal | Number"
    stop: "Literal | Number"
    step: "Literal | Number"


@record(eq=False)
class Listing:
    """A list that is used at once, as an index or to make an array or another list.

    Args:
        items: what is in it.
        site: the instruction that makes it.
    """

    items: tuple[Any, ...]
    site: Any = None


@record(eq=False)
class Handed:
    """A list of the nest's own that is one of its results.

    Args:
        number: of the lists that are.
        slot: of its memory.
        kind: the dtype of its numbers, and how many lists are within each other.
        name: the parameter whose list it is; None: it is a new list.
    """

    number: int
    slot: int
    kind: tuple[DType, int]
    name: str | None


@record(eq=False)
class Inner:
    """A function that is called at once, as that of a comprehension is.

    Args:
        code: of it.
        closure: what its free variables hold.
    """

    code: CodeType
    closure: tuple[Any, ...] = ()


@record(eq=False)
class Cell:
    """The cell of a variable, of which an inner function is made."""

    name: str


@record(eq=False)
class Method:
    """A method of an array, a list or a generator of random numbers that is called at once."""

    name: str
    target: Any


@record(eq=False)
class Generator:
    """A generator of random numbers.

    Args:
        slot: of the operand that holds its state.
        kind: its class.
    """

    slot: int
    kind: type


@record(eq=False)
class Group:
    """A tuple."""

    items: tuple[Any, ...]


@record(eq=False)
class Range:
    """`range(start, stop, step)`, or the iterator over it.

    Args:
        start: what comes next.
        step: a literal, or a number that is not 0.
        is_iterator: `iter` was called.
        is_root: it is the iterator of the whole nest.
    """

    start: "Literal | Number"
    stop: "Literal | Number"
    step: "Literal | Number"
    is_iterator: bool = False
    is_root: bool = False


@record(eq=False)
class Elements:
    """The iterator over the first dim of an array, or `enumerate` or `zip` of such.

    Args:
        at: the number of the next item.
        arrays: one for `iter`, some for `zip`.
        first: what `enumerate` counts from; None: it is none.
        is_group: items are tuples, as those of `zip` are.
        is_root: it is the iterator of the whole nest.
    """

    at: "Literal | Number"
    arrays: tuple[Array | ListOf, ...]
    first: int | None = None
    is_group: bool = False
    is_iterator: bool = False
    is_root: bool = False


@record(eq=False)
class Grid:
    """The iterator over all indices of a shape, the last one first, or over an array's elements.

    Args:
        at: the indices that come next, of which the last may be at the end of its dim.
        sizes: of the dims.
        array: whose elements come along; None: there are indices only.
        has_indices: items have the indices, as a tuple.
        is_root: it is the iterator of the whole nest.
    """

    at: tuple["Literal | Number", ...]
    sizes: tuple["Literal | Number", ...]
    array: Array | None = None
    has_indices: bool = True
    is_root: bool = False


@record(eq=False)
class Items:
    """The iterator over a tuple.

    Args:
        items: what is to come.
    """

    items: tuple[Any, ...]


@record(eq=False)
class Outer:
    """What only its name in the program is known by: a function, a module, a class."""

    value: Value


@record(eq=False)
class Given:
    """What a local holds in front of the nest."""

    name: str


NestValue: TypeAlias = (
    Literal
    | Number
    | Complex
    | Array
    | ListOf
    | Slice
    | Group
    | Range
    | Elements
    | Grid
    | Items
    | Outer
    | Generator
    | Given
    | None
)  # None: an empty slot of the stack


def key_of(value: Any) -> Any:
    """See the module."""
    match value:
        case None:
            return None
        case Literal(value=literal):
            return "literal", type(literal).__name__, repr(literal)
        case Number():
            return "number", value.dtype.name, value.is_python, value.extent
        case Complex():
            return "complex", value.dtype.name, value.is_python
        case Array():
            places = tuple(_key_of_place(place) for place in value.places)
            sizes = tuple(map(_key_of_size, value.sizes))
            facts = value.slot, value.dtype.name, value.flipped, value.is_given
            return "array", *facts, places, sizes
        case ListOf():
            return "list", key_of(value.array), value.site
        case Method(target=ListOf()):
            return "method", value.name, key_of(value.target)
        case Handed():
            (dtype, rank), name = value.kind, value.name
            return "handed", value.number, dtype.name, rank, name
        case Slice():
            return "slice", key_of(value.start), key_of(value.stop), key_of(value.step)
        case Group():
            return "group", tuple(map(key_of, value.items))
        case Items():
            return "items", tuple(map(key_of, value.items))
        case Range():
            parts = key_of(value.start), key_of(value.stop), key_of(value.step)
            return "range", *parts, value.is_iterator, value.is_root
        case Elements():
            arrays = tuple(map(key_of, value.arrays))
            return (
                "elements",
                key_of(value.at),
                arrays,
                value.first,
                value.is_group,
                value.is_iterator,
                value.is_root,
            )
        case Grid():
            at, sizes = tuple(map(key_of, value.at)), tuple(map(_key_of_size, value.sizes))
            return "grid", at, sizes, key_of(value.array), value.has_indices, value.is_root
        case Outer():
            return "outer", id(value.value)
        case Generator():
            return "generator", value.slot
        case Method(target=Generator()):
            return "method", value.name, key_of(value.target)
        case Given():
            return "given", value.name
    raise NotNest


def _key_of_place(place: Place) -> Any:
    return key_of(place.start), tuple((dim, _key_of_size(step)) for dim, step in place.moves)


def _key_of_size(size: Any) -> Any:
    return size.operand if _is_given(size) else key_of(size)


def _is_given(size: Any) -> bool:
    """Whether a number is the size of an operand, which does not change, or of a list, which has
    one register wherever the list is."""
    return isinstance(size, Number) and (isinstance(size.operand, Size) or is_length(size))


def length_of(slot: int, dim: int) -> Number:
    """How many items a list has that a nest makes, or the lists in it have."""
    return Number(Register(f"{_LENGTH}{-slot}_{dim}", dtypes.int64), dtypes.int64, True, WHOLE)


def is_length(size: Any) -> bool:
    """Whether a number is such a length, which changes as the list does."""
    operand = size.operand if isinstance(size, Number) else None
    return isinstance(operand, Register) and operand.name.startswith(_LENGTH)


_LENGTH: Final = "length"


def numbers_in(value: Any) -> Iterator[Number]:
    """The numbers in a value, in the order of `with_numbers`."""
    match value:
        case Number():
            yield value
        case Complex():
            yield from (value.real, value.imag)
        case Array():
            yield from _numbers_of(tuple(s for s in value.sizes if not _is_given(s)))
            for place in value.places:
                moves = (step for _, step in place.moves if not _is_given(step))
                yield from _numbers_of((place.start, *moves))
        case ListOf():
            yield from numbers_in(value.array)
        case Method(target=ListOf()):
            yield from numbers_in(value.target)
        case Slice():
            yield from _numbers_of((value.start, value.stop, value.step))
        case Group() | Items():
            yield from _numbers_of(value.items)
        case Range():
            yield from _numbers_of((value.start, value.stop, value.step))
        case Elements():
            yield from _numbers_of((value.at, *value.arrays))
        case Grid():
            varying = (size for size in value.sizes if not _is_given(size))
            yield from _numbers_of((*value.at, *varying, value.array))


def _numbers_of(values: tuple[Any, ...]) -> Iterator[Number]:
    for value in values:
        yield from numbers_in(value)


def with_numbers(value: Any, numbers: Iterator[Number]) -> Any:
    """The same value with other numbers."""
    match value:
        case Number():
            return next(numbers)
        case Complex():
            return Complex(next(numbers), next(numbers))
        case Array():
            sizes = tuple(s if _is_given(s) else with_numbers(s, numbers) for s in value.sizes)
            places = tuple(_with_place(place, numbers) for place in value.places)
            return replace(value, sizes=sizes, places=places)
        case ListOf():
            return replace(value, array=with_numbers(value.array, numbers))
        case Method(target=ListOf()):
            return replace(value, target=with_numbers(value.target, numbers))
        case Slice():
            start, stop, step = _with((value.start, value.stop, value.step), numbers)
            return Slice(start, stop, step)
        case Group() | Items():
            return replace(value, items=_with(value.items, numbers))
        case Range():
            start, stop, step = _with((value.start, value.stop, value.step), numbers)
            return replace(value, start=start, stop=stop, step=step)
        case Elements():
            at, *arrays = _with((value.at, *value.arrays), numbers)
            return replace(value, at=at, arrays=tuple(arrays))
        case Grid():
            ats = _with(value.at, numbers)
            sizes = tuple(s if _is_given(s) else with_numbers(s, numbers) for s in value.sizes)
            return replace(value, at=ats, sizes=sizes, array=with_numbers(value.array, numbers))
    return value


def _with(values: tuple[Any, ...], numbers: Iterator[Number]) -> tuple[Any, ...]:
    return tuple(with_numbers(value, numbers) for value in values)


def _with_place(place: Place, numbers: Iterator[Number]) -> Place:
    start = with_numbers(place.start, numbers)
    moves = ((d, s if _is_given(s) else with_numbers(s, numbers)) for d, s in place.moves)
    return Place(start, tuple(moves))


#: The dtypes that registers have.
DTYPES: Final[dict[str, DType]] = {
    name: dtypes.by_name(name) for name in (*SUFFIX, *(dtype.name for dtype in dtypes.UNSIGNED))
}

#: The dtypes of complex numbers, which are two registers.
COMPLEX_DTYPES: Final = {dtype.name: dtype for dtype in (dtypes.complex64, dtypes.complex128)}

#: Class of Python's -> the dtype that registers have for it.
PYTHON_DTYPES: Final[dict[type, DType]] = {
    bool: dtypes.bool_, int: dtypes.int64, float: dtypes.float64
}  # fmt: skip


def as_number(value: Any) -> Number:
    """A number, also for a literal one.

    Raises:
        NotNest: it is something else, or an int that int64 does not hold.
    """
    if isinstance(value, Number):
        return value
    if not isinstance(value, Literal) or type(value.value) not in PYTHON_DTYPES:
        raise NotNest
    literal = value.value
    if type(literal) is int and not -(1 << 63) <= literal < 1 << 63:
        raise NotNest
    return Number(literal, PYTHON_DTYPES[type(literal)], True, extent_of(literal))


def extent_of(literal: Any) -> int:
    """How large an int is; of other numbers WHOLE."""
    if type(literal) is not int:
        return WHOLE
    if abs(literal) <= LARGEST_SMALL:
        return SMALL
    return MEDIUM if abs(literal) <= LARGEST_MEDIUM else WHOLE


__all__ = [
    "COMPLEX_DTYPES",
    "DTYPES",
    "LARGEST_SMALL",
    "MEDIUM",
    "PYTHON_DTYPES",
    "SMALL",
    "WHOLE",
    "Again",
    "Array",
    "Cell",
    "Complex",
    "Elements",
    "Formula",
    "Generator",
    "Given",
    "Grid",
    "Group",
    "Handed",
    "Inner",
    "Items",
    "ListOf",
    "Listing",
    "Literal",
    "Method",
    "NestValue",
    "NotNest",
    "Number",
    "Outer",
    "Place",
    "Range",
    "Returns",
    "Slice",
    "as_number",
    "extent_of",
    "is_length",
    "key_of",
    "length_of",
    "numbers_in",
    "whole_array",
    "with_numbers",
]
