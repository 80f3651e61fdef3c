"""Dataclasses, named tuples, enums, subclasses of built-in classes.

PYTEST_DONT_REWRITE: assertions of the programs under test are those of plain Python.
"""

# The programs under test are spelled as users spell them.

import dataclasses
import enum
from collections import namedtuple
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

import dynajit as dj
from tests.support.python.harness import case


@dataclass
class Plain:
    a: int
    b: str = "b"
    c: list = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    a: int
    b: int = 2


@dataclass(order=True)
class Version:
    major: int
    minor: int = 0


@dataclass
class Post:
    a: int
    double: int = field(init=False)
    hidden: int = field(default=5, repr=False, compare=False)
    extra: dataclasses.InitVar[int] = 0

    def __post_init__(self, extra):
        self.double = self.a * 2 + extra


@dataclass(kw_only=True)
class Keywords:
    a: int
    b: int = 2


@dataclass(slots=True)
class Slotted:
    a: int
    b: int = 1


@dataclass
class Child(Plain):
    d: float = 1.5

    @property
    def total(self):
        return self.a + self.d


@dataclass(eq=False)
class ByIdentity:
    a: int


@dataclass(unsafe_hash=True)
class Hashed:
    a: int


Pair = namedtuple("Pair", ["left", "right"], defaults=[7])


class Point(NamedTuple):
    x: int
    y: int = 0

    def shifted(self, by):
        return Point(self.x + by, self.y)

    @property
    def norm(self):
        return abs(self.x) + abs(self.y)


class Special(Pair):
    __slots__ = ()

    def swap(self):
        return Special(self.right, self.left)


class Color(enum.Enum):
    RED = 1
    GREEN = 2
    CRIMSON = 1

    @property
    def lower(self):
        return self.name.lower()

    def mixed(self, other):
        return self, other

    @classmethod
    def first(cls):
        return cls.RED

    def __str__(self):
        return f"color {self.value}"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Bits(enum.IntFlag):
    A = 1
    B = 2


MADE = [Bits.A | Bits.B, Access(0), ~Access.READ, Access.READ ^ Access.READ]


class Text(str, enum.Enum):
    ONE = "one"
    TWO = "two"


class Planet(enum.Enum):
    EARTH = (1, 2)
    MARS = (3, 4)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius


class MyList(list):
    def first(self):
        return self[0]


class MyDict(dict):
    def __missing__(self, key):
        return f"missing {key}"


class MyInt(int):
    def double(self):
        return MyInt(self * 2)


class MyStr(str):
    def shout(self):
        return self.upper() + "!"


def made():
    return Plain(1), Plain(1, "x"), Plain(a=2, c=[3]), Plain(1).c is Plain(1).c


def equal():
    return Plain(1) == Plain(1), Plain(1) != Plain(2), Plain(1) == Frozen(1), Plain(1) == 1


def shown():
    return repr(Plain(1)), str(Frozen(3)), repr(Post(1)), f"{Child(1)}"


def written():
    p = Plain(1)
    p.a += 1
    p.c.append(p.a)
    return p


def frozen_refuses():
    Frozen(1).a = 3


def frozen_refuses_delete():
    del Frozen(1).a


def frozen_caught():
    try:
        Frozen(1).a = 3
    except dataclasses.FrozenInstanceError as error:
        return str(error), type(error).__name__


def ordered():
    a, b = Version(1, 2), Version(1, 3)
    return a < b, a >= b, max(a, b), sorted([b, a]), a == Version(1, 2)


def order_refused():
    return Version(1) < 3


def post_init():
    return Post(3), Post(3, extra=1).double, Post(2, 9).hidden


def keyword_only():
    return Keywords(a=1), Keywords(b=1, a=3)


def keyword_only_refuses():
    return Keywords(1)


def missing_field():
    return Plain()


def slotted():
    s = Slotted(1)
    s.b = s.a + 1
    return s, s == Slotted(1, 2), hasattr(s, "__dict__")


def slotted_refuses():
    Slotted(1).other = 2


def inherited():
    c = Child(1, d=2.5)
    return c, c.total, isinstance(c, Plain)


def replaced():
    p = Plain(1, c=[1])
    q = dataclasses.replace(p, a=5)
    return q, q.c is p.c, p.a


def as_dict():
    return dataclasses.asdict(Plain(1, c=[Frozen(2)])), dataclasses.astuple(Frozen(1))


def field_names():
    return [f.name for f in dataclasses.fields(Plain)], dataclasses.is_dataclass(Plain(1))


def hashed():
    return {Hashed(1): 2}[Hashed(1)], hash(Frozen(1)) == hash(Frozen(1))


def identity_equality():
    return ByIdentity(1) == ByIdentity(1)


def of_argument(p):
    p.a, p.b = p.b, p.a
    return dataclasses.replace(p)


def pairs():
    p = Pair(1)
    left, right = p
    return p, left, right, p.left, p[1], p == (1, 7), len(p), p._fields, isinstance(p, tuple)


def pair_methods():
    p = Pair(1, 2)
    return p._replace(left=5), p._asdict(), Pair._make([3, 4]), p.index(2), p + (3,)


def pair_refuses():
    return Pair()


def pair_refuses_keyword():
    return Pair(1, other=2)


def pair_is_not_written():
    Pair(1).left = 3


