"""functools' own objects, and objects of the standard library that never change."""

import datetime
import decimal
import fractions
import functools
import pathlib
import random
import re

import pytest

from dynajit.capture.entry import cache
from tests.support.python.harness import case


class Named:
    def __init__(self, value):
        self.value = value

    @functools.cached_property
    def double(self):
        return self.value * 2

    def add(self, a, b, c=0):
        return self.value + a + b + c

    add_one = functools.partialmethod(add, 1, c=10)

    @functools.singledispatchmethod
    def kind(self, other):
        return "object"

    @kind.register
    def _(self, other: int):
        return ("int", self.value)


@functools.total_ordering
class Version:
    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        return self.number < other.number

    def __eq__(self, other):
        return self.number == other.number


@functools.singledispatch
def kind(value, suffix=""):
    return "object" + suffix


@kind.register
def _(value: int, suffix=""):
    return "int" + suffix


@kind.register(list)
def _(value, suffix=""):
    return "list" + suffix


ONE_AND_A_HALF = decimal.Decimal("1.5")
THIRD = fractions.Fraction(1, 3)
DAY = datetime.date(2020, 1, 2)
NOON = datetime.datetime(2020, 1, 2, 12)
DIGITS = re.compile(r"(\d+)")
PATH = pathlib.PurePosixPath("a/b.txt")


def methods(value):
    n = Named(value)
    return n.double, n.add_one(5), n.add_one(b=2), n.double


def methods_by_class():
    return Named(1).kind(3), Named(1).kind("s")


def ordered():
    return Version(1) < Version(2), Version(1) >= Version(2), Version(3) > Version(2)


def dispatched(value):
    return (
        kind(1),
        kind([1]),
        kind("s"),
        kind(True),
        kind(value, suffix="!"),
        kind.dispatch(str)("q"),
    )


def decimals():
    d = ONE_AND_A_HALF
    return (d == decimal.Decimal("1.5"), str(d), float(d), int(d), d > 1, {d: 1}[d], d.as_tuple(), hash(d) == hash(1.5),
            d.is_nan(), bool(d), repr(d), decimal.Decimal(3))  # fmt: skip


def fraction_arithmetic():
    return (
        THIRD + 1,
        1 - THIRD,
        THIRD * 3,
        THIRD == fractions.Fraction(1, 3),
        THIRD.numerator,
        -THIRD,
        {THIRD: 1}[THIRD],
    )


def dates():
    return (DAY + datetime.timedelta(days=1), DAY.isoformat(), DAY.year, DAY < datetime.date(2021, 1, 1), str(DAY),
            NOON.replace(hour=1), datetime.date.fromisoformat("2020-02-02"), NOON.date(), NOON - NOON.replace(hour=2))  # fmt: skip


def patterns():
    found = DIGITS.search("ab12c")
    return (
        found.group(1),
        found.span(),
        bool(found),
        found[0],
        DIGITS.findall("1 2"),
        DIGITS.match("x") is None,
    )


def paths():
    made = (PATH / "c", PATH.with_suffix(".py"), PATH.parent)
    return (
        [str(path) for path in made],
        str(PATH),
        PATH.name,
        PATH.suffix,
        PATH.parts,
        {PATH: 1}[PATH],
    )


@functools.lru_cache
def square(number):
    return number * number


def cached(number):
    return square(number) + square(number)


CAPTURED = [
    case(methods, 2), case(ordered), case(dispatched, 2.5), case(decimals),
    case(fraction_arithmetic), case(dates), case(patterns), case(paths), case(cached, 3),
]  # fmt: skip


@pytest.mark.parametrize("case", CAPTURED, ids=str)
def test_is_as_in_plain_python_without_a_break(case, assert_captured):
    case.check(assert_captured)


# -- what depends on more than its operands ------------------------------------------------------


def decimal_arithmetic():
    return ONE_AND_A_HALF / 7, f"{ONE_AND_A_HALF:.3f}"


def date_texts(day):
    return f"{DAY:%Y-%m}", DAY.strftime("%d"), f"{day:%d}", str(day)


def fraction_of_an_argument(fraction):
    return fraction - THIRD, THIRD - fraction, fraction == THIRD, f"{fraction}"


DEPENDENT = [
    case(methods_by_class, breaks=None),
    case(decimal_arithmetic, breaks=None), case(date_texts, DAY, breaks=None),
    case(fraction_of_an_argument, fractions.Fraction(1, 2), breaks=None),
]  # fmt: skip


@pytest.mark.parametrize("case", DEPENDENT, ids=str)
def test_is_left_to_python(case, assert_captured):
    case.check(assert_captured)


def test_the_decimal_context_of_each_call_counts(compiler):
    compiled = compiler.compile(lambda: str(ONE_AND_A_HALF / 7))
    for precision in (3, 10, 3):
        with decimal.localcontext(decimal.Context(prec=precision)):
            assert str(ONE_AND_A_HALF / 7) == compiled()


def test_a_new_implementation_of_a_generic_function_is_noticed(compiler):
    @functools.singledispatch
    def generic(value):
        return "object"

    compiled = compiler.compile(lambda value: generic(value))
    assert "object" == compiled(2)
    generic.register(int)(lambda value: "int")
    assert "int" == compiled(2)
    assert [] == compiler.breaks


def test_calls_of_a_cached_function_count_as_hits_and_misses(compiler):
    square.cache_clear()
    compiled = compiler.compile(cached)
    compiled(7)
    compiled(7)
    assert (3, 1) == square.cache_info()[:2]


def test_a_random_generator_is_asked_in_every_call(compiler):
    generator, twin = random.Random(5), random.Random(5)
    compiled = compiler.compile(lambda: generator.random())
    assert [twin.random() for _ in range(5)] == [compiled() for _ in range(5)]
    assert [] == compiler.breaks


def test_dates_that_differ_in_every_call_do_not_recompile(compiler):
    compiled = compiler.compile(lambda day, x: (x + 1, day))
    for number in range(1, 20):
        assert (2, datetime.date(2020, 1, number)) == compiled(datetime.date(2020, 1, number), 1)
    assert 1 == cache.cache_of(compiled).compile_count


def by_remainder(left, right):
    return left % 3 - right % 3


def keys_that_leave(x):
    make = functools.cmp_to_key(by_remainder)
    keys = [make(obj=i) for i in range(3)]
    return x + 1, type(make).__name__, [type(key).__name__ for key in keys], keys[1].obj


def keys_that_are_returned(x):
    make = functools.cmp_to_key(by_remainder)
    return x + 1, make, [make(4), make(2)]


def test_keys_that_leave_the_region_are_those_of_functools(compiler, x):
    compiled = compiler.compile(keys_that_are_returned)
    for _ in range(2):
        _, make, keys = compiled(x)
        _, real_make, real_keys = keys_that_are_returned(x)
        assert type(make) is type(real_make)
        assert {type(key) for key in keys} == {type(key) for key in real_keys}
        mixed = sorted([*keys, *real_keys, make(3)])
        assert [key.obj for key in mixed] == [3, 4, 4, 2, 2]


def test_names_of_the_classes_of_keys(assert_captured, x):
    assert_captured(keys_that_leave, x, graphs=None, breaks=None)
