"""Products and row kernels in panels: the bits of the kernels one by one, for any threads."""

import numpy as np
import pytest

from dynajit.codegen.c import panel_groups as panels
from dynajit.codegen.c import products
from dynajit.codegen.loops.loop_ir import PanelKernel
from dynajit.codegen.pipeline import compile_graph, generate
from dynajit.core.errors import BoundsError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.symint import symbol
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]


@pytest.fixture
def small_panels(monkeypatch):
    """Panels of two rows, for results of any size."""
    monkeypatch.setattr(panels, "LEAST_BYTES", 1)
    monkeypatch.setattr(panels, "PANEL_BYTES", 1)
    monkeypatch.setattr(products, "TILE_ROWS", 2)
    monkeypatch.setattr(panels, "MOST_ROWS", 2)


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def relu(x):
    return ops.maximum(x, 0.0)


def softmax(x):
    e = ops.exp(x - ops.amax(x, dim=(1,), keepdim=True))
    return e / ops.sum(e, dim=(1,), keepdim=True)


def layer(x, w, b):
    return [relu(ops.matmul(x, w) + b)]


def layers(x, w, b):
    for _ in range(3):
        x = relu(ops.matmul(x, w) + b)
    return [x]


def residual(x, w, b):
    return [ops.tanh(ops.matmul(x, w) + b) + x]


def product_that_is_shown(x, w, b):
    h = ops.matmul(x, w) + b
    return [h, ops.tanh(h)]


def hidden_that_is_read_later(x, w, b):
    h = relu(ops.matmul(x, w) + b)
    return [ops.matmul(h, w), ops.sum(h, dim=(0,))]


def rows_of_softmax(x, w, b):
    return [softmax(ops.matmul(x, w) * 0.125 + b)]


def norm_between_products(x, w, b):
    h = ops.matmul(x, w)
    centred = h - ops.mean(h, dim=(1,), keepdim=True)
    return [ops.matmul(centred * b, w)]


def means_of_rows(x, w, b):
    h = ops.matmul(x, w)
    return [ops.mean(h, dim=(1,)), h * b]


def one_axis(x, w, b):
    return [relu(ops.matmul(x, w))]


def two_products(x, w, b):
    return [ops.matmul(x, w) * ops.matmul(relu(x), w) + b]


FUNCTIONS = (
    layer, layers, residual, product_that_is_shown, hidden_that_is_read_later, rows_of_softmax,
    norm_between_products, means_of_rows, one_axis, two_products,
)  # fmt: skip


STEPS = {
    "product": lambda a, b, w, v: ops.matmul(a, w),
    "relu": lambda a, b, w, v: relu(a),
    "bias": lambda a, b, w, v: a + v,
    "residual": lambda a, b, w, v: a * 0.5 + b,
    "softmax": lambda a, b, w, v: softmax(a),
    "centred rows": lambda a, b, w, v: a - ops.mean(b, dim=(1,), keepdim=True),
    "centred columns": lambda a, b, w, v: a - ops.mean(b, dim=(0,), keepdim=True),
    "other rows": lambda a, b, w, v: a + ops.flip(b, dims=(0,)),
    "other columns": lambda a, b, w, v: ops.flip(a, dims=(1,)),
}
WIDTHS = 16, 24, 33


def random_layers(seed, x, *parameters):
    """Random steps with earlier values, matrices and vectors; some values are the results."""
    random = np.random.default_rng(seed)
    matrices, vectors = parameters[: len(WIDTHS) ** 2], parameters[len(WIDTHS) ** 2 :]
    values = [x]
    for _ in range(random.integers(3, 14)):
        a = values[random.integers(len(values))] if random.random() < 0.4 else values[-1]
        place = WIDTHS.index(a.shape[1])
        like = [value for value in values if value.shape == a.shape]
        b = like[random.integers(len(like))]
        w = matrices[len(WIDTHS) * place + random.integers(len(WIDTHS))]
        name = random.choice(["product"] * 6 + list(STEPS))
        values.append(STEPS[name](a, b, w, vectors[place]))
    shown = [value for value in values[1:-1] if random.random() < 0.2]
    return [*shown, values[-1]]


