"""Loops of nests over indices and elements of whole arrays give what NumPy's iterators give."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from tests.capture.execution.nests.test_nest import nests_of
from tests.end_to_end.loops.nests.test_nests import outcome, same

pytestmark = pytest.mark.one_python


def by_pairs(x):
    out = np.zeros_like(x)
    for i, j in np.ndindex(x.shape):
        out[i, j] = x[i, j] * 2 + i - j
    return out


def by_tuples(x):
    out = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        out[index] = x[index] ** 2 + index[0]
    return out


def enumerated(x):
    total = 0.0
    for index, value in np.ndenumerate(x):
        total += value * index[1]
    return total


def enumerated_by_pairs(x):
    out = np.zeros_like(x)
    for (i, j), value in np.ndenumerate(x):
        if value > 0.5:
            continue
        out[i, j] = value + 1
    return out


def flat(x):
    count = 0
    for value in x.T.flat:
        if value > 0.5:
            count += 1
    return count


def broken_off(x):
    out = np.zeros((x.shape[0], 4))
    for i, j in np.ndindex(x.shape[0], 4):
        s = 0.0
        for k in range(x.shape[1]):
            s += x[i, k] * j
        out[i, j] = s
        if i * j > 6:
            break
    return out, i, j


def within_rows(x):
    out = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        for j, k in np.ndindex(x.shape[1], 2):
            out[i] += x[i, j] * k
        for index in np.ndindex(*x[i].shape):
            out[i] *= 1 + index[0] / 8
        for value in x[i].flat:
            out[i] -= value
    return out


def counted(x):
    y, count = np.zeros((3, x.shape[0], 4)), 0
    for i, j, k in np.ndindex(y.shape):
        y[i, j, k] = count
        count += 1
    return y, count


def of_one_dim(x):
    for index in np.ndindex(7):
        x[index[0] % 2, 0] = index[0]


FUNCTIONS = (
    by_pairs, by_tuples, enumerated, enumerated_by_pairs, flat, broken_off, within_rows, counted,
    of_one_dim,
)  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_indices_and_elements_come_in_order(function: Callable[..., Any]) -> None:
    compiled = dj.compile(function)
    for shape in ((7, 5), (9, 3), (6, 4), (7, 0), (0, 3), (8, 1)):
        x = np.random.default_rng(1).random(shape)
        assert same(outcome(function, (x,)), outcome(compiled, (x,)))
    assert nests_of(function, np.ones((7, 5))) == 1


def test_a_negative_size_raises() -> None:
    def counted(x, n):
        for i in np.ndindex(n):
            x[i] += 1
        return x

    compiled = dj.compile(counted)
    for n in (3, 4, 5, 0, -1):
        assert same(outcome(counted, (np.ones(6), n)), outcome(compiled, (np.ones(6), n)))
