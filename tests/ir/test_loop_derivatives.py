"""The derivative of a loop is that of its turns one after the other, in a graph without a loop."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.core.errors import UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret, keys, loops
from dynajit.ir.autodiff import Joint, differentiate
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.loop_derivatives import gradients
from dynajit.ir.node import Node
from dynajit.ir.partition import partition
from dynajit.ir.pipeline import optimize
from dynajit.ir.saved import find_saved
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops
from dynajit.ops.table import dispatch

TURNS = 6
VECTOR = TensorType((3,), dtypes.float64)
ROWS = TensorType((TURNS, 3), dtypes.float64)
TABLE_TYPE = TensorType((9, 3), dtypes.float64)
NUMBERS = loops.Listed((3, 0, 3, -1, 8, 2))


def _turn(number: Any, x: Any, y: Any, row: Any, w: Any, table: Any) -> list[Any]:
    """What is handed on, then what is collected."""
    place = ops.reshape(ops.full(number, shape=(), dtype=dtypes.int64), shape=(1,))
    read = ops.index(table, place, dims=(0,))
    new = ops.tanh(ops.add(ops.mul(x, w), ops.mul(row, read)))
    return [new, ops.add(ops.mul(y, 0.9), ops.detach(x)), ops.mul(new, row), ops.add(place, 1)]


def _body() -> Graph:
    builder = Builder("turn")
    number = builder.placeholder("number", ScalarType(Category.INTEGER))
    names = ("x", "y", "row", "w")
    inputs = [builder.placeholder(name, VECTOR) for name in names]
    inputs.append(builder.placeholder("table", TABLE_TYPE))
    return builder.finish(_turn(number, *inputs))


def _inputs(builder: Builder) -> list[Value]:
    types = VECTOR, VECTOR, ROWS, VECTOR, TABLE_TYPE
    names = ("x", "y", "all_rows", "w", "table")
    return [builder.placeholder(name, type) for name, type in zip(names, types, strict=True)]


def looped(backwards: bool, active: Sequence[bool] = (True,) * 5) -> Graph:
    """Two results and a stack, by a loop."""
    builder = Builder("whole")
    inputs = _inputs(builder)
    loop = loops.Loop(
        _body(), (NUMBERS,), 2, 2, stacked=1, backwards=backwards, active=tuple(active),
        gradients=gradients,
        unit=dtypes.float64,
    )  # fmt: skip
    found = loops.append(builder, loop, TURNS, True, inputs)
    return builder.finish(found[:4])


def unrolled(backwards: bool) -> Graph:
    """The same, turn by turn."""
    builder = Builder("whole")
    x, y, rows, w, table = _inputs(builder)
    kept: list[Any] = [None] * TURNS
    places: list[Any] = [None] * TURNS
    with dispatch.recording(builder.handle):
        for turn in range(TURNS)[:: -1 if backwards else 1]:
            row = ops.select(rows, dim=0, index=turn)
            x, y, kept[turn], places[turn] = _turn(NUMBERS.at(turn), x, y, row, w, table)
        stacks = [ops.stack(*values, dim=0) for values in (kept, places)]
    return builder.finish([x, y, *stacks])


def arrays(graph: Graph) -> list[np.ndarray[Any, Any]]:
    """Values of inputs."""
    random = np.random.default_rng(0)
    shapes = [node.type.shape for node in graph.inputs]
    return [random.standard_normal(shape) * 0.5 for shape in shapes]


def assert_close(expected: Sequence[Any], found: Sequence[Any]) -> None:
    assert [x is None for x in expected] == [x is None for x in found]
    for a, b in zip(expected, found, strict=True):
        if a is not None:
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


def run(graph: Graph, given: Sequence[Any]) -> list[Sequence[Any]]:
    """Outputs by NumPy, and by kernels."""
    return [interpret.run(graph, given), pipeline.compile_graph(optimize(graph))(*given)]


@pytest.mark.parametrize("backwards", [False, True])
def test_rows_are_read_and_collected_in_order(backwards: bool) -> None:
    graph = looped(backwards)
    verify(graph)
    given = arrays(graph)
    expected = interpret.run(unrolled(backwards), given)
    for found in run(graph, given):
        assert_close(expected, found)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "flags", [(True,) * 5, (False, False, True, False, True), (True, *[False] * 4)]
)
def test_gradients_are_those_of_the_turns(backwards: bool, flags: tuple[bool, ...]) -> None:
    """Of what is carried, stacked, fixed, and read by the turn's number."""
    joint = differentiate(looped(backwards, _kept(flags)), flags)
    other = differentiate(unrolled(backwards), flags)
    given = arrays(other.graph)
    expected = interpret.run(other.graph, given)[4:]
    for found in run(_of_seeds(joint, other), given):
        assert_close(expected, found)


def _kept(flags: tuple[bool, ...]) -> tuple[bool, ...]:
    """As a capture says it: `x` needs a gradient after a turn, and so in front of it."""
    return (True, *flags[1:])


