"""Turns that hand on what other variables held before them, over one turn or several.

Results are plain Python's in values, dtypes, identities, memory and gradients.
"""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.support.loops import assert_same, loops_of

X = dj.arange(6.0) + 1


def of_order_three(x):
    a, b, d = x, x + 1, x * 2
    for _ in range(40):
        a, b, d = b, d, a * 0.5 + d * 0.4
    return a, b, d


def of_order_five(x):
    a, b, c, d, e = x * 1, x + 1, x * 2, x - 1, x * 3
    for _ in range(40):
        a, b, c, d, e = b, c, d, e, a * 0.5 + e * 0.4
    return e, c, a, b, d, c


def lags(x):
    one = two = three = x * 1
    for _ in range(40):
        three, two, one = two, one, x
        x = x * 0.9 + three * 0.1
    return one, two, three, x, one


def four_lags_of_one_start(x):
    a = b = c = d = -x
    for i in range(40):
        f = -x * (1 + 0.01 * i)
        x = x + 0.01 * (55 * f - 59 * a + 37 * b - 9 * c + d)
        d, c, b, a = c, b, a, f
    return x, a, b, c, d


def beside_what_stays(x):
    first = x * 1
    a, b, c = first, first * 0.5, first * 2
    for _ in range(40):
        a, b, c = b, c, a * 0.5 + first
    return first, a, b, c


def a_list_made_anew(x):
    h = [x, x * 2, x * 3]
    for _ in range(40):
        h = [h[1], h[2], h[0] * 0.4 + h[2] * 0.5]
    return h[0], h[1], h[2]


def a_dict(x):
    h = {"old": x * 1, "older": x * 2, "oldest": x * 3}
    for _ in range(40):
        h["oldest"], h["older"], h["old"] = h["older"], h["old"], x
        x = x * 0.8 + h["oldest"] * 0.1
    return x, h["old"], h["older"], h["oldest"]


def a_ring(x):
    a, b, c, y = x * 1, x + 1, x * 2, x * 0
    for _ in range(41):
        y = y * 0.5 + a
        a, b, c = b, c, a
    return a, b, c, y


def a_ring_of_arguments(x):
    a, b, y = x, x + 1, x * 0
    for _ in range(40):
        y = y * 0.5 + a * b
        a, b = b, a
    return a, b, y, x


def a_ring_and_a_chain(x):
    a, b, c, d, y = x * 1, x + 1, x * 2, x * 3, x * 0
    for i in range(41):
        y = y * 0.5 + a + c * i
        a, b, c, d = b, a, d, c * 0.9
    return a, b, c, d, y


def everything_kept(x):
    a, b, c, kept = x, x + 1, x * 2, []
    for _ in range(30):
        kept.append(a)
        a, b, c = b, c, a * 0.5 + c * 0.4
    return a, b, c, *kept


def a_ring_kept(x):
    a, b, c, y, kept = x * 1, x + 1, x * 2, x * 0, []
    for _ in range(30):
        kept.append(a)
        y = y * 0.5 + b
        a, b, c = b, c, a
    return a, b, c, y, *kept


def asked_for_identity(x):
    a, b, c = x, x + 1, x * 2
    for i in range(40):
        a, b, c = b, c, (a * 0.5 if a is c else a * 0.25) + i
    return a, b, c


def of_numpy(x):
    a, b, c = x.numpy() * 1, x.numpy() + 1, x.numpy() * 2
    for _ in range(40):
        a, b, c = b, c, np.roll(a, 1) * 0.5 + c * 0.4
    return a, b, c


def a_ring_of_numpy(x):
    a, b, y = x.numpy() * 1, x.numpy() + 1, x.numpy() * 0
    for _ in range(41):
        y = np.roll(y, 1) * 0.5 + a
        a, b = b, a
    return a, b, y


LOOPS = [
    of_order_three, of_order_five, lags, four_lags_of_one_start, beside_what_stays,
    a_list_made_anew, a_dict, a_ring, a_ring_of_arguments, a_ring_and_a_chain, everything_kept,
    a_ring_kept, asked_for_identity, of_numpy, a_ring_of_numpy,
]  # fmt: skip


