"""Loops over a range that end by a tensor in the middle of a turn: the range may be over later."""

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_counts import assert_same
from tests.end_to_end.loops.test_tested_loops import loops_of

RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.random((6, 6)) + 6 * np.eye(6)
B = RANDOM.random(6)


def jacobi(a, b, tolerance, n):
    x = b * 0
    diagonal = a.sum(0) * 0 + 7
    rest = a - 7 * (a > 5)
    for it in range(n):  # noqa: B007
        new = (b - rest @ x) / diagonal
        if abs(new - x).max() < tolerance:
            break
        x = new
    return x, it


def says_whether_it_converged(a, b, tolerance, n):
    x, converged = b * 0, False
    for it in range(n):  # noqa: B007
        new = (b - a @ x) / 9
        if abs(new - x).max() < tolerance:
            converged = True
            break
        x = new * 1.0
    return x, it, converged


def with_else(a, b, tolerance, n):
    x, converged = b * 0, True
    for it in range(2, n + 2):  # noqa: B007
        new = (b - a @ x) / 9
        if abs(new - x).max() < tolerance:
            break
        x = new
    else:
        converged = False
        x = x + 1
    return x, it, converged


def returns_in_the_middle(a, b, tolerance, n):
    x = b * 1
    old = x.sum()
    for it in range(n):
        new = (x * x).sum()
        if abs(new - old) < tolerance:
            return x, it, True
        old = new
        x = x * 0.5
    return x, it, False


def counts_and_adds(a, b, tolerance, n):
    x, t, k = b * 1, 0.0, 0
    for _ in range(n):
        change = abs(a @ x).sum()
        if change < tolerance:
            break
        t += 0.1
        x = x * 0.1 + t * 0.001
        k += 2
    return x, t, k


def negated(a, b, tolerance, n):
    x = b * 1
    for it in range(n):  # noqa: B007
        if not x.sum() > tolerance:
            break
        x = x * 0.5
    return x, it


def counts_in_front_of_the_test(a, b, tolerance, n):
    x, k = b * 1, 0
    while k < n:
        new = 0.5 * x + b * 0.01
        k += 1
        if abs(new - x).sum() < tolerance:
            break
        x = new
    return x, k


def two_ends_in_the_middle(a, b, tolerance, n):
    x, k = b * 1, 0
    while True:
        new = 0.5 * x + b * 0.01
        k += 1
        if abs(new - x).sum() < tolerance:
            break
        if k >= n:
            return x, k, False
        x = new
    return x, k, True


def counts_behind_the_test(a, b, tolerance, n):
    x, k, t = b * 1, 0, 0.0
    while k <= n:
        new = 0.5 * x + t
        if abs(new - x).sum() < tolerance:
            break
        x = new
        k += 2
        t += 0.001
    return x, k, t


def decides_by_the_count(a, b, tolerance, n):
    x, k = b * 1, n
    while k > 0:
        new = 0.5 * x
        k -= 1
        if abs(new - x).sum() < tolerance:
            return x, k
        x = new if k > 3 else new + 0.25
    return x, -1


PROGRAMS = [
    counts_in_front_of_the_test, two_ends_in_the_middle, counts_behind_the_test,
    jacobi, says_whether_it_converged, with_else, returns_in_the_middle, counts_and_adds, negated
]  # fmt: skip


@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("n", [1, 2, 3, 100])
def test_the_range_may_be_over_in_the_middle_of_a_turn(function, n) -> None:
    """Or the test ends the loop, in its first turn or a later one."""
    compiled = dj.compile(function, fullgraph=True)
    on_tensors = dj.compile(function, fullgraph=True)
    a, b = dj.tensor(MATRIX), dj.tensor(B)
    for tolerance in (1e-9, 0.1, 1e9):
        assert_same(function(MATRIX, B, tolerance, n), compiled(MATRIX, B, tolerance, n))
        assert_same(function(a, b, tolerance, n), on_tensors(a, b, tolerance, n))


@pytest.mark.parametrize("function", PROGRAMS)
def test_such_a_loop_is_one_loop(function) -> None:
    assert loops_of(function, MATRIX, B, 1e-9, 100) == (1, 1)


def test_a_turn_that_decides_by_the_count_is_as_in_plain_python() -> None:
    for n in (0, 1, 2, 100):
        compiled = dj.compile(decides_by_the_count)
        for tolerance in (1e-9, 0.1, 1e9):
            args = MATRIX, B, tolerance, n
            assert_same(decides_by_the_count(*args), compiled(*args))


def test_no_turn_at_all_is_pythons_error() -> None:
    with pytest.raises(UnboundLocalError):
        dj.compile(jacobi)(MATRIX, B, 1e-9, 0)
