"""Mapping proxies, those of classes among them, what `inspect.signature` binds, and `id`."""

import collections
import gc
import inspect
import weakref
from collections import OrderedDict, defaultdict
from types import MappingProxyType

import pytest

import dynajit as dj
from tests.support.python.harness import Compiler, case

TABLE = {"a": 1, "b": 2}
SHOWN = MappingProxyType(TABLE)
ORDERED = MappingProxyType(OrderedDict(q=1, p=2))


class Settings:
    width = 4
    height = 5


def signed(a, b=3, *rest, d=4, **named):
    return a


SIGNATURE = inspect.signature(signed)


def an_existing_one():
    found = SHOWN["a"], len(SHOWN), list(SHOWN), list(SHOWN.items()), SHOWN.get("z", 3)
    more = (
        "a" in SHOWN,
        dict(SHOWN),
        SHOWN | {"q": 1},
        SHOWN == TABLE,
        {**SHOWN},
        sum(SHOWN.values()),
    )
    return found, more, type(SHOWN), list(ORDERED.items()), list(reversed(ORDERED))


def one_that_is_made():
    table = {"a": 3}
    made = MappingProxyType(table)
    table["b"] = 4
    return made, made["b"], isinstance(made, collections.abc.Mapping), repr(made), str(made)


def what_is_refused():
    found = []
    for wrong in ([1], (1,), 3):
        try:
            MappingProxyType(wrong)
        except TypeError as error:
            found.append(str(error))
    try:
        SHOWN["missing"]
    except KeyError as error:
        found.append(error.args)
    return found


def that_of_a_class():
    names = [name for name in vars(Settings) if not name.startswith("_")]
    shown = Settings.__dict__
    return names, shown["width"], "height" in shown, shown.get("depth"), type(shown)


def bound_arguments():
    bound = SIGNATURE.bind(1, 2, 7, d=5, k=3)
    other = inspect.signature(signed).bind(1)
    other.apply_defaults()
    return bound.args, bound.kwargs, dict(bound.arguments), other.args, other.kwargs


def arguments_that_do_not_fit():
    try:
        SIGNATURE.bind()
    except TypeError as error:
        return str(error)


def keys_of_a_defaultdict():
    made = defaultdict.fromkeys(["a", "b"], 1)
    return made, made.default_factory, defaultdict.fromkeys("ab")


CASES = [
    case(an_existing_one, graphs=0), case(one_that_is_made, graphs=0),
    case(what_is_refused, graphs=0), case(that_of_a_class, graphs=0),
    case(bound_arguments, graphs=0), case(arguments_that_do_not_fit, graphs=0),
    case(keys_of_a_defaultdict, graphs=0),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_a_change_of_what_is_shown_is_noticed(compiler):
    table = {"k": 1}
    shown = [MappingProxyType(table), MappingProxyType({"k": 7})]

    def read(proxy):
        return proxy["k"], len(proxy)

    compiled = compiler.compile(read)
    assert (1, 1) == compiled(shown[0])
    table["k"], table["j"] = 2, 0
    assert (2, 2) == compiled(shown[0])
    assert (7, 1) == compiled(shown[1])
    assert 0 == len(compiler.breaks)


def test_a_change_of_a_class_is_noticed_and_the_class_may_end():
    class Passing:
        value = 1

    def read(cls):
        return cls.__dict__["value"], [n for n in vars(cls) if not n.startswith("_")]

    compiled = dj.compile(read, fullgraph=True)
    assert (1, ["value"]) == compiled(Passing)
    Passing.value = 2
    assert (2, ["value"]) == compiled(Passing)
    Passing.more = 3
    assert (2, ["value", "more"]) == compiled(Passing)
    seen = weakref.ref(Passing)
    del Passing
    gc.collect()
    assert seen() is None


class Thing:
    pass


def test_ids_are_those_of_the_objects_of_the_call():
    def look_up(table, one, other):
        return table.get(id(one)), id(one) == id(other), id(Thing) == id(Thing)

    made = Compiler()
    compiled = made.compile(look_up)
    things = [Thing(), Thing()]
    table = {id(things[0]): "first", id(things[1]): "second"}
    for one in things:
        for other in things:
            assert look_up(table, one, other) == compiled(table, one, other)
    assert 0 == len(made.breaks)