def written_by_another_name(x):
    first = x * 1
    a, b, c, d = first, x + 1, x * 2, x * 3
    for _ in range(40):
        first.add_(1)
        a, b, c, d = b, c, d, a * 0.5 + d * 0.4
    return first, a, b, c, d


def written_in_a_list(x):
    kept = [x * 1]
    a, b, c, d = kept[0], x + 1, x * 2, x * 3
    for i in range(40):
        if i >= 2:
            kept[0].add_(1)
        a, b, c, d = b, c, d, a * 0.5 + d * 0.4
    return kept[0], a, b, c, d


def a_ring_that_is_written(x):
    a, b, c = x * 1, x + 1, x * 2
    for _ in range(41):
        a.mul_(0.9)
        a, b, c = b, c, a
    return a, b, c


def views_of_one_memory(x):
    table = dj.stack([x, x + 1, x * 2])
    a, b, c, y = table[0], table[1], table[2], x * 0
    for i in range(41):
        y = y * 0.5 + a * i
        a, b, c = b, c, a
    a.add_(1)
    return table, a, b, c, y


def more_lags_than_turns(x):
    a = [x * k for k in range(12)]
    for _ in range(9):
        a = [*a[1:], a[0] * 0.5 + a[-1]]
    return tuple(a)


def one_object_at_first(x):
    a = b = x * 1
    c = x * 2
    for i in range(40):
        c = c + (1 if a is b else 2)
        a, b = b, c if i == 20 else a
    return a, b, c


OTHERS = [
    written_by_another_name, written_in_a_list, a_ring_that_is_written, views_of_one_memory,
    more_lags_than_turns, one_object_at_first,
]  # fmt: skip


@pytest.mark.parametrize("function", [*LOOPS, *OTHERS])
def test_objects_are_those_of_plain_python(function: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    for _ in range(2):
        x, y = X.clone(), X.clone()
        expected, found = function(x), compiled(y)
        assert [e is x for e in expected] == [f is y for f in found]
        assert_same((x, *expected), (y, *found))


@pytest.mark.parametrize("function", LOOPS)
def test_what_is_handed_on_over_several_turns_is_one_loop(function: Any) -> None:
    assert loops_of(function, X.clone()) == 1


def test_more_lags_than_turns_are_unrolled() -> None:
    assert loops_of(more_lags_than_turns, X.clone()) == 0


@pytest.mark.parametrize(
    "function", [of_order_three, of_order_five, lags, a_ring, a_ring_and_a_chain, everything_kept]
)
def test_gradients_pass_chains(function: Any) -> None:
    results = []
    for run in (function, dj.compile(function, fullgraph=True)):
        x = X.clone().requires_grad_()
        found = run(x)
        sum((k + 1) * (each * each).sum() for k, each in enumerate(found)).backward()
        results.append(x.grad.numpy())
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


@pytest.mark.parametrize("order", [3, 5])
def test_one_version_serves_all_numbers_of_turns(order: int) -> None:
    def run(x, n):
        held = [x * (k + 1) for k in range(order)]
        for _ in range(n):
            held = [*held[1:], held[0] * 0.5 + held[-1] * 0.4]
        return tuple(held)

    compiled = dj.compile(run)
    for n in (20, 33, 17, 40, 8, 3):
        assert_same(run(X, n), compiled(X, n))


@pytest.mark.parametrize("count", range(8, 20))
def test_rings_end_where_python_ends_them(count: int) -> None:
    def run(x):
        a, b, c, d, e = x * 1, x + 1, x * 2, x - 1, x * 0
        for i in range(count):
            e = e * 0.5 + a * i + d
            a, b, c, d = b, c, a, d * 0.9
        return a, b, c, d, e

    assert_same(run(X), dj.compile(run, fullgraph=True)(X))
    assert loops_of(run, X) == 1
