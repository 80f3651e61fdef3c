"""What special methods return: `__hash__`, `__index__`, `__int__`, `__float__`, `__complex__`,
and operands of `%`.
"""

import operator
from collections import Counter

import pytest

from tests.support.python.harness import case


def caught(function, *arguments):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error)


class Hashed:
    """Equal to the text whose hash it has."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number

    def __eq__(self, other):
        return other == "text"


def among_strings():
    key = Hashed(hash("text"))
    return len({"text", key}), len({key, "text"}), {"text": 1}[key], "text" in {key: 1}


def hashes_of_objects():
    return [hash(Hashed(n)) for n in (0, -1, 2**61, -(2**63), 2**63, True)], hash(Hashed(5))


class Number:
    """Gives `value` for every kind of number."""

    def __init__(self, value):
        self.value = value

    def give(self):
        return self.value

    __index__ = __int__ = __float__ = __complex__ = __hash__ = give


def converted():
    return int(Number(3)), float(Number(1.5)), complex(Number(1j)), operator.index(Number(7))


def indexes(value):
    return operator.index(Number(value)), [1, 2, 3][Number(value)], [1, 2, 3][Number(value) :]


class Derived(int):
    def __index__(self):
        return int(self) + 1


def derived_indexes(value):
    return value.__index__(), operator.index(value), [5, 6, 7][value], (1, 2, 3)[:value]


def bools_are_integers():
    return operator.index(True), operator.index(5), caught(operator.index, 1.5)


def no_number(value):
    return [caught(kind, Number(value)) for kind in (int, float, complex, operator.index, hash)]


def sums():
    tenths = [0.1] * 10
    return (
        sum(tenths),
        sum(tenths, 1),
        sum((0.1 for _ in range(10)), True),
        sum([1e100, 1.0, -1e100]),
    )


def sum_of_arguments(a, b, c):
    return sum([a, b, c]), sum([a, b]), sum((a, b, c), 1)


class Declines:
    """Leaves comparisons to the other operand."""

    def __eq__(self, other):
        return NotImplemented

    __ne__ = __lt__ = __gt__ = __eq__


class DecliningDict(Declines, dict):
    pass


class DecliningList(Declines, list):
    pass


class DecliningInt(Declines, int):
    pass


class DecliningSet(Declines, set):
    pass


def declined_comparisons():
    a, b, c, d = DecliningDict(k=1), DecliningList([1]), DecliningInt(3), DecliningSet([1])
    return (
        (a == {"k": 1}, {"k": 1} == a, a != {"k": 1}, a == [], a == DecliningDict(k=1)),
        (b == [1], [1] == b, b < [2], [2] > b, b > [0], b == (1,)),
        (c == 3, 3.0 == c, c < 4.5, 4.5 > c, c == "3"),
        (d == {1}, frozenset([1]) == d, d != {1}),
        Counter("aab") == {"a": 2, "b": 1},
    )


class Shown:
    def __repr__(self):
        return "shown"

    def __bytes__(self):
        return b"shown"

    def __rmod__(self, other):
        return "reflected"


class Mapping:
    def __getitem__(self, key):
        return key * 2


class Plain:
    pass


def shown_by_percent():
    return "%s %r" % (Shown(), Shown()), "%(ab)s" % Mapping(), "%s" % Shown()


def unused_mappings():
    return "a" % {}, "a%%" % {}, "a" % [], "a" % Mapping(), caught(operator.mod, "a", Plain())


def one_too_many():
    return caught(operator.mod, "%s", (Shown(), Plain()))


def bytes_of_operands():
    return b"%s" % Shown(), b"%c" % (bytearray(b"Z"),), caught(operator.mod, b"%s", Plain())


CASES = [
    case(among_strings),
    case(hashes_of_objects),
    case(converted),
    case(indexes, 1),
    case(bools_are_integers),
    case(derived_indexes, Derived(1)),
    case(indexes, True, breaks=None),
    case(no_number, "text", breaks=None),
    case(no_number, None, breaks=None),
    case(no_number, True, breaks=None),
    case(sums),
    case(declined_comparisons, breaks=None),
    case(sum_of_arguments, 1e100, 1.0, -1e100),
    case(sum_of_arguments, 1, 2, 0.5),
    case(shown_by_percent),
    case(unused_mappings, breaks=None),
    case(one_too_many),
    case(bytes_of_operands, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
