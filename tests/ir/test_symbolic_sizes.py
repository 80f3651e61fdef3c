"""Graphs with symbolic sizes, through everything in `dynajit.ir`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit import nn
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt, symbol
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import autodiff, interpret, partition, pipeline, sizes
from dynajit.ir.generated import generated_function
from dynajit.ir.graph import Builder, Graph, symbol_places
from dynajit.ir.outputs import split_views
from dynajit.ir.verify import broken_rules, verify
from dynajit.ops import TABLE as ops

S0 = symbol("s0", 2)
S1 = symbol("s1", 2)


def test_a_symbol_is_found_where_it_is_the_size_of_a_dimension() -> None:
    builder = Builder()
    x = builder.placeholder("x", TensorType((S0 * 2, S1), dtypes.float32))
    y = builder.placeholder("y", TensorType((S0, 4), dtypes.float32))

    graph = builder.finish([x, y])

    assert symbol_places(graph) == {"s1": (0, 1), "s0": (1, 0)}


def test_a_symbol_that_no_tensor_shows_is_the_placeholder_of_its_name() -> None:
    builder = Builder()
    builder.placeholder("lr", ScalarType(Category.INTEGER))
    builder.placeholder("s0", ScalarType(Category.INTEGER))
    attributes = ops.full.bind({"shape": (S0,), "dtype": dtypes.float32, "device": CPU})
    value = builder.call(ops.full, [1.0], attributes)

    graph = builder.finish([value])

    assert symbol_places(graph) == {"s0": (1, None)}
    assert sizes.bind(symbol_places(graph), [3, 5]) == {"s0": 5}


def test_binding_reads_the_shapes_of_arrays() -> None:
    places = {"s0": (1, 0), "s1": (0, 1)}

    assert sizes.bind(places, [np.zeros((2, 3)), np.zeros((7,))]) == {"s0": 7, "s1": 3}


def test_known_sizes_replace_symbols_in_shapes_and_attributes() -> None:
    assert sizes.known((S0 * 2, (S1 + 1, "x"), None, 4), {"s0": 3, "s1": 5}) == (
        6,
        (6, "x"),
        None,
        4,
    )


# -- programs over symbolic sizes equal the same programs over known sizes -----------------------

F = nn.functional
Program = Callable[..., Any]


def _attention(q: Any, k: Any, v: Any) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _heads(x: Any, y: Any) -> Any:
    b, t, c = x.shape
    parts = x.view(b, t, 2, c // 2).transpose(1, 2)
    return (parts @ parts.transpose(-2, -1)).softmax(-1).mean(-1) + y.sum()


N, M = "n", "m"
PROGRAMS: dict[str, tuple[Program, tuple[tuple[Any, ...], ...]]] = {
    "elementwise": (lambda x, y: (x * y + 1).relu(), ((N, 3), (N, 3))),
    "broadcast": (lambda x, y: x * y, ((N, M), (M,))),
    "broadcast 1": (lambda x, y: x.exp() - y, ((N, 1), (1, M))),
    "mean": (lambda x, y: (x - x.mean(0)) * y.mean(), ((N, M), (M, N))),
    "var": (lambda x, y: x.var(1) * y.std(0), ((N, M), (M, N))),
    "softmax": (lambda x, y: x.softmax(-1) @ y.log_softmax(0), ((N, M), (M, N))),
    "layer norm": (lambda x, y: F.layer_norm(x, (4,)) + y, ((N, M, 4), (4,))),
    "linear": (lambda x, y: F.linear(x, y, None), ((N, M, 4), (5, 4))),
    "matmul": (lambda x, y: x @ y, ((N, M, 4), (N, 4, M))),
    "reshape": (lambda x, y: x.reshape(-1, 4) + y.reshape(-1), ((N, M, 4), (2, 2))),
    "flatten": (lambda x, y: x.flatten() * y.flatten(), ((N, M), (M, N))),
    "transpose": (lambda x, y: (x.t() * y).sum(1), ((N, M), (M, N))),
    "cat": (lambda x, y: dj.cat([x, y], 0).softmax(0),
            ((N, 3), (M, 3))),
    "slice": (lambda x, y: x[1:] * y[:-1], ((N, 3), (N, 3))),
    "slice half": (lambda x, y: x[: x.shape[0] // 2] * y, ((N, M), (M,))),
    "pad": (lambda x, y: F.pad(x, (1, 2)).sum(0) + y.sum(), ((N, M), (3,))),
    "attention": (_attention, ((2, N, 4), (2, M, 4), (2, M, 4))),
    "heads": (_heads, ((N, M, 6), (3,))),
    "mse": (lambda x, y: F.mse_loss(x, y), ((N, M), (N, M))),
    "repeat": (lambda x, y: x.repeat(2, 3) * y.repeat(1), ((N, M), (1,))),
    "cumsum": (lambda x, y: x.cumsum(0) * y.flip(0), ((N, 3), (N, 3))),
    "max": (lambda x, y: x.max(0).values * y.amin(1), ((N, M), (M, N))),
    "expand": (lambda x, y: x.unsqueeze(1).expand(-1, 3, -1) * y, ((N, M), (3, 1))),
}  # fmt: skip


def _graph(program: Program, shapes: tuple[tuple[Any, ...], ...], known: dict[str, Any]) -> Graph:
    builder = Builder("program")
    operands = [
        builder.placeholder(
            f"x{i}", TensorType(tuple(known.get(size, size) for size in shape), dtypes.float64)
        )
        for i, shape in enumerate(shapes)
    ]
    return builder.finish([program(*operands)])


def _arrays(shapes: tuple[tuple[Any, ...], ...], known: dict[str, int]) -> list[np.ndarray]:
    random = np.random.default_rng(sum(known.values()))
    return [
        random.uniform(0.1, 1.0, tuple(known.get(size, size) for size in shape)) for shape in shapes
    ]


def _optimized(graph: Graph) -> Graph:
    verify(graph)
    done = pipeline.optimize(graph)
    verify(done, "the pipeline")
    return done


SYMBOLS: dict[str, SymInt] = {N: S0, M: S1}
NUMBERS = ({N: 2, M: 2}, {N: 5, M: 3}, {N: 4, M: 4}, {N: 7, M: 12})


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_optimized_graph_serves_every_size(name: str) -> None:
    program, shapes = PROGRAMS[name]
    graph = _optimized(_graph(program, shapes, SYMBOLS))

    for known in NUMBERS:
        arrays = _arrays(shapes, known)
        expected = interpret.run(_graph(program, shapes, known), arrays)
        found = interpret.run(graph, arrays)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_and_backward_serve_every_size(name: str) -> None:
    program, shapes = PROGRAMS[name]
    flags = [True] * len(shapes)
    joint = autodiff.differentiate(_graph(program, shapes, SYMBOLS), flags)
    verify(joint.graph)
    parts = partition.partition(joint)
    forward, backward = _optimized(parts.forward), _optimized(parts.backward)

    for known in NUMBERS:
        arrays = _arrays(shapes, known)
        static = autodiff.differentiate(_graph(program, shapes, known), flags)
        seeds = [np.ones(node.type.shape) for node in static.output_gradients]
        expected = interpret.run(static.graph, [*arrays, *seeds])
        results = interpret.run(forward, arrays)
        told = sizes.bind(parts.sizes, arrays).values()
        gradients = interpret.run(backward, [*results[joint.output_count :], *seeds, *told])
        found = [*results[: joint.output_count], *gradients]
        for a, b in zip(found, expected, strict=True):
            if b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def test_backward_is_told_the_sizes_that_it_cannot_see() -> None:
    builder = Builder()
    x = builder.placeholder("x", TensorType((S0, S1), dtypes.float32))
    joint = autodiff.differentiate(builder.finish([x.mean()]), [True])

    parts = partition.partition(joint)

    assert {"s0": (0, 0), "s1": (0, 1)} == parts.sizes
    assert ["grad_mean", "s0", "s1"] == [node.name for node in parts.backward.inputs]


def test_views_taken_afterwards_have_the_sizes_of_the_call() -> None:
    builder = Builder()
    x = builder.placeholder("x", TensorType((S0, 4), dtypes.float32))
    split = split_views(builder.finish([x.reshape(-1), x[1:]]))
    array = np.arange(12.0).reshape(3, 4)

    views = [recipe.take((), (dj.from_numpy(array),)) for recipe in split.recipes]

    assert [(12,), (2, 4)] == [tuple(view.shape) for view in views]


def test_a_symbol_that_no_input_shows_is_a_broken_rule() -> None:
    builder = Builder()
    x = builder.placeholder("x", TensorType((S0 * 2,), dtypes.float32))

    rules = list(broken_rules(builder.finish([x + 1])))

    assert [("s0", "no input shows this symbol")] == rules


def test_a_printed_graph_reads_its_sizes_from_its_inputs() -> None:
    builder = Builder("flat")
    x = builder.placeholder("x", TensorType((S0, 4), dtypes.float32))
    graph = builder.finish([x.reshape(-1) * 2])

    function = generated_function(graph, lambda array: array)

    assert "s0 = x.shape[0]" in str(graph)
    assert "shape=((s0*4),)" in str(graph)
    (result,) = function(dj.ones(3, 4))
    assert (12,) == tuple(result.shape)
