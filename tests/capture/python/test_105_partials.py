"""Partial objects: made by the captured code, made before it, made of each other."""

import functools
from functools import partial

import pytest

from dynajit.core.process import config
from tests.support.python.harness import Compiler, case


def all_of(first, second=2, *rest, **named):
    return first, second, rest, named


PARSED = partial(int, base=2)
NAMED = partial(all_of, 1, z=5)


class Holder:
    def __init__(self):
        self.call = partial(all_of, 7)
        self.table = {"largest": partial(max, key=abs)}


HOLDER = Holder()


def existing_ones_are_called():
    found = PARSED("101"), NAMED(), NAMED(3, 4, z=6, q=7), HOLDER.call(8)
    return found, HOLDER.table["largest"](-3, 2), list(map(PARSED, ["1", "10"]))


def existing_ones_are_read():
    return NAMED.func is all_of, NAMED.args, NAMED.keywords


def partials_of_partials_are_one():
    made = partial(partial(max, 1, key=abs), 2, key=lambda value: -value)
    return made.func is max, made.args, list(made.keywords), made(3)


def partial_of_an_existing_one():
    made = partial(PARSED, base=3)
    return made.func is int, made.keywords, made("11")


def what_is_refused():
    found = []
    for arguments in ((), ("text",), (3, 4)):
        try:
            partial(*arguments)
        except TypeError as error:
            found.append(str(error))
    try:
        partial(func=max)
    except TypeError as error:
        found.append(str(error))
    return found


CASES = [
    case(existing_ones_are_called),
    case(existing_ones_are_read),
    case(partials_of_partials_are_one),
    case(partial_of_an_existing_one, breaks=None),
    case(what_is_refused),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def applied(function, value):
    return function(value)


def test_another_partial_object_is_noticed():
    made = [partial(max, 1), partial(max, 5), partial(max, 1, 2), partial(all_of), PARSED]
    made += [partial(all_of, q=1), partial(all_of, q=2), lambda value: (value, "plain")]
    with config.override(strict=True):
        compiled = Compiler().compile(applied)
        for function in (*made, *made):
            value = "11" if function is PARSED else 3
            assert compiled(function, value) == function(value)


def test_a_changed_partial_object_is_noticed():
    function = functools.partial(all_of, 1)
    with config.override(strict=True):
        compiled = Compiler().compile(lambda: function(2))
        assert compiled() == (1, 2, (), {})
        function.keywords["late"] = 3
        assert compiled() == (1, 2, (), {"late": 3})
        function.__setstate__((max, (9,), {}, None))
        assert compiled() == 9
