"""Recursive functions of arrays are plain Python; those of tensors, and others, are captured."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.entry.cache import cache_of


def merge_sort(a):
    n = len(a)
    if n <= 1:
        return a.copy()
    left, right = merge_sort(a[: n // 2]), merge_sort(a[n // 2 :])
    out = np.empty(n, a.dtype)
    i = j = 0
    for k in range(n):
        if j == len(right) or (i < len(left) and left[i] <= right[j]):
            out[k] = left[i]
            i += 1
        else:
            out[k] = right[j]
            j += 1
    return out


def quick_sort(a):
    if len(a) <= 1:
        return a
    middle = a[len(a) // 2]
    smaller, larger = quick_sort(a[a < middle]), quick_sort(a[a > middle])
    return np.concatenate([smaller, a[a == middle], larger])


def fourier(x):
    if len(x) <= 1:
        return x
    even, odd = fourier(x[::2]), fourier(x[1::2])
    odd = np.exp(-2j * np.pi * np.arange(len(x) // 2) / len(x)) * odd
    return np.concatenate([even + odd, even - odd])


def queens(n):
    columns, rising, falling = np.zeros(n, bool), np.zeros(2 * n, bool), np.zeros(2 * n, bool)
    found = []

    def place(row, before):
        if row == n:
            found.append(list(before))
            return
        for c in range(n):
            if columns[c] or rising[row + c] or falling[row - c + n]:
                continue
            columns[c] = rising[row + c] = falling[row - c + n] = True
            place(row + 1, [*before, c])
            columns[c] = rising[row + c] = falling[row - c + n] = False

    place(0, [])
    return found


def power(x, n):
    if n == 0:
        return x * 0 + 1
    half = power(x, n // 2)
    return half * half * x if n % 2 else half * half


def broken_power(x, n):
    if n == 0:
        dj.graph_break()
        return x * 0 + 1
    if x.sum() > 1e9:
        print("large")
    half = broken_power(x, n // 2)
    return half * half * x if n % 2 else half * half


R = np.random.default_rng(8)
RECURSIVE: list[tuple[Any, Any]] = [
    (merge_sort, R.random(50)),
    (merge_sort, R.integers(0, 9, 33)),
    (quick_sort, R.random(60)),
    (fourier, R.random(128) + 0j),
]


@pytest.mark.parametrize(("function", "x"), RECURSIVE)
def test_recursive_functions_of_arrays_are_plain_python(function: Any, x: Any) -> None:
    expected, compiled = function(x.copy()), dj.compile(function)

    for _ in range(3):
        np.testing.assert_array_equal(compiled(x.copy()), expected)
    np.testing.assert_array_equal(compiled(x[1::2].copy()), function(x[1::2].copy()))
    assert not dj.explain(function)(x.copy()).graphs


def test_recursive_functions_within_a_function_are_plain_python() -> None:
    compiled = dj.compile(queens)

    assert compiled(5) == compiled(5) == queens(5)
    assert not dj.explain(queens)(5).graphs


def test_a_compiled_function_that_calls_itself_by_a_cell_is_plain_python() -> None:
    @dj.compile
    def count(x):
        if len(x) == 0 or x[0] > 0.5:
            return len(x)
        return 1 + count(x[1:])

    x = R.random(9) * 0.4

    assert 9 == count(x) == count(x)
    assert not dj.explain(count)(x).graphs


def test_recursion_that_does_not_branch_on_data_is_one_graph() -> None:
    x = R.random(20)

    np.testing.assert_allclose(dj.compile(power, fullgraph=True)(x, 13), x**13)
    assert len(dj.explain(power)(x, 13).graphs) == 1


def test_where_no_break_is_allowed_recursion_is_unrolled() -> None:
    x = R.random(16) + 0j

    found = dj.compile(fourier, fullgraph=True)(x)

    np.testing.assert_allclose(found, np.fft.fft(x), rtol=1e-10)


def test_recursive_functions_of_tensors_are_captured_around_their_breaks() -> None:
    x = dj.rand(8, dtype=dj.float64)

    found = dj.compile(broken_power)(x, 5)

    np.testing.assert_allclose(found.numpy(), x.numpy() ** 5)
    assert dj.explain(broken_power)(x, 5).graphs


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m, n):
    if not m:
        return n + 1
    return ackermann(m - 1, ackermann(m, n - 1) if n else 1)


def through_others(n):
    first, second = fibonacci(n), ackermann(2, 2)
    return first + second


@pytest.mark.parametrize("function", [fibonacci, through_others])
def test_one_of_numbers_alone_is_not_unrolled_for_each_number(function):
    compiled = dj.compile(function)
    for n in (16, 17, 18, 16):
        assert compiled(n) == function(n)
    assert cache_of(compiled).compile_count == 1
    assert "no tensor" in str(dj.explain(function)(18))
