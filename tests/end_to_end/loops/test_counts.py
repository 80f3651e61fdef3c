"""Numbers of Python's that data decide in turns of loops: counters, places, flags, in arms."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.test_tested_loops import assert_same as assert_tensors_same

V = np.random.default_rng(0).standard_normal(60)
WITH_NAN = np.where(V > 1, np.nan, V)


def counted(v):
    count = 0
    for i in range(len(v)):
        if v[i] > 0:
            count += 1
    return count


def place_of_the_largest(v):
    best, place = v[0] * 1, 0
    for i in range(1, len(v)):
        if v[i] > best:
            best, place = v[i] * 1, i
    return best, place


def flags(v):
    found, last, n = False, -1, 0
    for i in range(len(v)):
        if v[i] > 0.5 and not found:
            found, n = True, n + 1
        elif v[i] < -1:
            last = i
            n -= 2
    return found, last, n


def in_nests(v):
    count = 0
    for i in range(30):
        for j in range(40):
            if v[i] + v[j] > 0:
                count += 1
    return count


def collected_in_nests(v):
    total, each = 0, []
    for i in range(30):
        count = 0
        for j in range(40):
            if v[i] + v[j] > 0:
                count += 1
        each.append(count)
        total += count
    return total, each


def squares(v):
    count, seen = 1, []
    for i in range(len(v)):
        if v[i] > 0:
            count = count + 1
        seen.append(count * count)
    return count, seen, count * count - 1


def turns_and_arms(v):
    turns, above, v = 0, 0, v + 0.0
    while abs(v).max() > 1e-3:
        v = v * 0.7
        if v[0] > 0.01:
            above += 1
        turns += 1
    return v, turns, above


def until_enough(v):
    count = 0
    for i in range(len(v)):
        if v[i] > 0:
            count += 1
        if count >= 5:
            break
    return count, i


def steps(v):
    step, x = 0.5, v[0] * 1
    for _ in range(40):
        step = 0.25 if x > 0.1 else step * 0.5
        x = x - 0.01 * step
    return x, step


def mean_of_those_above(v):
    count, total = 0, v[0] * 0
    for i in range(len(v)):
        if v[i] > 0:
            count += 1
            total = total + v[i] * count
    return total / count, count * total, total - count, count + total, v * count, v / count


def collatz(n):
    n, count = n * 1, 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count


def moved_back_and_forth(v):
    place = 30
    for i in range(len(v)):
        if v[i] > 0:
            place = place - 3
        elif v[i] < -1:
            place = 2 * 30 - i
        else:
            place = place + 1
    return place


PROGRAMS = [
    (counted, V), (counted, WITH_NAN), (counted, V - 9), (place_of_the_largest, V),
    (place_of_the_largest, WITH_NAN), (flags, V), (flags, V - 9), (in_nests, V),
    (collected_in_nests, V), (squares, V), (turns_and_arms, V), (turns_and_arms, V * 0),
    (until_enough, V), (until_enough, V - 9), (steps, V), (mean_of_those_above, V),
    (mean_of_those_above, V.astype(np.float32)), (moved_back_and_forth, V),
]  # fmt: skip


def assert_same(expected: Any, found: Any) -> None:
    """Equal in values, classes, dtypes and strides; also in bits, where they are no sums."""
    if isinstance(expected, (np.ndarray, np.generic)):
        assert (type(expected), expected.dtype) == (type(found), found.dtype)
        assert expected.strides == found.strides
        np.testing.assert_allclose(found, expected, rtol=1e-12 if expected.itemsize > 4 else 1e-6)
    elif isinstance(expected, (tuple, list)):
        assert (type(expected), len(expected)) == (type(found), len(found))
        for a, b in zip(expected, found, strict=True):
            assert_same(a, b)
    else:
        assert_tensors_same(expected, found)


@pytest.mark.parametrize(("function", "v"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_numbers_that_arms_change_are_pythons(function, v) -> None:
    """Of arrays, and of tensors; called twice, and in one graph."""
    compiled = dj.compile(function, fullgraph=True)
    expected = function(v)
    assert_same(expected, compiled(v))
    assert_same(expected, compiled(v))
    x = dj.tensor(v)
    expected = function(x)
    compiled = dj.compile(function, fullgraph=True)
    assert_same(expected, compiled(x))
    assert_same(expected, compiled(x))


def test_a_count_of_integers_is_pythons() -> None:
    for n in (1, 2, 27, 97):
        assert_same(collatz(np.int64(n)), dj.compile(collatz)(np.int64(n)))


def doubled(v):
    count = 1
    for i in range(len(v)):
        if v[i] > -9:
            count = count * 2
    return count


def powers(v):
    count, seen = 3, []
    for i in range(len(v)):
        if v[i] > -9:
            count = count + 1000
        seen.append(count * count * count * count * count * count * count)
    return seen


def from_a_large_one(v):
    count = (1 << 62) + 5
    for i in range(len(v)):
        if v[i] > -9:
            count += 1 << 60
    return count


def added_up(v):
    a, b = 0, 1
    for i in range(len(v)):
        if v[i] > -9:
            a, b = b, a + b
    return a, b


@pytest.mark.parametrize("function", [doubled, powers, from_a_large_one, added_up])
def test_ints_have_no_end(function) -> None:
    """Where they may not fit an int64 the graph ends."""
    v = np.concatenate([V, V, V])
    expected = function(v)
    assert expected == dj.compile(function)(v)


def test_a_counter_of_arms_hands_gradients_on() -> None:
    def function(x):
        count, total = 0, x[0] * 0
        for i in range(20):
            if x[i] > 0:
                count += 1
                total = total + x[i] * 2
            else:
                total = total * 0.5 + x[i]
        return total / (count + 1), count

    gradients, counts = [], []
    for call in (function, dj.compile(function, fullgraph=True)):
        x = dj.tensor(V[:20]).requires_grad_()
        value, count = call(x)
        value.backward()
        gradients.append(x.grad.numpy())
        counts.append(count)
    np.testing.assert_allclose(gradients[1], gradients[0])
    assert counts[0] == counts[1] and type(counts[1]) is int
