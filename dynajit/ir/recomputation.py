"""Compute values again where they are needed late, so that fewer are kept at once.

In a graph that holds a whole training step, what forward keeps for backward are ordinary values. Of
those that are alive where most are, `recompute` keeps so many bytes as a budget allows, and has the
others computed once more in front of their first late reader, by the minimum cut of
`ir.partition`. Library calls are not repeated: their copies would need each other, and all would be
alive at once. Copies have the attributes of their originals, so random numbers are the same; they
read what is kept through `read_again`, which keeps them out of the kernels of their originals.
"""

import functools

from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ir.partition import choose, size_bytes, stored_bytes, within
from dynajit.ops import TABLE


def recompute(graph: Graph, budget: float) -> Graph:
    """The same results, computed by more nodes.

    Args:
        graph: optimised; its order is the one in which it runs.
        budget: from 0 to 1: of the bytes that would be kept where most are alive, so many may be,
            or as few as can be.
    """
    late = set(graph.nodes[_fullest(graph) + 1 :])
    early = [node for node in graph.nodes if node not in late]
    used = {a for node in late for a in node.args if isinstance(a, Node) and a not in late}
    choice = functools.partial(choose, early, used, set(), set(), may_call=False)
    allowed = budget * stored_bytes(choice()[0])
    _, again = within(allowed, choice, len(early))
    return _Copying(graph, late, set(again)).run()


def _fullest(graph: Graph) -> int:
    """The place behind which most bytes are alive of what nodes in front of it have computed."""
    last = {a: i for i, node in enumerate(graph.nodes) for a in node.args if isinstance(a, Node)}
    ends: dict[int, int] = {}
    alive, most, place = 0, -1, 0
    for i, node in enumerate(graph.nodes):
        if node.kind is NodeKind.CALL and node in last and not node.is_view:
            alive += size_bytes(node.type)
            ends[last[node]] = ends.get(last[node], 0) + size_bytes(node.type)
        alive -= ends.pop(i, 0)
        if alive > most:
            most, place = alive, i
    return place


class _Copying:
    """One run. Mutable.

    Args:
        graph: as given.
        late: nodes that read copies.
        again: what they read copies of.
    """

    def __init__(self, graph: Graph, late: set[Node], again: set[Node]) -> None:
        self.graph = graph
        self.late = late
        self.again = again
        self.builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
        self.copies: dict[Node, Node] = {}
        self.kept: dict[Node, Node] = {}

    def run(self) -> Graph:
        """The graph with copies, each in front of its first reader."""
        new: dict[Node, Node] = {}
        for node in self.graph.nodes:
            args = node.args
            if node in self.late:
                args = tuple(self._late(a, new) if isinstance(a, Node) else a for a in args)
            is_same = all(a is b for a, b in zip(args, node.args, strict=True))
            kept = self.builder.adopt(node) if is_same else self.builder.copy(node, args)
            new[node] = kept.node
        return self.builder.finish(new[o] if isinstance(o, Node) else o for o in self.graph.outputs)

    def _late(self, argument: Node, new: dict[Node, Node]) -> Node:
        """An argument of a late node."""
        if argument in self.late:
            return new[argument]
        return self._copy(argument) if self._is_copied(argument) else argument

    def _is_copied(self, node: Node) -> bool:
        return node in self.again and node.kind is NodeKind.CALL

    def _copy(self, node: Node) -> Node:
        if node not in self.copies:
            assert node.op is not None
            args = [self._operand(a) if isinstance(a, Node) else a for a in node.args]
            made = self.builder.call(node.op, args, node.attributes, node.location, node.name)
            self.copies[node] = made.node
        return self.copies[node]

    def _operand(self, argument: Node) -> Argument:
        """What a copy reads: another copy, or what was kept."""
        if self._is_copied(argument):
            return self._copy(argument)
        if argument.kind is NodeKind.CONSTANT or not isinstance(argument.type, TensorType):
            return argument
        if argument not in self.kept:
            read = self.builder.call(TABLE.read_again, [argument], {}, argument.location)
            self.kept[argument] = read.node
        return self.kept[argument]
