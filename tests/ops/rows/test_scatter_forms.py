"""Sums of rows at computed places: the bits of `numpy.add.at`, or no."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops.native._scatter import add_rows, add_scaled_rows
from dynajit.ops.rows.scatter_forms import rows_added, sum_of_scaled_rows

RNG = np.random.default_rng(0)


def numbers(shape: Any, dtype: str) -> Any:
    """Of very different sizes, so that the order of additions shows."""
    if dtype == "int64":
        return RNG.integers(-(2**62), 2**62, shape)
    found = RNG.standard_normal(shape) * 10.0 ** RNG.integers(-6, 6, shape)
    return found.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_rows_are_added_in_order(dtype: str) -> None:
    for rest in [(), (1,), (7,), (16,), (33,), (3, 5)]:
        target, rows = numbers((6, *rest), dtype), numbers((50, *rest), dtype)
        places = RNG.integers(0, 6, 50)
        expected = target.copy()
        np.add.at(expected, places, rows)
        assert rows_added(target, places, rows)
        np.testing.assert_array_equal(expected, target)
        turned = np.asfortranarray(rows)
        other = np.zeros_like(target)
        assert rows_added(other, places.astype(np.int32), turned)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_products_are_rounded_before_they_are_added(dtype: str) -> None:
    for width in (0, 1, 7, 64):
        factors, matrix = numbers((50,), dtype), numbers((9, width), dtype)
        places, chosen = RNG.integers(0, 6, 50), RNG.integers(0, 9, 50)
        expected = np.zeros((6, width), dtype)
        with np.errstate(over="ignore"):
            np.add.at(expected, places, factors[:, None] * matrix[chosen])
        for given in (matrix, np.asfortranarray(matrix)):
            found = sum_of_scaled_rows(places, chosen, factors, given, 6)
            np.testing.assert_array_equal(expected, found)


def test_what_the_loops_do_not_take_is_left_alone() -> None:
    target, rows = np.zeros((4, 3), np.float32), np.ones((2, 3), np.float32)
    for places in ([0, 4], [-1, 0]):
        assert not rows_added(target, np.array(places), rows)
        factors = np.ones(2, np.float32)
        assert sum_of_scaled_rows(np.array(places), np.array([0, 0]), factors, rows, 4) is (
            NotImplemented
        )
        assert sum_of_scaled_rows(np.array([0, 0]), np.array(places), factors, rows, 4) is (
            NotImplemented
        )
    for dtype in (np.int32, np.float16, np.complex64, np.bool_):
        assert not rows_added(target.astype(dtype), np.array([0, 1]), rows.astype(dtype))
    assert not rows_added(np.asfortranarray(target), np.array([0, 1]), rows)
    assert not target.any()


def test_arrays_that_do_not_fit_are_an_error_in_c() -> None:
    target, rows, places = np.zeros((4, 3)), np.ones((2, 3)), np.array([0, 1])
    frozen = target.copy()
    frozen.flags.writeable = False
    wrong = [
        (target, places, np.ones((2, 4))),
        (target, places[:1], rows),
        (target, places.astype(np.int32), rows),
        (frozen, places, rows),
        (target, places, rows.astype(np.float32)),
        (target.T, places, rows),
        ([], places, rows),
        (target, None, rows),
    ]
    calls = [lambda given=given: add_rows(*given) for given in wrong]
    for factors, matrix in ((np.ones(3), rows), (np.ones(2), np.ones((2, 4)))):
        calls.append(lambda f=factors, m=matrix: add_scaled_rows(target, places, places, f, m))
    for call in calls:
        with pytest.raises(ValueError, match=r"^rows: "):
            call()
    for function in (add_rows, add_scaled_rows):
        with pytest.raises(TypeError, match="arguments"):
            function(target)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "complex64"])
def test_index_add_is_numpys_for_every_dtype(dtype: str) -> None:
    for shape, dim in [((5, 4), 0), ((5,), 0), ((5, 2, 3), 0), ((4, 5), 1), ((5, 0), 0)]:
        x = RNG.integers(-9, 9, shape).astype(dtype)
        source = np.repeat(x, 3, dim)
        places = RNG.integers(0, 5, source.shape[dim])
        expected = x.copy()
        np.add.at(expected, (slice(None),) * dim + (places,), source)
        found = dj.tensor(x).index_add(dim, dj.tensor(places), dj.tensor(source))
        np.testing.assert_array_equal(expected, found.numpy())
    with pytest.raises(IndexError, match="index 5 is out of range"):
        dj.zeros(5, 2).index_add(0, dj.tensor([5]), dj.ones(1, 2))
