"""Loops of NumPy programs: one loop of the graph, with NumPy's dtypes and classes of results."""

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_collected import assert_same, loops_of

X = np.arange(6.0)
COMPLEX = np.linspace(-1.5, 1.0, 6) + 0.3j * X
MATRIX = np.random.default_rng(0).random((6, 6)) + 0.1


def heat(u, n):
    for _ in range(n):
        u = u + 0.1 * (np.roll(u, 1) + np.roll(u, -1) - 2 * u)
    return u


def with_the_counter(u, n):
    rate = 0.5
    for i in range(n):
        u = u * rate + i / 3 - np.maximum(u, i)
        rate *= 0.9
    return u, i, rate


def numbers_of_numpy(u, n):
    total, largest = 0.0, u.max()
    for _ in range(n):
        u = np.sin(u)
        total = total + u.sum()
        largest = np.maximum(largest, u.max())
    return total, largest, u


def power_iteration(a, x, n):
    for _ in range(n):
        y = a @ x
        x = y / np.linalg.norm(y)
    return x, x @ (a @ x), y


def rows(a, n):
    total = np.zeros(6)
    for i in range(n):
        total = total * 0.5 + a[i % 6] + a[i % 6, 1] + a[:, i % 6]
    return total


def chosen(u, n):
    for i in range(n):
        u = np.where(u > i, u - 1, u + 0.5)
        u = np.clip(u, 0, i)
    return u


def integers(n):
    k = np.zeros(3, np.int64)
    for i in range(n):
        k = k * 3 % 1000 + i
    return k


def single(n):
    x = np.ones(4, np.float32)
    for i in range(n):
        x = x * np.float32(0.9) + i * 0.1
    return x


def escaping(c, n):
    z = np.zeros_like(c)
    counts = np.zeros(z.shape, np.int64)
    for i in range(n):
        inside = np.less(np.abs(z), 2.0)
        counts[inside] = i
        z[inside] = z[inside] ** 2 + c[inside]
    return z, counts


def schrodinger(z, n):
    psi = z.copy()
    for _ in range(n):
        psi[1:-1] += 0.1j * (psi[2:] - 2 * psi[1:-1] + psi[:-2])
    return psi, np.abs(psi) ** 2


def turned(z, n):
    energies = []
    for _ in range(n):
        z = np.where(z.real > 0, z * 1j, np.conj(z) + 0.5)
        energies.append(np.vdot(z, z).real)
    return z, np.array(energies)


def transformed(z, n):
    total = 0j
    for i in range(n):
        z = np.fft.fft(z) / np.sqrt(len(z))
        total = total + z[i % 6] * 0.1
    return z, total


def other_class_later(u, n):
    total = 0
    for i in range(n):
        total = total + (u.sum() if i == 30 else 1)
    return total


LOOPS = [
    (other_class_later, (X, 60)),
    (heat, (X, 60)), (with_the_counter, (X, 60)), (numbers_of_numpy, (X, 60)),
    (power_iteration, (MATRIX, X, 60)), (rows, (MATRIX, 60)), (chosen, (X, 60)), (integers, (60,)),
    (single, (60,)), (escaping, (COMPLEX, 60)), (schrodinger, (COMPLEX, 60)),
    (turned, (COMPLEX, 60)), (transformed, (COMPLEX, 60)),
]  # fmt: skip


def small_integers(n):
    k = np.zeros(3, np.int8)
    for i in range(n):
        k = k + i
    return k


def powers(u, n):
    for i in range(n):
        u = u * 0.5 + (u * 0.1) ** i
    return u


def two_arrays_over_one_memory(u, n):
    for _ in range(n):
        v = u[:]
        u = v
    return u, v


def jacobi(a, b, tolerance):
    x, diagonal = np.zeros_like(b), np.diag(a)
    rest = a - diagonal * np.eye(len(b))
    change = np.abs(b).max()
    while change > tolerance:
        new = (b - rest @ x) / diagonal
        change = np.abs(new - x).max()
        x = new
    return x, change


def newton(a, tolerance):
    x = a * 1.0
    while True:
        new = 0.5 * (x + a / x)
        is_done = np.abs(new - x).max() < tolerance
        x = new
        if is_done:
            break
    return x


def conjugate_gradient(a, b, tolerance):
    x = np.zeros_like(b)
    r = b - a @ x
    p, old = r.copy(), r @ r
    while np.sqrt(old) > tolerance:
        ap = a @ p
        rate = old / (p @ ap)
        x, r = x + rate * p, r - rate * ap
        new = r @ r
        p, old = r + (new / old) * p, new
    return x, old


def halved_at_most(u, tolerance, n):
    k = 0
    while u.sum() > tolerance and k < n:
        u = u * 0.5
        k += 1
    return u


def halved_until(u, tolerance, n):
    for _ in range(n):
        u = u * 0.5
        if u.max() < tolerance:
            break
    return u


def bisection(low, high):
    low, high = low * np.float64(1), high * np.float64(1)
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if np.cos(middle) > middle:
            low = middle
        else:
            high = middle
    return low, high


