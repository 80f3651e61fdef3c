"""Lengths that makers of lists ask for, iterators that run themselves, texts of in-place errors."""

import contextlib
import sys
from decimal import Decimal

import pytest

from tests.support.python.harness import case

LOG = []


class Sized:
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        LOG.append("iter")
        return iter([1, 2])

    def __len__(self):
        LOG.append("len")
        if self.size == "bad":
            raise TypeError("no size")
        if self.size == "worse":
            raise KeyError("no size")
        return self.size


class Hinting:
    def __init__(self, size):
        self.size = size

    def __iter__(self):
        LOG.append("iter")
        return iter([1, 2])

    def __length_hint__(self):
        LOG.append("hint")
        if self.size == "worse":
            raise KeyError("no size")
        return self.size


def text_of(make, thing):
    LOG.clear()
    try:
        found = make(thing)
    except (KeyError, TypeError, ValueError) as error:
        found = type(error).__name__, str(error)
    return found, list(LOG)


def starred(thing):
    return [*thing]


def lengths_are_asked_for():
    found = []
    for size in (3, "bad", "worse", -1):
        found += [text_of(make, Sized(size)) for make in (list, tuple, sorted, starred, sum)]
    for size in (3, "worse", -1, NotImplemented, "text"):
        found += [text_of(make, Hinting(size)) for make in (list, tuple, sorted, starred, sum)]
    return found


def broken():
    yield 1
    raise KeyError


def list_keeps_what_came_before_the_error():
    first, second = [0], [0]
    with contextlib.suppress(KeyError):
        first += broken()
    with contextlib.suppress(KeyError):
        second.extend(broken())
    return first, second


class Ending:
    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(42)


def result_of_an_iterator():
    def generator():
        result = yield from Ending()
        return result

    try:
        next(generator())
    except StopIteration as stop:
        return stop.value
    return None


class Refusing:
    def __iter__(self):
        return self

    def __next__(self):
        return 1

    def __getattr__(self, name):
        error = ZeroDivisionError if name == "throw" else AttributeError
        raise error(name)


def iterator_that_refuses_to_be_asked():
    def generator():
        yield from Refusing()

    made = generator()
    first = next(made)
    try:
        made.throw(AttributeError)
    except ZeroDivisionError as error:
        return first, str(error)
    return None


def callable_iterator_ends_itself():
    def give():
        if give.is_inside:
            return 2
        give.is_inside = True
        list(give.iterator)
        return 1

    give.is_inside = False
    give.iterator = iter(give, 2)
    return next(give.iterator, "ended")


def errors_of_in_place_operators():
    found = []
    x = None
    try:
        x **= 2
    except TypeError as error:
        found.append(str(error))
    try:
        x += 2
    except TypeError as error:
        found.append(str(error))
    try:
        x @= 2
    except TypeError as error:
        found.append(str(error))
    return found


def format_of_a_class_written_in_c():
    value, width, precision = Decimal("12.34567"), 10, 4
    return f"{value:{width}.{precision}}", format(value, "10.3")


def key_without_an_end():
    try:
        return "%(n" % {}
    except ValueError as error:
        return str(error)


class NoStream:
    def __getattr__(self, name):
        sys.stdout = sys.__stdout__
        raise RuntimeError(name)


def print_to_an_object_that_is_no_stream():
    with contextlib.redirect_stdout(NoStream()):
        try:
            print("text")
        except RuntimeError as error:
            return str(error)
    return None


CASES = [
    case(lengths_are_asked_for, breaks=None),
    case(list_keeps_what_came_before_the_error),
    case(result_of_an_iterator),
    case(iterator_that_refuses_to_be_asked, breaks=None),
    case(callable_iterator_ends_itself, breaks=None),
    case(errors_of_in_place_operators),
    case(format_of_a_class_written_in_c, breaks=None),
    case(key_without_an_end),
    case(print_to_an_object_that_is_no_stream, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
