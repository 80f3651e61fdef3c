"""The one helper of passes that change nodes: walk a graph and build a new one.

Contract: nodes that a visitor keeps are shared with the old graph (same object, same name) when
their arguments are, otherwise copied with new arguments under their old name and location. Nodes
that a visitor adds get the location of the node that they replace. The old graph is not touched.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node
from dynajit.ops.table import dispatch

Visitor: TypeAlias = Callable[[Builder, Node, tuple[Argument, ...]], Any]


def rebuild(graph: Graph, visit: Visitor, builder: Builder | None = None) -> Graph:
    """The graph in which every node is what `visit` made of it.

    Args:
        graph: the old graph.
        visit: `visit(builder, node, args)` -> value, node or number in the new graph that stands
            for `node`; `args` are the node's arguments in the new graph. `keep` is the visitor
            that changes nothing. Rows called on `Value(builder, arg)` are recorded, and so are
            rows without operands.
        builder: of the new graph; by default a plain one with all old names reserved.
    """
    if builder is None:
        builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
    new: dict[Node, Argument] = {}
    with dispatch.recording(builder.handle):
        for node in graph.nodes:
            args = tuple(new[a] if isinstance(a, Node) else a for a in node.args)
            builder.location = node.location
            replacement = visit(builder, node, args)
            new[node] = replacement.node if isinstance(replacement, Value) else replacement
    return builder.finish(new[o] if isinstance(o, Node) else o for o in graph.outputs)


def keep(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Node:
    """`node` in the new graph: itself if its arguments did not change, else a copy."""
    if all(new is old for new, old in zip(args, node.args, strict=True)):
        return builder.adopt(node).node
    return builder.copy(node, args).node


def as_operand(builder: Builder, argument: Argument) -> Any:
    """An argument of the new graph as an operand that rows can be called on."""
    return Value(builder, argument) if isinstance(argument, Node) else argument
