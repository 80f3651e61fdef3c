"""A version made for a value of one type is not used for another, and refusals name types rightly.

Every function is compiled for one value and then called with values of every other type.
"""

import collections
import datetime
import decimal
import enum

import pytest
from harness import Compiler

from dynajit.core import config


class Plain:
    pass


class Sized(Plain):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        if index > 1:
            raise IndexError(index)
        return index


class Special(Plain):
    name = 5

    def __int__(self):
        return 4

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 4

    def __add__(self, other):
        return "added"

    def __call__(self, *arguments):
        return "called"

    def __bool__(self):
        return False

    def __iter__(self):
        return iter("it")

    def __contains__(self, item):
        return True

    def __format__(self, specification):
        return "formatted"


class Reflected(Special):
    def __radd__(self, other):
        return "reflected"


class Text(str):
    pass


class Color(enum.Enum):
    RED = 1

    def __str__(self):
        return "red"


def _values():
    return [
        1, 2.5, True, None, "ab", b"ab", (1, 2), [1, 2], {1: 2}, {1, 2}, frozenset([1]), range(3),
        Plain(), Sized(), Special(), Reflected(), Text("q"), Color.RED, int, len, [].append,
        Plain().__init__, iter([1]), 1j, collections.OrderedDict(a=1), collections.defaultdict(int),
        collections.deque([1]), decimal.Decimal(3), datetime.date(2020, 1, 1), lambda value: value,
        ValueError(3), slice(1), 10**30,
    ]  # fmt: skip


def get(value):
    return getattr(value, "name", 0), hasattr(value, "append")


def to_int(value):
    return int(value)


def truth(value):
    return 1 if value else 2


def length(value):
    return len(value)


def items(value):
    return [item for item in value]


def contains(value):
    return 1 in value


def equal(value):
    return value == 1, 1 == value


def less(value):
    return value < 2


def added(value):
    return value + 1


def added_to(value):
    return 1 + value


def appended(value):
    found = []
    found += value
    return found


def negated(value):
    return -value


def called(value):
    return value(1)


def its_class(value):
    return value.__class__, type(value), isinstance(value, (int, list))


def as_key(value):
    return len({value: 1})


def formatted(value):
    return f"{value!s:>3}"[:3]


def padded(value):
    return f"{value:>3}"[:9]


def unpacked(value):
    first, *rest = value
    return first, rest


def starred(value):
    return max(*value)


def double_starred(value):
    return dict(**value)


def spread(value):
    return {**value}


def index(value):
    return [1, 2, 3][value]


def attribute_set(value):
    value.extra = 1
    return value.extra


def entered(value):
    with value:
        pass


FUNCTIONS = [
    get, to_int, truth, length, items, contains, equal, less, added, added_to, appended, negated,
    called, its_class, as_key, formatted, padded, unpacked, starred, double_starred, spread, index,
    attribute_set, entered,
]  # fmt: skip


def _outcome(function, value):
    try:
        return type(function(value)), repr(function(value)).partition(" at 0x")[0]
    except Exception as error:
        return type(error), str(error).partition(" at 0x")[0]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_version_for_one_type_is_not_used_for_another(function):
    expected = [_outcome(function, value) for value in _values()]
    with config.override(strict=True):
        for first in (0, 4, 7, 12, 14):
            for number, wanted in enumerate(expected):
                compiled = Compiler().compile(function)
                _outcome(compiled, _values()[first])
                second = _values()[number]
                assert wanted == _outcome(compiled, second), (_values()[first], second)
