"""Leave one of two loops where one gives what the other gives, and keeps more of each turn."""

from typing import Any

from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import LOOP, PART, Loop, part_of
from dynajit.ir.node import Argument, Node
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ops.table.op_table import TABLE


def merge_loops(graph: Graph) -> Graph:
    """The graph in which a loop is run once whose derivative runs it again to keep values.

    Requires: no derivative of the graph is taken later.
    Ensures: of a loop and one that it is the origin of (`Loop.origin`), or that is the same, with
    the same operands, the latter runs, in the former's place.
    """
    found = pairs(graph)
    if not found:
        return graph
    instead = {id(keeping): first for first, keeping in found.items()}
    new: dict[Node, Node] = {}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        first = instead.get(id(node))
        if first is not None:
            return new[first]
        if node in found:
            named = found[node].attributes
            made = builder.call(LOOP, args, named, node.location, node.name)
            new[node] = made.node
            return made
        if node.op is PART and node.args[0] in found:
            first = node.args[0]
            assert isinstance(first, Node)
            named = _moved(node, first.attributes, found[first].attributes["loop"])
            return builder.call(PART, args, named, node.location, node.name)
        return keep(builder, node, args)

    return rebuild(graph, visit)


def pairs(graph: Graph) -> dict[Node, Node]:
    """Loop of which only parts are read -> the first that keeps more of the same turns."""
    loops = [node for node in graph.calls if node.op is LOOP]
    if not any(node.attributes["loop"].origin or node.attributes["loop"].tests for node in loops):
        return {}
    users, found = graph.users(), dict[Node, Node]()
    for keeping in loops:
        for first in loops:
            if first is keeping:
                break
            other: Loop = keeping.attributes["loop"]
            is_origin = first.attributes["loop"] in (other.origin, other)
            if not is_origin or first in found or first in found.values():
                continue
            in_parts = all(user.op is PART for user in users[first]) and first not in graph.outputs
            if in_parts and _same_operands(first, keeping):
                found[first] = keeping
    return found


def _same_operands(first: Node, keeping: Node) -> bool:
    if first.attributes["limit"] != keeping.attributes["limit"]:
        return False
    return all(
        held(a) is held(b) for a, b in zip(first.args, keeping.args, strict=True)
    )  # fmt: skip


def held(argument: Argument) -> Argument:
    """What an argument holds, whoever asks for its gradient."""
    while isinstance(argument, Node) and argument.op is TABLE.detach:
        argument = argument.args[0]
    return argument


def _moved(part: Node, first: Any, keeping: Loop) -> Any:
    """The attributes of a part of the loop that keeps more."""
    loop, limit = first["loop"], first["limit"]
    count = loop.carried + loop.collected
    if part.attributes != part_of(loop, limit, count):
        return part.attributes
    return part_of(keeping, limit, keeping.carried + keeping.collected)
