"""Nests go over tuples, ask whether a number is one of some, and end turns by `continue`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.end_to_end.loops.nests.test_nests import fresh, outcome, same
from tests.end_to_end.loops.test_collected import loops_of

pytestmark = pytest.mark.one_python


def life(g):
    n, m = g.shape
    new = np.zeros_like(g)
    for i in range(n):
        for j in range(m):
            count = 0
            for di in (-1, 0, 1):
                for dj_ in (-1, 0, 1):
                    if di or dj_:
                        count += g[(i + di) % n, (j + dj_) % m]
            new[i, j] = 1 if count == 3 or (count == 2 and g[i, j]) else 0
    return new


def neighbours(g):
    n, m = g.shape
    out = np.zeros((n, m))
    for i in range(n):
        for j in range(m):
            for di, dj_ in ((-1, 0), (1, 0), (0, -1), (0, 1)):
                a, b = i + di, j + dj_
                if 0 <= a < n and 0 <= b < m:
                    out[i, j] += g[a, b]
    return out


def weighted(x):
    out = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        for d, w in zip((-1, 0, 1), (1, 2.5, x[i]), strict=True):
            out[i] += w * x[i + d]
        for k, w in enumerate((0.25, 0.5), 2):
            out[i] -= w * k
    return out


def first_divisor(x):
    out = np.zeros(len(x), int)
    for i in range(len(x)):
        for k in (3, 2, 5):
            if x[i] % k == 0:
                out[i] = k
                break
        else:
            out[i] = -1
    return out


def largest_of_three(x):
    for i in range(len(x) - 2):
        best = 0
        for v in (x[i], x[i + 1], x[i + 2]):
            if v > best:
                best = v
        x[i] = best
    return x


def none_to_go_over(x):
    for i in range(len(x)):
        for _ in ():
            x[i] = 7
        x[i] += 1
    return x


def members(x):
    n = 0
    for i in range(len(x)):
        if i % 7 in (0, 2, 3):
            n += 1
        if x[i] not in (1, 4.0):
            x[i] = -1
    return x, n


def quicksort(a):
    stack = np.zeros((len(a), 2), np.int64)
    top = 0
    stack[0, 1] = len(a) - 1
    while top >= 0:
        low = stack[top, 0]
        high = stack[top, 1]
        top -= 1
        if low >= high:
            continue
        i = low - 1
        for j in range(low, high):
            if a[j] <= a[high]:
                i += 1
                a[i], a[j] = a[j], a[i]
        a[i + 1], a[high] = a[high], a[i + 1]
        top += 1
        stack[top, 0] = low
        stack[top, 1] = i
        top += 1
        stack[top, 0] = i + 2
        stack[top, 1] = high
    return a


def skipping(x):
    total = 0
    for i in range(len(x)):
        j = i
        while j < len(x):
            j += 1
            if j % 3 == 0:
                continue
            if j % 5 == 0:
                break
            total += j
        x[i] = total
    return x


numbers = np.random.default_rng(11)
NESTS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (life, (numbers.integers(0, 2, (9, 11)),)),
    (neighbours, (numbers.random((6, 7)),)),
    (weighted, (numbers.random(20),)),
    (first_divisor, (numbers.integers(0, 30, 40),)),
    (largest_of_three, (numbers.standard_normal(20),)),
    (none_to_go_over, (numbers.random(9),)),
    (members, (numbers.integers(0, 6, 30),)),
    (members, (numbers.choice([1.0, 4.0, np.nan], 30),)),
    (quicksort, (numbers.random(60),)),
    (skipping, (numbers.integers(0, 9, 20),)),
]


@pytest.mark.parametrize(("function", "args"), NESTS, ids=[f.__name__ for f, _ in NESTS])
def test_loops_over_tuples_are_part_of_nests(function: Callable[..., Any], args: Any) -> None:
    assert same(outcome(function, args), outcome(dj.compile(function, fullgraph=True), args))
    assert loops_of(function, *fresh(args)) >= 1


def asks_for_itself(x):
    n = float("nan")
    for i in range(len(x)):
        if n in (n, 1):
            x[i] = 1
        if x[i] in (x[i],):
            x[i] += 1
    return x


def test_whether_an_object_is_among_others_is_left_to_python() -> None:
    """`in` asks first whether it is the same object."""
    args = (np.array([1.0, np.nan, 2.0, 3.0, np.nan]),)
    assert same(outcome(asks_for_itself, args), outcome(dj.compile(asks_for_itself), args))
