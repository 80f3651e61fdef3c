"""Choices in one pass: rows of whole groups and of parts of them, ties, NaN, both infinities."""

import numpy as np
import pytest

import dynajit as dj

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

DTYPES = (np.float32, np.float64, np.int32, np.int64)
COLUMNS = (128, 129, 255, 256, 1000)


def _rows(dtype, columns: int) -> np.ndarray:
    """Rows with ties, each kind of which is elsewhere the first."""
    rng = np.random.default_rng(columns)
    x = rng.integers(-3, 4, (90, columns)).astype(dtype)
    for row in range(30):
        x[row] = rng.permutation(columns)
    if np.issubdtype(dtype, np.floating):
        x[30:40][rng.random((10, columns)) < 0.01] = np.nan
        x[40:50][rng.random((10, columns)) < 0.02] = np.inf
        x[45:60][rng.random((15, columns)) < 0.02] = -np.inf
        x[60:62], x[62:64], x[64] = np.nan, -np.inf, np.inf
        x[65, -1] = x[66, 0] = np.nan
        x[67:70] = np.finfo(dtype).max
    else:
        x[60:62], x[62:64] = np.iinfo(dtype).min, np.iinfo(dtype).max
        x[65, -1], x[66, -1] = np.iinfo(dtype).min, np.iinfo(dtype).max
    return x


def _is_equal_in_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    return actual.dtype == expected.dtype and actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_position_and_value_are_those_of_numpy(dtype, columns, dynamic) -> None:
    x = _rows(dtype, columns)
    largest = dj.compile(lambda x: x.max(-1), dynamic=dynamic)
    smallest = dj.compile(lambda x: x.min(-1), dynamic=dynamic)

    most, least = largest(dj.from_numpy(x)), smallest(dj.from_numpy(x))

    for found, at in ((most, x.argmax(-1)), (least, x.argmin(-1))):
        np.testing.assert_array_equal(found.indices.numpy(), at)
        values = np.take_along_axis(x, at[:, None], -1)[:, 0]
        np.testing.assert_array_equal(found.values.numpy(), values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_zeros_the_first_is_chosen_with_its_sign(dtype) -> None:
    x = np.full((40, 300), -0.0, dtype)
    rng = np.random.default_rng(0)
    x[rng.random(x.shape) < 0.5] = 0.0
    largest = dj.compile(lambda x: x.max(-1), dynamic=False)

    found = largest(dj.from_numpy(x))

    assert not found.indices.numpy().any()
    assert _is_equal_in_bits(found.values.numpy(), np.ascontiguousarray(x[:, 0]))


def test_elements_are_computed_once_more_where_they_are_cheap() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((50, 700)).astype(np.float32)
    y = rng.standard_normal((50, 700)).astype(np.float32)
    fn = dj.compile(lambda x, y: ((x - y).abs().argmax(-1), (x * y).argmin(-1)), dynamic=False)

    furthest, least = fn(dj.from_numpy(x), dj.from_numpy(y))

    np.testing.assert_array_equal(furthest.numpy(), np.abs(x - y).argmax(-1))
    np.testing.assert_array_equal(least.numpy(), (x * y).argmin(-1))


def test_a_choice_beside_a_sum_and_what_is_stored_is_right() -> None:
    x = np.random.default_rng(2).standard_normal((50, 640)).astype(np.float32)
    fn = dj.compile(lambda x: (x.argmax(-1), x.sum(-1), x + 1), dynamic=False)

    at, total, more = fn(dj.from_numpy(x))

    np.testing.assert_array_equal(at.numpy(), x.argmax(-1))
    np.testing.assert_allclose(total.numpy(), x.astype(np.float64).sum(-1), rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(more.numpy(), x + np.float32(1))


@pytest.mark.parametrize("columns", [128, 200, 100_000])
def test_all_lengths_of_one_dynamic_kernel_are_right(columns) -> None:
    fn = dj.compile(lambda x: x.argmax(-1), dynamic=True)
    rng = np.random.default_rng(3)
    for length in (columns, columns + 1, 70, 2 * columns):
        x = rng.standard_normal((20, length)).astype(np.float32)
        np.testing.assert_array_equal(fn(dj.from_numpy(x)).numpy(), x.argmax(-1))
