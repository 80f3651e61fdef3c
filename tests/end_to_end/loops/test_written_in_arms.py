"""Arms of an `if` on data that write to memory: what is written, or was there, is put there."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_collected import loops_of
from tests.end_to_end.loops.test_counts import assert_same

V = np.random.default_rng(0).standard_normal(60)


def positive(v):
    y = np.zeros(len(v))
    for i in range(len(v)):
        if v[i] > 0:
            y[i] = v[i]
    return y


def tally(v):
    y, count = np.zeros(5, dtype=np.int64), 0
    for i in range(len(v)):
        if v[i] > 0:
            y[i % 5] += 1
            count += 1
        elif v[i] < -1:
            y[0] -= 1
        else:
            y[1:3] += 2
    return y, count


def histogram(v):
    found = np.zeros(8, dtype=np.int64)
    places = ((v - v.min()) * 2).astype(np.int64)
    for i in range(len(v)):
        place = places[i]
        if place < 8:
            found[place] += 1
    return found


def clipped_in_place(v):
    for i in range(len(v)):
        if v[i] < 0:
            v[i] = 0.0
    return v * 2


def two_names_and_a_view(v):
    y = np.zeros(len(v))
    z, w = y, y[2:5]
    for i in range(len(v)):
        if v[i] > 0:
            y[i] = v[i]
            u = y[i] * 2 + z[i - 1]
            w += 1
        else:
            u = y[0] + w[1]
            z[i] = u
    return y, z, w, u, y is z


def sorted_by_exchanges(v):
    a = v.copy()
    for _ in range(20):
        for i in range(29):
            if a[i] > a[i + 1]:
                a[i], a[i + 1] = a[i + 1], a[i]
    return a


def sorted_by_a_variable(v):
    a = v.copy()
    for _ in range(20):
        for i in range(29):
            if a[i] > a[i + 1]:
                kept = a[i]
                a[i] = a[i + 1]
                a[i + 1] = kept
    return a


def chosen_places(v):
    places, count = np.full(len(v), -1, dtype=np.int64), 0
    for i in range(len(v)):
        if v[i] > 0:
            places[count] = i
            count += 1
    return places, count


def in_a_matrix(v):
    y = np.zeros((30, 30))
    for i in range(30):
        for j in range(30):
            if v[i] > v[j]:
                y[i, j] = v[i]
            elif v[i] < 0:
                y[j, i] = 1
    return y


def whole_arrays(v):
    y = np.zeros(60, dtype=np.float32)
    for i in range(60):
        if v[i] > 0:
            np.add(y, v[i].astype(np.float32), out=y)
        if v[i] < -1:
            y[:] = 0
            continue
        y[i] = np.nan
    return y


def nested_arms(v):
    y = np.arange(60.0)
    for i in range(60):
        if v[i] > 0:
            y[i] = 1
            if v[i] > 1:
                y[i] *= 5
            else:
                y[0] += y[i]
        else:
            y[3:9] *= 0.5
    return y


PROGRAMS = [
    positive, tally, histogram, clipped_in_place, two_names_and_a_view, sorted_by_exchanges,
    sorted_by_a_variable, chosen_places, in_a_matrix, whole_arrays, nested_arms,
]  # fmt: skip


@pytest.mark.parametrize("function", PROGRAMS, ids=[f.__name__ for f in PROGRAMS])
def test_arms_that_write_to_arrays_are_one_graph(function) -> None:
    """What arguments hold afterwards is NumPy's, too; called with other outcomes, and NaN."""
    compiled = dj.compile(function, fullgraph=True)
    for v in (V, -V, np.where(V > 1, np.nan, V), V):
        mine, own = v.copy(), v.copy()
        if function is histogram and np.isnan(v).any():
            continue
        expected = function(own)
        assert_same(expected, compiled(mine))
        assert_same(own, mine)
    assert loops_of(function, V.copy())


def of_tensors(x):
    t, x = dj.zeros(3), x * 1
    for i in range(40):
        if x[i] > 2:
            t.add_(x[i])
            t[1] = 7
        else:
            t.mul_(0.5)
    return t


def test_arms_that_write_to_tensors_are_one_graph() -> None:
    x = dj.tensor(V * 3)
    compiled = dj.compile(of_tensors, fullgraph=True)
    np.testing.assert_allclose(compiled(x).numpy(), of_tensors(x).numpy())
    np.testing.assert_allclose(compiled(-x).numpy(), of_tensors(-x).numpy())


def test_an_array_that_may_only_be_read_is_refused_by_the_arm_that_writes() -> None:
    def write(v, y):
        for i in range(len(v)):
            if v[i] > 9:
                y[i] = v[i]
        return y.sum()

    y = np.zeros(60)
    y.flags.writeable = False
    compiled = dj.compile(write)
    assert compiled(V, y) == write(V, y)
    with pytest.raises(ValueError, match="read-only"):
        compiled(V + 10, y)


def test_an_index_out_of_range_is_refused_where_the_arm_runs() -> None:
    def write(v, places):
        y = np.zeros(3)
        for i in range(len(v)):
            if v[i] > 0:
                y[places[i]] = v[i]
        return y

    places = np.where(V > 0, 2, 70)
    compiled = dj.compile(write)
    assert_same(write(V, places), compiled(V, places))
    with pytest.raises(IndexError):
        compiled(V, places + 1)


def to_an_argument(x, y):
    for i in range(20):
        if x[i] > 0:
            y[i] = x[i]
    return x * 2


def with_a_gradient(x, y):
    y = y * 1
    for i in range(20):
        if x[i] > 0:
            y[i] = x[i]
    return y


@pytest.mark.parametrize("function", [to_an_argument, with_a_gradient])
def test_versions_and_gradients_are_not_guessed(function) -> None:
    """A tensor of the caller's counts its writes; and what gets a gradient depends on data."""
    results = []
    for call in (function, dj.compile(function)):
        x = dj.tensor(V[:20])
        y = dj.zeros(20, dtype=dj.float64)
        if function is with_a_gradient:
            x.requires_grad_()
        found = call(x, y)
        if function is with_a_gradient:
            found.sum().backward()
        results.append((found.detach().numpy(), y.numpy(), y._version, x.grad is None))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def replaced_view(a: Any, c: Any) -> Any:
    """A view of the caller's tensor, until a decision replaces it."""
    for i in range(30):
        if i == 4:
            c = a + 1
        c = c[:]
        for _ in range(18):
            c *= 0.5
    return a * 1


def view_of_a_local(a: Any, c: Any) -> Any:
    """The same of what another local holds."""
    c = kept = c * 1
    for i in range(30):
        if i % 7 == 6:
            c = a + 1
        c = c.reshape(-1)
        for _ in range(3):
            c *= 0.5
    return kept


@pytest.mark.parametrize("make", [lambda: dj.ones(5, dtype=dj.float64), lambda: np.ones(5)])
@pytest.mark.parametrize("function", [replaced_view, view_of_a_local])
def test_writes_to_views_reach_what_they_are_views_of(
    function: Callable[..., Any], make: Callable[[], Any]
) -> None:
    compiled = dj.compile(function)
    for _ in range(2):
        a, c, same = (make() for _ in range(3))
        assert function(a, c).tolist() == compiled(a, same).tolist()
        assert c.tolist() == same.tolist()
