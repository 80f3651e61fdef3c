"""Loops in segments give what they gave, and keep less."""

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret, loops
from dynajit.ir.autodiff import differentiate
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loop_derivatives import gradients
from dynajit.ir.passes.checkpoint_loops import MOST_SEGMENTS, checkpoint_loops
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.passes.merge_loops import merge_loops
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

VECTOR = TensorType((3,), dtypes.float64)
ROWS = TensorType((40, 3), dtypes.float64)


def _joint(numbers: loops.Steps | loops.Listed, limit: int) -> Graph:
    """Of `x = sin(x * w + rows[number])`, with the number of turns among the results."""
    body = Builder("turn")
    number = body.placeholder("number", ScalarType(Category.INTEGER))
    x, w = (body.placeholder(name, VECTOR) for name in ("x", "w"))
    rows = body.placeholder("table", ROWS)
    place = ops.reshape(ops.full(number, shape=(), dtype=dtypes.int64), shape=(1,))
    read = ops.index(rows, place, dims=(0,))
    turn = body.finish([ops.sin(ops.add(ops.mul(x, w), read))])
    loop = loops.Loop(
        turn, (numbers,), 1, active=(True,) * 3, gradients=gradients, unit=dtypes.float64
    )
    builder = Builder("whole")
    inputs = [builder.placeholder(*entry) for entry in (("x", VECTOR), ("w", VECTOR), ("t", ROWS))]
    graph = builder.finish(loops.append(builder, loop, limit, True, inputs))
    return differentiate(graph, (True,) * 3).graph


@pytest.mark.parametrize("budget", [0.5, 0.1, 0.0])
@pytest.mark.parametrize(
    ("numbers", "limit"),
    [(loops.Steps(1, 1), 39), (loops.Steps(39, -2), 20), (loops.Listed((3, 9, -1, 3, 0) * 8), 40)],
)
def test_segments_give_what_the_loop_gave(
    numbers: loops.Steps | loops.Listed, limit: int, budget: float
) -> None:
    graph = _joint(numbers, limit)
    cut = checkpoint_loops(graph, budget)
    verify(cut.graph)
    assert len(list(loops.loops_of(cut.graph))) > 3 and cut.bytes > 0
    assert len(loops.bodies_of(cut.graph)) == 3  # segments share the graphs of their turns
    random = np.random.default_rng(0)
    given = [random.standard_normal(node.type.shape) * 0.5 for node in graph.inputs]
    expected = interpret.run(graph, given)
    for found in (interpret.run(cut.graph, given), interpret.run(merge_loops(cut.graph), given)):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)


def test_a_smaller_budget_has_more_segments_up_to_a_bound() -> None:
    graph = _joint(loops.Listed((0,) * 5000), 5000)
    counts, left = [], []
    for budget in (0.9, 0.5, 0.1, 0.0):
        cut = checkpoint_loops(graph, budget)
        counts.append(sum(loop.repeats for loop in loops.loops_of(cut.graph)) + 1)
        left.append(cut.bytes)
    assert counts == sorted(counts) and counts[-1] <= MOST_SEGMENTS
    assert left == sorted(left)


def test_a_loop_that_fits_and_one_without_a_derivative_stay() -> None:
    graph = _joint(loops.Steps(0, 1), 30)
    assert checkpoint_loops(graph, 1.0).graph is graph
    forward = eliminate_dead_code(Graph("forward", graph.nodes, graph.outputs[:1]))
    assert len(list(loops.loops_of(forward))) == 1
    assert checkpoint_loops(forward, 0.0).graph is forward
