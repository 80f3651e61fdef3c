"""Products that share work are one product, with the values of the separate ones."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.plan.shared_products import ENOUGH_READERS, FEW_ROWS, share_products
from dynajit.ops import TABLE as ops

pytestmark = pytest.mark.one_python


def turned(x):
    return ops.permute(x, dims=(1, 0))


def whole(shape, dtype=np.float32, seed=0):
    """Small whole numbers: any order of sums gives the same."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def shared(codegen, function, *arrays):
    return share_products(codegen.graph_of(function, *map(codegen.type_of, arrays)))


def products(graph):
    """Shapes of the operands of each product."""
    return [
        tuple(tuple(argument.type.shape) for argument in node.args)
        for node in graph.nodes
        if node.op is ops.matmul
    ]


def names(graph):
    return [node.op.name for node in graph.nodes if node.op is not None]


# ---------------------------------------------------------------------------------------------
# sums


def sum_of_three(a, b, c, d, x, y):
    return ops.add(ops.add(ops.matmul(a, b), ops.matmul(c, d)), ops.matmul(x, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_of_products_is_one_product(codegen, dtype):
    arrays = [whole(shape, dtype, seed) for seed, shape in enumerate([(20, 3), (3, 30)] * 3)]

    assert products(shared(codegen, sum_of_three, *arrays)) == [((20, 9), (9, 30))]
    codegen.check(sum_of_three, *arrays, tolerance=0)


def test_summands_may_have_inner_dims_of_different_sizes(codegen):
    shapes = [(20, 1), (1, 30), (20, 4), (4, 30), (20, 0), (0, 30)]
    arrays = [whole(shape, seed=seed) for seed, shape in enumerate(shapes)]

    assert products(shared(codegen, sum_of_three, *arrays)) == [((20, 5), (5, 30))]
    codegen.check(sum_of_three, *arrays, tolerance=0)


def test_transposed_operands_are_joined_as_they_lie(codegen):
    def gradient(a, b, c, d):
        return ops.add(ops.matmul(turned(a), b), ops.matmul(turned(c), d))

    arrays = [whole((3, size), seed=seed) for seed, size in enumerate((20, 30, 20, 30))]
    graph = shared(codegen, gradient, *arrays)

    assert names(graph) == ["cat", "permute", "cat", "matmul"]
    assert [node.type.shape for node in graph.nodes if node.op is ops.cat] == [(6, 20), (6, 30)]
    codegen.check(gradient, *arrays, tolerance=0)


def test_other_summands_are_added_behind(codegen):
    def biased(a, b, c, d, x):
        scaled = ops.mul(x, 2.0)
        return ops.add(ops.add(ops.matmul(a, b), scaled), ops.add(ops.matmul(c, d), 7.0))

    shapes = [(20, 3), (3, 30), (20, 3), (3, 30), (20, 30)]
    arrays = [whole(shape, seed=seed) for seed, shape in enumerate(shapes)]

    assert products(shared(codegen, biased, *arrays)) == [((20, 6), (6, 30))]
    codegen.check(biased, *arrays, tolerance=0)


def test_broadcast_summands_keep_their_place(codegen):
    def biased(a, b, c, d, row):
        return ops.add(ops.add(ops.matmul(a, b), row), ops.matmul(c, d))

    shapes = [(20, 3), (3, 30), (20, 3), (3, 30), (30,)]
    arrays = [whole(shape, seed=seed) for seed, shape in enumerate(shapes)]

    codegen.check(biased, *arrays, tolerance=0)


def test_products_and_sums_that_others_need_stay(codegen):
    def with_product(a, b, c, d):
        first = ops.matmul(a, b)
        return ops.add(first, ops.matmul(c, d)), first

    def with_sum(a, b, c, d):
        inner = ops.add(ops.matmul(a, b), ops.matmul(c, d))
        return ops.mul(inner, 2.0), ops.add(inner, ops.matmul(c, b))

    arrays = [whole(shape, seed=seed) for seed, shape in enumerate([(20, 3), (3, 30)] * 2)]

    assert len(products(shared(codegen, with_product, *arrays))) == 2
    assert products(shared(codegen, with_sum, *arrays)) == [((20, 6), (6, 30)), ((20, 3), (3, 30))]
    codegen.check(with_product, *arrays, tolerance=0)
    codegen.check(with_sum, *arrays, tolerance=0)


def test_a_product_that_is_added_to_itself_stays(codegen):
    def doubled(a, b):
        product = ops.matmul(a, b)
        return ops.add(product, product)

    codegen.check(doubled, whole((20, 3)), whole((3, 30)), tolerance=0)


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "dtype"),
    [
        (20, 30, 20, np.float32),  # joining the operands would cost more than it saves
        (20, 3, 30, np.float16),  # each product is rounded to 16 bits
        (20, 3, 30, np.int32),
    ],
)
def test_sums_that_gain_nothing_or_would_change_stay(codegen, rows, inner, columns, dtype):
    shapes = [(rows, inner), (inner, columns)] * 3
    arrays = [whole(shape, dtype, seed) for seed, shape in enumerate(shapes)]

    assert len(products(shared(codegen, sum_of_three, *arrays))) == 3
    codegen.check(sum_of_three, *arrays)


def test_batches_stay(codegen):
    arrays = [whole(shape, seed=seed) for seed, shape in enumerate([(2, 20, 3), (2, 3, 30)] * 3)]

    assert len(products(shared(codegen, sum_of_three, *arrays))) == 3
    codegen.check(sum_of_three, *arrays, tolerance=0)


