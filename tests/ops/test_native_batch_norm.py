"""`batch_norm` in C: the bits of its array form and of its derivatives' rows, or no answer."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.ops import TABLE
from dynajit.ops.evaluate import array_form
from dynajit.ops.native import _native_batch_norm

FLOATS = [np.float32, np.float64]
SHAPES = [(2, 1), (7, 3), (20, 300), (4, 1, 5), (5, 3, 1, 1), (3, 4, 8, 8), (2, 3, 15, 17),
          (9, 2, 199), (9, 2, 200), (1, 3, 1100)]  # fmt: skip


def values(shape, dtype, seed=0):
    return (np.random.default_rng(seed).standard_normal(shape) * 3 + 1).astype(dtype)


def same_bits(expected, result):
    assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(expected, result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rows_have_the_bits_of_the_array_form(shape, dtype):
    x, center = values(shape, dtype), values(shape[1:2], dtype, 1)
    for special in (None, np.nan, np.inf):
        if special is not None:
            x.flat[0] = special
        same_bits(array_form(TABLE.channel_sum, (x,), {}), _native_batch_norm.channel_sum(x))
        expected = array_form(TABLE.channel_squares, (x, center), {})
        same_bits(expected, _native_batch_norm.channel_squares(x, center))
        for weight, bias in [(None, None), (center, None), (center, center), (None, center)]:
            expected = array_form(TABLE.batch_norm, (x, weight, bias), {"eps": 1e-5})
            same_bits(expected, _native_batch_norm.batch_norm(x, weight, bias, 1e-5))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_slopes_have_the_bits_of_the_formulas(shape, dtype):
    op, rule = TABLE.batch_norm, TABLE.batch_norm.rule
    x, g, weight = values(shape, dtype), values(shape, dtype, 1), values(shape[1:2], dtype, 2)
    tensors = [dj.from_numpy(v) for v in (g, x, weight)]
    expected = op.vjp["x"](TABLE, *tensors, 1e-5).numpy()
    same_bits(expected, rule.slopes["x"](g, x, weight, 1e-5))
    expected = op.vjp["x"](TABLE, *tensors[:2], None, 1e-5).numpy()
    same_bits(expected, rule.slopes["x"](g, x, None, 1e-5))
    expected = op.vjp["weight"](TABLE, *tensors[:2], 1e-5).numpy()
    same_bits(expected, rule.slopes["weight"](g, x, 1e-5))


def test_one_number_stands_for_all_gradients():
    x = values((3, 4, 5), np.float32)
    one = np.broadcast_to(np.float32(2.0), x.shape)
    expected = _native_batch_norm.slope_x(np.ascontiguousarray(one), x, None, 1e-5)
    same_bits(expected, _native_batch_norm.slope_x(one, x, None, 1e-5))


X, W = values((3, 4, 5), np.float32), values((4,), np.float32)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native_batch_norm.batch_norm(X.transpose(2, 1, 0), None, None, 1e-5),
        lambda: _native_batch_norm.batch_norm(X.astype(np.float16), None, None, 1e-5),
        lambda: _native_batch_norm.batch_norm(X, W.astype(np.float64), None, 1e-5),
        lambda: _native_batch_norm.batch_norm(X, W[:3], None, 1e-5),
        lambda: _native_batch_norm.batch_norm(X[:0], None, None, 1e-5),
        lambda: _native_batch_norm.batch_norm(X[0, 0], None, None, 1e-5),
        lambda: _native_batch_norm.batch_norm(np.ones((8, 1), np.float32), None, None, 1e-5),
        lambda: _native_batch_norm.channel_squares(X, None),
        lambda: _native_batch_norm.slope_x(X[:1], X, None, 1e-5),
        lambda: _native_batch_norm.slope_x(X.transpose(2, 1, 0).copy().T, X, None, 1),
    ],
)
def test_what_is_not_plain_has_no_answer(call):
    assert call() is NotImplemented
