"""Sets as members of sets, keys that count how often they are hashed, checks of typing's classes."""

import asyncio
import collections
import functools
import typing
import weakref

import pytest

from dynajit.core.process import config
from tests.support.python.harness import Compiler, case


class Derived(set):
    """A set that cannot be hashed, as sets cannot."""


class Hashed(set):
    def __hash__(self):
        return 5


class Counting(int):
    def __init__(self, *arguments):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return int.__hash__(self)


def sets_are_looked_up_as_frozensets():
    made = {1, frozenset("ab"), frozenset("cd")}
    found = Derived("ab") in made, set("cd") in made, Derived("abc") in made, Hashed("ab") in made
    made.remove(Derived("ab"))
    made.discard(Derived("cd"))
    return found, made


def missing_set_is_named_as_it_is():
    wanted = Derived("abc")
    try:
        Derived([1]).remove(wanted)
    except KeyError as error:
        return error.args[0] is wanted
    return None


def set_is_no_key():
    return Derived("ab") in {frozenset("ab"): 1}


def any_is_asked():
    return isinstance(3, typing.Any)


class Anything(typing.Any):
    pass


def class_of_any_is_asked():
    return isinstance(Anything(), Anything), isinstance(3, Anything), issubclass(int, typing.Any)


def equal_literals_are_two_objects():
    text = "one_two"
    cut = text[:3] + text[3:]
    first, second = frozenset("ab"), frozenset(reversed("ab"))
    return text is cut, text is text[:], first is second, frozenset(first) is first


def equal_literals_are_two_objects_for_id():
    first, second = frozenset("ab"), frozenset(reversed("ab"))
    text = "one_two"
    cut = text[:3] + text[3:]
    return id(first) == id(second), id(text) == id(cut), id(text) == id(text)


class Partial:
    def method(self, *numbers, **named):
        return numbers, named

    both = functools.partialmethod(method, 3, name=6)


def partial_methods_know_their_instance():
    owner = Partial()
    bound = owner.both
    return bound.__self__ is owner, bound(5), bound.args


def partial_methods_are_handed_out():
    return Partial().both


def test_partial_methods_that_are_handed_out_know_their_instance():
    with config.override(strict=True):
        made = Compiler().compile(partial_methods_are_handed_out)()
    assert type(made.__self__) is Partial and made(5) == ((3, 5), {"name": 6})


class Logged(collections.UserDict):
    pass


def cache_of_a_generic_function(cache):
    weakref.WeakKeyDictionary = lambda: cache
    try:
        generic = functools.singledispatch(lambda number: "base")
    finally:
        weakref.WeakKeyDictionary = KEPT
    return generic


KEPT = weakref.WeakKeyDictionary


def test_a_cache_that_is_watched_is_filled():
    cache = Logged()
    generic = cache_of_a_generic_function(cache)
    with config.override(strict=True):
        compiled = Compiler().compile(lambda: generic({}))
        assert compiled() == "base" and list(cache) == [dict]


CASES = [
    case(equal_literals_are_two_objects),
    case(equal_literals_are_two_objects_for_id, breaks=None),
    case(partial_methods_know_their_instance),
    case(sets_are_looked_up_as_frozensets, breaks=0),
    case(missing_set_is_named_as_it_is, breaks=0),
    case(set_is_no_key, breaks=0),
    case(any_is_asked, breaks=0),
    case(class_of_any_is_asked, breaks=0),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def hashes_of_copies():
    entries = dict.fromkeys(map(Counting, range(4)))
    frozen = frozenset(entries)
    before = sum(key.asked for key in entries)
    frozen.difference(entries)
    return before, sum(key.asked for key in entries)


def test_keys_are_not_hashed_while_compiling():
    with config.override(strict=True):
        compiled = Compiler().compile(hashes_of_copies)
        assert hashes_of_copies() == compiled() == compiled() == (4, 4)


async def nothing():
    return 5


def done_of(task):
    return task.done()


def test_classes_in_c_may_hide_their_dict():
    async def run(function):
        task = asyncio.get_running_loop().create_task(nothing())
        return function(task), await task

    with config.override(strict=True):
        compiled = Compiler().compile(done_of)
        assert asyncio.run(run(done_of)) == asyncio.run(run(compiled)) == (False, 5)
