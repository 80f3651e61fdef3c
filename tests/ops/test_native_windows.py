"""Pools in C: the bits of the array functions and of the derivatives' rows, or no answer."""

import itertools

import numpy as np
import pytest

import dynajit as dj
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ops import TABLE
from dynajit.ops.evaluate import array_form
from dynajit.ops.native import _native_windows

FLOATS = [np.float32, np.float64]
SHAPES = [(1, 1), (5, 7), (2, 3, 8, 6)]
GEOMETRIES = [
    {"size": size, "stride": stride, "before": before, "after": after, "dilation": dilation}
    for size, stride, (before, after), dilation in itertools.product(
        [(1, 1), (2, 2), (3, 2)],
        [(1, 1), (2, 2), (1, 3)],
        [((0, 0), (0, 0)), ((1, 1), (1, 1)), ((0, 1), (1, 0))],
        [(1, 1), (2, 1)],
    )
]
POOLS = ["sum_pool", "max_pool", "max_pool_choice"]


def values(shape, dtype, seed=0):
    x = np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)  # many equal ones
    return x * np.asarray(0.1, dtype)


def same_bits(expected, result):
    assert (expected.shape, expected.dtype) == (result.shape, result.dtype)
    assert result.flags.c_contiguous
    np.testing.assert_array_equal(expected, result)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", POOLS)
def test_pools_have_the_bits_of_the_array_form(name, shape, dtype):
    op, answered = TABLE[name], 0
    for seed, geometry in enumerate(GEOMETRIES):
        x = values(shape, dtype, seed)
        for special in (None, np.nan, np.inf, -np.inf):
            if special is not None:
                x[x == x.flat[0]] = special
            result = op.rule.native(x, *geometry.values())
            if result is not NotImplemented:
                answered += 1
                same_bits(array_form(op, (x,), geometry), result)
    assert answered > 4


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["sum_pool", "max_pool"])
def test_slopes_have_the_bits_of_the_formulas(name, shape, dtype):
    op, answered = TABLE[name], 0
    for seed, geometry in enumerate(GEOMETRIES):
        x = dj.from_numpy(values(shape, dtype, seed))
        form = array_form(op, (x.numpy(),), geometry)
        if form is NotImplemented:
            continue
        g = dj.from_numpy(np.random.default_rng(seed).standard_normal(form.shape).astype(dtype))
        if name == "sum_pool":
            x = TensorType(shape, dtypes.from_numpy(np.dtype(dtype)))
        expected = op.vjp["x"](TABLE, g, x, **geometry)
        operand = x.numpy() if name == "max_pool" else x
        result = op.rule.slopes["x"](g.numpy(), operand, *geometry.values())
        if result is not NotImplemented:
            answered += 1
            same_bits(expected.numpy(), result)
    assert answered > 1


def test_a_gradient_may_lie_in_any_way():
    x, g = values((2, 4, 4), np.float32), values((2, 2, 2), np.float32, 1)
    pair = (2, 2)
    arguments = (pair, pair, (0, 0), (0, 0), (1, 1))
    expected = _native_windows.max_pool_slope(g, x, *arguments)
    turned = np.ascontiguousarray(g.transpose(0, 2, 1)).transpose(0, 2, 1)
    same_bits(expected, _native_windows.max_pool_slope(turned, x, *arguments))


X = values((2, 4, 4), np.float32)
ONE, TWO, NONE = (1, 1), (2, 2), (0, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: _native_windows.max_pool(X.T, TWO, TWO, NONE, NONE, ONE),
        lambda: _native_windows.max_pool(X[:0], TWO, TWO, NONE, NONE, ONE),
        lambda: _native_windows.max_pool(X.astype(np.float16), TWO, TWO, NONE, NONE, ONE),
        lambda: _native_windows.max_pool(X, (5, 2), TWO, NONE, NONE, ONE),
        lambda: _native_windows.max_pool(X, (2,), (2,), (0,), (0,), (1,)),
        lambda: _native_windows.max_pool(X, TWO, (0, 2), NONE, NONE, ONE),
        lambda: _native_windows.max_pool(X, TWO, TWO, (3, 3), (3, 3), ONE),
        lambda: _native_windows.max_pool(X, TWO, TWO, NONE, (-1, 0), ONE),
        lambda: _native_windows.max_pool(X, TWO, TWO, NONE, NONE),
        lambda: _native_windows.max_pool_slope(X, X, TWO, TWO, NONE, NONE, ONE),
        lambda: _native_windows.sum_pool_slope(X, None, TWO, TWO, NONE, NONE, ONE),
    ],
)
def test_what_is_not_plain_has_no_answer(call):
    assert call() is NotImplemented
