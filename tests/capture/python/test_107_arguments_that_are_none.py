"""A version made where something was None, or was not, is not used for the other."""

import collections

import pytest

from dynajit.core.process import config
from tests.support.python.harness import Compiler


def ordered(items, key):
    return sorted(items, key=key)


def ordered_in_place(items, key):
    items = list(items)
    items.sort(key=key)
    return items


def largest(items, key):
    return max(items, key=key), min(items, key=key)


def kept(items, key):
    return list(filter(key, items))


def rounded(items, digits):
    return [round(item, digits) for item in (2.567, 3.5)], items


class Rounded:
    def __round__(self, *digits):
        return digits


def rounded_by_method(items, digits):
    return round(Rounded(), digits), items


def raised_from(items, cause):
    try:
        raise ValueError(items) from cause
    except ValueError as error:
        return error.__cause__


def sent(items, value):
    def generator():
        yield (yield 1)

    made = generator()
    try:
        return made.send(value)
    except TypeError as error:
        return str(error)


def sent_through(items, value):
    def generator():
        yield from iter(items)

    made = generator()
    next(made)
    try:
        return made.send(value)
    except AttributeError as error:
        return str(error)


class Answering:
    def __init__(self, answer):
        self.answer = answer

    def __add__(self, other):
        return self.answer

    def __radd__(self, other):
        return "reflected"

    def __eq__(self, other):
        return self.answer

    def __divmod__(self, other):
        return self.answer

    def __length_hint__(self):
        return self.answer

    def __iter__(self):
        return iter("abc")


def added(items, answer):
    try:
        return Answering(answer) + collections.deque()
    except TypeError as error:
        return str(error)


def added_to_another(items, answer):
    class_of_other = Answering
    try:
        return Answering(answer) + class_of_other(answer)
    except TypeError:
        return "refused"


def compared(items, answer):
    return Answering(answer) == 3


def divided(items, answer):
    try:
        return divmod(Answering(answer), 3)
    except TypeError:
        return "refused"


def hinted(items, answer):
    return list(Answering(answer))


class Initialised:
    def __init__(self, answer):
        self.answer = answer
        return answer


def made(items, answer):
    try:
        return Initialised(answer).answer
    except TypeError as error:
        return str(error)


ITEMS = ["bb", "a", "", "ccc"]


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (ordered, [None, len]),
        (ordered_in_place, [None, len]),
        (largest, [None, len]),
        (kept, [None, len]),
        (rounded, [None, 1]),
        (rounded_by_method, [None, 1]),
        (raised_from, [None, KeyError("cause")]),
        (sent, [None, 3]),
        (sent_through, [None, 3]),
        (added, [NotImplemented, 3]),
        (added_to_another, [NotImplemented, 3]),
        (compared, [NotImplemented, 3]),
        (divided, [NotImplemented, 3]),
        (hinted, [NotImplemented, 3]),
        (made, [None, 3]),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
@pytest.mark.parametrize("order", [1, -1])
def test_versions_are_told_apart(function, values, order):
    with config.override(strict=True):
        compiled = Compiler().compile(function)
        for value in [*values[::order], *values]:
            assert repr(compiled(ITEMS, value)) == repr(function(ITEMS, value))
