"""Biases from which the sums of a product go on: which products have one, and the bits."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.c.biases import UNCUT
from dynajit.codegen.loops.loop_ir import MatmulKernel
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.codegen.run import blas
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

random = np.random.default_rng(3)


def drawn(*shape, dtype=np.float32):
    return random.standard_normal(shape).astype(dtype)


def biases(codegen, function, *arrays):
    """Of each product, whether sums go on from a bias."""
    graph = codegen.graph_of(function, *map(codegen.type_of, arrays))
    kernels = [f.kernel for f in generate(graph, "biases").functions]
    return [k.bias is not None for k in kernels if isinstance(k, MatmulKernel)]


def layer(a, b, bias):
    return ops.maximum(ops.matmul(a, b) + bias, 0.0)


def test_sums_that_are_cut_go_on_from_their_bias(codegen):
    for k, has_bias in ((UNCUT, False), (UNCUT + 1, True), (1000, True)):
        arrays = drawn(20, k), drawn(k, 30), drawn(30)

        assert biases(codegen, layer, *arrays) == [has_bias]
        codegen.check(layer, *arrays, tolerance=1e-4)


def test_every_reader_may_add_the_bias(codegen):
    def two(a, b, bias):
        z = ops.matmul(a, b) + bias
        return ops.maximum(z, 0.0), ops.sum(z, dim=(0,)), ops.amax(z, dim=(1,))

    arrays = drawn(40, 300), drawn(300, 50), drawn(50)

    assert biases(codegen, two, *arrays) == [True]
    codegen.check(lambda *x: list(two(*x)), *arrays, tolerance=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b, bias: [ops.matmul(a, b) + bias, ops.matmul(a, b) * 2.0],
        lambda a, b, bias: ops.matmul(a, b) * bias,
        lambda a, b, bias: ops.matmul(a, b) - bias,
        lambda a, b, bias: ops.matmul(a, b) + ops.reshape(bias, shape=(50, 1)),
        lambda a, b, bias: ops.matmul(a, b) + bias * 2.0,
    ],
    ids=["read twice", "multiplied", "subtracted", "along rows", "computed"],
)
def test_other_uses_are_kernels_of_their_own(codegen, function):
    arrays = drawn(50, 300), drawn(300, 50), drawn(50)

    found = biases(codegen, function, *arrays)
    assert not any(found)
    codegen.check(function, *arrays, tolerance=1e-4)


def test_a_product_that_is_a_result_keeps_its_values(codegen):
    def both(a, b, bias):
        product = ops.matmul(a, b)
        return [product, product + bias]

    arrays = drawn(20, 300), drawn(300, 30), drawn(30)

    assert biases(codegen, both, *arrays) == [False]
    codegen.check(both, *arrays, tolerance=1e-4)


def test_other_dtypes_and_stacks_have_none(codegen):
    doubles = [drawn(*shape, dtype=np.float64) for shape in ((20, 300), (300, 30), (30,))]
    stacks = drawn(3, 20, 300), drawn(3, 300, 30), drawn(30)

    assert biases(codegen, layer, *doubles) == [False]
    assert biases(codegen, layer, *stacks) == [False]


def test_blas_adds_to_the_bias_where_there_are_no_products_of_ours(codegen, monkeypatch):
    arrays = drawn(40, 300), drawn(300, 50), drawn(50)
    monkeypatch.setattr(blas, "own_products", lambda: (0, 0))
    graph = codegen.graph_of(layer, *map(codegen.type_of, arrays))
    (result,) = compile_graph(graph)(*arrays)

    expected = np.maximum(arrays[0].astype(float) @ arrays[1] + arrays[2], 0)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(64, 1000, 100), (7, 300, 40), (300, 2000, 33), (9, 500, 6)])
def test_compiled_layers_have_the_bits_of_eager_ones(sizes):
    n, k, m = sizes
    x, weight, bias = (dj.from_numpy(drawn(*shape)) for shape in ((n, k), (m, k), (m,)))
    linear = dj.nn.functional.linear
    found = dj.compile(linear, fullgraph=True)(x, weight, bias)

    np.testing.assert_array_equal(linear(x, weight, bias).numpy(), found.numpy())


def test_sizes_that_vary_have_the_bits_of_eager_ones():
    weight, bias = dj.from_numpy(drawn(40, 300)), dj.from_numpy(drawn(40))
    compiled = dj.compile(lambda x: dj.nn.functional.linear(x, weight, bias).relu(), dynamic=True)
    for n in (5, 64, 33, 200):
        x = dj.from_numpy(drawn(n, 300))

        expected = dj.nn.functional.linear(x, weight, bias).relu()
        np.testing.assert_array_equal(expected.numpy(), compiled(x).numpy())
