"""Which loops are nests over single elements, and what is left alone."""

import gc
import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.execution.nests import blocks
from tests.end_to_end.loops.nests.test_nests import fresh, outcome, same

pytestmark = pytest.mark.one_python

X = np.random.default_rng(5).random(40)
ROW = np.linspace(0.0, 1.0, 600)


def nests_of(function: Callable[..., Any], *args: Any) -> int:
    """How many nests the graphs of one call have."""
    return sum(str(g).count("rows['nest']") for g in dj.explain(function)(*fresh(args)).graphs)


def of_long_rows_that_stay(x):
    a = np.ones((len(x), len(ROW)))
    for i in range(len(x)):
        a[i] = ROW * i + 1
    return a


def with_a_list(x):
    seen = []
    for i in range(len(x)):
        seen.append(x[i])
    return seen


def of_numbers_only(x):
    total = 0
    for i in range(30):
        total += i
    return total, x


def of_tensors(x):
    y = dj.zeros(5)
    for i in range(5):
        y[i] = i
    return y, x


def with_a_truth_that_stays(x):
    found = False
    for i in range(len(x)):
        if x[i] > 0.5:
            found = True
    return [found]


def with_few_turns(x):
    for i in range(3):
        x[i] = i


def with_a_return(x):
    for i in range(len(x)):
        if x[i] > 0.9:
            return i
    return x + 1


def with_halves(x):
    z = x.astype(np.float16)
    for i in range(len(x)):
        z[i] = z[i] * 2
    return z


def of_rows_that_are_read_again(x):
    a = np.ones((len(x), 600))
    for i in range(1, len(x)):
        a[i] -= a[i - 1] * 0.3
        a[i] /= 1.5 + x[i]
    return a


def of_columns_that_are_read_again(x):
    a = np.outer(x, x)
    for i in range(len(x) - 2, -1, -1):
        a[:, i] = (a[:, i] - 0.3 * a[:, i + 1]) * 0.5
    return a


@pytest.mark.parametrize("function", [of_rows_that_are_read_again, of_columns_that_are_read_again])
def test_rows_that_later_turns_read_are_a_nest(function: Callable[..., Any]) -> None:
    assert nests_of(function, X) == 1
    np.testing.assert_allclose(dj.compile(function)(X), function(X), rtol=1e-14)


OTHERS = (
    of_long_rows_that_stay, with_a_list, of_numbers_only, of_tensors, with_a_truth_that_stays,
    with_few_turns, with_a_return, with_halves,
)  # fmt: skip


@pytest.mark.parametrize("function", OTHERS)
def test_other_loops_are_no_nests(function: Callable[..., Any]) -> None:
    assert nests_of(function, X) == 0
    found, expected = outcome(dj.compile(function), (X,)), outcome(function, (X,))
    if function is not of_tensors:
        assert same(expected, found)


def helper(a, b):
    if b > 0.5:
        return a * b
    return a - b


def with_calls(x):
    s = x[0]
    for i in range(len(x)):
        s += helper(x[i], x[-i])
    return s


def recursive(a, n):
    return a if n == 0 else recursive(a * 0.5, n - 1)


def with_recursion(x):
    for i in range(len(x)):
        x[i] = recursive(x[i], 20)


class Holder:
    def __init__(self) -> None:
        self.values = np.arange(30.0)


def of_an_attribute(holder, n):
    for i in range(1, n):
        holder.values[i] += holder.values[i - 1]
    return holder.values


def test_functions_of_the_program_are_part_of_the_nest() -> None:
    assert nests_of(with_calls, X) == 1
    assert same(outcome(with_calls, (X,)), outcome(dj.compile(with_calls), (X,)))


