"""Elements of one of two values by a mask are those that NumPy takes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dynajit.core.arrays.selection import LEAST, select

random = np.random.default_rng(0)
SHAPE = (3, LEAST // 2)
DTYPES = (
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int64,
    np.int32,
    np.uint8,
    bool,
)


def values(dtype: Any, *shape: int) -> np.ndarray:
    drawn = random.integers(0, 100, shape).astype(dtype)
    if drawn.dtype.kind == "f":
        drawn.reshape(-1)[::5], drawn.reshape(-1)[1::7] = np.nan, -0.0
        drawn.reshape(-1)[2::11] = -np.inf
    return drawn


def assert_as_numpy(condition: Any, x: Any, y: Any) -> None:
    expected, actual = np.where(condition, x, y), select(condition, x, y)

    assert expected.dtype == actual.dtype
    assert expected.shape == actual.shape
    assert expected.tobytes() == actual.tobytes()  # -0.0 and NaN as they are


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_arrays(dtype: Any) -> None:
    assert_as_numpy(random.random(SHAPE) < 0.5, values(dtype, *SHAPE), values(dtype, *SHAPE))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("number", [0, 0.0, -0.0, 1, 0.1, float("nan"), True, np.float64(0.1)])
def test_a_number_beside_an_array(dtype: Any, number: Any) -> None:
    if dtype is ml_dtypes.bfloat16 and not isinstance(number, bool):
        number = np.asarray(number, dtype)
    condition, array = random.random(SHAPE) < 0.5, values(dtype, *SHAPE)

    assert_as_numpy(condition, number, array)
    assert_as_numpy(condition, array, number)


def test_operands_are_broadcast_and_may_lie_anyhow() -> None:
    wide, row = values(np.float32, *SHAPE), values(np.float32, SHAPE[1])
    condition = random.random((SHAPE[1], SHAPE[0])).T < 0.5

    assert_as_numpy(condition, row, wide)
    assert_as_numpy(condition, wide[:, ::-1], wide[:1])
    assert_as_numpy(condition[0], wide, wide[:, ::-1])
    assert_as_numpy(condition, values(np.float32), wide[:, :1])
    assert_as_numpy(random.random((2, *SHAPE)) < 0.5, np.float32(0), row)
    assert_as_numpy(random.random(LEAST) < 0.5, np.float32(0), values(np.float32, 2, LEAST))


def test_operands_of_two_dtypes_are_promoted() -> None:
    condition, x = random.random(SHAPE) < 0.5, values(np.float32, *SHAPE)

    assert_as_numpy(condition, x, x.astype(np.float64))
    assert_as_numpy(condition, x, np.float64(2))
    assert_as_numpy(condition, x, x.astype(">f4"))
    assert_as_numpy(condition, 1, 2)
    assert_as_numpy(condition, np.float32(2), np.float32(0))
    assert_as_numpy(condition, np.float32(2), np.float64(0))
    assert_as_numpy(condition, np.float32(2), 0.5)
    assert_as_numpy(condition.astype(np.int64), x, x + 1)
