"""The harness itself: it notices every kind of difference, and each run starts afresh."""

import sys
import warnings

import pytest

from dynajit import eager
from tests.support.python.comparison import same
from tests.support.python.harness import Checker, case

LOG = []
COUNT = 0


class Thing:
    total = 0

    def __init__(self, value=1):
        self.value = value


def generator(*items):
    yield from items


SHARED = []

DIFFERENT = [
    (1, True),
    (0.0, -0.0),
    ([1], (1,)),
    ([1, [2]], [1, [3]]),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ([SHARED, SHARED], [[], []]),
    (Thing(1), Thing(2)),
    (eager.tensor([1.0]), eager.tensor([2.0])),
    (eager.tensor([1.0]), eager.tensor([1.0], requires_grad=True)),
    (iter([1, 2]), iter([1, 3])),
    (generator(1, 2), generator(1)),
    (ValueError("a"), ValueError("b")),
    (lambda: 1, lambda: 2),
    ({1, 2}, {1, 3}),
]


@pytest.mark.parametrize(("expected", "actual"), DIFFERENT, ids=str)
def test_differences_are_noticed(expected, actual):
    with pytest.raises(AssertionError):
        same(expected, actual)


def test_equal_objects_of_two_runs_are_the_same():
    def build():
        inner = [1, float("nan")]
        thing = Thing(inner)
        thing.me = thing
        return thing, [inner], {"f": lambda: inner}, iter((1, 2)), ValueError(inner), range(3)

    same(build(), build())


def plain(items):
    LOG.append(len(items))
    items.append(COUNT)
    return items[-1]


def test_each_run_starts_from_the_same_state(capsys):
    checker = Checker(plain, ([],), capsys)
    first, second = checker.run(plain), checker.run(plain)
    assert [] == LOG
    assert [0] == first.surroundings["LOG"] == second.surroundings["LOG"]
    same(first.arguments, second.arguments)


def changes_argument(items):
    items.append(1)
    return plain(items)


def changes_global(items):
    LOG.append(0)
    return plain(items)


def rebinds_global(items):
    global COUNT
    result = plain(items)
    COUNT = 5
    return result


def changes_class(items):
    Thing.total += 1
    return plain(items)


def prints(items):
    print("text")
    return plain(items)


def prints_an_error(items):
    print("text", file=sys.stderr)
    return plain(items)


def warns(items):
    warnings.warn("text", stacklevel=1)
    return plain(items)


def raises(items):
    raise ValueError(plain(items))


WRONG = [
    changes_argument,
    changes_global,
    rebinds_global,
    changes_class,
    prints,
    prints_an_error,
    warns,
    raises,
]


def right(items):
    Thing.total += 0
    return plain(items)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda f: f.__name__)
def test_side_effects_are_compared(wrong, capsys):
    checker = Checker(right, ([],), capsys)
    checker.surroundings._visit(wrong)
    checker.start = checker.surroundings.take()
    expected = checker.run(right)
    checker.check(expected, right, "as it is")
    with pytest.raises(AssertionError):
        checker.check(expected, wrong, "with a difference")


def divide(a, b):
    return a // b


CASES = [
    case(divide, 6, 3, graphs=0),
    case(divide, 1, 0, graphs=0),
    case(lambda a: [a, a], [1]),
    case(lambda a: a.append(LOG) or len(a), [1]),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_cases_are_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)
