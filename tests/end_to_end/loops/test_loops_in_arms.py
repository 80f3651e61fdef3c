"""Loops within arms of an `if` on data, and loops of which the first turn differs from the rest."""

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_counts import assert_same
from tests.end_to_end.loops.test_tested_loops import loops_of

V = np.random.default_rng(0).standard_normal(60)
X = np.arange(6.0)


def old_sum(x, tolerance):
    old, count, x = 0.0, 0, x + 1
    while True:
        new = x.sum()
        count += 1
        if abs(new - old) < tolerance:
            break
        old = new
        x = x * 0.5
    return x, count


def old_sum_and_error(x, tolerance):
    old, count, x, error = 1e9, 0, x + 1, 1.0
    while error > tolerance:
        new = x.sum()
        count += 1
        error = abs(new - old)
        old = new
        x = x * 0.5
    return x, count


def old_array(x, tolerance):
    old, count, new = 0.0, 0, x * 2.0
    while abs(new - old).max() > tolerance:
        old = new
        new = new * 0.5 + old.mean() * 0.1
        count += 1
    return new, count


FIRST_TURNS = [
    (old_sum, X, 0.1), (old_sum, X, 1e9), (old_sum, X, 1e-9), (old_sum_and_error, X, 0.1),
    (old_array, X - 3, 0.1), (old_array, X, 1e9),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "x", "tolerance"), FIRST_TURNS, ids=[f.__name__ for f, *_ in FIRST_TURNS]
)
def test_a_number_that_becomes_an_elements_is_no_break(function, x, tolerance) -> None:
    """The first turn is captured by itself, whether it runs or not."""
    for given in (x, dj.tensor(x)):
        expected = function(given, tolerance)
        compiled = dj.compile(function, fullgraph=True)
        assert_same(expected, compiled(given, tolerance))
        assert_same(expected, compiled(given, tolerance))
        assert loops_of(function, given, tolerance) == (1, 1)


def halved(v, tolerance):
    total, count = v[0] * 0, 0
    for i in range(30):
        if v[i] > 0:
            z = v[i] * 1
            while z > tolerance:
                z = z * 0.5
                count += 1
            total = total + z
        else:
            for j in range(20):
                total = total * 0.9 + j
    return total, count


def without_an_end_in_the_other_arm(v, tolerance):
    total = v[0] * 0
    for i in range(30):
        if v[i] > 0:
            z = v[i] * 1
            while abs(z) > tolerance:
                z = z * 0.5 if v[i] > 0 else z * 2
            total = total + z
    return total


def root(a, tolerance):
    x = a * 1.0
    while abs(x * x - a) > tolerance:
        x = 0.5 * (x + a / x)
    return x


def roots(v, tolerance):
    total = v[0] * 0
    for i in range(30):
        if v[i] > 0:
            total = total + root(v[i], tolerance)
    return total


def rows_in_an_arm(v, tolerance):
    y = np.zeros(30)
    for i in range(30):
        if v[i] > 1 + tolerance:
            for j in range(3):
                y[j] += v[i]
    return y


@pytest.mark.parametrize(
    "function", [halved, without_an_end_in_the_other_arm, roots, rows_in_an_arm]
)
def test_loops_in_arms_run_where_python_runs_the_arm(function) -> None:
    for v in (V, np.abs(V), -np.abs(V)):
        expected = function(v, 0.01)
        compiled = dj.compile(function, fullgraph=True)
        assert_same(expected, compiled(v, 0.01))
        assert_same(expected, compiled(v, 0.01))


def filled(y, value):
    for i in range(len(y)):
        y[i] = value
    return y


def test_a_loop_of_an_arm_that_writes_to_older_memory_writes_there_alone() -> None:
    """What it leaves is not what was there where Python runs the other arm."""

    def function(v):
        y = np.zeros(40)
        for i in range(30):
            if v[i] > 1:
                filled(y, v[i])
        return y

    for v in (V, -np.abs(V)):
        assert_same(function(v), dj.compile(function)(v))
