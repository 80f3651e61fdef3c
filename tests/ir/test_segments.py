"""A graph cut by who computes each node, or by its outputs: parts compute the whole together."""

from typing import Any

import numpy as np
import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret
from dynajit.ir.graph import Builder
from dynajit.ir.segments import Segment, cut, cut_by_outputs
from dynajit.ops.table.op_table import TABLE as ops
from dynajit.ops.table.op_table import Extern, Kind, Op

TYPE = TensorType((3, 3), dtypes.float64)


def parts(function: Any) -> tuple[Segment, ...]:
    """Of `function(x, y)` -> outputs, cut around its inverses."""
    builder = Builder("g")
    outputs = function(builder.placeholder("x", TYPE), builder.placeholder("y", TYPE))
    graph = builder.finish(outputs)
    foreign = {node for node in graph.calls if node.op is not None and node.op.name == "inverse"}
    return cut(graph, foreign)


def names(segment: Segment) -> list[str]:
    return [node.op.name for node in segment.graph.calls if node.op is not None]


def test_parts_alternate_in_the_order_of_their_values() -> None:
    """Each has what it reads of earlier ones as inputs."""
    found = parts(lambda x, y: [ops.exp(ops.inverse(ops.sin(x)))])

    assert [["sin"], ["inverse"], ["exp"]] == list(map(names, found))
    assert [False, True, False] == [part.is_foreign for part in found]
    assert [part.results for part in found[:-1]] == [part.inputs for part in found[1:]]


def test_what_follows_from_inputs_alone_waits_for_its_first_user() -> None:
    """With what it follows from; its result is handed over by no part."""
    found = parts(lambda x, y: [ops.inverse(x) + ops.cos(ops.sin(y))])

    assert [["inverse"], ["sin", "cos", "add"]] == list(map(names, found))


def test_what_a_foreign_node_or_nobody_reads_does_not_wait() -> None:
    """As early as it can be."""

    def function(x: Any, y: Any) -> list[Any]:
        shared = ops.sin(y)
        return [ops.inverse(shared) + shared, ops.cos(y), ops.exp(ops.inverse(x))]

    found = parts(function)

    assert {"sin", "cos"} == set(names(found[0]))
    assert ["inverse", "inverse"] == names(found[1])
    assert {"add", "exp"} == set(names(found[2]))


@pytest.mark.parametrize("starts", [False, True])
def test_what_comes_after_a_row_that_starts_something_runs_after_it(starts: bool) -> None:
    rule = Extern(lambda xp, x: x, starts=starts)
    noted = Op("noted", Kind.EXTERN, ("x",), {}, lambda x: x, rule, {"x": None}, opaque=True)
    builder = Builder("two")
    x = builder.placeholder("x", TYPE)
    first = noted(ops.exp(x))
    graph = builder.finish([ops.add(first, noted(ops.sin(x)))])
    found = cut(graph, frozenset(node for node in graph.calls if node.op is noted))
    if starts:
        assert [["exp"], ["noted"], ["sin"], ["noted"], ["add"]] == list(map(names, found))
    else:
        assert [["exp", "sin"], ["noted", "noted"], ["add"]] == list(map(names, found))


def chain() -> Any:
    """x -> exp -> sin -> cos, each an output, and the exponential's negative, which is none's."""
    builder = Builder("chain")
    x = builder.placeholder("x", TensorType((3,), dtypes.float64))
    a = builder.call(ops.exp, [x], {})
    b = builder.call(ops.sin, [a], {})
    c = builder.call(ops.cos, [b], {})
    builder.call(ops.neg, [a], {})
    return builder.finish([c, a, b, x])


def test_each_part_computes_what_is_new() -> None:
    graph = chain()
    c, a, b, x = graph.outputs
    first, second = cut_by_outputs(graph, [[1, 3], [2, 0]])
    assert (x,) == first.inputs and (a,) == first.results
    assert (a,) == second.inputs and {b, c} == set(second.results)
    assert 1 == len(first.graph.calls) and 2 == len(second.graph.calls)

    given = np.array([0.1, 0.2, 0.3])
    (made,) = interpret.run(first.graph, [given])
    later = dict(zip(second.results, interpret.run(second.graph, [made]), strict=True))
    np.testing.assert_array_equal(np.exp(given), made)
    np.testing.assert_allclose(later[c], np.cos(np.sin(np.exp(given))))


def test_groups_that_are_computed_before_have_no_part() -> None:
    graph = chain()
    (only,) = cut_by_outputs(graph, [[0], [1], [2, 3]])
    assert 3 == len(only.graph.calls)
    assert set(graph.outputs[:3]) == set(only.results)


START = Op(
    "start", Kind.EXTERN, ("x",), {}, lambda x: x,
    Extern(lambda xp, x: x, starts=True), opaque=True,
)  # fmt: skip


def started(function: Any) -> list[list[str]]:
    """Names of the rows of each part of `function(x, indices)`, cut around what it starts."""
    builder = Builder("g")
    indices = builder.placeholder("i", TensorType((3,), dtypes.int64))
    graph = builder.finish(function(builder.placeholder("x", TYPE), indices))
    return list(map(names, cut(graph, {node for node in graph.calls if node.op is START})))


def test_what_may_refuse_its_operands_runs_before_what_is_started_after_it() -> None:
    def function(x: Any, i: Any) -> list[Any]:
        row = ops.index_select(x, i, dim=0)
        return [START(ops.sin(x)), ops.exp(row)]

    assert [["index_select", "sin"], ["start"], ["exp"]] == started(function)


def test_what_may_refuse_its_operands_waits_where_it_comes_after_what_is_started() -> None:
    def function(x: Any, i: Any) -> list[Any]:
        first = START(ops.sin(x))
        return [first, ops.exp(ops.index_select(x, i, dim=0))]

    assert [["sin"], ["start"], ["index_select", "exp"]] == started(function)


WAIT = Op(
    "wait", Kind.EXTERN, ("number",), {}, lambda x: x,
    Extern(lambda xp, x: x, awaits=True), opaque=True,
)  # fmt: skip


def test_what_was_started_is_waited_for_where_its_result_is_read() -> None:
    """More is started, and computed, meanwhile; a result that nobody reads is waited for last."""
    builder = Builder("g")
    x = builder.placeholder("x", TYPE)
    first = START(x)
    arrived, unread = WAIT(first), WAIT(first)
    second = START(ops.sin(x))
    graph = builder.finish([ops.exp(arrived) + WAIT(second), unread])
    found = cut(graph, {node for node in graph.calls if node.op in (START, WAIT)})

    assert [["start"], ["sin"], ["start"], ["wait", "wait", "wait"], ["exp", "add"]] == list(
        map(names, found)
    )


def test_what_needs_no_result_runs_before_anything_is_waited_for() -> None:
    """But for what is to be started."""
    builder = Builder("g")
    x = builder.placeholder("x", TYPE)
    arrived = WAIT(START(x))
    second = START(ops.sin(arrived))
    graph = builder.finish([ops.exp(arrived), ops.cos(WAIT(second)), ops.tan(x), second])
    found = cut(graph, {node for node in graph.calls if node.op in (START, WAIT)})

    assert [["start"], ["wait"], ["sin"], ["start"], ["exp", "tan"], ["wait"], ["cos"]] == list(
        map(names, found)
    )