POSITIVE = MATRIX + 6 * np.eye(6)
TESTED = {
    "jacobi": (jacobi, (POSITIVE, X, 1e-9)),
    "jacobi in float32": (jacobi, (POSITIVE.astype("f"), X.astype("f"), 1e-5)),
    "jacobi without a turn": (jacobi, (POSITIVE, X, 1e9)),
    "jacobi of NaN": (jacobi, (POSITIVE, X * np.nan, 1e-9)),
    "newton": (newton, (X + 1, 1e-9)),
    "conjugate gradient": (conjugate_gradient, (POSITIVE @ POSITIVE.T, X, 1e-9)),
    "halved at most": (halved_at_most, (X + 1, 1e-3, 100)),
    "halved at most, by the count": (halved_at_most, (X + 1, 1e-3, 7)),
    "halved until": (halved_until, (X + 1, 1e-3, 100)),
    "halved until, by the count": (halved_until, (X + 1, 1e-3, 5)),
    "bisection": (bisection, (np.array(0.0), np.array(2.0))),
    "an array of one element": (halved_at_most, (np.array([[8.0]]), 0.1, 50)),
}


@pytest.mark.parametrize("name", TESTED)
def test_loops_that_end_by_numpys_truths_give_its_results(name: str) -> None:
    """Called twice; whatever the number of turns, no result is an object of another one."""
    function, args = TESTED[name]
    compiled = dj.compile(function)
    expected = function(*args)
    for _ in range(2):
        found = compiled(*args)
        assert_same(expected, found)
        parts = found if isinstance(found, tuple) else (found,)
        assert not any(part is arg for part in parts for arg in args)


@pytest.mark.parametrize("name", ["jacobi", "newton", "conjugate gradient", "bisection"])
def test_loops_that_end_by_numpys_truths_are_one_loop(name: str) -> None:
    function, args = TESTED[name]
    dj.compile(function, fullgraph=True)(*args)
    assert loops_of(function, *args) == 1


def test_an_array_that_no_turn_changes_is_itself() -> None:
    """As with tensors; and what a turn makes is not the argument."""

    def halve(u):
        while u.max() > 1.0:
            u = u * 0.5
        return u

    compiled = dj.compile(halve)
    assert compiled(small := X * 0.1) is small
    assert_same(halve(X), compiled(X))


UNROLLED = [
    (small_integers, (60,)), (powers, (X, 20)),
    (two_arrays_over_one_memory, (X, 40)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "args"), LOOPS, ids=[f.__name__ for f, _ in LOOPS])
def test_turns_over_arrays_are_one_loop(function, args) -> None:
    """With NumPy's results, called twice."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(*args)
    assert_same(expected, compiled(*args))
    assert_same(expected, compiled(*args))
    assert loops_of(function, *args) == 1


@pytest.mark.parametrize(("function", "args"), UNROLLED, ids=[f.__name__ for f, _ in UNROLLED])
def test_other_loops_are_unrolled(function, args) -> None:
    """As they were, with NumPy's results."""
    assert_same(function(*args), dj.compile(function)(*args))
    assert loops_of(function, *args) == 0


def test_a_number_that_does_not_fit_raises_as_numpy_does() -> None:
    """An int8 array plus 128."""

    def run(n):
        k = np.zeros(3, np.int8)
        for i in range(n):
            k = k * 0 + i
        return k

    for function in (run, dj.compile(run)):
        with pytest.raises(OverflowError):
            function(140)


def arrays_of_numbers(x):
    whole = np.zeros(4)
    for i in range(30):
        x = x * 0.9
        whole = whole + np.array([i, i * 0.5, x[0], float(x.max())])
        whole = whole + np.concatenate([[i + 1], x[:3]])
        pair, table = np.array([i, 2]), np.array([[i, 1], [2, i * i]])
        kinds = np.array([x[0] > 0, True]), np.stack([np.array([i, 0.5]), x[:2]])
    return whole, pair, table, kinds


def test_lists_of_numbers_of_turns_are_arrays() -> None:
    """With NumPy's dtypes."""
    expected, found = arrays_of_numbers(X), dj.compile(arrays_of_numbers, fullgraph=True)(X)
    for a, b in zip([*expected[:3], *expected[3]], [*found[:3], *found[3]], strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(b, a)


def far_from_small(u, n):
    for k in range(n):
        for shift in range(1, 17):
            u = u * 0.9 + 0.01 * np.roll(u, shift) + (u + k) / shift * 0.01
        for shift in range(1, 17):
            u = u * 0.8 + 0.1 * np.roll(u, -shift) + (u - k) / shift * 0.01
    return u


def test_ten_turns_of_many_operations_are_a_loop() -> None:
    """Unrolled they are thousands of operations."""
    compiled = dj.compile(far_from_small, fullgraph=True)

    for x in (X, X[::-1].copy()):
        np.testing.assert_allclose(compiled(x, 12), far_from_small(x, 12))
    assert loops_of(far_from_small, X, 12)
