"""Recurrent layers give the gates that their derivatives read."""

from typing import Any

import numpy as np
import pytest

import dynajit as dj
from dynajit.ir import interpret
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.passes.keep_gates import keep_gates
from dynajit.ops.rows.networks.recurrent import MOST_STEPS
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE

LONG = MOST_STEPS + 2


def layer_and_derivative(
    mode: str, steps: int, is_detached: bool = False, is_of_others: bool = False
) -> tuple[Graph, list[Any]]:
    """A graph with a layer, its first states and its slopes, and arrays for it."""
    values = np.random.default_rng(0)
    shapes = {"gates": (steps, 3, 12 if mode == "GRU" else 16), "weight": (16, 4)}
    shapes |= {"hidden": (3, 4), "cell": (3, 4)}
    if mode == "GRU":
        shapes |= {"weight": (12, 4), "cell": (4,)}
    if mode == "RNN_TANH":
        shapes |= {"gates": (steps, 3, 4), "weight": (4, 4)}
        del shapes["cell"]
    arrays = [values.standard_normal(shape) for shape in shapes.values()]
    builder = Builder(mode)
    inputs = [
        builder.placeholder(name, interpret.type_of_operand(array))
        for name, array in zip(shapes, arrays, strict=True)
    ]
    with dispatch.recording(builder.handle):
        states = TABLE.recurrent_states(*inputs, mode=mode)
        read = [TABLE.detach(x) if is_detached else x for x in (states, *inputs)]
        if is_of_others:
            read[1] = read[1] * 2.0
        slopes = TABLE.recurrent_slopes(TABLE.cos(states), *read, mode=mode)
        return builder.finish([TABLE.select(states, dim=0, index=0), slopes]), arrays


def keeping(graph: Graph) -> list[bool]:
    """Of each row of a layer or a derivative, whether it is of gates that are kept."""
    rows = (TABLE.recurrent_states, TABLE.recurrent_slopes)
    return [node.attributes["keeps"] for node in graph.calls if node.op in rows]


@pytest.mark.parametrize("is_detached", [False, True])
@pytest.mark.parametrize("mode", ["LSTM", "GRU"])
def test_a_derivative_reads_the_gates_of_its_layer(mode: str, is_detached: bool) -> None:
    graph, arrays = layer_and_derivative(mode, LONG, is_detached)
    changed = keep_gates(graph)

    assert [True, True] == keeping(changed)
    for expected, found in zip(
        interpret.run(graph, arrays), interpret.run(changed, arrays), strict=True
    ):
        np.testing.assert_allclose(found, expected, 1e-12, 1e-12)


@pytest.mark.parametrize(
    "graph",
    [
        layer_and_derivative("RNN_TANH", LONG)[0],
        layer_and_derivative("LSTM", MOST_STEPS)[0],
        layer_and_derivative("LSTM", LONG, is_of_others=True)[0],
    ],
    ids=["no gates", "unrolled", "other operands"],
)
def test_all_others_stay(graph: Graph) -> None:
    assert [False, False] == keeping(keep_gates(graph))


@pytest.mark.c_only
@pytest.mark.parametrize("layer", ["LSTM", "GRU"])
@pytest.mark.parametrize("is_whole", [False, True])
def test_gradients_of_compiled_layers_are_those_of_eager_ones(layer: str, is_whole: bool) -> None:
    dj.manual_seed(0)
    model = getattr(dj.nn, layer)(3, 4, num_layers=2, bidirectional=True)
    x = dj.randn(LONG, 2, 3)

    def loss() -> Any:
        return model(x)[0].sin().sum()

    def step() -> Any:
        found = loss()
        found.backward()
        return found

    gradients = []
    for run in (step, dj.compile(step, fullgraph=True)) if is_whole else (loss, dj.compile(loss)):
        model.zero_grad()
        found = run()
        if not is_whole:
            found.backward()
        gradients.append([p.grad.numpy().copy() for p in model.parameters()])
    for expected, found in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, expected, 1e-4, 1e-5)
