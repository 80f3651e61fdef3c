"""`f(*items, **named)`: what is called gets it all, and errors have Python's own words."""

import pytest

from tests.support.python.harness import case


def starred(*items, k=1, **named):
    return items, k, sorted(named)


class Thing:
    def method(self, **named):
        return sorted(named)

    def __call__(self, **named):
        return sorted(named)

    def __repr__(self):
        return "a thing"


class Mapping:
    def keys(self):
        return ["a", "b"]

    def __getitem__(self, key):
        return key * 2


def refused(call):
    """The words of the error."""
    try:
        return call()
    except TypeError as error:
        return str(error)


def joined(x):
    return starred(1, *[x], *(2,), k=3, **{"a": 4}, **Mapping(), c=5)


def names_given_twice(x):
    thing = Thing()
    return (
        x + 1,
        refused(lambda: starred(k=1, **{"k": 2})),
        refused(lambda: starred(*[1], **{"a": 1}, **Mapping())),
        refused(lambda: thing.method(a=1, **{"a": 2})),
        refused(lambda: dict(a=1, **{"a": 2})),
        refused(lambda: (lambda **named: 1)(a=1, **{"a": 3})),
    )


def names_given_twice_while_an_exception_is_handled(x):
    """CPython 3.11 then raises the KeyError that it otherwise translates."""
    try:
        raise ValueError
    except ValueError:
        try:
            starred(k=1, **{"k": 2})
        except (TypeError, KeyError) as error:
            return x + 1, type(error).__name__, str(error), repr(error.__context__)


def neither_mapping_nor_iterable(x):
    return (
        x + 1,
        refused(lambda: starred(**[(1, 2)])),
        refused(lambda: Thing(**5)),
        refused(lambda: starred(*3)),
        refused(lambda: starred(**{1: 2})),
    )


def named_by_their_text_or_by_c(x):
    thing = Thing()
    return x + 1, refused(lambda: thing(a=1, **{"a": 2})), refused(lambda: [].append(*4))


CASES = [
    case(joined, 7),
    case(names_given_twice, 1),
    case(names_given_twice_while_an_exception_is_handled, 1),
    case(neither_mapping_nor_iterable, 1),
    case(named_by_their_text_or_by_c, 1, breaks=None),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
