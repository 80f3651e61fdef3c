"""Loops of NumPy programs: one loop of the graph, with NumPy's dtypes and classes of results."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution import loops
from tests.end_to_end.loops.test_collected import assert_same, loops_of

X = np.arange(6.0)
MATRIX = np.random.default_rng(0).random((6, 6)) + 0.1


@pytest.fixture(autouse=True)
def however_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of few operations are loops of the graph, too."""
    monkeypatch.setattr(loops, "FEWEST_NODES", 0)


def heat(u, n):
    for _ in range(n):
        u = u + 0.1 * (np.roll(u, 1) + np.roll(u, -1) - 2 * u)
    return u


def with_the_counter(u, n):
    rate = 0.5
    for i in range(n):
        u = u * rate + i / 3 - np.maximum(u, i)
        rate *= 0.9
    return u, i, rate


def numbers_of_numpy(u, n):
    total, largest = 0.0, u.max()
    for _ in range(n):
        u = np.sin(u)
        total = total + u.sum()
        largest = np.maximum(largest, u.max())
    return total, largest, u


def power_iteration(a, x, n):
    for _ in range(n):
        y = a @ x
        x = y / np.linalg.norm(y)
    return x, x @ (a @ x), y


def rows(a, n):
    total = np.zeros(6)
    for i in range(n):
        total = total * 0.5 + a[i % 6] + a[i % 6, 1] + a[:, i % 6]
    return total


def chosen(u, n):
    for i in range(n):
        u = np.where(u > i, u - 1, u + 0.5)
        u = np.clip(u, 0, i)
    return u


def integers(n):
    k = np.zeros(3, np.int64)
    for i in range(n):
        k = k * 3 % 1000 + i
    return k


def single(n):
    x = np.ones(4, np.float32)
    for i in range(n):
        x = x * np.float32(0.9) + i * 0.1
    return x


LOOPS = [
    (heat, (X, 60)), (with_the_counter, (X, 60)), (numbers_of_numpy, (X, 60)),
    (power_iteration, (MATRIX, X, 60)), (rows, (MATRIX, 60)), (chosen, (X, 60)), (integers, (60,)),
    (single, (60,)),
]  # fmt: skip


def other_class_later(u, n):
    total = 0
    for i in range(n):
        total = total + (u.sum() if i == 30 else 1)
    return total


def small_integers(n):
    k = np.zeros(3, np.int8)
    for i in range(n):
        k = k + i
    return k


def powers(u, n):
    for i in range(n):
        u = u * 0.5 + (u * 0.1) ** i
    return u


def two_arrays_over_one_memory(u, n):
    for _ in range(n):
        v = u[:]
        u = v
    return u, v


UNROLLED = [
    (other_class_later, (X, 60)), (small_integers, (60,)), (powers, (X, 20)),
    (two_arrays_over_one_memory, (X, 40)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
def test_turns_over_arrays_are_one_loop(function, args) -> None:
    """With NumPy's results, called twice."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))
    assert loops_of(function, *args) == 1


@pytest.mark.parametrize(("function", "args"), UNROLLED, ids=[f.__name__ for f, _ in UNROLLED])
def test_other_loops_are_unrolled(function, args) -> None:
    """As they were, with NumPy's results."""
    assert_same(function(*args), dj.compile(function)(*args))
    assert loops_of(function, *args) == 0


def test_a_number_that_does_not_fit_raises_as_numpy_does() -> None:
    """An int8 array plus 128."""

    def run(n):
        k = np.zeros(3, np.int8)
        for i in range(n):
            k = k * 0 + i
        return k

    for function in (run, dj.compile(run)):
        with pytest.raises(OverflowError):
            function(140)