def _of_seeds(joint: Joint, other: Joint) -> Graph:
    """The gradients alone, with inputs for the gradients that another joint graph takes."""
    wanted = set(other.differentiable_outputs)
    pairs = zip(joint.differentiable_outputs, joint.output_gradients, strict=True)
    zeros = {node for position, node in pairs if position not in wanted}
    builder = Builder("gradients", reserved=(node.name for node in joint.graph.nodes))
    new: dict[Any, Any] = {}
    with dispatch.recording(builder.handle):
        for node in joint.graph.nodes:
            if node in zeros:
                assert isinstance(node.type, TensorType)
                new[node] = ops.full(0.0, shape=node.type.shape, dtype=node.type.dtype).node
                continue
            args = tuple(new[a] if isinstance(a, Node) else a for a in node.args)
            new[node] = builder.copy(node, args).node
    return builder.finish(new.get(output) for output in joint.input_gradients)


def test_forward_and_backward_graphs_share_one_loop_that_keeps() -> None:
    """The partition saves stacks; backward has the loop that runs back, and no other."""
    joint = differentiate(looped(False), (True,) * 5)
    cut = partition(_optimized(joint))
    for half, turned in ((cut.forward, False), (cut.backward, True)):
        (loop,) = loops.loops_of(half)
        assert turned == loop.backwards
    assert any(len(node.type.shape) == 2 for node in cut.saved if node.type.shape[0] == TURNS)


def _optimized(joint: Joint) -> Joint:
    return replace(joint, graph=optimize(joint.graph))


def test_second_derivatives_are_those_of_the_turns() -> None:
    """The loop that runs back is differentiated as any other."""
    results = []
    for graph in (looped(False), unrolled(False)):
        joint = differentiate(graph, (True,) * 5)
        first = Graph("first", joint.graph.nodes, joint.input_gradients[:4])
        twice = differentiate(first, (True,) * len(first.inputs))
        found = interpret.run(twice.graph, arrays(twice.graph))
        results.append([0.0 if x is None else x for x in found])
    assert_close(*results)


def test_gradients_of_two_dtypes_are_refused() -> None:
    """They are not summed in one value."""
    single = TensorType((3,), dtypes.float32)
    body = Builder("turn")
    x, y = body.placeholder("x", VECTOR), body.placeholder("y", single)
    loop = loops.Loop(
        body.finish([ops.mul(x, 2.0), ops.mul(y, 2.0)]), (), 2, active=(True, True),
        gradients=gradients,
        unit=dtypes.float64,
    )  # fmt: skip
    builder = Builder("whole")
    inputs = builder.placeholder("x", VECTOR), builder.placeholder("y", single)
    graph = builder.finish(loops.append(builder, loop, 5, True, inputs)[:2])
    with pytest.raises(UnsupportedError, match="one dtype"):
        differentiate(graph, (True, True))


def test_what_turns_need_is_what_counts_as_saved() -> None:
    """Not all operands: `y` and what is added to may be written before backward."""
    saved = {use.value.name for use in find_saved(looped(False), (True,) * 5).uses}
    assert {"x", "all_rows", "w", "table"} == saved


def test_texts_and_data_tell_what_is_stacked_and_turned() -> None:
    """The name on disk, and what is read back."""
    texts = {
        keys.graph_text(graph)
        for graph in (looped(False), looped(True), looped(False, (True,) * 4 + (False,)))
    }
    assert len(texts) == 3
    given = arrays(looped(True))
    started = pipeline.start_compile(looped(True))
    blueprint = pipeline.from_data(pipeline.to_data(started.blueprint))
    assert blueprint is not None
    expected = interpret.run(unrolled(True), given)
    assert_close(expected, pipeline.start_build(blueprint)()(*given))


def test_parts_of_one_loop_do_not_share_memory() -> None:
    """Results of a loop that are asked for twice, or are what the loop was given."""
    body = Builder("turn")
    x, y = (body.placeholder(name, VECTOR) for name in ("x", "y"))
    loop = loops.Loop(body.finish([ops.add(x, y), y]), (), 2)
    builder = Builder("whole")
    x, y = (builder.placeholder(name, VECTOR) for name in ("x", "y"))
    whole = builder.call(
        loops.LOOP, [True, ops.mul(x, 1.0), ops.mul(y, 1.0)], {"loop": loop, "limit": 4}
    )
    parts = [builder.call(loops.PART, [whole], loops.part_of(loop, 4, n)) for n in (0, 0, 1, 1)]
    program = pipeline.compile_graph(builder.finish(parts))
    found = program(np.ones(3), np.arange(3.0))
    assert_close([1 + 4 * np.arange(3.0)] * 2 + [np.arange(3.0)] * 2, found)
    assert not any(np.shares_memory(a, b) for k, a in enumerate(found) for b in found[:k])
