"""Objects handed over by `f(*items)`, or held by two places, end where plain Python ends them."""

import pytest

import dynajit as dj


class Thing:
    def __init__(self, log, number=1):
        self.log = log
        self.number = number

    def __del__(self):
        self.log.append(("end", self.number))


class Holder:
    pass


def deleted_in_the_callee(log):
    def inner(x):
        log.append("in")
        del x
        log.append("out")

    inner(*[Thing(log)])
    log.append("after")


def bound_anew_in_the_callee(log):
    def inner(x, *others):
        x = None
        log.append("first")
        others = None
        log.append("others")

    inner(*[Thing(log, 1), Thing(log, 2)])
    log.append("after")


def keywords_that_are_cleared(log):
    def inner(**named):
        named.clear()
        log.append("out")

    inner(**{"a": Thing(log)})
    log.append("after")


def list_that_is_cleared(log):
    items = [Thing(log)]

    def inner(x):
        items.clear()
        log.append("cleared")
        x = None
        log.append("out")

    inner(*items)
    log.append("after")


def raises_in_the_callee(log):
    def inner(x):
        log.append("in")
        raise ValueError(len([x]))

    try:
        inner(*[Thing(log)])
    except ValueError:
        log.append("caught")
    log.append("after")


def moved_to_another_holder(log):
    holder = Holder()
    holder.thing = Thing(log)
    items = [holder.thing]
    del holder.thing
    log.append("before")
    items.pop()
    log.append("after")


FUNCTIONS = [
    deleted_in_the_callee, bound_anew_in_the_callee, keywords_that_are_cleared,
    list_that_is_cleared, raises_in_the_callee, moved_to_another_holder,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_ends_come_in_the_same_order(function):
    compiled = dj.compile(function, backend="numpy")
    for _ in range(2):
        found, expected = [], []
        compiled(found)
        function(expected)
        assert found == expected
