"""Builtin functions of all items of an array: of many items they are Python's call."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj


def unique(a: Any) -> tuple[int, int]:
    return len(set(a)), len(set(a) - set(a[:3]))


def added(a: Any) -> Any:
    return sum(list(a))


def third(a: Any) -> Any:
    return sorted(a)[2], max(a), tuple(a)[-1]


@pytest.mark.parametrize("function", [unique, added, third])
@pytest.mark.parametrize("size", [9, 5000])
def test_results_are_those_of_python(function: Any, size: int) -> None:
    compiled, a = dj.compile(function), np.arange(size) * 7 % 1000

    for given in (a, a[::-1].copy(), a[1:]):
        found, expected = compiled(given), function(given)
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize("function", [unique, added, third])
def test_many_items_are_not_unrolled(function: Any) -> None:
    report = dj.explain(function)(np.arange(5000))

    assert sum(len(graph.nodes) for graph in report.graphs) < 20


def test_where_no_break_is_allowed_they_are() -> None:
    assert 499 * 250 == dj.compile(added, fullgraph=True)(np.arange(500))