def test_a_function_of_the_nest_is_guarded(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = dj.compile(with_calls)
    compiled(X)
    monkeypatch.setitem(globals(), "helper", lambda a, b: a + b)
    assert same(with_calls(X), compiled(X))


def first_above(x, limit):
    for i in range(len(x)):
        x[i] *= 2
        if x[i] > limit:
            return x
    return x


def filled_up_to(x, limit):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = x[i]
        if x[i] > limit:
            return i, out
    return len(x), out


def of_two(x, limit):
    y = x + 1
    for i in range(len(x)):
        x[i] += 1
        if x[i] > limit:
            return x
    return y


def of_a_view(x, limit):
    for i in range(len(x)):
        x[i] += 1
        if x[i] > limit:
            return x[:]
    return x[:]


def under_its_own_name(x, limit):
    for i in range(len(x)):
        x -= x[i] * 0.5
    return x, x[0] > limit


def under_another_name(x, limit):
    y = x
    for i in range(len(x)):
        y = x
        y += x[i] * 0.5
    y[0] = limit
    return y, x


def of_swapped_names(x, limit):
    y = x + limit
    for i in range(len(x)):
        x[i] += y[-i]
        x, y = y, x
    return x, y


@pytest.mark.parametrize(
    ("function", "count"),
    [(under_its_own_name, 1), (under_another_name, 1), (of_swapped_names, 0)],
)
def test_names_of_arrays_are_left_as_turns_leave_them(
    function: Callable[..., Any], count: int
) -> None:
    for n in (1, 6, 7):
        own, other = X[:n].copy(), X[:n].copy()
        expected, found = function(own, 1.5), dj.compile(function)(other, 1.5)
        assert same(expected, found) and same(own, other)
        assert [value is own for value in expected] == [value is other for value in found]
    assert nests_of(function, X, 0.5) == count


@pytest.mark.parametrize("limit", [0.5, 1.2, 9.0])
@pytest.mark.parametrize(
    ("function", "count"), [(first_above, 1), (filled_up_to, 1), (of_two, 0), (of_a_view, 0)]
)
def test_turns_may_return_an_array(function: Callable[..., Any], count: int, limit: float) -> None:
    assert nests_of(function, X, limit) == count
    own, other = X.copy(), X.copy()
    expected, found = function(own, limit), dj.compile(function)(other, limit)
    assert same(expected, found) and same(own, other)
    assert (expected is own) is (found is other)


def test_a_nest_calls_no_function_of_the_library() -> None:
    def told(x):
        for i in range(len(x)):
            x[i] = 1.0 if dj.compiler.is_compiling() else 0.0
        return x

    assert nests_of(told, X) == 0
    assert dj.compile(told)(X.copy()).tolist() == [1.0] * len(X)


def test_recursion_that_is_deep_is_no_nest() -> None:
    assert nests_of(with_recursion, X) == 0
    assert same(outcome(with_recursion, (X,)), outcome(dj.compile(with_recursion), (X,)))


def test_arrays_of_attributes_are_written() -> None:
    own, other = Holder(), Holder()
    compiled = dj.compile(of_an_attribute, fullgraph=True)
    for _ in range(2):
        expected, found = of_an_attribute(own, 30), compiled(other, 30)
        assert found is other.values
        np.testing.assert_array_equal(expected, found)


def test_an_array_that_may_only_be_read_is_not_written() -> None:
    def write(x):
        y = np.broadcast_to(x, (2, len(x)))
        for i in range(len(x)):
            y[0, i] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        dj.compile(write)(X.copy())


def test_a_nest_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_BLOCKS", 5)
    assert nests_of(with_calls, X) == 0


def test_what_is_known_of_the_last_turn_stays_known() -> None:
    """The counter behind the loop is a number of the program, and decides."""

    def last(x):
        for i in range(5):
            x[i] = i
        return x[i] if i > 3 else x

    assert same(outcome(last, (X,)), outcome(dj.compile(last, fullgraph=True), (X,)))


def test_a_nest_within_turns_that_are_captured_is_part_of_them() -> None:
    def steps(x, n):
        for _ in range(n):
            x = np.sin(x)
            y = np.zeros(len(x))
            for i in range(1, len(x)):
                y[i] = x[i - 1] - x[i] + y[i - 1]
            x = y * 0.5
        return x

    compiled = dj.compile(steps, fullgraph=True)
    for n in (3, 40):
        np.testing.assert_allclose(compiled(X, n), steps(X, n), rtol=1e-12)


def test_powers_of_numbers_of_python_are_those_of_python() -> None:
    def powers(x):
        y = np.zeros((len(x), 4))
        for i in range(len(x)):
            v = float(x[i])
            y[i, 0], y[i, 1], y[i, 2], y[i, 3] = v**2, v**3, (v * v) ** 0.5, (v + 2.0) ** -1.5
        return y

    x = np.array([0.0, -0.5, 1.0, 1.5, -1.25])
    np.testing.assert_allclose(dj.compile(powers, fullgraph=True)(x), powers(x), rtol=1e-15)
    large = np.array([1.0, 2.0, 1e200, 1.0])
    with pytest.raises(OverflowError):
        dj.compile(powers)(large)


def filled(x):
    for i in range(len(x)):
        x[i] += 1
    return x


@pytest.mark.parametrize(
    ("function", "count"), [(filled, 1), (with_a_list, 0), (with_a_truth_that_stays, 0)]
)
def test_what_was_looked_at_lives_no_longer(function, count):
    """A loop that is a nest, and one that is tried in vain, leave no cycle to the collector."""
    compiled = dj.compile(function)
    gc.collect()
    gc.disable()
    try:
        x = X.copy()
        ended = weakref.ref(x)
        compiled(x)
        del x
        assert ended() is None
    finally:
        gc.enable()
    assert count == nests_of(function, X)


def rank_updates(c, a):
    for i in range(c.shape[0]):
        c[i, : i + 1] *= 1.5
        c[i, : i + 1] += (a[i, :] * a[: i + 1, :]).sum(axis=1)


def correlations(c, a):
    for i in range(a.shape[1] - 1):
        c[i, i + 1 : a.shape[1]] = (a[:, i] * a[:, i + 1 : a.shape[1]].T).sum(axis=1)


def orthogonal(c, a):
    for k in range(a.shape[1]):
        c[k, k] = math.sqrt(np.dot(a[:, k], a[:, k]))
        a[:, k] = a[:, k] / c[k, k]
        c[k, k + 1 :] = np.dot(a[:, k].T, a[:, k + 1 :])
        a[:, k + 1 :] = a[:, k + 1 :] - np.dot(a[:, k, None], c[None, k, k + 1 :])


@pytest.mark.parametrize("function", [rank_updates, correlations, orthogonal])
def test_rows_of_sizes_that_vary_are_not_unrolled(function: Callable[..., Any]) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for size in (7, 9, 12):
        x = np.random.default_rng(size).normal(size=(size, size))
        expected, actual = [np.zeros_like(x), x.copy()], [np.zeros_like(x), x.copy()]
        function(*expected)
        compiled(*actual)
        assert np.allclose(expected, actual, rtol=1e-12)
    assert len(compiled.report().versions) == 2
    assert nests_of(function, np.ones((6, 6)), np.ones((6, 6))) == 1
