"""One loop is left of two with the same turns, of which one keeps more."""

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir import interpret, loops
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.passes.merge_loops import merge_loops
from dynajit.ir.verify import verify
from dynajit.ops import TABLE as ops

VECTOR = TensorType((3,), dtypes.float32)
TURNS = 5


def _loop(origin: loops.Loop | None = None) -> loops.Loop:
    """x = 2 * x + w, with what is added kept if there is an origin."""
    body = Builder("turn")
    x, w = (body.placeholder(name, VECTOR) for name in ("x", "w"))
    kept = [ops.mul(x, 2.0)]
    outputs = [ops.add(kept[0], w), *(kept if origin else [])]
    return loops.Loop(body.finish(outputs), (), 1, 1 if origin else 0, origin=origin)


def _graph(*, detached: bool = False, other: bool = False, whole: bool = False) -> Graph:
    """Results of a loop, then of one that keeps more of it."""
    builder = Builder("whole")
    x, w = (builder.placeholder(name, VECTOR) for name in ("x", "w"))
    first = _loop()
    contents = builder.call(loops.LOOP, [True, x, w], {"loop": first, "limit": TURNS})
    found = [builder.call(loops.PART, [contents], loops.part_of(first, TURNS, n)) for n in (0, 1)]
    given = ops.detach(w) if detached else x if other else w
    found += loops.append(builder, _loop(first), TURNS, True, [x, given])
    return builder.finish([*found, contents] if whole else found)


def _count(graph: Graph) -> int:
    return len(list(loops.loops_of(graph)))


def test_the_loop_that_keeps_more_takes_the_others_place() -> None:
    """Also where its operands are detached; results are the same, the number of turns, too."""
    given = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    for graph in (_graph(), _graph(detached=True)):
        merged = merge_loops(graph)
        verify(merged)
        assert (2, 1) == (_count(graph), _count(merged))
        expected, found = (interpret.run(x, given) for x in (graph, merged))
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)


def test_other_operands_and_other_readers_keep_both() -> None:
    """A loop of other values; one whose bytes are a result."""
    for graph in (_graph(other=True), _graph(whole=True)):
        assert merge_loops(graph) is graph
