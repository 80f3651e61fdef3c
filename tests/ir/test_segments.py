"""Parts of a graph: as few as the order allows, but for rows that start what goes on meanwhile."""

from typing import Any

import pytest

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder
from dynajit.ir.node import Node
from dynajit.ir.segments import cut
from dynajit.ops import TABLE as ops
from dynajit.ops.table.op_table import Extern, Kind, Op

KIND = TensorType((4,), dtypes.float32)


def library_row(starts: bool) -> Op:
    rule = Extern(lambda xp, x: x, starts=starts)
    return Op("noted", Kind.EXTERN, ("x",), {}, lambda x: x, rule, {"x": None}, opaque=True)


@pytest.mark.parametrize(("starts", "expected"), [(False, 3), (True, 5)])
def test_what_comes_after_a_row_that_starts_something_runs_after_it(
    starts: bool, expected: int
) -> None:
    builder = Builder("two")
    x = builder.placeholder("x", KIND)
    noted = library_row(starts)
    first = noted(ops.exp(x))
    later = ops.sin(x)
    second = noted(later)
    graph = builder.finish([ops.add(first, second)])
    foreign = frozenset(node for node in graph.calls if node.op is noted)
    parts: list[list[Any]] = [
        [node.op.name for node in part.graph.calls if isinstance(node, Node)]
        for part in cut(graph, foreign)
    ]
    assert expected == len(parts)
    if starts:
        assert [["exp"], ["noted"], ["sin"], ["noted"], ["add"]] == parts
    else:
        assert [["exp", "sin"], ["noted", "noted"], ["add"]] == parts
