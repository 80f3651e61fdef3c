"""Generators that raise when they are let go: the error is shown and forgotten."""

import gc
import sys

import pytest

LOG = []


class Failing:
    """Raises when it is left."""

    def __enter__(self):
        LOG.append("in")
        return self

    def __exit__(self, *error):
        LOG.append("out")
        raise RuntimeError("on the way out")


def suspended(t):
    with Failing():
        yield t.neg()


def bound_anew(x):
    try:
        made = suspended(x)
        next(made)
        made = None
        LOG.append("after")
    except RuntimeError:
        return x.relu()
    return x + 1


def deleted(x):
    try:
        made = suspended(x)
        next(made)
        del made
        LOG.append("after")
    except RuntimeError:
        return x.relu()
    return x + 1


def never_bound(x):
    try:
        t = next(suspended(x))
        LOG.append("after")
    except RuntimeError:
        return x.relu()
    return x + t


def left_by_break(x):
    try:
        for t in suspended(x):
            break
        LOG.append("after")
    except RuntimeError:
        return x.relu()
    return x + t


def inner(x):
    made = suspended(x)
    return next(made) * 2


def left_with_its_frame(x):
    try:
        t = inner(x)
        LOG.append("after")
    except RuntimeError:
        return x.relu()
    return x + t


def held_by_a_list(x):
    try:
        made = [suspended(x)]
        t = next(made[0])
        made.clear()
        LOG.append("after")
    except RuntimeError:
        return x.relu()
    return x + t


FUNCTIONS = [bound_anew, deleted, never_bound, left_by_break, left_with_its_frame, held_by_a_list]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_is_as_in_plain_python(compiler, check_same, x, monkeypatch, function):
    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: shown.append(repr(error.exc_value)))

    def outcome(called):
        LOG.clear()
        shown.clear()
        result = called(x)
        gc.collect()
        return result, list(LOG), list(shown)

    expected = outcome(function)
    assert expected[2] == ["RuntimeError('on the way out')"]
    compiled = compiler.compile(function)
    for _ in range(2):
        check_same(expected, outcome(compiled))
