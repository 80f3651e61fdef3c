"""Functions that nests call, of the program and made by it, are those of Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.capture.execution.nests.test_views import as_nest
from tests.end_to_end.loops.test_nests import outcome, same

pytestmark = pytest.mark.one_python


def by_lambda(x, n):
    slope = lambda v: 1 - np.power(np.tanh(v), 2)
    for i in range(1, n):
        x[i:] += slope(x[:-i]) * slope(x[i])
    return x


def with_variables_around(x, n):
    low, high = 0.5, x.shape[0]

    def cut(v, by=0.25, *, times=2):
        return v

    def clipped(v, by=0.25):
        return v - by if v > low else v + by * high

    for i in range(n):
        x[i] = clipped(x[i])
        x[i] += clipped(x[i - 1], 0.125) + clipped(by=i, v=x[0])
    return x, cut(1)


def with_an_inner_function_that_calls_another(x, n):
    def half(v):
        return v / 2

    def quarter(v):
        return half(half(v))

    for i in range(n):
        x[i] = quarter(x[i]) + quarter(i)
    return x


def whose_variable_changes_between_loops(x, n):
    factor = 2.0

    def scaled(v):
        return v * factor

    for i in range(n):
        x[i] = scaled(x[i])
    factor = x.shape[0] / 8
    for i in range(n):
        x[i] = scaled(x[i]) + 1
    return x, scaled(1.0)


def whose_variable_turns_change(x, n):
    factor = 2.0

    def scaled(v):
        return v * factor

    for i in range(n):
        x[i] = scaled(x[i])
        factor += 0.5
    return x, factor


def that_turns_make(x, n):
    for i in range(n):

        def shifted(v, by=i):
            return v + by

        x[i] = shifted(x[i])
    return x


def with_keywords_alone(x, n):
    def shifted(v, *, by=3):
        return v + by

    for i in range(n):
        x[i] = shifted(x[i]) + shifted(x[i], by=i)
    return x


def that_raises(x, n):
    def at(k):
        return x[k + 1]

    for i in range(n):
        x[i] += at(i)
    return x


NESTS = [by_lambda, with_variables_around, with_an_inner_function_that_calls_another]
OTHERS = [
    whose_variable_changes_between_loops, whose_variable_turns_change, that_turns_make,
    with_keywords_alone, that_raises,
]  # fmt: skip


def arguments() -> tuple[Any, ...]:
    return np.linspace(-1, 2, 9), 9


@pytest.mark.parametrize("function", NESTS)
def test_functions_that_the_program_makes_are_part_of_a_nest(function: Callable[..., Any]) -> None:
    expected, found = outcome(function, arguments()), as_nest(function, arguments())
    np.testing.assert_allclose(found[1][0], expected[1][0], rtol=1e-14)


@pytest.mark.parametrize("function", OTHERS)
def test_whatever_is_made_is_called_as_python_calls_it(function: Callable[..., Any]) -> None:
    compiled = dj.compile(function)
    for _ in range(2):
        assert same(outcome(function, arguments()), outcome(compiled, arguments()))
