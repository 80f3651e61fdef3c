"""Named tuples with operators and constructors of their own; protocols; generic aliases."""

from collections import namedtuple
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, Protocol, TypeVar, runtime_checkable

import pytest

from tests.support.python.harness import case


class Vector(NamedTuple):
    x: float
    y: float = 1

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __mul__(self, factor):
        return Vector(self.x * factor, self.y * factor)

    __rmul__ = __mul__

    def __neg__(self):
        return self * -1

    def doubled(self):
        return self + self


class Odd(NamedTuple):
    """Every operator says something else than that of a tuple."""

    value: int

    def __len__(self):
        return 7

    def __bool__(self):
        return False

    def __getitem__(self, index):
        return "item", index

    def __iter__(self):
        return iter("abc")

    def __contains__(self, item):
        return item == "everything"

    def __eq__(self, other):
        return "equal"

    def __lt__(self, other):
        return "less"

    def __hash__(self):
        return 5

    def __str__(self):
        return "odd"


class Counted(namedtuple("Counted", "a b")):
    """Its constructor must run once for each object."""

    __slots__ = ()

    def __new__(cls, a, b=3):
        return super().__new__(cls, a + 1, b)

    def __add__(self, other):
        return Counted(self.a + other.a, self.b)


class Remade(namedtuple("Remade", "a b")):
    def __new__(cls, a, b=3):
        return super().__new__(cls, a + 1, b)


def opaque(value):
    memoryview(b"abc")
    return value


def sums(v):
    w = v + Vector(3)
    a, b = w
    return w, a, b, w[0], 2 * w, -w, w.doubled(), w == (a, b), w < (a, 9), len(w), [*w], {w: 1}[w]


def named_tuple_methods(v):
    w = v + v
    return w._replace(x=5), w._asdict(), Vector._make([7, 8]), w._fields, repr(w), f"{w}"


def odd(value):
    first, *rest = value
    return (
        (len(value), bool(value), value[0], "everything" in value, 0 in value),
        (value == 3, value < 2, hash(value), str(value), f"{value}", first, rest, value.value),
    )


EXISTING = Odd(3)


def odd_that_exists():
    return odd(EXISTING)


def odd_and_new():
    return odd(Odd(3))


def made_once(kind):
    made = kind(1)
    opaque(0)
    return made, made.a, made.b


def of_tensors(x, y):
    v = Vector(x, y) + Vector(y, x)
    return 2 * v, v.x - v.y


@runtime_checkable
class HasArea(Protocol):
    area: float


@runtime_checkable
class CanClose(Protocol):
    def close(self): ...


class Square:
    area = 4.0


class Window:
    def close(self):
        return None


def protocols(square, window):
    window_like = Square()
    window_like.close = len
    found = [isinstance(o, CanClose) for o in (square, window, window_like, Window(), 5)]
    return found, isinstance(square, HasArea), isinstance(window, HasArea)


T = TypeVar("T")
P = ParamSpec("P")


def aliases():
    return Callable[[int, T], T], Callable[P, T], dict[str, T], P.__name__, (list[T] | dict[T, int])


CASES = [
    case(sums, Vector(1, 2)),
    case(named_tuple_methods, Vector(1, 2)),
    case(odd_that_exists),
    case(odd_and_new),
    case(made_once, Counted, breaks=1),
    case(made_once, Remade, breaks=1),
    case(protocols, Square(), Window(), breaks=None),
    case(aliases, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_operators_of_named_tuples_of_tensors_are_captured(assert_captured, x, y):
    assert_captured(of_tensors, x, y)
