"""Compiled code keeps no object of the user alive: keys of dicts, functions that were called."""

import collections
import weakref

import pytest

import dynajit as dj


class Thing:
    def __init__(self, number):
        self.number = number


def deleted_key_of_a_weak_dict():
    a, b = Thing(1), Thing(2)
    table = weakref.WeakKeyDictionary({a: 1, b: 2})
    before = sorted(table.values())
    del a
    return before, sorted(table.values()), len(table)


def keys_are_references(table):
    return [(key.number, item) for key, item in table.items()]


def keys_are_kept(table):
    return {key: item + 1 for key, item in table.items()}


def deleted_key_of_a_dict():
    a = Thing(1)
    table = {a: 1}
    found = keys_are_references(table)
    reference = weakref.ref(a)
    del a, table
    return found, reference() is None


@pytest.mark.parametrize("function", [deleted_key_of_a_weak_dict, deleted_key_of_a_dict])
def test_a_key_dies_with_its_last_user(function):
    compiled = dj.compile(function, backend="numpy")
    for _ in range(3):
        assert function() == compiled()


@pytest.mark.parametrize("function", [keys_are_references, keys_are_kept])
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict])
def test_keys_that_a_compiled_function_read_die(function, kind):
    compiled = dj.compile(function, backend="numpy")
    for count in (2, 2, 3):
        table = kind((Thing(i), i) for i in range(count))
        if kind is collections.OrderedDict:
            table.move_to_end(next(iter(table)))
        assert list(function(table)) == list(compiled(table))
        references = [weakref.ref(key) for key in table]
        del table
        assert all(reference() is None for reference in references)


def test_a_function_that_was_called_dies_when_its_global_is_bound_anew():
    namespace = {}
    exec("def g():\n    return 1\n\ndef f():\n    return g()\n", namespace)
    compiled = dj.compile(namespace["f"], backend="numpy")
    assert 1 == compiled() == compiled()
    reference = weakref.ref(namespace["g"])
    namespace["g"] = lambda: 2
    assert reference() is None
    assert 2 == compiled()
