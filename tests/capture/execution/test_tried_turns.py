"""Turns whose variables are shared with functions stand for others as any do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_for_range import loops_of

GRID = np.random.default_rng(0).integers(0, 2, (12, 12))
X = np.random.default_rng(1).random(30)


def read_by_a_generator(grid: Any, n: int) -> Any:
    for _ in range(n):
        shifts = ((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        count = sum(np.roll(grid, shift, (0, 1)) for shift in shifts)
        grid = ((count == 3) | ((grid == 1) & (count == 2))).astype(grid.dtype)
    return grid


def read_by_a_lambda(x: Any, n: int) -> Any:
    k = 0.5
    scaled = lambda factor: x * factor + k
    for _ in range(n):
        x = np.sin(scaled(0.9))
        k = k * 0.99
    return x, k, scaled(1.0)


def counted_for_a_function(x: Any, n: int) -> Any:
    count = 0

    def multiple() -> Any:
        return count * x

    for _ in range(n):
        count += 2
        x = x * 0.5 + multiple()
    return x, count, multiple()


def written_by_a_function(x: Any, n: int) -> Any:
    total = x * 0

    def add() -> None:
        nonlocal total
        total = total + x

    for _ in range(n):
        x = x * 0.9
        add()
    return total, x


def function_of_the_last_turn(x: Any, n: int) -> Any:
    y = x
    for i in range(n):
        x = x * 0.5 + i
        y = x + 1
        last = lambda: y * i  # noqa: B023
    return last(), y


PROGRAMS: tuple[Callable[..., Any], ...] = (
    read_by_a_generator, read_by_a_lambda, counted_for_a_function, written_by_a_function,
    function_of_the_last_turn,
)  # fmt: skip


@pytest.mark.parametrize("function", PROGRAMS)
def test_variables_in_cells_are_handed_on(function: Callable[..., Any]) -> None:
    given = GRID if function is read_by_a_generator else X
    compiled = dj.compile(function)
    for n in (20, 20, 30, 9, 12, 3, 1, 40):
        expected, found = function(given, n), compiled(given, n)
        pairs = (
            zip(expected, found, strict=True) if isinstance(found, tuple) else [(expected, found)]
        )
        for one, other in pairs:
            assert type(one) is type(other)
            np.testing.assert_allclose(other, one, rtol=1e-12)
    assert loops_of(function, given, 20) == 1


def test_gradients_pass_what_cells_hand_on() -> None:
    def recurrent(x: Any, w: Any, n: int) -> Any:
        step = lambda: dj.tanh(x @ w)
        for _ in range(n):
            x = step()
        return x.sum()

    results = []
    for run in (recurrent, dj.compile(recurrent)):
        x, w = (dj.tensor(GRID[:k] * 0.1, dtype=dj.float64).requires_grad_() for k in (4, 12))
        run(x, w, 11).backward()
        results.append((x.grad, w.grad))
    for one, other in zip(*results, strict=True):
        dj.testing.assert_close(one, other)


def test_a_turn_that_differs_leaves_cells_as_they_are() -> None:
    def grows(x: Any, n: int) -> Any:
        def double() -> Any:
            return x * 2

        seen = [0]
        for i in range(n):
            x = double() if i < 15 else np.concatenate([x, x])
            seen[0] = i
        return x, double(), seen

    for n in (12, 18):
        for one, other in zip(grows(X, n), dj.compile(grows)(X, n), strict=True):
            np.testing.assert_array_equal(one, other)
