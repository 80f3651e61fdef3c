"""Unneeded nodes go; inputs and everything that an output needs stay."""

from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ops import TABLE as ops


def test_unneeded_nodes_are_dropped(record, body_of) -> None:
    """A chain that leads nowhere goes; unused inputs stay."""

    def function(x, y):
        ops.exp(ops.neg(y))
        return ops.sin(x)

    graph = eliminate_dead_code(record(function, x=(2,), y=(2,)))

    assert ["sin = ops.sin(x)", "return (sin,)"] == body_of(graph)
    assert ["x", "y"] == [node.name for node in graph.inputs]


def test_a_graph_without_dead_code_is_returned_as_it_is(record) -> None:
    """Nothing is rebuilt for nothing."""
    graph = record(lambda x: ops.sin(x), x=(2,))

    assert graph is eliminate_dead_code(graph)
