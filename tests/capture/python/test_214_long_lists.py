"""Lists of many numbers compared with each other: guarded by value, or compared by Python."""

import functools

import pytest

import dynajit as dj
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.tensors.sizes import MANY_INTS
from tests.support.python.harness import Compiler, case

SHORT, LONG = 2 * MANY_INTS, 1200


def equal(a, b):
    return a == b, a < b, a != b


def equal_in_dicts(a, b):
    return {"key": a} == {"key": b}


def made_and_compared(a):
    return [item for item in a] == a


CASES = [
    case(equal, list(range(SHORT)), list(range(SHORT))),
    case(equal, tuple(range(SHORT)), tuple(range(SHORT))),
    case(equal, [*range(SHORT), 1], [*range(SHORT), 2]),
    case(equal_in_dicts, list(range(SHORT)), list(range(SHORT))),
    case(made_and_compared, list(range(SHORT))),
    case(equal, list(range(LONG)), list(range(LONG)), breaks=None),
    case(equal, tuple(range(LONG)), tuple(range(LONG)), breaks=None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_is_as_in_plain_python(case, assert_captured):
    case.check(assert_captured)


def test_a_version_for_equal_lists_is_not_used_for_others():
    compiled = Compiler().compile(equal)
    for place in (0, MANY_INTS // 2, SHORT - 1):
        first, second = list(range(SHORT)), list(range(SHORT))
        assert compiled(first, second) == (True, False, False)
        second[place] += 1
        assert compiled(first, second) == (False, True, True)


def test_few_pairs_of_numbers_are_related_and_the_rest_is_guarded_by_value():
    compiler = Compiler()
    compiler.compile(equal)(list(range(SHORT)), list(range(SHORT)))
    kinds = [guard.kind for guard in compiler.regions[0].guards]
    assert 0 < kinds.count(Kind.RELATION) <= MANY_INTS
    assert kinds.count(Kind.EQUALS) >= SHORT - MANY_INTS


def test_very_long_lists_are_compared_by_python():
    compiler = Compiler()
    assert compiler.compile(equal)(list(range(LONG)), list(range(LONG))) == (True, False, False)
    assert {record.reason.name for record in compiler.breaks} == {"limit"}


def test_a_list_of_more_items_than_are_read_is_python_s() -> None:
    def smallest(items: list[float]) -> float:
        return functools.reduce(lambda a, b: a if a < b else b, items)

    items = [float(i * 7 % 1001) for i in range(200_000)]
    compiled = dj.compile(smallest)

    assert compiled(items) == compiled(items) == smallest(items)
