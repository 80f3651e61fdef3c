"""Have what several rows start one after the other travel together, as one.

Only on demand (`compile(options={"merge_collectives": True})`): what a process sends must be what
all others expect, and a process cannot see from its own graph what theirs are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node
from dynajit.ir.rebuild import keep
from dynajit.ops.table.op_table import TABLE, Op, awaits, starts

MOST_BYTES: Final = 1 << 18
"""Of what travels together: beyond it a message takes longer than what its start costs (some ten
microseconds), and what could be on its way waits for what is not there yet."""


def merge_transfers(graph: Graph) -> Graph:
    """The graph in which small transfers of one kind that follow each other are one.

    Their operands lie one after the other in one array, and what arrives is taken apart. Those
    merge that are started directly one after the other, none for the result of another, with the
    same attributes, and whose sizes are known; each is waited for in this graph.

    Requires: rows that are expanded. Ensures: what is started is started in the same order.
    """
    runs = [run for run in _runs(graph) if len(run) > 1]
    return _merged(graph, runs) if runs else graph


def count_of(graph: Graph) -> tuple[int, int]:
    """How many transfers the program has, and how many are started."""
    started = [node for node in graph.calls if starts(node.op)]
    return sum(len(node.attributes.get("parts") or (0,)) for node in started), len(started)


def _runs(graph: Graph) -> Iterator[list[Node]]:
    """Nodes that may start together, in order."""
    users = graph.users()
    run: list[Node] = []
    following: set[Node] = set()  # what is computed of something that the run starts
    for node in graph.calls:
        if not starts(node.op):
            if any(a in following or a in run for a in _nodes(node.args)):
                following.add(node)
            continue
        if not (run and _joins(node, run, following)):
            yield run
            run, following = [], set()
        if _may_join(node, users[node]):
            run.append(node)
        else:
            yield run
            run = []
    yield run


def _may_join(node: Node, users: Sequence[Node]) -> bool:
    """Whether a row can start several at once, of known sizes, and one node here waits for it."""
    assert node.op is not None
    source = node.args[0]
    if not node.op.rule.joins or not isinstance(source, Node):
        return False
    waiting = [user for user in users if not starts(user.op)]
    return _bytes(source) <= MOST_BYTES and len(waiting) == 1 and awaits(waiting[0].op)


def _joins(node: Node, run: Sequence[Node], following: Set[Node]) -> bool:
    """Whether a node can start together with those that were started just before it."""
    source = node.args[0]
    if not isinstance(source, Node) or source in following or source in run:
        return False
    return (
        node.args[1] is run[-1]
        and _kind(node) == _kind(run[0])
        and _bytes(source) + sum(_bytes(other.args[0]) for other in run) <= MOST_BYTES
    )


def _kind(node: Node) -> tuple[Op | None, Any, Mapping[str, Any]]:
    type = _type(node)
    return node.op, (type.dtype, type.device), {**node.attributes, "parts": None}


def _type(node: Node) -> TensorType:
    """Of what a node sends."""
    source = node.args[0]
    assert isinstance(source, Node)
    assert isinstance(source.type, TensorType)
    return source.type


def _bytes(source: Argument) -> int:
    """Bytes of a value; more than any for a size that is not known."""
    assert isinstance(source, Node)
    assert isinstance(source.type, TensorType)
    size = source.type.numel
    return size * source.type.dtype.itemsize if isinstance(size, int) else MOST_BYTES + 1


def _nodes(arguments: Iterable[Argument]) -> Iterator[Node]:
    return (argument for argument in arguments if isinstance(argument, Node))


@record(eq=False)
class _Place:
    """Where in what travels together a node's part lies."""

    run: tuple[Node, ...]
    start: int
    count: int


def _merged(graph: Graph, runs: Sequence[Sequence[Node]]) -> Graph:
    places: dict[Node, _Place] = {}
    for run in runs:
        start = 0
        for node in run:
            count = _elements(node)
            places[node] = _Place(tuple(run), start, count)
            start += count
    copy = _Copy(graph, places)
    for node in graph.nodes:
        copy.add(node)
    return copy.builder.finish(copy.new[o] if isinstance(o, Node) else o for o in graph.outputs)


def _elements(node: Node) -> int:
    size = _type(node).numel
    assert isinstance(size, int), "see `_bytes`"
    return size


class _Copy:
    """The new graph. Mutable: nodes are added, each after its arguments.

    Args:
        graph: the old one.
        places: of the nodes that start together.
    """

    def __init__(self, graph: Graph, places: Mapping[Node, _Place]) -> None:
        self.builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
        self.new: dict[Node, Argument] = {}
        self._nodes = graph.nodes
        self._order = {node: place for place, node in enumerate(graph.nodes)}
        self._places = places
        self._arrived: dict[Node, Value] = {}

    def add(self, node: Node) -> None:
        """A node; the first of a run starts all of them."""
        if node in self.new:
            return
        self.builder.location = node.location
        if node in self._places:
            self._start(self._places[node].run)
        elif node.op is not None and awaits(node.op) and node.args[0] in self._places:
            assert isinstance(node.args[0], Node)
            self.new[node] = self._part(self._places[node.args[0]], node.op, node.type)
        else:
            args = tuple(self.new[a] if isinstance(a, Node) else a for a in node.args)
            self.new[node] = keep(self.builder, node, args)

    def _start(self, run: Sequence[Node]) -> None:
        for node in self._needed(run):
            self.add(node)
        sources = [self._value(node.args[0]) for node in run]
        flat = [
            self.builder.call(TABLE.reshape, [source], {"shape": (_elements(node),)})
            for source, node in zip(sources, run, strict=True)
        ]
        whole = self.builder.call(TABLE.cat, flat, {"dim": 0})
        first = run[0]
        assert first.op is not None
        parts = tuple(_elements(node) for node in run)
        named = {**first.attributes, "parts": parts}
        started = self.builder.call(first.op, [whole, self._value(first.args[1])], named)
        for node in run:
            self.new[node] = started.node

    def _needed(self, run: Sequence[Node]) -> list[Node]:
        """What the operands of a run are computed of and is not there yet, in order."""
        needed = set(_nodes(node.args[0] for node in run))
        start, end = self._order[run[0]], self._order[run[-1]]
        between = self._nodes[start + 1 : end]
        for node in reversed(between):
            if node in needed:
                needed.update(_nodes(node.args))
        return [node for node in between if node in needed and node not in run]

    def _part(self, place: _Place, row: Op, type: Any) -> Node:
        first = place.run[0]
        whole = self._arrived.get(first)
        if whole is None:
            started = self._value(first)
            flat = started.node.args[0]
            whole = self.builder.call(row, [started, flat], {})
            self._arrived[first] = whole
        limits = {"start": (place.start,), "stop": (place.start + place.count,), "step": (1,)}
        part = self.builder.call(TABLE.slice, [whole], limits)
        return self.builder.call(TABLE.reshape, [part], {"shape": tuple(type.shape)}).node

    def _value(self, argument: Argument) -> Value:
        found = self.new[argument] if isinstance(argument, Node) else argument
        assert isinstance(found, Node)
        return Value(self.builder, found)