def pair_text():
    return repr(Pair(1, "a")), str(Point(1))


def points():
    p = Point(1, y=-2)
    return p.shifted(3), p.norm, p, Point._field_defaults, p > Point(0)


def special_pairs():
    s = Special(1, 2)
    return s.swap(), type(s.swap()) is Special, s.left


def enum_members():
    return (
        Color.RED, Color.RED.name, Color.RED.value, Color(2), Color["GREEN"],
        Color.CRIMSON is Color.RED, Color.RED == Color.GREEN, Color.RED.lower, Color.first(),
    )  # fmt: skip


def enum_class():
    return list(Color), len(Color), Color.RED in Color, [c.name for c in Color]


def enum_names():
    return list(Color.__members__), Color.GREEN.mixed(1), isinstance(Color.RED, Color)


def enum_text():
    return str(Color.RED), repr(Color.RED), f"{Color.GREEN}", str(Level.LOW), repr(Level.HIGH)


def enum_missing_value():
    return Color(9)


def enum_missing_name():
    return Color["BLUE"]


def enum_missing_attribute():
    return Color.BLUE


def enum_is_not_written():
    Color.RED = 3


def enum_keys():
    table = {Color.RED: "r", Color.GREEN: "g"}
    return table[Color(1)], {Color.RED, Color.CRIMSON} == {Color.RED}


def int_enum():
    return (
        Level.LOW + 1,
        Level.HIGH > Level.LOW,
        Level.HIGH == 5,
        Level(1),
        int(Level.HIGH),
        Level.LOW.bit_length(),
    )


def flags():
    rw = Access.READ | Access.WRITE
    return (
        rw is Access.BOTH, Access.READ in rw, rw & Access.READ, ~Access.READ, rw ^ Access.READ,
        bool(Access.READ & Access.WRITE), rw.value, Access(0),
    )  # fmt: skip


def int_flags():
    return Bits.A | Bits.B, Bits.A & 3, (Bits.A | Bits.B) == 3


def text_enum():
    return Text.ONE == "one", Text("two"), Text.ONE.upper(), Text.TWO.value + "!"


def enum_with_fields():
    return Planet.EARTH.mass, Planet((3, 4)).radius, Planet.MARS.value


def enum_of_argument(c):
    return c is Color.GREEN, c.value, c.name


def my_list():
    m = MyList([1, 2])
    m.append(3)
    m.note = "n"
    return m.first(), len(m), m[1:], m, isinstance(m, list)


def my_list_of_argument(m):
    m.append(4)
    return m.first(), sum(m)


def my_dict():
    d = MyDict(a=1)
    d["b"] = 2
    return d["a"], d["z"], d.get("z"), d, "z" in d


def my_int():
    n = MyInt(4)
    return n + 1, n.double(), type(n.double()), type(n + 1), n == 4, n


def my_str():
    s = MyStr("ab")
    return s.shout(), s + "c", len(s), s, type(s + "c")


CASES = [
    case(made), case(equal), case(shown), case(written), case(frozen_refuses),
    case(frozen_refuses_delete), case(frozen_caught), case(ordered), case(order_refused),
    case(post_init), case(keyword_only), case(keyword_only_refuses), case(missing_field),
    case(slotted), case(slotted_refuses), case(inherited), case(replaced), case(as_dict, breaks=None),
    case(field_names), case(hashed, breaks=None), case(identity_equality), case(of_argument, Plain(1, 2)),
    case(pairs), case(pair_methods), case(pair_refuses), case(pair_refuses_keyword),
    case(pair_is_not_written, breaks=None), case(pair_text), case(points), case(special_pairs),
    case(enum_members), case(enum_class), case(enum_names, breaks=None), case(enum_text),
    case(enum_missing_value), case(enum_missing_name), case(enum_missing_attribute),
    case(enum_is_not_written, breaks=None), case(enum_keys), case(int_enum), case(flags), case(int_flags),
    case(text_enum), case(enum_with_fields), case(enum_of_argument, Color.GREEN), case(my_list, breaks=None),
    case(my_list_of_argument, MyList([1]), breaks=None), case(my_dict, breaks=None), case(my_int, breaks=None), case(my_str, breaks=None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


# -- members that are numbers, beside tensors ------------------------------------------------------


class Step(enum.IntEnum):
    ONE = 1
    TWO = 2


class Rate(float, enum.Enum):
    HALF = 0.5
    DOUBLE = 2.0


class Odd(enum.IntEnum):
    ONE = 1

    def __radd__(self, other):
        return "added"


def beside_a_tensor(x, number):
    return x + number, number * x, x**number, number - x, x == number, x > number


@pytest.mark.parametrize("numbers", [list(Step), list(Rate), [1, Step.ONE, 1.0, Rate.DOUBLE]])
def test_a_member_that_is_a_number_is_one_beside_a_tensor(numbers, x):
    compiled = dj.compile(beside_a_tensor, fullgraph=True)
    for number in (*numbers, *numbers):
        assert repr(beside_a_tensor(x, number)) == repr(compiled(x, number))


def test_a_member_with_operators_of_its_own_is_left_to_python(x):
    compiled = dj.compile(lambda x, number: x + number)
    assert repr(x + Odd.ONE) == repr(compiled(x, Odd.ONE))
