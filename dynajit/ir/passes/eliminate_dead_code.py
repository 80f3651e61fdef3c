"""Drop the nodes that no output needs."""

from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind


def eliminate_dead_code(graph: Graph) -> Graph:
    """The graph without nodes from which no path leads to an output.

    Requires: nothing.
    Ensures: every node but a placeholder is needed by an output; placeholders all stay, because
    callers pass inputs by position. The remaining nodes are the same objects.
    """
    needed = {output for output in graph.outputs if isinstance(output, Node)}
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(argument for argument in node.args if isinstance(argument, Node))
    kept = tuple(
        node for node in graph.nodes if node in needed or node.kind is NodeKind.PLACEHOLDER
    )
    return graph if len(kept) == len(graph.nodes) else Graph(graph.name, kept, graph.outputs)
