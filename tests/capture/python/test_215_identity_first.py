"""Containers look at identity before they ask `==`: both outcomes hold for later calls, too."""

import collections
import itertools

import pytest

from tests.support.python.harness import Compiler


class Plain:
    pass


class Never:
    def __eq__(self, other):
        return False

    __hash__ = object.__hash__


class Valued:
    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Valued) and self.value == other.value

    def __hash__(self):
        return 7


def tuples_equal(a, b):
    return (a,) == (b,)


def tuples_differ(a, b):
    return (a,) != (b,)


def lists_equal(a, b):
    return [1, [a]] == [1, [b]]


def deques_equal(a, b):
    return collections.deque([a]) == collections.deque([b])


def values_equal(a, b):
    return {1: a} == {1: b}


def in_a_tuple(a, b):
    return a in (None, b)


def in_items(a, b):
    return (1, a) in {1: b}.items()


def found_in_a_list(a, b):
    return [None, b].count(a)


def key_of_a_dict(a, b):
    return {a: 1}.get(b)


def members(a, b):
    return len({a, b}), b in {a}


def keys_equal(a, b):
    return {a: 1} == {b: 1}


def is_one(a, b):
    return a is b, a is not b


FUNCTIONS = [
    tuples_equal, tuples_differ, lists_equal, deques_equal, values_equal, in_a_tuple, in_items,
    found_in_a_list, key_of_a_dict, members, keys_equal, is_one,
]  # fmt: skip
NAN, OTHER_NAN = float("nan"), float("nan")
PLAIN, NEVER, VALUED = Plain(), Never(), Valued(NAN)
PAIRS = [
    (PLAIN, PLAIN), (PLAIN, Plain()),
    (NEVER, NEVER), (NEVER, Never()),
    (VALUED, VALUED), (VALUED, Valued(NAN)), (VALUED, Valued(1)),
    (NAN, NAN), (NAN, OTHER_NAN), ((NAN,), (NAN,)), ((NAN,), (OTHER_NAN,)),
    (len, len), (len, max), (Plain, Plain), (Plain, Never),
    ((NEVER,), (NEVER,)), ((NEVER,), (Never(),)),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_version_for_one_pair_serves_no_other(function):
    for first, second in itertools.product(PAIRS, repeat=2):
        compiled = Compiler().compile(function)
        for pair in (first, second):
            assert function(*pair) == compiled(*pair), (first, second)


def looked_up(table, key):
    return table.get(key), key in table, len({*table, key})


def test_a_missing_key_is_not_missed_for_a_key_that_is_there():
    first, second = Plain(), Plain()
    tables = [({first: 1}, second), ({first: 1}, first), ({first: 1, second: 2}, second)]
    for one, other in itertools.product(tables, repeat=2):
        compiled = Compiler().compile(looked_up)
        for table, key in (one, other):
            assert looked_up(table, key) == compiled(table, key)


def without_repetition(objects):
    seen = set()
    return [o.name for o in objects if o not in seen and not seen.add(o)]


@pytest.mark.parametrize("count", [3, 50])
def test_many_objects_are_kept_apart(count):
    def named(number):
        made = Plain()
        made.name = number
        return made

    different = [named(number) for number in range(count)]
    repeated = [*different[:-1], different[0]]
    compiled = Compiler().compile(without_repetition)
    for objects in (different, repeated, different):
        assert without_repetition(objects) == compiled(objects)
