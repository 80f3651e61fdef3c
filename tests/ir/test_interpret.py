"""Graphs run on arrays, and replay on anything that rows accept."""

import numpy as np
import pytest

from dynajit.core.errors import InternalError
from dynajit.ir.graph import Builder
from dynajit.ir.interpret import replay, run
from dynajit.ops import TABLE as ops
from dynajit.ops.evaluate import evaluate


def test_run_expands_composites(record, samples) -> None:
    """Arrays in, arrays out."""
    graph = record(lambda x: ops.softmax(x, dim=1), x=(2, 3))
    (found,) = run(graph, samples(graph))

    np.testing.assert_allclose(found.sum(axis=1), [1, 1], rtol=1e-6)


def test_run_takes_another_evaluator(record, samples) -> None:
    """Called once per node, in order."""
    graph = record(lambda x: ops.exp(ops.neg(x)), x=(2, 3))
    seen = []

    def watching(op, args, attributes):
        seen.append(op.name)
        return evaluate(op, args, attributes)

    run(graph, samples(graph), watching)

    assert ["neg", "exp"] == seen


def test_literal_outputs_are_returned(record) -> None:
    """Numbers, None and inputs pass through."""
    graph = record(lambda x, n: (x, 3, None, n), x=(2,), n=int)
    x = np.ones(2, np.float32)
    found = run(graph, [x, 7])

    assert x is found[0]
    assert (3, None, 7) == found[1:]


def test_replay_calls_rows(record, body_of) -> None:
    """Replayed on values of a builder, a graph records itself again."""
    graph = record(lambda x: ops.softmax(ops.exp(x), dim=0), x=(2,))
    builder = Builder("again")
    x = builder.placeholder("x", graph.inputs[0].type)
    again = builder.finish(replay(graph, [x]))

    assert body_of(graph) == body_of(again)


def test_replay_makes_operands_of_constants() -> None:
    """By a function that the caller gives."""
    builder = Builder()
    graph = builder.finish([builder.constant(np.ones(2, np.float32))])

    assert ([1.0, 1.0],) == replay(graph, [], constant=lambda array: array.tolist())


def test_the_number_of_inputs_is_checked(record) -> None:
    """A clear refusal."""
    with pytest.raises(InternalError, match="has 1 inputs; 2 given"):
        run(record(lambda x: x, x=(2,)), [1, 2])
