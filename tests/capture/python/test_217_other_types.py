"""A version made for a value of one type is not used for another, and refusals name types rightly.

Every function is compiled for one value and then called with values of every other type.
"""

import collections
import datetime
import decimal
import enum
import functools
import types

import pytest

from dynajit.core.process import config
from tests.support.python.harness import Compiler


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
        ValueError(3), slice(1), 10**30, iter(range(2)), zip("ab"), enumerate("a"), map(str, "a"),
        (item for item in "a"), {1: 2}.keys(), {1: 2}.items(), types.SimpleNamespace(name=1), types,
        Plain, staticmethod(len), object(), "ab".upper, iter({1: 2}), bytearray(b"a"),
        {1: 2}.__iter__, functools.partial(len), Plain().__init__, float("nan"), "", [], (), {}, 0,
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


def hashed(value):
    return hash(value) == hash(value)


def shown(value):
    return f"{value!r:.3}", str(value)[:2]


def listed(value):
    return list(value), tuple(value)


def as_dict(value):
    return dict(value)


def in_order(value):
    return sorted(value)


def summed(value):
    return sum(value)


def zipped(value):
    return list(zip(value, [1, 2], strict=False)), list(enumerate(value))


def first_of(value):
    return next(iter(value)), next(value)


def item(value):
    return value[0]


def part(value):
    return value[:1]


def doubled(value):
    return value * 2


def increased(value):
    value += 1
    return value


def in_text(value):
    return "%.3s" % (value,)


def percent(value):
    return "%s" % value == 1


def joined(value):
    return "".join(value)


def counted(value):
    return list(range(value))[:3]


def variables(value):
    return sorted(vars(value))[:1]


def is_called(value):
    return callable(value), value is None, value is True


def same(value):
    return value == value, value != value


def among(value):
    return value in [1, (1, 2)], value in {1: 2}


def equal_to_containers(value):
    return value == [1, 2], value == (1, 2), value == {1: 2}, value == "ab", value == {1, 2}


def rounded(value):
    return abs(value), round(value)


def divided(value):
    return divmod(value, 2), 7 // value


def matched(value):
    match value:
        case [first, *_]:
            return "sequence", first
        case {1: found}:
            return "mapping", found
        case int() | float():
            return "number"
        case "ab" | b"ab":
            return "text"
        case None:
            return "none"
        case object(name=found):
            return "named"
    return "other"


def raised(value):
    raise value


def delegated(value):
    def inner():
        yield from value

    return list(inner())


def deleted(value):
    del value[0]
    return len(value)


def both(value):
    return 1 if value and not value else 2, (value or 3) == 3


def derived(value):
    return issubclass(value, int)


def caught(value):
    try:
        raise KeyError(1)
    except value:
        return 1


def extended(value):
    found = {1, 5}
    found.update(value)
    found |= {7}
    return sorted(found)


def keywords(value):
    def inner(**names):
        return sorted(names)

    return inner(**value)


def stored(value):
    found = {}
    found[1] = value
    return found[1] is value, found == {1: 1}


def inverted(value):
    return ~value, +value


def merged(value):
    return value | {1: 3}


def names(value):
    return value.__name__


def copied(value):
    return value.copy() == value


def compared_with_a_list(value):
    return [1, 2] < value


def a_property(value):
    return value.real, value.imag


def shifted(value):
    return 1 << value, value >> 1


def power(value):
    return value**2


def assertion(value):
    assert value
    return 1


def popped(value):
    return value.pop()


def any_of(value):
    return any(value), all(value)


def largest(value):
    return max(value), min(value, default=0)


FUNCTIONS = [
    get, to_int, truth, length, items, contains, equal, less, added, added_to, appended, negated,
    called, its_class, as_key, formatted, padded, unpacked, starred, double_starred, spread, index,
    attribute_set, entered,
]  # fmt: skip

#: Compiled for values of each type; then nothing more is compiled.
FURTHER = [
    hashed, shown, listed, as_dict, in_order, summed, zipped, first_of, item, part, doubled, increased, in_text, percent, joined, counted, variables, is_called, same, among, equal_to_containers, rounded, divided, matched, raised, delegated, deleted, both, derived, caught, extended, keywords, stored, inverted, merged, names, copied, compared_with_a_list, a_property, shifted, power, assertion, popped, any_of, largest,
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


@pytest.mark.parametrize("function", [*FUNCTIONS, *FURTHER], ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_only_version_fits_or_plain_python_runs(function):
    expected = [_outcome(function, value) for value in _values()]
    for first in _values():
        compiled = Compiler().compile(function)
        with config.override(strict=True):
            _outcome(compiled, first)
        with config.override(strict=True, stance="eager_on_recompile"):
            for number, wanted in enumerate(expected):
                second = _values()[number]
                assert wanted == _outcome(compiled, second), (first, second)
