"""The row `matmul`: types, dtypes, batches, derivatives."""

import ml_dtypes
import numpy as np
import pytest

from dynajit.core.errors import ArgumentError, DTypeError, ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ops import TABLE
from dynajit.ops.evaluate import evaluate

RNG = np.random.default_rng(0)


def product(a, b):
    return evaluate(TABLE.matmul, [a, b], {})


def test_batches_broadcast():
    a, b = RNG.standard_normal((2, 1, 3, 4)), RNG.standard_normal((5, 4, 2))
    expected = np.einsum("abij,bjk->abik", np.broadcast_to(a, (2, 5, 3, 4)), b)
    np.testing.assert_allclose(product(a, b), expected, rtol=1e-12)


def test_strided_operands_are_read_in_place():
    a, b = RNG.standard_normal((4, 3)).T, RNG.standard_normal((8, 2))[::2]
    np.testing.assert_allclose(product(a, b), a.copy() @ b.copy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_16_bit_floats_multiply_in_float32_and_round_once(dtype):
    a, b = RNG.standard_normal((8, 300)).astype(dtype), RNG.standard_normal((300, 5)).astype(dtype)
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype)
    actual = product(a, b)
    assert actual.dtype == dtype
    assert np.array_equal(expected, actual)


def test_integers_multiply_exactly():
    a = RNG.integers(-(2**40), 2**40, (3, 4))
    b = RNG.integers(-100, 100, (4, 2))
    expected = [
        [sum(int(x) * int(y) for x, y in zip(row, column, strict=True)) for column in b.T]
        for row in a
    ]
    assert product(a, b).tolist() == expected


@pytest.mark.parametrize(("n", "k", "m"), [(0, 3, 2), (3, 0, 2), (3, 2, 0)])
def test_empty_products_are_zeros(n, k, m):
    result = product(np.ones((n, k), np.float32), np.ones((k, m), np.float32))
    assert np.array_equal(np.zeros((n, m), np.float32), result)


def test_types_are_checked():
    a = TensorType((8, 3), dtypes.float32)
    with pytest.raises(
        ShapeError, match=r"matmul\(a: float32\[8, 3\], b: float32\[4, 5\]\): inner sizes differ"
    ):
        TABLE.matmul.infer(a, TensorType((4, 5), dtypes.float32))
    with pytest.raises(DTypeError, match="float32 and float64"):
        TABLE.matmul.infer(a, TensorType((3, 5), dtypes.float64))
    with pytest.raises(ShapeError, match="at least two dimensions"):
        TABLE.matmul.infer(a, TensorType((3,), dtypes.float32))
    with pytest.raises(ShapeError, match="do not broadcast"):
        TABLE.matmul.infer(
            TensorType((2, 8, 3), dtypes.float32), TensorType((3, 3, 5), dtypes.float32)
        )
    with pytest.raises(ArgumentError, match="Expected a tensor"):
        TABLE.matmul.infer(a, ScalarType(dtypes.Category.FLOATING))
    batched = TABLE.matmul.infer(
        TensorType((2, 1, 8, 3), dtypes.float32), TensorType((7, 3, 5), dtypes.float32)
    )
    assert batched == TensorType((2, 7, 8, 5), dtypes.float32)
