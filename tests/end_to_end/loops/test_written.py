"""Turns that write to what existed before them: one loop of the graph, and memory as in Python."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_collected import assert_same, loops_of

X = dj.arange(6.0)
ARRAY = np.arange(6.0)


def stencil(u, n):
    u = u.clone()
    for _ in range(n):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def two_arrays(u, n):
    u = u.copy()
    old = np.empty_like(u)
    for _ in range(n):
        old[:] = u
        u[1:-1] = old[1:-1] + 0.1 * (old[2:] - 2 * old[1:-1] + old[:-2])
    return u, old


def recurrence(a, n):
    x = dj.zeros(n)
    x[0] = 1
    for i in range(1, n):
        x[i] = x[i - 1] * 0.5 + a[i % 6]
    return x


def elements(x, n):
    x = x.clone()
    for i in range(n):
        x += 1
        x[i % 3] = i
    return x


def reads_what_it_wrote(x, n):
    x, y = x.clone(), x
    for _ in range(n):
        x[0] = y.sum()
        y = x + 1
    return x, y


def an_argument_and_its_views(u, n):
    view = u[1:3]
    for i in range(n):
        u *= 0.9
        view += i
    return view, u, u[2:]


def history(u, n):
    kept = dj.zeros(n, 6)
    for i in range(n):
        kept[i] = u
        u = u * 0.9
    return kept, u


def history_backwards(u, n):
    kept = np.ones((6, n + 5))
    for i in range(n):
        kept[:, -1 - i] = u
        u = u * 0.9
    return kept


def every_third_row(u, n):
    kept = np.ones((3 * n + 1, 2, 6))
    for i in range(n):
        kept[3 * i + 1] = u + i
        kept[3 * i + 1] *= 2
    return kept


def columns(u, n):
    kept = dj.ones(6, n) * 3
    for i in range(n):
        kept[:, i] += u
        u = u * 0.9 + kept[:, i]
    return kept, u


def parts_of_rows(u, n):
    kept = np.ones((n, 6))
    for i in range(n):
        kept[i, 1:-1] = u[2:] - kept[i, 2:]
    return kept


def rows_of_two(u, n):
    first, second = np.zeros((n, 6)), np.ones((n, 6))
    for i in range(n):
        first[i] = u
        second[i] = first[i] * 0.5 + second[i]
        u = np.sin(u)
    return first, second


def a_row_from_another_array(u, n):
    source = np.arange(6.0 * n).reshape(n, 6)
    kept = np.zeros((n, 6))
    for i in range(n):
        kept[i] = source[n - 1 - i]
    return kept, u


def nest(a, n):
    table = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            table[i, j] = a[i % 6] * a[j % 6] + table[i, j - 1]
    return table


def nest_of_sums(a, n):
    table = np.zeros((n, 50))
    for i in range(n):
        for j in range(50):
            table[i, j] += a[j % 6] * i
            table[i, 3] *= 0.9
    return table


def numbers(n):
    kept, squares = np.zeros(n), np.zeros(n, np.int64)
    for i in range(n):
        kept[i] = i * 0.5
        squares[i] = i * i
    return kept, squares


def a_larger_one_than_turns_compute(u, n):
    kept = np.zeros((n, 3000))
    for i in range(n):
        kept[i, :2] = i
        kept[:2, i] = i
    return kept


LOOPS = [
    (stencil, (X, 40)), (two_arrays, (ARRAY, 40)), (recurrence, (X, 40)), (elements, (X, 40)),
    (reads_what_it_wrote, (X, 40)), (an_argument_and_its_views, (X, 40)), (history, (X, 40)),
    (history_backwards, (ARRAY, 40)), (every_third_row, (ARRAY, 30)), (columns, (X, 40)),
    (parts_of_rows, (ARRAY, 40)), (rows_of_two, (ARRAY, 40)), (nest, (ARRAY, 20)),
    (nest_of_sums, (ARRAY, 20)), (a_row_from_another_array, (ARRAY, 40)), (numbers, (40,)),
    (a_larger_one_than_turns_compute, (ARRAY, 20)),
]  # fmt: skip


def a_list(n):
    items = [0] * 3
    for i in range(n):
        items[i % 3] = i
    return items


def swapped(u, n):
    u, v = u.clone(), u * 2
    for _ in range(n):
        v[1:] = u[:-1]
        u, v = v, u
    return u, v


@pytest.mark.parametrize("rows", [20, 24])
def test_a_nest_computes_the_same_where_its_memory_is_too_large_to_be_carried(rows: int) -> None:
    """A thousand elements are carried, and no more where turns compute single ones."""
    given = fresh((ARRAY,))
    for _ in range(2):
        assert_same(nest_of_sums(*given, rows), dj.compile(nest_of_sums)(*given, rows))


UNROLLED = [(swapped, (X, 40))]


def fresh(args: tuple[Any, ...]) -> list[Any]:
    """The arguments with memory of their own."""
    return [
        arg.clone() if isinstance(arg, dj.Tensor) else np.copy(arg)
        if isinstance(arg, np.ndarray) else arg for arg in args
    ]  # fmt: skip


def versions(values: Any) -> list[int]:
    """How often tensors were written."""
    values = values if isinstance(values, (list, tuple)) else [values]
    return [x._version for x in values if isinstance(x, dj.Tensor)]


@pytest.mark.parametrize(("function", "args"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
def test_turns_that_write_are_one_loop(function, args) -> None:
    """Results, arguments and versions are those of plain Python, called twice."""
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        own, other = fresh(args), fresh(args)
        expected, found = function(*own), compiled(*other)
        assert_same([expected, own], [found, other])
        assert versions(expected) == versions(found)
        assert versions(own) == versions(other)
    assert loops_of(function, *fresh(args)) >= 1


@pytest.mark.parametrize(("function", "args"), UNROLLED, ids=[f.__name__ for f, _ in UNROLLED])
def test_other_loops_are_unrolled(function, args) -> None:
    """As they were."""
    own, other = fresh(args), fresh(args)
    assert_same([function(*own), own], [dj.compile(function)(*other), other])
    assert loops_of(function, *fresh(args)) == 0


@pytest.mark.parametrize("turns", range(15, 21))
def test_every_number_of_turns_around_the_fewest_is_right(turns) -> None:
    """The first turns, and the last, are captured as they come."""
    for function in (history, columns, recurrence):
        assert_same(function(X, turns), dj.compile(function)(X, turns))


def test_a_list_whose_turns_write_different_items_is_written_turn_by_turn() -> None:
    """As in plain Python."""
    assert dj.compile(a_list)(20) == a_list(20)
    assert loops_of(a_list, 20) == 0


def test_rows_are_kept_instead_of_the_whole() -> None:
    """No turn hands on what is large, where it writes one row."""
    body = str(dj.explain(history)(X, 400).graphs[0]).partition("def history")[0]
    assert "index_put" not in body


def test_an_index_out_of_range_raises_as_python_does() -> None:
    """The launch refuses it, and the function runs plainly."""

    def run(kept, x):
        for i in range(30):
            kept[i] = x
        return kept

    for function in (run, dj.compile(run)):
        kept = dj.zeros(25, 6)
        with pytest.raises(IndexError):
            function(kept, X)
        np.testing.assert_array_equal(kept.numpy(), np.tile(X.numpy(), (25, 1)))


def test_gradients_of_what_is_written_are_those_of_plain_python() -> None:
    """Such loops are unrolled."""
    found = []
    for function in (history, dj.compile(history)):
        u = X.clone().requires_grad_()
        kept, last = function(u, 20)
        ((kept**2).sum() + last.sum()).backward()
        found.append(u.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
