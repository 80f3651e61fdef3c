"""Loops of graphs: run, keyed, printed and compiled, with the results of Python's own loop."""

import numpy as np
import pytest

from dynajit.codegen import pipeline
from dynajit.core.errors import ShapeError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir import interpret, keys, loops
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.pipeline import optimize
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

VECTOR = TensorType((4,), dtypes.float32)


def _body() -> Graph:
    """x * a + number."""
    builder = Builder("body")
    number = builder.placeholder("number", ScalarType(Category.INTEGER))
    x, a = builder.placeholder("x", VECTOR), builder.placeholder("a", VECTOR)
    made = ops.add(ops.mul(x, a), number)
    return builder.finish([made, made])


def _graph(limit: int, numbers: loops.Steps | loops.Listed, collected: int = 0) -> Graph:
    builder = Builder("whole")
    x, a = builder.placeholder("x", VECTOR), builder.placeholder("a", VECTOR)
    loop = loops.Loop(_body(), (numbers,), 1, collected)
    return builder.finish(loops.append(builder, loop, limit, True, [ops.mul(x, 2.0), a]))


def _expected(limit: int, numbers: list[int]) -> tuple[np.ndarray, list[np.ndarray]]:
    x, a = _inputs()
    x, seen = x * 2, []
    for turn in range(limit):
        x = x * a + np.float32(numbers[turn])
        seen.append(x)
    return x, seen


def _inputs() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(4, dtype=np.float32), np.full(4, 0.5, np.float32)


@pytest.mark.parametrize("limit", [0, 1, 2, 100])
def test_a_loop_runs_as_often_as_it_says(limit: int) -> None:
    """Interpreted and compiled, with what each turn gives."""
    graph = _graph(limit, loops.Steps(2, 3), collected=1)
    verify(graph)
    expected, seen = _expected(limit, [2 + 3 * turn for turn in range(limit)])
    for found in (interpret.run(graph, _inputs()), pipeline.compile_graph(graph)(*_inputs())):
        np.testing.assert_allclose(found[0], expected, rtol=1e-6)
        np.testing.assert_allclose(found[1], np.reshape(seen, (limit, 4)), rtol=1e-6)
        assert limit == int(found[2])


def test_a_loop_ends_when_its_body_says_so() -> None:
    """Halved until no more than 1; the number of turns depends on the data."""
    body = Builder("body")
    x = body.placeholder("x", VECTOR)
    halved = ops.mul(x, 0.5)
    sum_ = ops.sum(halved, dim=(0,), keepdim=False)
    turn = body.finish([halved, ops.gt(sum_, 1.0)])
    builder = Builder("whole")
    x = builder.placeholder("x", VECTOR)
    go = ops.gt(ops.sum(x, dim=(0,), keepdim=False), 1.0)
    loop = loops.Loop(turn, (), 1, tests=True)
    graph = builder.finish(loops.append(builder, loop, -1, go, [x]))
    program = pipeline.compile_graph(graph)
    for start, turns in ((np.zeros(4), 0), (np.ones(4), 2), (np.full(4, 1000.0), 12)):
        given = start.astype(np.float32)
        for found in (interpret.run(graph, [given]), program(given)):
            assert turns == int(found[1])
            np.testing.assert_array_equal(found[0], given / 2**turns)


def test_equal_loops_have_equal_texts_and_others_do_not() -> None:
    """What is kept on disk is named by them."""
    first, same, other = (_graph(9, loops.Steps(1, step)) for step in (1, 1, 2))
    listed = _graph(9, loops.Listed(tuple(range(9))))
    assert keys.graph_text(first) == keys.graph_text(same)
    assert len({keys.graph_text(graph) for graph in (first, other, listed)}) == 3


def test_programs_with_loops_are_kept_on_disk() -> None:
    """As data, and back."""
    started = pipeline.start_compile(_graph(30, loops.Listed(tuple(range(30)))))
    blueprint = pipeline.from_data(pipeline.to_data(started.blueprint))
    assert blueprint is not None
    found = pipeline.start_build(blueprint)()(*_inputs())
    np.testing.assert_allclose(found[0], _expected(30, list(range(30)))[0], rtol=1e-6)


def test_passes_leave_a_loop_as_it_is() -> None:
    """Two reads of one result are one; the loop stays."""
    graph = optimize(_graph(20, loops.Steps(0, 1)))
    assert [1, 1] == [sum(node.op is op for node in graph.calls) for op in (loops.LOOP, ops.mul)]
    assert "def loop_body(" in str(graph)


def test_a_turn_that_hands_on_something_else_is_refused() -> None:
    """Of another shape."""
    body = Builder("body")
    x = body.placeholder("x", VECTOR)
    loop = loops.Loop(body.finish([ops.sum(x, dim=(0,), keepdim=False)]), (), 1)
    builder = Builder("whole")
    x = builder.placeholder("x", VECTOR)
    with pytest.raises(ShapeError, match="hands on"):
        loops.append(builder, loop, 3, True, [x])