def test_a_nan_and_an_infinity_spread_as_in_the_separate_products(codegen):
    arrays = [whole(shape, seed=seed) for seed, shape in enumerate([(20, 3), (3, 30)] * 3)]
    arrays[0][1, 1], arrays[3][2, 5] = np.nan, np.inf
    arrays[2][3, 2] = 0.0

    codegen.check(sum_of_three, *arrays, tolerance=0)


# ---------------------------------------------------------------------------------------------
# slices


def steps(dim, indices):
    def function(x, w):
        slices = [ops.select(x, dim=dim, index=index) for index in indices]
        return [ops.exp(ops.matmul(part, w)) for part in slices]

    return function


@pytest.mark.parametrize("dim", [0, 1])
def test_products_of_all_slices_with_one_matrix_are_one_product(codegen, dim):
    shape = (3, 5, 4) if dim == 0 else (5, 3, 4)
    x, w = whole(shape), whole((4, 6), seed=1)
    function = steps(dim, (2, 0, 1))

    assert products(shared(codegen, function, x, w)) == [((15, 4), (4, 6))]
    codegen.check(function, x, w)


@pytest.mark.parametrize(("dim", "indices"), [(0, (0, 1)), (2, (0, 1, 2))])
def test_products_of_some_slices_or_across_the_inner_dim_stay(codegen, dim, indices):
    shape = (3, 4, 4) if dim == 0 else (5, 4, 3)
    x, w = whole(shape), whole((4, 6), seed=1)

    assert len(products(shared(codegen, steps(dim, indices), x, w))) == len(indices)
    codegen.check(steps(dim, indices), x, w)


def test_products_of_large_slices_stay(codegen):
    x, w = whole((2, FEW_ROWS + 1, 4)), whole((4, 6), seed=1)

    assert len(products(shared(codegen, steps(0, (0, 1)), x, w))) == 2


def test_slices_with_different_matrices_stay_apart(codegen):
    def function(x, v, w):
        return [*steps(0, (0, 1, 2))(x, v), *steps(0, (0, 1, 2))(x, w)]

    x, v, w = whole((3, 5, 4)), whole((4, 6), seed=1), whole((4, 7), seed=2)

    assert products(shared(codegen, function, x, v, w)) == [((15, 4), (4, 6)), ((15, 4), (4, 7))]
    codegen.check(function, x, v, w)


# ---------------------------------------------------------------------------------------------
# transposed matrices


def recurrent(count):
    def function(h, w):
        for _ in range(count):
            h = ops.tanh(ops.matmul(h, turned(w)))
        return h

    return function


@pytest.mark.parametrize("count", [ENOUGH_READERS - 1, ENOUGH_READERS])
def test_a_transposed_matrix_that_several_products_read_is_copied_once(codegen, count):
    h, w = whole((3, 5)), whole((5, 5), seed=1)
    graph = shared(codegen, recurrent(count), h, w)

    assert names(graph).count("clone") == (count == ENOUGH_READERS)
    codegen.check(recurrent(count), h, w)


def test_a_transposed_matrix_for_many_rows_is_read_where_it_lies(codegen):
    h, w = whole((FEW_ROWS + 1, 5)), whole((5, 5), seed=1)

    assert "clone" not in names(shared(codegen, recurrent(6), h, w))


# ---------------------------------------------------------------------------------------------


def test_a_graph_without_such_products_is_given_back(codegen):
    graph = codegen.graph_of(
        lambda a, b: ops.exp(ops.matmul(a, b)),
        *map(codegen.type_of, (whole((2, 3)), whole((3, 4)))),
    )

    assert share_products(graph) is graph


@pytest.mark.parametrize("sizes", [(0, 4), (1, 1), (5, 7)])
def test_sizes_that_vary_are_right_whatever_they_are(sizes):
    batch, inner = sizes
    random = np.random.default_rng(0)

    def step(x, h, w, v, bias):
        total = bias
        for t in range(x.shape[1]):
            h = dj.tanh(x[:, t] @ w.T + h @ v.T)
            total = total + h.T @ x[:, t]
        return h, total

    compiled = dj.compile(step, dynamic=True)
    for rows in (batch, batch + 2):
        shapes = [(rows, 5, inner), (rows, 6), (6, inner), (6, 6), (6, inner)]
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        tensors = [dj.tensor(array) for array in arrays]
        for expected, found in zip(step(*tensors), compiled(*tensors), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_a_recurrent_network_trains_as_without(monkeypatch):
    """Loss and gradients of an unrolled LSTM: with shared products, without, and step by step."""
    random = np.random.default_rng(0)
    x, target = (
        dj.tensor(random.standard_normal(s).astype(np.float32)) for s in [(4, 6, 5), (4, 8)]
    )

    def gradients(compiles):
        dj.manual_seed(0)
        cell = dj.nn.LSTMCell(5, 8)

        def loss():
            h = c = dj.zeros(4, 8)
            for t in range(6):
                h, c = cell(x[:, t], (h, c))
            return ((h - target) ** 2).mean()

        (dj.compile(loss) if compiles else loss)().backward()
        return [parameter.grad.numpy() for parameter in cell.parameters()]

    eager, one = gradients(False), gradients(True)
    monkeypatch.setattr("dynajit.codegen.pipeline.share_products", lambda graph: graph)
    for expected, found, without in zip(eager, one, gradients(True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found, without, rtol=1e-4, atol=1e-6)
