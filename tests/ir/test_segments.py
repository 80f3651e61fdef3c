"""A graph cut by who computes each node."""

from typing import Any

import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.segments import Segment, cut
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
