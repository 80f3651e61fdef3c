"""Texts of objects: derived strings, copies of strings, errors of encodings; odd numbers and proxies."""

import itertools
import json
import sys
import weakref
from fractions import Fraction

import pytest

from tests.support.python.harness import case


class Derived(str):
    """A string of another class."""


class Shown:
    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text

    __repr__ = __str__


DERIVED = Derived("abc")


def derived_texts():
    shown = Shown(DERIVED)
    return str(shown) is DERIVED, repr(shown) is DERIVED, f"{shown}", "%s" % shown


def copied_text():
    text = "abc"
    (copy,) = text.__getnewargs__()
    return copy == text, copy is text


def place_of_an_error(function, *arguments):
    try:
        function(*arguments)
    except UnicodeError as error:
        return error.start, error.end, error.reason, error.encoding, error.object, str(error)


def caught(function, *arguments):
    """The result, or the exception's class name and text."""
    try:
        return function(*arguments)
    except ValueError as error:
        return str(error)


LONG = 10**3000


def long_texts(number):
    return f"{number}", "%d" % number, "%s" % (number,), repr((number, 1)), format(number, "x")


def under_another_limit(number, text):
    allowed = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(700)
    try:
        return caught(str, number), caught(int, text), caught(lambda: f"{number}")
    finally:
        sys.set_int_max_str_digits(allowed)


NUMBER = int("7" * 1000)
READ = {
    "int": lambda text: int(text) % 1000,
    "bytes": lambda text: int(text.encode(), 10) % 1000,
    "fraction": lambda text: Fraction(text) % 1000,
    "json": lambda text: json.loads(text) % 1000,
    "written": lambda text: json.dumps([{text: NUMBER}]),
}


@pytest.mark.parametrize("name", READ)
def test_a_lower_limit_on_digits_is_met_by_a_version_made_before(name, compiler):
    function = READ[name]
    compiled = compiler.compile(function)
    text = "7" * 1000
    allowed = sys.get_int_max_str_digits()
    assert function(text) == compiled(text)
    sys.set_int_max_str_digits(700)
    try:
        assert caught(function, text) == caught(compiled, text)
    finally:
        sys.set_int_max_str_digits(allowed)


def is_divisible(number):
    return number % 7 == 0


def test_long_numbers_can_be_reasons_for_a_recompile(strict, compiler):
    compiled = compiler.compile(is_divisible)
    for number in (7 * 10**5000, 10**5000, 7 * 10**5001):
        assert is_divisible(number) == compiled(number)


class Gone:
    """Nothing refers to its instances."""


def asked_for_a_method_of_a_stream(proxy):
    try:
        return proxy.write
    except ReferenceError as error:
        return str(error)


def test_a_proxy_of_nothing_is_no_stream(compiler):
    gone = weakref.proxy(Gone())
    expected = "weakly-referenced object no longer exists"
    assert expected == compiler.compile(asked_for_a_method_of_a_stream)(gone)


def counted_by_fractions():
    numbers = itertools.count(Fraction(1, 2), Fraction(1, 3))
    return next(numbers), next(numbers)


CASES = [
    case(derived_texts, breaks=None),
    case(counted_by_fractions, breaks=None),
    case(copied_text, breaks=None),
    case(long_texts, LONG, breaks=None),
    case(long_texts, 10**600, breaks=None),
    case(under_another_limit, LONG, "1" * 3000, breaks=None),
    case(place_of_an_error, bytes.decode, b"a\xff"),
    case(place_of_an_error, str.encode, "aé", "ascii"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
