"""Guards on iterators over lists and tuples, and on instances of classes derived from built-ins."""

import pytest

from dynajit.capture.guards.guards import Guard
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.tree import compile_guards
from dynajit.capture.places.sources import Item, Iterated, Local

VALUE = Local("value", 0)
CALLS = 30  # often enough for a snapshot to be taken


class Loud(int):
    def __eq__(self, other):
        raise AssertionError("user code ran")

    __hash__ = int.__hash__


class Name(str):
    pass


class Ratio(float):
    pass


class Plane(complex):
    pass


class Raw(bytes):
    pass


class Tags(set):
    def __iter__(self):
        raise AssertionError("user code ran")


def holds(guard, value):
    evaluator = compile_guards([guard]).evaluator
    return {evaluator.check((value,), holds) for _ in range(CALLS)} == {True}


def advanced(items, count):
    iterator = iter(items)
    for _ in range(count):
        next(iterator)
    return iterator


@pytest.mark.parametrize("items", [[1, 2, 3], (1, 2, 3)])
def test_the_position_of_an_iterator_is_compared(items):
    guard = Guard(VALUE, Kind.POSITION, 2)
    assert holds(guard, advanced(items, 2))
    assert not holds(guard, advanced(items, 1))
    assert not holds(guard, items)
    assert not holds(guard, iter({1: 2}))
    assert "value has given 2 items" == guard.expression()


def test_an_iterator_that_has_ended_has_no_position():
    ended = iter([1])
    list(ended)
    assert not holds(Guard(VALUE, Kind.POSITION, 1), ended)


def test_what_an_iterator_goes_through_is_reached():
    guard = Guard(Item(Iterated(VALUE), 1), Kind.EQUALS, 5)
    assert holds(guard, iter([4, 5]))
    assert holds(guard, iter((4, 5)))
    assert not holds(guard, iter([4, 6]))
    assert not holds(guard, iter({4: 5}))


@pytest.mark.parametrize(
    ("value", "expected", "other"),
    [
        (Loud(3), 3, 4), (Name("a"), "a", "b"), (Ratio(0.0), 0.0, -0.0), (Raw(b"a"), b"a", b""),
        (Ratio("nan"), float("nan"), 1.0), (Plane(1j), 1j, 2j), (3, 3, 4),
    ],
)  # fmt: skip
def test_the_part_of_the_built_in_class_is_compared_without_user_code(value, expected, other):
    assert holds(Guard(VALUE, Kind.STORAGE_EQUALS, expected), value)
    assert not holds(Guard(VALUE, Kind.STORAGE_EQUALS, other), value)
    assert not holds(Guard(VALUE, Kind.STORAGE_EQUALS, expected), [])


def test_members_of_a_derived_set_are_compared_without_user_code():
    guard = Guard(VALUE, Kind.DICT_KEYS, (1,))
    assert holds(guard, Tags({1}))
    assert not holds(guard, Tags({2}))
