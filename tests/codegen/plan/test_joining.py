"""Sums over columns are computed by the row kernel that reads the same large arrays."""

import numpy as np
import pytest

from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python

ROWS, COLUMNS = 1301, 203
"""Groups of rows of unequal size, and rows that no number of lanes divides."""


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def norm_gradients(x, grad, weight):
    """What backward of a norm computes: per element over rows, and per column."""
    total = ops.sum(grad * weight * x, dim=(1,), keepdim=True)
    return [grad * weight - x * total, ops.sum(grad * x, dim=(0,)), ops.sum(grad, dim=(0,))]


def expected_gradients(x, grad, weight):
    x, grad, weight = (a.astype(np.float64) for a in (x, grad, weight))
    total = (grad * weight * x).sum(1, keepdims=True)
    return [grad * weight - x * total, (grad * x).sum(0), grad.sum(0)]


def compiled(codegen, function, *arguments):
    return compile_graph(codegen.graph_of(function, *map(codegen.type_of, arguments)))


def test_gradients_of_a_norm_are_one_kernel_with_the_same_bits_for_any_threads(codegen):
    arguments = normal(ROWS, COLUMNS), normal(ROWS, COLUMNS, seed=1), normal(COLUMNS, seed=2)
    results = []
    for threads in (1, 2):
        with config.override(num_threads=threads):
            program = compiled(codegen, norm_gradients, *arguments)
            results.append(program(*arguments))

    assert 1 == len(program.kernels)
    for expected, one, two in zip(expected_gradients(*arguments), *results, strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(one, two)


def test_large_sines_do_not_count_columns_twice(codegen):
    """A loop that meets operands outside the vector form's range is run again as a whole."""
    x = normal(ROWS, COLUMNS)
    x[:, 5] = 1e9

    def function(x):
        top = ops.amax(x, dim=(1,), keepdim=True)
        return [ops.sin(x) * top, ops.sum(ops.minimum(x, 3.0), dim=(0,))]

    program = compiled(codegen, function, x)
    sine, total = program(x)
    wide = x.astype(np.float64)

    assert 1 == len(program.kernels)
    np.testing.assert_allclose(sine, np.sin(wide) * wide.max(1, keepdims=True), rtol=1e-5, atol=1e3)
    np.testing.assert_allclose(total, np.minimum(wide, 3).sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("shape", "function"),
    [
        ((64, 203), norm_gradients),
        ((200_000, 3), norm_gradients),
        ((1024, 4099), norm_gradients),
    ],
    ids=["small", "few columns", "accumulators that fill the cache"],
)
def test_kernels_stay_apart_where_joining_saves_nothing(codegen, shape, function):
    arguments = normal(*shape), normal(*shape, seed=1), normal(shape[1], seed=2)
    program = compiled(codegen, function, *arguments)

    # Threads of a GPU hold the accumulators of any number of columns.
    assert (len(program.kernels) > 1) == (not codegen.is_cuda or shape[1] < 4000)
    for expected, got in zip(expected_gradients(*arguments), program(*arguments), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-2)


def test_long_sums_over_columns_are_accurate(codegen):
    """Many rows are cut into many groups."""
    x = np.random.default_rng(0).random((60_000, 128), np.float32)

    def with_rows(x):
        return [x - ops.amax(x, dim=(1,), keepdim=True), ops.sum(x, dim=(0,))]

    program = compiled(codegen, with_rows, x)

    assert 1 == len(program.kernels)
    np.testing.assert_allclose(program(x)[1], x.astype(np.float64).sum(0), rtol=2.5e-7)


def test_what_the_row_kernel_stores_is_summed_afterwards(codegen):
    """A column kernel that reads what the other one writes is no part of it."""
    x = normal(ROWS, COLUMNS)

    def function(x):
        y = ops.exp(x - ops.sum(x, dim=(1,), keepdim=True) * 0.001)
        return [y, ops.sum(y * x, dim=(0,))]

    wide = x.astype(np.float64)
    y = np.exp(wide - wide.sum(1, keepdims=True) * 0.001)
    got = compiled(codegen, function, x)(x)

    np.testing.assert_allclose(got[0], y, rtol=1e-5)
    np.testing.assert_allclose(got[1], (y * wide).sum(0), rtol=1e-4, atol=1e-2)


def test_sixteen_bit_columns_are_summed_in_float32(codegen):
    x = normal(4096, 128).astype(np.float16)

    def with_rows(x):
        return [x - ops.amax(x, dim=(1,), keepdim=True), ops.sum(x, dim=(0,))]

    program = compiled(codegen, with_rows, x)
    below, total = program(x)

    assert 1 == len(program.kernels)
    np.testing.assert_array_equal(below, x - x.max(1, keepdims=True))
    np.testing.assert_allclose(
        total.astype(np.float64), x.astype(np.float64).sum(0), rtol=2e-3, atol=2e-2
    )
