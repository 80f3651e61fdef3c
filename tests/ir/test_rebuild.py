"""Rebuilding shares what does not change and keeps names and locations."""

from dynajit.ir.graph import Value
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ops import TABLE as ops


def test_kept_nodes_are_shared(record) -> None:
    """A visitor that keeps everything gives the same nodes."""
    graph = record(lambda x: ops.exp(ops.neg(x)), x=(2,))

    assert graph.nodes == rebuild(graph, keep).nodes


def test_replacement_has_the_location_of_what_it_replaces(record, body_of) -> None:
    """Users of a replaced node are copied under their names; the old graph is untouched."""
    graph = record(lambda x: ops.exp(ops.neg(x)), x=(2,))

    def visit(builder, node, args):
        if node.op is ops.neg:
            return ops.mul(Value(builder, args[0]), -1)
        return keep(builder, node, args)

    new = rebuild(graph, visit)

    assert ["mul = ops.mul(x, -1)", "exp = ops.exp(mul)", "return (exp,)"] == body_of(new)
    assert {graph.calls[0].location} == {node.location for node in new.calls}
    assert ["neg = ops.neg(x)", "exp = ops.exp(neg)", "return (exp,)"] == body_of(graph)


def test_new_nodes_do_not_take_old_names(record, body_of) -> None:
    """A name that a later kept node has is not given to an added one."""
    graph = record(lambda x: ops.mul(ops.neg(x), 3.0), x=(2,))

    def visit(builder, node, args):
        return (
            ops.mul(Value(builder, args[0]), -1)
            if node.op is ops.neg
            else keep(builder, node, args)
        )

    assert "mul = ops.mul(mul_1, 3.0)" in body_of(rebuild(graph, visit))


def test_a_node_may_become_a_number(record, body_of) -> None:
    """Literals take the place of nodes, also as outputs."""
    graph = record(lambda n: (ops.add(n, 1), n), n=int)

    def visit(builder, node, args):
        return 5 if node.name == "add" else keep(builder, node, args)

    assert ["return (5, n)"] == body_of(rebuild(graph, visit))
