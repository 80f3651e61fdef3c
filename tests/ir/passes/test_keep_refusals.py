"""Checks are added where only a part of what may refuse is read, and nowhere else."""

from typing import Any

import numpy as np
import pytest

from dynajit.core.errors import BoundsError
from dynajit.core.types import dtypes
from dynajit.ir.graph import Graph
from dynajit.ir.interpret import run
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.passes.keep_refusals import keep_refusals
from dynajit.ir.passes.simplify_algebra import simplify_algebra
from dynajit.ops import TABLE as ops

X, WHOLE_X, I = (5,), ((5,), dtypes.int64), ((4,), dtypes.int64)


def part(x: Any) -> Any:
    return ops.slice(x, start=(0,), stop=(1,), step=(1,))


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.calls if node.op is not None]


def selected(x: Any, i: Any) -> Any:
    return ops.index_select(x, i, dim=0)


WHOLE = {
    "an output": selected,
    "an operand of an output": lambda x, i: ops.exp(selected(x, i)),
    "summed up": lambda x, i: ops.sum(selected(x, i), dim=(0,), keepdim=False),
    "rearranged": lambda x, i: ops.flip(ops.reshape(selected(x, i), shape=(2, 2)), dims=(0,)),
    "a divisor": lambda x, i: ops.floor_divide(1, i),
    "in order": lambda x, i: part(ops.gather(x, ops.argsort(x, dim=0), dim=0)),
    "greatest": lambda x, i: part(
        ops.expand(selected(x, ops.argmax(x, dim=(0,), keepdim=True)), shape=(3,))),
}  # fmt: skip

PARTS = {
    "a slice": lambda x, i: part(selected(x, i)),
    "an operand of a slice": lambda x, i: part(ops.exp(selected(x, i))),
    "gathered": lambda x, i: part(ops.gather(x, i, dim=0)),
    "indexed": lambda x, i: part(ops.index(x, ops.reshape(i, shape=(1, 4)), dims=(0,))),
    "a divisor": lambda x, i: part(ops.floor_divide(1, i)),
    "in another order": lambda x, i: part(
        ops.gather(ops.reshape(part(x), shape=(1,)), part(ops.argsort(x, dim=0)), dim=0)),
    "a table of a table": lambda x, i: part(selected(selected(x, i), i)),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_computed_as_a_whole_stays_as_it_is(record: Any, name: str) -> None:
    graph = record(WHOLE[name], x=X, i=I)

    assert graph is keep_refusals(graph)


@pytest.mark.parametrize("name", PARTS)
def test_of_what_is_read_in_part_all_is_looked_at(record: Any, name: str) -> None:
    graph = record(PARTS[name], x=X, i=I)
    checked = keep_refusals(graph)

    assert "any" in names(checked)
    x, i = np.arange(5, dtype=np.float32), np.array([1, 3, 2, 1])
    np.testing.assert_array_equal(run(graph, [x, i])[0], run(checked, [x, i])[0])


def test_simplification_drops_no_index(record: Any) -> None:
    graph = record(lambda x, i: ops.mul(selected(x, i), 0), x=WHOLE_X, i=I)
    after = eliminate_dead_code(simplify_algebra(graph))

    assert "index_select" in names(after)
    with pytest.raises(BoundsError):
        run(after, [np.arange(5), np.array([0, 9, 0, 0])])


def test_simplification_drops_what_refuses_nothing(record: Any) -> None:
    graph = record(lambda x, i: ops.mul(ops.neg(i), 0), x=X, i=I)

    assert ["full"] == names(eliminate_dead_code(simplify_algebra(graph)))
