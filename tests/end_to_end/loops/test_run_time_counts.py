"""Loops over `range(n)` of an int that varies: one version for all numbers of turns."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj

X = dj.arange(4.0)
ROWS = dj.tensor(np.random.default_rng(0).random((60, 4)).astype(np.float32))
COUNTS = (20, 50, 17, 1000, 30, 18)


def steps(x, n):
    for i in range(n):
        x = x * 0.9 + i
    return x


def counters(x, n):
    k, m = 3, 100
    for i in range(2, n + 2):  # noqa: B007
        x = x * 0.9 + k
        k += 2
        m -= 3
    return x, i, k, m


def of_arrays(x, n):
    for i in range(n):
        x = x * 0.9 + i
    return x


def with_branches(x, n):
    for _ in range(n):
        if x.sum() > 3:
            x = x * 0.7
        else:
            x = x + 0.01
    return x


def behind(x, n):
    for i in range(n):
        x = x * 0.9 + i
    for _ in range(3):
        x = x + i
    return x * n


def called(x, n):
    return steps(x, n) + steps(x, n + 5)


def same(expected: Any, found: Any) -> None:
    if isinstance(expected, tuple):
        for a, b in zip(expected, found, strict=True):
            same(a, b)
        return
    assert type(expected) is type(found)
    if isinstance(expected, int):
        assert expected == found
    else:
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-5)


@pytest.mark.parametrize("function", [steps, counters, of_arrays, with_branches, behind, called])
def test_the_third_count_compiles_nothing(function):
    x = np.arange(4.0) if function is of_arrays else X
    compiled = dj.compile(function, fullgraph=True)
    for n in COUNTS[:2]:
        same(function(x, n), compiled(x, n))

    with dj.compiler.set_stance("fail_on_recompile"):
        for n in (*COUNTS[2:], 20, 50):
            same(function(x, n), compiled(x, n))


def drawn(x, n):
    x = x + dj.rand(4)
    for i in range(n):
        x = x * 0.9 + i * dj.rand(4)
    x = dj.nn.functional.dropout(x, 0.2, True)
    for _ in range(1, 2 * n):
        x = x * 0.9 + dj.randn_like(x) + dj.rand(())
    for _ in range(12):
        x = x + dj.rand(3).sum()
    return x, dj.rand(n), dj.randn(2)


def test_draws_are_those_of_plain_python_and_compile_nothing():
    """Behind loops, too, where blocks are reserved that depend on the count."""
    compiled = dj.compile(drawn, fullgraph=True)

    def check(n):
        dj.manual_seed(n)
        expected, state = drawn(X, n), dj.get_rng_state()
        dj.manual_seed(n)
        for a, b in zip((*expected, state), (*compiled(X, n), dj.get_rng_state()), strict=True):
            assert dj.equal(a, b)

    for n in COUNTS[:2]:
        check(n)
    with dj.compiler.set_stance("fail_on_recompile"):
        for n in (*COUNTS[2:], 20, 50):
            check(n)
    for n in (3, 0, 9):
        check(n)


def drawn_in_both(x, n):
    for _ in range(12):
        for j in range(n):
            x = x * 0.9 + dj.rand(4) * j
    return x, dj.rand(2)


def test_draws_within_turns_have_a_version_for_each_count():
    compiled = dj.compile(drawn_in_both)
    for n in (20, 30, 12, 3):
        dj.manual_seed(n)
        expected = drawn_in_both(X, n)
        dj.manual_seed(n)
        same(expected, compiled(X, n))


def test_few_turns_have_versions_of_their_own():
    compiled = dj.compile(steps)
    for n in (20, 30, 16, 2, 1, 0, -3, 40):
        same(steps(X, n), compiled(X, n))


def test_rows_that_are_read_are_checked():
    def function(x, rows, n):
        for i in range(n):
            x = x * 0.5 + rows[i]
        return x

    compiled = dj.compile(function)
    for n in (20, 30, 60):
        same(function(X, ROWS, n), compiled(X, ROWS, n))
    with pytest.raises(IndexError):
        compiled(X, ROWS, 61)


def appended(x, n):
    seen = []
    for i in range(n):
        x = x * 0.5 + i
        seen.append(x)
    return dj.stack(seen)


def floats(x, n):
    t = 0.0
    for _ in range(n):
        x = x * 0.5 + t
        t += 0.1
    return x, dj.tensor(t)


def products(x, n):
    for i in range(n):
        x = x * 0.5 + i * 0.1
    return x


def counts_down(x, n):
    left = n
    for _ in range(n):
        x = x * 0.5 + left
        left -= 1
    return x, left


def fractions(x, n):
    for i in range(n):
        x = x * 0.5 + i / n
    return x


def written(x, n):
    kept = dj.zeros(n, 4)
    for i in range(n):
        kept[i] = x
        x = x * 0.5
    return kept


def last_differs(x, n):
    for i in range(n):
        if i == n - 1:
            x = x * 3
        x = x * 0.5 + 1
    return x


def breaks_in_turns(x, n):
    told = []
    for i in range(n):
        x = x * 0.5 + 1
        if x.sum() < 0:
            told.append(i)
    return x, len(told)


def breaks_behind(x, n):
    for i in range(n):  # noqa: B007
        x = x * 0.5 + 1
    return x * float(x.sum()) + i


def nested(x, n):
    for i in range(n):
        for j in range(n - 1):
            x = x * 0.5 + i + j
    return x


def ends_early(x, n):
    for _ in range(n):
        x = x * 0.5
        if x.sum() < 0.01:
            break
    return x


def iterator_that_goes_on(x, n):
    items = iter(range(n))
    for i in items:
        x = x * 0.5 + i
        if i == 2:
            break
    for i in items:
        x = x * 0.5 - i
    return x


@pytest.mark.parametrize(
    "function",
    [appended, floats, products, counts_down, fractions, written, last_differs, breaks_in_turns,
     breaks_behind, nested, ends_early, iterator_that_goes_on],
)  # fmt: skip
def test_other_loops_are_as_in_plain_python(function):
    compiled = dj.compile(function)
    for n in (20, 30, 25, 3):
        same(function(X, n), compiled(X, n))


def test_gradients_pass_through_loops_of_any_count():
    compiled = dj.compile(steps)
    for n in (20, 30, 40):
        expected, found = (X.clone().requires_grad_() for _ in range(2))
        steps(expected, n).sum().backward()
        compiled(found, n).sum().backward()
        np.testing.assert_allclose(found.grad.numpy(), expected.grad.numpy(), 1e-5)


def test_counts_that_are_no_plain_int():
    compiled = dj.compile(steps)
    for n in (20, 30):
        compiled(X, n)

    same(steps(X, np.int64(25)), compiled(X, np.int64(25)))
    same(steps(X, True), compiled(X, True))
    with pytest.raises(TypeError):
        compiled(X, 20.0)
