"""Lists of numbers that NumPy makes arrays of: a call for all lists, not a version for each."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.capture.entry.cache import cache_of


def standardised(data: list[float]) -> Any:
    x = np.array(data)
    return (x - x.mean()) / x.std()


def doubled(data: list[Any]) -> Any:
    return np.cumsum(np.asarray(data, dtype=np.float64) * 2)


def of_rows(data: list[list[float]]) -> Any:
    x = np.asarray(data)
    return x @ x.T + 1


def filled(shape: list[int]) -> Any:
    return np.zeros(shape) + 1


def given(seed: int, size: int = 20) -> list[float]:
    found: list[float] = np.random.default_rng(seed).random(size).tolist()
    return found


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (standardised, given),
        (doubled, given),
        (doubled, lambda seed: [seed, 3, 4]),
        (of_rows, lambda seed: [given(seed), given(seed + 1)]),
    ],
)
def test_other_numbers_need_no_other_version(function: Any, make: Any) -> None:
    compiled = dj.compile(function)

    for seed in range(6):
        expected, found = function(make(seed)), compiled(make(seed))
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected)
    assert 1 == cache_of(compiled).compile_count


def test_other_lengths_need_no_other_version() -> None:
    compiled = dj.compile(standardised)

    for size in (20, 30, 7, 100):
        np.testing.assert_allclose(compiled(given(1, size)), standardised(given(1, size)))
    assert 1 == cache_of(compiled).compile_count


def test_a_list_that_is_a_shape_is_known() -> None:
    np.testing.assert_array_equal(dj.compile(filled, fullgraph=True)([2, 3]), filled([2, 3]))


def test_where_no_break_is_allowed_numbers_are_known() -> None:
    np.testing.assert_allclose(
        dj.compile(standardised, fullgraph=True)(given(1)), standardised(given(1))
    )
