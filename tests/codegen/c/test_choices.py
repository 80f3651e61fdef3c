"""Positions of extrema along long rows: the first, or the first NaN, as NumPy's."""

import numpy as np
import pytest

import dynajit as dj

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

FLOATS = (np.float32, np.float64, np.float16)


@pytest.fixture(scope="module")
def positions():
    """Positions of the largest and the smallest element of every row."""
    return dj.compile(lambda x: (x.argmax(-1), x.argmin(-1)), dynamic=False)


@pytest.mark.parametrize("columns", [128, 129, 1000])
@pytest.mark.parametrize("dtype", [*FLOATS, np.int8, np.uint8, np.int64])
def test_the_first_of_equals_or_the_first_nan_is_found(positions, dtype, columns) -> None:
    """Rows of ties; for floats with NaN, with infinities, and of nothing else."""
    rng = np.random.default_rng(columns)
    x = rng.integers(0, 9, (60, columns)).astype(dtype)
    if dtype in FLOATS:
        x[10:20][rng.random((10, columns)) < 0.01] = np.nan
        x[20:30][rng.random((10, columns)) < 0.02] = np.inf
        x[25:40][rng.random((15, columns)) < 0.02] = -np.inf
        x[40:45], x[45:50] = np.nan, -np.inf
        x[50, -1] = x[51, 0] = np.nan

    largest, smallest = positions(dj.from_numpy(x))

    np.testing.assert_array_equal(largest.numpy(), x.argmax(-1))
    np.testing.assert_array_equal(smallest.numpy(), x.argmin(-1))
