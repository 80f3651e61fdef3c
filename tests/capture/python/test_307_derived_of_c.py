"""Classes derived from built-in ones where the built-in class's own code looks at the instance."""

import functools
import typing

import pytest

from tests.support.python.harness import case


class Data(bytes):
    pass


class Named(bytes):
    def __new__(cls, data, name=None):
        made = super().__new__(cls, data)
        made.name = name
        return made


def bytes_are_made():
    made = Data(b"abc"), Data([1, 2]), Data(3), Data("a", "utf8"), Data(), Named(b"x", name=3)
    return [(type(one), one[:]) for one in made], made[-1].name


def bytes_are_refused():
    found = []
    for argument in ([300], "text"):
        try:
            Data(argument)
        except (TypeError, ValueError) as error:
            found.append(str(error))
    return found


class ListWithNew(list):
    def __new__(cls, items, name=None):
        made = super().__new__(cls, items)
        made.name = name
        return made


class TupleWithInit(tuple):
    def __init__(self, items, name=None):
        self.name = name


class TupleWithNew(tuple):
    def __new__(cls, items, name=None):
        made = super().__new__(cls, items)
        made.name = name
        return made


class PlainTuple(tuple):
    pass


def keywords_belong_to_the_derived_class():
    made = [make([1, 2], name=3) for make in (ListWithNew, TupleWithInit, TupleWithNew)]
    try:
        PlainTuple(sequence=())
    except TypeError:
        made.append(None)
    return [one and (list(one), one.name) for one in made]


class Clearing:
    def __init__(self, items):
        self.items = items

    def __eq__(self, other):
        self.items.clear()
        return NotImplemented


def lists_are_cleared_while_compared():
    first, second, third = [], [], []
    first.append(Clearing(second))
    second.append(Clearing(first))
    third.append(Clearing(third))
    return first == second, third == [1], first, second, third


class Hashed:
    def __hash__(self):
        return 42


class Number(float, Hashed):
    pass


def hash_of_no_number():
    made = Number("nan")
    return hash(made) == object.__hash__(made), {made: 1}[made], hash(Number(3.0))


class Shown(str):
    def __str__(self):
        return "shown"


def texts_show_themselves():
    text = Shown("kept")
    return "%s" % text, "%6s" % text, "%s %d" % (text, 3), "%r" % text, b"%s" % b"x"


class Divided(int):
    def __truediv__(self, other):
        return NotImplemented

    __rtruediv__ = __truediv__


class Added(int):
    def __add__(self, other):
        return NotImplemented

    __radd__ = __add__


def operators_that_decline():
    found = [Divided(1) / 2, 1 / Divided(2), 1 + Added(1), Added(1) + 1]
    for first, second in ((Divided(1), Divided(2)), (Added(1), Added(1))):
        try:
            found.append(first / second if isinstance(first, Divided) else first + second)
        except TypeError as error:
            found.append(str(error))
    return found


class Unchecked(typing.Protocol):
    def method(self): ...


class Implementing(Unchecked):
    def method(self):
        return 5


def classes_are_made_without_asking_hooks():
    return Implementing().method()


class Dispatching:
    @functools.singledispatchmethod
    @classmethod
    def made(cls, number: int) -> str:
        return str(number)


def annotations_of_a_wrapper():
    return Dispatching.made.__annotations__["number"]


class Sequence(list):
    pass


def sequences_are_repeated():
    found = [3 * Shown("ab"), 2 * Sequence([1]), Shown("ab") * 2, True * Data(b"a")]
    for first, second in (([1], Shown("a")), (Shown("a"), [1]), ("a", Sequence())):
        try:
            found.append(first * second)
        except TypeError as error:
            found.append(str(error))
    return found


def texts_name_the_derived_class():
    found = []
    for first, second in ((Shown("a"), Added(1)), ("a", Added(1)), (Sequence(), Shown("a"))):
        try:
            found.append(first + second)
        except TypeError as error:
            found.append(str(error))
    return found


CASES = [
    case(texts_name_the_derived_class, breaks=None),
    case(sequences_are_repeated, breaks=None),
    case(bytes_are_made),
    case(bytes_are_refused),
    case(keywords_belong_to_the_derived_class),
    case(lists_are_cleared_while_compared),
    case(hash_of_no_number, breaks=None),
    case(texts_show_themselves),
    case(operators_that_decline),
    case(classes_are_made_without_asking_hooks),
    case(annotations_of_a_wrapper, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


class Point(typing.TypedDict):
    x: int
    label: str


class Unbound(type):
    __call__ = staticmethod(lambda *arguments: ("called", arguments))


class Made(metaclass=Unbound):
    pass


def metaclasses_may_call_without_the_class():
    made = Point(x=1, label="a")
    return type(made) is dict, made, Point({"x": 3}), Made(1, 2)


def test_metaclasses_may_call_without_the_class(assert_captured):
    assert_captured(metaclasses_may_call_without_the_class, graphs=None)
