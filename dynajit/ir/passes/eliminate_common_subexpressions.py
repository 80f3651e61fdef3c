"""Compute equal values once."""

from collections.abc import Hashable
from typing import Final

from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Argument, Node, NodeKind, literal_key, storage_root
from dynajit.ir.rebuild import keep, rebuild

# Constants above this size are compared by identity only: hashing them costs more than it saves.
COMPARED_BYTES: Final = 1 << 16


def eliminate_common_subexpressions(graph: Graph) -> Graph:
    """The graph in which of several nodes with the same meaning only the first is left.

    Requires: nothing.
    Ensures: no two nodes have the same op, arguments and attributes (random rows with the same
    seed, offset and shift included), and no two small constants the same value; except that two
    results that leave the graph in different memory stay different, because the caller may write
    to one of them.
    """
    leaving = {storage_root(o) for o in graph.outputs if isinstance(o, Node)}
    first: dict[Hashable, tuple[Node, bool]] = {}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Node:
        key = _key(node, args)
        if key is None:
            return keep(builder, node, args)
        leaves = node in leaving
        found = first.get(key)
        if found is not None and not (leaves and found[1]):
            first[key] = (found[0], leaves or found[1])
            return found[0]
        made = keep(builder, node, args)
        first[key] = (made, leaves)
        return made

    return rebuild(graph, visit)


def _key(node: Node, args: tuple[Argument, ...]) -> Hashable | None:
    """What makes two nodes the same; None for a node that is never shared."""
    if node.kind is NodeKind.PLACEHOLDER:
        return None
    if node.kind is NodeKind.CONSTANT:
        if node.value.nbytes > COMPARED_BYTES or not isinstance(node.type, TensorType):
            return id(node.value)
        return (node.type, node.value.tobytes())
    arguments = tuple(a if isinstance(a, Node) else literal_key(a) for a in args)
    attributes = tuple(literal_key(value) for value in node.attributes.values())
    return (node.op, arguments, attributes)
