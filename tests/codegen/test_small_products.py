"""Products so small that they are unrolled, and those just above: NumPy's values in every dtype."""

import numpy as np
import pytest

from dynajit.codegen.c.products import LONGEST_SMALL, SMALL
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python

DTYPES = (np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float32, np.float64)
random = np.random.default_rng(0)


def numbers(shape, dtype):
    if np.dtype(dtype) == np.bool_:
        return random.integers(0, 2, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        return random.integers(-9, 10, shape).astype(dtype)  # exact in any order
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_of_small_products_are_those_of_numpy(codegen, dtype):
    sizes = [(3, 2, 3), (1, 8, 8), (5, 8, 8), (4, 3, 9), (2, 9, 2), (6, 7, 5)]
    pairs = [[numbers(s, dtype) for s in ((10, n, k), (10, k, m))] for n, k, m in sizes]
    arrays = [array for pair in pairs for array in pair]

    def products(*x):
        return [ops.matmul(x[i], x[i + 1]) for i in range(0, len(x), 2)]

    codegen.check(products, *arrays, tolerance=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_operands_may_be_transposed_shared_and_broadcast(codegen, dtype):
    def turned(x):
        return ops.permute(x, dims=(*range(len(x.shape) - 2), len(x.shape) - 1, len(x.shape) - 2))

    def products(a, b, shared, other):
        return [
            ops.matmul(turned(a), b),
            ops.matmul(b, turned(shared)),
            ops.matmul(b, shared),
            ops.matmul(other, b),
            ops.matmul(ops.slice(b, start=(0, 1, 0), stop=(6, 4, 3), step=(1, 1, 2)), other),
        ]

    arrays = [numbers(s, dtype) for s in ((6, 4, 2), (6, 4, 4), (4, 4), (2, 1, 2, 4))]
    codegen.check(products, *arrays[:3], numbers((5, 1, 2, 4), dtype), tolerance=0)


def test_not_a_number_and_infinity_pass_through(codegen):
    a = np.float32([[np.nan, 1, 0], [np.inf, 0, 0], [1, 2, -np.inf]])

    codegen.check(ops.matmul, a, np.float32([[0, 1], [1, 2], [0, 0]]))


def test_blas_gets_what_is_larger(codegen):
    def text(k, m):
        types = [codegen.type_of(np.zeros(shape, np.float32)) for shape in ((9, k), (k, m))]
        return generate(codegen.graph_of(ops.matmul, *types), "g").functions[0].text

    assert "dj_small_" in text(LONGEST_SMALL, SMALL // LONGEST_SMALL)
    assert "dj_gemm_f32" in text(LONGEST_SMALL + 1, 2)
    assert "dj_gemm_f32" in text(2, LONGEST_SMALL + 1)


def test_a_tall_product_has_the_same_bits_for_any_number_of_threads(codegen):
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((200_001, 7), (7, 6)))
    graph = codegen.graph_of(ops.matmul, codegen.type_of(a), codegen.type_of(b))
    program = compile_graph(graph)
    found = []
    for threads in (1, 2):
        program.threads = threads
        found.append(program(a, b)[0])

    np.testing.assert_array_equal(*found)
    np.testing.assert_allclose(found[0], a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
