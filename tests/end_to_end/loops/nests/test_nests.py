"""Loops over single elements are one nest, and give what plain Python gives, to the last bit."""

import math
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_collected import loops_of

pytestmark = pytest.mark.one_python


def matrix_product(a, b):
    n, m = a.shape
    p = b.shape[1]
    c = np.zeros((n, p))
    for i in range(n):
        for j in range(p):
            s = 0.0
            for k in range(m):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return c


def recurrence(x, a):
    y = np.zeros(x.shape[0])
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = a * y[i - 1] + x[i]
    return y


def edit_distance(a, b):
    n, m = a.shape[0], b.shape[0]
    d = np.zeros((n + 1, m + 1), np.int64)
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d


def shortest_paths(d):
    for k in range(len(d)):
        for i in range(len(d)):
            for j in range(len(d)):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]


def mandelbrot(xs, ys, limit):
    out = np.zeros((ys.shape[0], xs.shape[0]), np.int32)
    for i in range(ys.shape[0]):
        for j in range(xs.shape[0]):
            x, y, k = 0.0, 0.0, 0
            while k < limit and x * x + y * y <= 4.0:
                x, y = x * x - y * y + xs[j], 2.0 * x * y + ys[i]
                k += 1
            out[i, j] = k
    return out


def gauss_seidel(u, steps):
    for _ in range(steps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = (u[i - 1, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j]) / 4.0


def histogram(x, bins):
    counts = np.zeros(bins, np.int64)
    for i in range(x.shape[0]):
        k = int(x[i] * bins)
        if k >= bins:
            k = bins - 1
        counts[k] += 1
    return counts


def running_sum(x):
    s = 0.0
    y = np.empty_like(x)
    for i in range(len(x)):
        s += x[i]
        y[i] = s
    return y, s


def largest(x):
    best = x[0]
    for i in range(1, len(x)):
        if x[i] > best:
            best = x[i]
    return best


def distance(a, b):
    return math.sqrt((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2)


def all_distances(points):
    n = points.shape[0]
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            d = distance(points[i], points[j])
            out[i, j] = d
            out[j][i] = d
    return out


def insertion_sort(x):
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key


def sieve(n):
    is_prime = np.ones(n, np.bool_)
    for i in range(2, n):
        if not is_prime[i]:
            continue
        for j in range(i * i, n, i):
            is_prime[j] = False
    return is_prime


def backwards(x):
    y = np.zeros(len(x), np.float32)
    for i in range(len(x) - 1, -1, -2):
        y[i] = x[-i - 1] // 3 + x[i] % 2
    return y


def items(x, y):
    z = np.zeros(len(x))
    for i in range(4):
        for k, (a, b) in enumerate(zip(x, y), 1):  # noqa: B905
            z[k - 1] += a * b - i
    return z


def rows(a):
    z = np.zeros(len(a))
    for i in range(len(a)):
        s = 0.0
        for value in a[i]:
            s += value
        z[i] = s
    return z


def functions(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        v = np.sqrt(np.abs(x[i])) + np.maximum(x[i], 0.5) + max(x[i], 0.25) - abs(x[i])
        y[i] = v + math.floor(x[i]) + float(i) / 3 + np.floor(x[i])
    return y


def transposed(a):
    t = a.T
    c = np.zeros(t.shape)
    for i in range(t.shape[0]):
        for j in range(t.shape[1]):
            c[i, j] = t[i, j] + a[j, i]
    return c


def flipped(x):
    y = x[::-1]
    for i in range(len(x)):
        y[i] = y[i] * 2 + i


def early_end(x):
    s = x[0] * 0
    for i in range(len(x)):
        if x[i] > 0.9:
            break
        s += x[i]
    return s


def checked(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] < 0:
            raise ValueError(f"negative: {x[i]}")
        if not x[i] < 5:
            raise AssertionError
        y[i] = x[i]
    return y


def narrow(a, b):
    for i in range(len(a)):
        a[i] = a[i] + b[i] * np.float32(3) - 1
    return a[0] * 2.5


def whole(a, b):
    s = a[0] * 0
    for i in range(len(a)):
        a[i] = (a[i] * 3 + i) % 7 + (b[i] // 2) - (b[i] & 3) + (1 << (i % 4))
        s += a[i]
    return s


def wraps(a):
    s = a[0]
    for i in range(len(a)):
        s = s * np.int32(1000003) + a[i]
    return s


def first_above(x, bound):
    for i in range(len(x)):
        if x[i] > bound:
            return i
    return -1


def is_sorted(x):
    for i in range(1, len(x)):  # noqa: SIM110
        if x[i] < x[i - 1]:
            return False
    return True


def has_large(x):
    found = False
    for value in x:
        if value > 0.5:
            found = True
            break
    return found


def first_and_place(x):
    for i in range(len(x)):
        if x[i] > 0.7:
            return i, x[i]
    return -1, x[0]


def binary_search(x, value):
    low, high = 0, len(x) - 1
    while low <= high:
        middle = (low + high) // 2
        if x[middle] == value:
            return middle
        if x[middle] < value:
            low = middle + 1
        else:
            high = middle - 1
    return -1


def bubble_sort(x):
    swapped = True
    while swapped:
        swapped = False
        for i in range(1, x.size):
            if x[i - 1] > x[i]:
                x[i - 1], x[i] = x[i], x[i - 1]
                swapped = True
    return x


def square_root(a):
    x = a[0] * 1.0
    while abs(x * x - a[0]) > 1e-12:
        x = 0.5 * (x + a[0] / x)
    return x


def collatz(x):
    steps = np.zeros(len(x), np.int64)
    for i, value in enumerate(x):
        k = 0
        while value != 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            k += 1
        steps[i] = k
    return steps


def checksum(data):
    found = 0xFFFF
    for byte in data:
        for _ in range(8):
            found = (found >> 1) ^ 0x8408 if (found ^ byte) & 1 else found >> 1
            byte >>= 1
    return found


def alignment(a, b):
    h = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    best = 0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            score = 2 if a[i - 1] == b[j - 1] else -1
            h[i, j] = max(0, h[i - 1, j - 1] + score, h[i - 1, j] - 2, h[i, j - 1] - 2)
            if h[i, j] > best:
                best = h[i, j]
    return best, h


def extremes_of_classes(x, y, z):
    out = np.zeros((len(x), 4))
    for i in range(len(x)):
        low = min(z[i], i, 0.5, x[i])
        high = max(y[i], 1, z[i], y[i], x[i] + 1)
        out[i, 0], out[i, 1] = low, high
        out[i, 2], out[i, 3] = low / 3, high / 3
    return out


def scaled(v, k=2, /, b=1.5, *, unused=None):
    return v * k + b


def shifted(v, k=2, b=1.5):
    return v * k + b


def with_defaults(x):
    for i in range(len(x)):
        x[i] = shifted(x[i]) + shifted(x[i], b=x[i]) - shifted(k=3, v=x[i])
    return x


def counted(x):
    count, place = 0, -1
    for i in range(len(x)):
        if x[i] > 0.5:
            count += 1
            place = i
    return count, place


R = np.random.default_rng(3)
NESTS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (matrix_product, (R.random((7, 5)), R.random((5, 6)))),
    (recurrence, (R.random(30), 0.9)),
    (edit_distance, (R.integers(0, 3, 12), R.integers(0, 3, 9))),
    (shortest_paths, (R.random((9, 9)),)),
    (mandelbrot, (np.linspace(-2, 0.6, 12), np.linspace(-1.2, 1.2, 10), 30)),
    (gauss_seidel, (R.random((9, 8)), 5)),
    (histogram, (R.random(50), 7)),
    (running_sum, (R.random(40),)),
    (largest, (R.random(40),)),
    (all_distances, (R.random((8, 2)),)),
    (insertion_sort, (R.random(25),)),
    (sieve, (60,)),
    (backwards, (R.random(11) * 9,)),
    (items, (R.random(6), R.random(5))),
    (rows, (R.random((6, 3)),)),
    (functions, (R.standard_normal(20),)),
    (transposed, (R.random((5, 6)),)),
    (flipped, (R.random(8),)),
    (early_end, (np.array([0.1, 0.2, 0.3, 0.95, 0.4]),)),
    (checked, (R.random(6),)),
    (narrow, (R.random(9).astype(np.float32), R.random(9).astype(np.float32))),
    (whole, (R.integers(0, 99, 12), R.integers(0, 99, 12))),
    (first_above, (R.random(40), 0.8)),
    (first_above, (R.random(40), 3.0)),
    (is_sorted, (np.sort(R.random(20)),)),
    (is_sorted, (R.random(20),)),
    (has_large, (R.random(20),)),
    (first_and_place, (R.random(40),)),
    (binary_search, (np.arange(50.0), 7.0)),
    (bubble_sort, (R.random(20),)),
    (square_root, (np.array([2.0]),)),
    (collatz, (np.arange(1, 30),)),
    (checksum, (R.integers(0, 255, 40),)),
    (counted, (R.random(40),)),
    (with_defaults, (R.random(12),)),
    (alignment, (R.integers(0, 4, 15), R.integers(0, 4, 12))),
    (extremes_of_classes, (R.random(9), R.integers(-2, 3, 9), R.random(9).astype(np.float32))),
    (wraps, (R.integers(0, 1 << 30, 20).astype(np.int32),)),
]


def fresh(args: tuple[Any, ...]) -> list[Any]:
    """The arguments once more: arrays are written."""
    return [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]


def same(expected: Any, found: Any) -> bool:
    """Of one class, dtype and shape, with the same bits but for NaN."""
    if type(expected) is not type(found):
        return False
    if isinstance(expected, (tuple, list)):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, (np.ndarray, np.generic)):
        return expected.dtype == found.dtype and np.array_equal(
            expected, found, equal_nan=expected.dtype.kind == "f"
        )
    return bool(expected == found)


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """What a call gives or raises, and the arguments after it."""
    own = fresh(args)
    try:
        with np.errstate(all="ignore"):
            return function(*own), own
    except Exception as error:
        return (type(error), str(error)), own


@pytest.mark.parametrize(("function", "args"), NESTS, ids=[f.__name__ for f, _ in NESTS])
def test_loops_over_elements_are_nests(function: Callable[..., Any], args: Any) -> None:
    compiled = dj.compile(function, fullgraph=True)
    expected = outcome(function, args)
    for _ in range(2):
        assert same(expected, outcome(compiled, args))
    assert loops_of(function, *fresh(args)) >= 1


def a_parameter_twice(x):
    for i in range(len(x)):
        x[i] = shifted(x[i], 1, v=2)
    return x


def a_parameter_too_few(x):
    for i in range(len(x)):
        x[i] = shifted(b=x[i])
    return x


def a_parameter_by_keyword_alone(x):
    for i in range(len(x)):
        x[i] = scaled(x[i], 3, unused=i)
    return x


def by_position_alone(x):
    for i in range(len(x)):
        x[i] = scaled(x[i], k=3)
    return x


def too_far(x):
    for i in range(len(x)):
        x[i] = x[i + 2] + 1


def too_far_down(x):
    for i in range(len(x)):
        x[-i] = x[-i - 1] * 2


def by_data_too_far(x):
    for i in range(len(x)):
        x[int(x[i] * 3)] += 1


def divided(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = 1.0 / float(x[i])
    x[0] = 2
    return y


def rooted(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = math.sqrt(x[i])
    return y


def too_large(x):
    counts = np.zeros(len(x), np.int8)
    for i in range(len(x)):
        counts[i] = i * 30
    return counts


def not_whole(x):
    counts = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        counts[i] = x[i] / 0
    return counts


def larger_and_larger(x):
    y, k = np.zeros(len(x)), 3
    for i in range(len(x)):
        k = k * k
        y[i] = k % 1000003
    return y


UNUSUAL = np.array([0.5, 3.5, -1.0, 0.0, 7.0, 2.0])


@pytest.mark.parametrize(
    "function",
    [too_far, too_far_down, by_data_too_far, divided, rooted, too_large, not_whole, checked,
     larger_and_larger, a_parameter_twice, a_parameter_too_few, by_position_alone,
     a_parameter_by_keyword_alone],
)  # fmt: skip
def test_what_a_nest_cannot_say_is_left_to_python(function: Callable[..., Any]) -> None:
    """Errors have Python's messages, and memory is as Python leaves it."""
    compiled = dj.compile(function)
    for args in ((np.array([0.25, 0.5, 0.75, 1.0]),), (UNUSUAL,), (np.ones(4),)):
        expected = outcome(function, args)
        for _ in range(2):
            assert same(expected, outcome(compiled, args))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.float32])
def test_numbers_have_the_dtypes_of_numpy(dtype: Any) -> None:
    def promoted(x, y):
        a, b, c, d, e, f = x[0], x[0], x[0], x[0], x[0], x[0] < x[1]
        for i in range(1, len(x)):
            a = x[i] + y[i]
            b = x[i] / 2
            c = x[i] * 1.5
            d = x[i] > 1
            e = np.sqrt(y[i]) + i
            f = x[i] <= y[i - 1]
        return a, b, c, d, e, f

    x, y = np.array([1, 0, 1, 3, 2]).astype(dtype), np.array([2, 1, 5, 4, 1])
    compiled = dj.compile(promoted, fullgraph=True)
    assert same(outcome(promoted, (x, y)), outcome(compiled, (x, y)))
    assert same(outcome(promoted, (x, x)), outcome(compiled, (x, x)))


@pytest.mark.parametrize("values", [[1.0, np.nan, 2.0], [np.nan, 1.0, np.nan], [-0.0, 0.0, -0.0]])
def test_extremes_are_those_of_python_with_nan_and_zeros(values: list[float]) -> None:
    def extremes(x):
        out = np.zeros((len(x), 4))
        for i in range(len(x)):
            out[i, 0], out[i, 1] = min(x[i], x[i - 1]), max(x[i], x[i - 1])
            out[i, 2], out[i, 3] = min(0.0, x[i]), max(x[i], 0)
        return out

    x = np.array([*values, 5.0, *values])
    found = dj.compile(extremes, fullgraph=True)(x)
    expected = extremes(x)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_remainders_have_the_signs_of_python() -> None:
    def divide(x, y):
        out = np.zeros((len(x), 4))
        for i in range(len(x)):
            out[i, 0], out[i, 1] = x[i] // y[i], x[i] % y[i]
            out[i, 2], out[i, 3] = float(x[i]) // 1.5, float(x[i]) % -1.5
        return out

    x = np.array([4.0, -4.0, 5.5, -5.5, 0.0, -0.0, np.inf, 3.0])
    y = np.array([2.0, 2.0, -2.0, 2.0, 3.0, 3.0, 2.0, -np.inf])
    with np.errstate(all="ignore"):
        found, expected = dj.compile(divide)(x, y), divide(x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_numbers_of_turns_that_vary_need_few_versions() -> None:
    def triangle(x, n):
        s = x[0]
        for i in range(n):
            for j in range(i):
                s += x[j] * i
        return s

    compiled = dj.compile(triangle)
    x = np.arange(100.0)
    for n in (20, 30, 40, 90):
        assert same(triangle(x, n), compiled(x, n))
    assert compiled.entry_count == 2


def test_sizes_that_vary_need_few_versions() -> None:
    compiled = dj.compile(matrix_product)
    for n in (5, 6, 9, 12, 20):
        a, b = R.random((n, n + 1)), R.random((n + 1, n - 2))
        assert same(matrix_product(a, b), compiled(a, b))
    assert compiled.entry_count == 2


def test_defaults_are_those_of_the_moment(monkeypatch) -> None:
    compiled = dj.compile(with_defaults)
    for defaults in ((2, 1.5), (3, 0.5), (4, np.float32(2))):
        monkeypatch.setattr(shifted, "__defaults__", defaults)
        args = (np.array([0.25, 0.5, 0.75, 1.0]),)
        assert same(outcome(with_defaults, args), outcome(compiled, args))


def test_differences_and_sums_of_products_side_by_side_are_rounded_as_python_rounds() -> None:
    def products(a, b, out):
        for i in range(len(a)):
            out[i, 0] = a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1]
            out[i, 1] = a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]

    a, b = R.random((200, 2)), R.random((200, 2))
    expected, found = np.zeros((200, 2)), np.zeros((200, 2))

    products(a, b, expected)
    dj.compile(products, fullgraph=True)(a, b, found)

    assert np.array_equal(expected, found)


def test_a_nest_that_never_ends_is_interrupted() -> None:
    def endless(x):
        y = x[0]
        while y > 0:
            y = y + x[1]
        return y

    compiled = dj.compile(endless)
    assert compiled(np.array([1.0, -0.25])) == 0
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            compiled(np.array([1.0, 0.0]))
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert compiled(np.array([1.0, -0.5])) == 0


def test_extremes_of_numbers_are_selections() -> None:
    """Outside of nests, too: which one it is is not asked."""

    def extremes(x):
        return min(x[0], x[1]), max(x[0], x[1], x[2]), abs(x[0]), min(x)

    compiled = dj.compile(extremes, fullgraph=True)
    for values in ([1.0, 2.0, 3.0], [3.0, np.nan, 1.0], [np.nan, 1.0, 2.0], [-0.0, 0.0, -0.0]):
        for dtype in (np.float32, np.float64):
            x = np.array(values, dtype)
            assert repr(extremes(x)) == repr(compiled(x))


def test_arrays_that_share_memory_are_read_as_python_reads_them() -> None:
    def ahead(a, b):
        for i in range(len(b)):
            a[i] = b[i] * 2 + 1

    compiled = dj.compile(ahead)
    whole, other = np.arange(12.0), np.arange(12.0)
    for start in (0, 1, 3):
        ahead(whole[start : start + 8], whole[:8])
        compiled(other[start : start + 8], other[:8])
        np.testing.assert_array_equal(whole, other)


def test_an_array_that_is_given_twice_is_one() -> None:
    def doubled(a, b):
        for i in range(1, len(a)):
            a[i] = b[i - 1] + 1

    compiled = dj.compile(doubled)
    for _ in range(2):
        x, y = np.zeros(8), np.zeros(8)
        doubled(x, x)
        compiled(y, y)
        np.testing.assert_array_equal(x, y)
        compiled(y, np.arange(8.0))
        np.testing.assert_array_equal(y[1:], np.arange(7.0) + 1)


def test_a_loop_without_turns_leaves_numbers_of_python() -> None:
    compiled = dj.compile(running_sum)
    for size in (6, 0, 7):
        assert same(outcome(running_sum, (np.ones(size),)), outcome(compiled, (np.ones(size),)))


def greatest_change(a, b):
    error = 0.0
    for j in range(1, a.shape[0]):
        for i in range(a.shape[1]):
            b[j, i] = 0.5 * (a[j - 1, i] + a[j, i])
            error = max(error, abs(b[j, i] - a[j, i]))
    return error


def test_a_number_that_turns_choose_from_arrays_is_left_by_the_nest() -> None:
    compiled = dj.compile(greatest_change, fullgraph=True)
    args = np.arange(30.0).reshape(6, 5) ** 2, np.zeros((6, 5))
    asked = []
    compiled(*fresh(args))
    own = fresh(args)
    sys.setprofile(lambda _, event, given: event == "c_call" and asked.append(given))
    try:
        found = compiled(*own)
    finally:
        sys.setprofile(None)

    assert same(outcome(greatest_change, args), (found, list(own)))
    assert not any(function is abs for function in asked)  # which it is where it runs plainly