def panels_of(graph):
    functions = generate(graph, "graph").functions
    return [f.kernel for f in functions if isinstance(f.kernel, PanelKernel)]


def apart(monkeypatch, graph, *arguments):
    """Results of the kernels one by one."""
    with monkeypatch.context() as context:
        context.setattr(panels, "join", lambda kernels, outside: list(kernels))
        assert not panels_of(graph)
        return compile_graph(graph)(*arguments)


@pytest.mark.parametrize("few", [2, 3, 5, 9, 11])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_few_columns_leave_the_packed_ones_of_others(
    small_panels, monkeypatch, codegen, few, turned
):
    def network(x, w, v, u):
        v = ops.permute(v, dims=(1, 0)) if turned else v
        h = relu(ops.matmul(x, w))
        return [relu(ops.matmul(h, v)) + 1.0, relu(ops.matmul(relu(h + 1.0), u))]

    shapes = (300, 40), (40, 70), (few, 70) if turned else (70, few), (70, 50)
    arrays = [normal(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    graph = codegen.graph_of(network, *map(codegen.type_of, arrays))
    assert panels_of(graph)

    assert_same_bits(apart(monkeypatch, graph, *arrays), compile_graph(graph)(*arrays))
    codegen.check(network, *arrays, tolerance=1e-4)


def assert_same_bits(expected, actual):
    for one, other in zip(expected, actual, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 300])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_are_those_of_the_kernels_one_by_one(
    codegen, monkeypatch, small_panels, function, dtype, rows
):
    size = 33  # no whole vectors, and too large to be unrolled
    x, w, b = normal(rows, size, dtype=dtype), normal(size, size, dtype=dtype), normal(size)
    arguments = x, w, b.astype(dtype)
    graph = codegen.graph_of(function, *map(codegen.type_of, arguments))
    expected = apart(monkeypatch, graph, *arguments)

    actual = compile_graph(graph)(*arguments)

    assert panels_of(graph) or rows < size, "rows that are fewer than columns may stay apart"
    assert_same_bits(expected, actual)


@pytest.mark.parametrize("seed", range(40))
def test_random_layers_have_the_bits_of_kernels_one_by_one(
    codegen, monkeypatch, small_panels, seed
):
    flat = [normal(m, n, seed=m + n) / 5 for m in WIDTHS for n in WIDTHS]
    flat += [normal(n, seed=n) for n in WIDTHS]
    x = normal(301, 24, seed=seed)

    def function(*values):
        return random_layers(seed, *values)

    graph = codegen.graph_of(function, *map(codegen.type_of, (x, *flat)))
    expected = apart(monkeypatch, graph, x, *flat)
    for threads in (1, 2):
        with config.override(num_threads=threads):
            assert_same_bits(expected, compile_graph(graph)(x, *flat))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_threads_do_not_change_bits_and_large_results_are_in_panels(codegen, monkeypatch, function):
    x, w, b = normal(2501, 128), normal(128, 128, seed=1), normal(128, seed=2)
    graph = codegen.graph_of(function, *map(codegen.type_of, (x, w, b)))
    expected = apart(monkeypatch, graph, x, w, b)
    assert panels_of(graph)
    for threads in (1, 2):
        with config.override(num_threads=threads):
            assert_same_bits(expected, compile_graph(graph)(x, w, b))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_rows_may_be_known_when_the_program_runs(codegen, monkeypatch, function):
    rows = symbol("s0", 2)
    w, b = normal(64, 64, seed=1), normal(64, seed=2)
    float32 = dtypes.float32
    types = TensorType((rows, 64), float32), TensorType((64, 64), float32), codegen.type_of(b)
    graph = codegen.graph_of(function, *types)
    assert panels_of(graph)
    program = compile_graph(graph)
    for count in (2, 41, 43, 127, 128, 129, 5003):
        x = normal(count, 64)
        plain = codegen.graph_of(function, *map(codegen.type_of, (x, w, b)))
        for threads in (1, 2):
            with config.override(num_threads=threads):
                assert_same_bits(apart(monkeypatch, plain, x, w, b), program(x, w, b))


def test_a_batch_whose_rows_line_up_is_one_panel(codegen, small_panels):
    x, w, b = normal(3, 50, 20), normal(20, 33), normal(33)
    graph = codegen.graph_of(layer, *map(codegen.type_of, (x, w, b)))
    (kernel,) = panels_of(graph)
    assert kernel.rows == 150
    (expected,) = interpret.run(graph, (x, w, b))
    codegen.assert_same(expected, compile_graph(graph)(x, w, b)[0])


def test_a_chain_is_one_kernel_and_keeps_nothing_but_its_result(codegen):
    x, w, b = normal(20_000, 64), normal(64, 64, seed=1), normal(64, seed=2)
    generated = generate(codegen.graph_of(layers, *map(codegen.type_of, (x, w, b))), "graph")
    (function,) = generated.functions
    assert 6 == len(function.kernel.steps)
    assert generated.layout.workspace_bytes < x.nbytes / 2


def test_a_transposed_product_is_read_when_it_is_whole(codegen, small_panels):
    def function(x, w):
        return [relu(ops.permute(ops.matmul(x, w), dims=(1, 0)))]

    x, w = normal(60, 33), normal(33, 40)
    graph = codegen.graph_of(function, *map(codegen.type_of, (x, w)))
    assert not panels_of(graph)
    codegen.check(function, x, w)


def test_a_row_that_reads_another_row_waits_for_the_whole_product(codegen, small_panels):
    def function(x, w):
        h = ops.matmul(x, w)
        return [h + ops.flip(h, dims=(0,))]

    x, w = normal(60, 33), normal(33, 40)
    assert not panels_of(codegen.graph_of(function, *map(codegen.type_of, (x, w))))
    codegen.check(function, x, w)


def test_a_right_operand_made_in_a_panel_is_not_used_in_it(codegen, small_panels):
    def function(x, w):
        h = relu(ops.matmul(x, w))
        return [ops.matmul(h, h)]

    x, w = normal(80, 33), normal(33, 80)
    graph = codegen.graph_of(function, *map(codegen.type_of, (x, w)))
    (kernel,) = panels_of(graph)
    assert 2 == len(kernel.steps)
    codegen.check(function, x, w)


def test_sums_down_the_columns_stay_apart(codegen, small_panels):
    def function(x, w):
        h = ops.matmul(x, w)
        return [ops.sum(h, dim=(0,))]

    x, w = normal(60, 33), normal(33, 40)
    assert not panels_of(codegen.graph_of(function, *map(codegen.type_of, (x, w))))
    codegen.check(function, x, w)


def test_an_index_out_of_range_is_reported_from_a_panel(codegen, small_panels):
    def function(x, w, rows, index):
        h = ops.matmul(x, w)
        return [h + ops.gather(rows, index, dim=0)]

    x, w, rows = normal(60, 33), normal(33, 40), normal(5, 40)
    index = np.zeros((60, 40), np.int64)
    graph = codegen.graph_of(function, *map(codegen.type_of, (x, w, rows, index)))
    assert panels_of(graph)
    program = compile_graph(graph)
    np.testing.assert_allclose(program(x, w, rows, index)[0], x @ w + rows[0], rtol=1e-4, atol=1e-4)
    index[57, 3] = 5
    with pytest.raises(BoundsError, match="5"):
        program(x, w, rows, index)


def test_nan_and_infinity_stay_in_their_rows(codegen, small_panels):
    x, w, b = normal(50, 33), normal(33, 33), normal(33)
    x[7, 0], x[9, 1], x[11, 2] = np.nan, np.inf, -np.inf
    (actual,) = compile_graph(codegen.graph_of(layers, *map(codegen.type_of, (x, w, b))))(x, w, b)
    finite = np.isfinite(actual).all(1)
    assert [7, 9, 11] == np.flatnonzero(~finite).tolist()


@pytest.mark.parametrize(
    ("rows", "inner", "columns"),
    [(500, 64, 64), (4000, 600, 300), (200, 64, 4096), (1024, 512, 1025)],
    ids=["small", "long sums", "wide", "operands too large to keep"],
)
def test_products_stay_apart_where_panels_save_nothing(codegen, rows, inner, columns):
    arguments = normal(rows, inner), normal(inner, columns), normal(columns)
    assert not panels_of(codegen.graph_of(layer, *map(codegen.type_of, arguments)))
