"""Random words that are computed for many elements at once are those of single elements."""

import numpy as np
import pytest

import dynajit as dj
from dynajit.codegen.c import bypass as c_bypass
from dynajit.codegen.c import words as c_words
from dynajit.codegen.pipeline import compile_graph
from dynajit.core.process import config
from dynajit.core.types.dtypes import float32
from dynajit.ops import TABLE as ops

pytestmark = [pytest.mark.c_only, pytest.mark.one_python]

SEED, BLOCK = 17, 1 << 33
ROWS, COLUMNS = 6, 75


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def dropout(x, block=BLOCK, p=0.25):
    return ops.dropout(x, SEED, block, p=p)


def draws(x):
    return x + ops.randn(SEED, BLOCK, shape=x.shape, dtype=float32)


FUNCTIONS = {
    "dropout": dropout,
    "normal": draws,
    "uniform": lambda x: x + ops.rand(SEED, BLOCK, shape=x.shape, dtype=float32),
    "two streams": lambda x: dropout(ops.relu(dropout(x)), 5),
    "normal and dropout of one stream": lambda x: dropout(draws(x)),
    "behind what is not drawn": lambda x: ops.slice_scatter(
        x,
        draws(ops.slice(x, start=(0, 1), stop=x.shape, step=(1, 1))),
        start=(0, 1),
        stop=x.shape,
        step=(1, 1),
    ),
    "part of a stream": lambda x: ops.slice(dropout(x), start=(0, 1), stop=x.shape, step=(1, 1)),
    "centred": lambda x: dropout(x) - ops.mean(dropout(x), dim=(1,), keepdim=True),
    "softmax": lambda x: dropout(ops.softmax(x, dim=1)),
    "flattened": lambda x: (
        ops.reshape(dropout(ops.reshape(x, shape=(x.shape[0] * x.shape[1],))), shape=x.shape) * x
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize(
    "shape", [(ROWS, COLUMNS), (1, 4097), (1, 8192), (3, 2049), (5, 16), (2, 2)], ids=str
)
def test_values_are_those_of_single_words(codegen, monkeypatch, function, shape):
    x = normal(*shape)
    graph = codegen.graph_of(function, codegen.type_of(x))
    many = compile_graph(graph)
    monkeypatch.setattr(c_words, "MOST_STEP", 0)
    single = compile_graph(graph)

    assert "dj_philox_words(" not in "".join(kernel.source for kernel in single.kernels)
    for want, got in zip(single(x), many(x), strict=True):
        np.testing.assert_array_equal(want, got)


@pytest.mark.parametrize("shape", [(ROWS, COLUMNS), (1, 8192)], ids=["rows", "blocks"])
@pytest.mark.parametrize("name", ["dropout", "normal", "uniform", "centred"])
def test_neighbours_take_their_words_together(codegen, name, shape):
    graph = codegen.graph_of(FUNCTIONS[name], codegen.type_of(normal(*shape)))
    source = "".join(kernel.source for kernel in compile_graph(graph).kernels)

    if name == "centred" and shape[0] == 1:
        return  # a long row is reduced by lanes, which take single words
    assert "dj_philox_words(" in source
    assert "dj_philox(" not in source


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_that_data_choose_take_their_words_together(codegen, monkeypatch, dim):
    """Where in the stream a row begins is read from memory; columns that are chosen have no run."""
    x, chosen = normal(40, 300), np.random.default_rng(4).integers(0, 40, 17)

    def function(x, chosen):
        return ops.index_select(dropout(x), chosen, dim=dim)

    graph = codegen.graph_of(function, codegen.type_of(x), codegen.type_of(chosen))
    many = compile_graph(graph)
    monkeypatch.setattr(c_words, "MOST_STEP", 0)
    (single,) = compile_graph(graph)(x, chosen)

    is_together = "dj_philox_words(" in "".join(kernel.source for kernel in many.kernels)
    assert (dim == 0) is is_together
    np.testing.assert_array_equal(single, many(x, chosen)[0])


def test_large_results_of_random_words_do_not_bypass_the_caches(codegen, monkeypatch):
    monkeypatch.setattr(c_bypass, "LEAST_MOVED", 1)
    monkeypatch.setattr(c_bypass, "LEAST_RESULT", 1)
    graph = codegen.graph_of(dropout, codegen.type_of(normal(2, 4096)))
    source = "".join(kernel.source for kernel in compile_graph(graph).kernels)

    assert "dj_philox_words(" in source
    assert "dj_bypass(" not in source


@pytest.mark.parametrize("shape", [(300, 300), (1 << 17,)], ids=str)
def test_draws_of_compiled_functions_are_those_of_eager_ones(shape):
    def function(x):
        return dj.nn.functional.dropout(x, 0.3) + dj.randn_like(x) + dj.rand_like(x)

    x = dj.from_numpy(normal(*shape))
    results = []
    for run in (function, dj.compile(function)):
        dj.manual_seed(5)
        results.append(run(x).numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=2e-6, atol=2e-6)


def test_bits_do_not_depend_on_threads(codegen):
    x = normal(64, 4096)
    results = []
    for threads in (1, 2):
        with config.override(num_threads=threads):
            results.append(compile_graph(codegen.graph_of(draws, codegen.type_of(x)))(x)[0])
    np.testing.assert_array_equal(*results)
