"""Functions that nests call, of the program and made by it, are those of Python."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.capture.execution.nests.test_views import as_nest
from tests.end_to_end.loops.nests.test_nests import outcome, same

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


def of_any_number(*values, scale=2.0):
    total = 0.0
    for value in values:
        total += value
    return total * scale + len(values)


def with_any_number_of_arguments(x, n):
    def first(v, *rest):
        return v + rest[0] if n > 3 else v

    for i in range(n):
        x[i] = of_any_number(x[i], i, 0.5) + of_any_number() + of_any_number(1.5, scale=x[0])
        x[i] += first(x[i], i, i) + of_any_number(*(x[i], 2.0))
    return x


def by_keyword(v, /, w=1.0, *, by, more=0.25):
    return v * w + by - more


def with_keywords_of_functions(x, n):
    for i in range(n):
        x[i] = by_keyword(x[i], by=i) + by_keyword(x[i], more=x[0], by=2, w=i)
    return x


def with_a_keyword_left_out(x, n):
    for i in range(n):
        x[i] = by_keyword(x[i], 2.0)
    return x


def with_a_name_that_is_none(x, n):
    for i in range(n):
        x[i] = by_keyword(v=x[i], by=2.0)
    return x


def that_raises(x, n):
    def at(k):
        return x[k + 1]

    for i in range(n):
        x[i] += at(i)
    return x


NESTS = [
    by_lambda, with_variables_around, with_an_inner_function_that_calls_another,
    with_keywords_alone, with_any_number_of_arguments, with_keywords_of_functions,
]  # fmt: skip
OTHERS = [
    whose_variable_changes_between_loops, whose_variable_turns_change, that_turns_make,
    with_a_keyword_left_out, with_a_name_that_is_none, that_raises,
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


def test_another_default_by_keyword_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = dj.compile(with_keywords_of_functions)
    for defaults in ({"more": 0.25}, {"more": 0.5}, {"by": 7.0, "more": 1.5}):
        monkeypatch.setattr(by_keyword, "__kwdefaults__", defaults)
        expected = outcome(with_keywords_of_functions, arguments())
        assert same(expected, outcome(compiled, arguments()))
