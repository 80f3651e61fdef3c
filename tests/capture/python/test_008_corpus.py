"""Small programs behind what CPython's own test files found."""

# The programs under test are spelled as users spell them.

import abc

import pytest

from tests.support.python.harness import case

CALLS = []


class Left(metaclass=abc.ABCMeta):
    def __eq__(self, other):
        CALLS.append("Left")
        return NotImplemented

    __hash__ = None

    def __le__(self, other):
        CALLS.append("Left <=")
        return NotImplemented

    def __ge__(self, other):
        CALLS.append("Left >=")
        return NotImplemented


class Virtual(abc.ABC):
    def __eq__(self, other):
        CALLS.append("Virtual")
        return NotImplemented

    __hash__ = None

    def __ge__(self, other):
        CALLS.append("Virtual >=")
        return NotImplemented


class Derived(Left):
    def __eq__(self, other):
        CALLS.append("Derived")
        return NotImplemented

    __hash__ = None


Left.register(Virtual)


def order_of_comparisons(left, right):
    left == right
    try:
        left <= right
    except TypeError as error:
        return list(CALLS), str(error)


class Number:
    def __init__(self, answer):
        self.answer = answer

    def __add__(self, other):
        CALLS.append("add")
        return self.answer

    def __radd__(self, other):
        CALLS.append("radd")
        return 5

    def __rsub__(self, other):
        return 6


class Inherits(Number):
    pass


class Overloads(Number):
    def __radd__(self, other):
        CALLS.append("derived radd")
        return 7


def order_of_additions(left, right):
    try:
        result = left + right
    except TypeError as error:
        result = str(error)
    return result, list(CALLS)


def subtraction(left, right):
    try:
        return left - right
    except TypeError as error:
        return str(error)


class Equal:
    def __eq__(self, other):
        CALLS.append("Equal")
        return True

    __hash__ = None


class Blocked(Equal):
    __ne__ = None


class Refuses:
    __eq__ = None
    __hash__ = None
    __radd__ = None
    __iter__ = None
    __contains__ = None


class Undecided:
    def __eq__(self, other):
        CALLS.append("Undecided")
        return NotImplemented

    __hash__ = None


class Different:
    def __ne__(self, other):
        CALLS.append("Different")
        return "different"


class Named:
    __eq__ = "text".__eq__
    __hash__ = None


def equality(left, right):
    found = []
    for symbol in ("==", "!="):
        try:
            found.append(left == right if symbol == "==" else left != right)
        except TypeError as error:
            found.append(str(error))
    return found, list(CALLS)


def refusals(thing):
    found = []
    for operation in (lambda: 1 + thing, lambda: list(thing), lambda: 1 in thing):
        try:
            found.append(operation())
        except TypeError as error:
            found.append(str(error))
    return found


EQUALITIES = [Equal, Blocked, Refuses, Undecided, Different, Named, object]

KINDS = [Left, Virtual, Derived]
NUMBERS = [Number, Inherits, Overloads]


def cells_in_variables():
    def external():
        value = 42

        def inner():
            return value

        (cell,) = inner.__closure__
        return cell

    found = external()

    def outer(argument):
        def inner():
            return argument

        return inner

    inner = outer(found)
    memoryview(b"a")  # breaks
    (cell,) = inner.__closure__
    return inner() is found, found is not cell, found.cell_contents


CASES = [
    case(cells_in_variables, breaks=None),
    *(case(order_of_comparisons, a(), b(), breaks=None) for a in KINDS for b in KINDS),
    *(
        case(order_of_additions, a(answer), b(answer), breaks=None)
        for a in NUMBERS
        for b in NUMBERS
        for answer in (1, NotImplemented)
    ),
    case(subtraction, Number(1), Number(2), breaks=None),
    *(case(equality, a(), b(), breaks=None) for a in EQUALITIES for b in EQUALITIES),
    case(refusals, Refuses(), breaks=None),
    case(subtraction, Number(1), Inherits(2)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


class Deep:
    """Objects that change themselves when they are called."""

    def __init__(self, depth):
        self.depth = depth

    def descend(self):
        if self.depth == 0:
            return memoryview(b"abc")[1]
        self.depth -= 1
        return self.descend() + 1


def recursion_to_the_limit():
    def descend(depth):
        memoryview(b"a")  # breaks
        return descend(depth + 1)

    try:
        descend(0)
    except RecursionError as error:
        return type(error)


def test_the_compiler_has_no_room_at_the_recursion_limit(assert_captured):
    assert_captured(recursion_to_the_limit, graphs=0, breaks=None)


@pytest.mark.parametrize("depth", [0, 10, 150])
def test_recursion_with_a_break_at_its_end(depth, assert_captured):
    assert_captured(lambda thing: thing.descend(), Deep(depth), graphs=0, breaks=None)


class Spy:
    """Says what class it has, and notes that it was asked."""

    @property
    def __class__(self):
        CALLS.append("__class__")
        raise RuntimeError("asked")

    def __getattribute__(self, name):
        CALLS.append(name)
        return object.__getattribute__(self, name)


def ignores_its_argument(spy, x):
    return x + 1, list(CALLS)


def test_an_argument_is_not_asked_for_its_class(x, compiler):
    spy = Spy()
    compiled = compiler.compile(ignores_its_argument)
    for _ in range(2):
        assert [] == compiled(spy, x)[1]
