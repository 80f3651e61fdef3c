"""Cut a graph into parts that run one after the other, by who computes each node, or by results.

Contract: `cut(graph, foreign)` gives graphs that alternate between nodes out of `foreign` and all
others, as few as their order allows: a foreign node that starts something runs before all that
comes after it in the graph, which goes on meanwhile, and after all that comes before it and may
refuse its operands. `cut_by_outputs` gives a graph per group of
outputs, which computes what the groups before it have not. Together they compute what the graph
computes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from dynajit.core.records import record
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import ScalarType
from dynajit.ir import sizes
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import is_repeated
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.refusals import may_refuse
from dynajit.ops.table.op_table import awaits, starts


@record(eq=False)
class Segment:
    """One part.

    Args:
        graph: of the part. Its inputs are values of the whole graph, then symbols of it.
        is_foreign: its nodes are foreign ones.
        inputs: per input, the node of the whole graph, or the name of the symbol.
        results: per output, the node of the whole graph.
        origins: node of the part -> the node of the whole graph that it stands for.
    """

    graph: Graph
    is_foreign: bool
    inputs: tuple[Node | str, ...]
    results: tuple[Node, ...]
    origins: dict[Node, Node]


def cut(graph: Graph, foreign: Set[Node]) -> tuple[Segment, ...]:
    """The parts, in running order.

    Requires: no node depends on itself. Ensures: the inputs of a part are inputs of the graph,
    constants, or results of earlier parts.
    """
    return _cut(graph, _stages(graph, foreign, graph.users()), lambda stage: stage % 2 == 1)


def cut_by_outputs(graph: Graph, groups: Sequence[Sequence[int]]) -> tuple[Segment, ...]:
    """A part per group of outputs, in their order; none for a group that is computed before.

    Args:
        groups: positions of outputs; each in one group.
    """
    stages: dict[Node, int] = {}
    for stage, group in enumerate(groups):
        waiting = [graph.outputs[position] for position in group]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Node) and node.kind is NodeKind.CALL and node not in stages:
                stages[node] = stage
                waiting.extend(node.args)
    return _cut(graph, stages, lambda stage: False)


def _cut(
    graph: Graph, stages: Mapping[Node, int], is_foreign: Callable[[int], bool]
) -> tuple[Segment, ...]:
    users = graph.users()
    wanted = {output for output in graph.outputs if isinstance(output, Node)}
    found = []
    for stage in sorted(set(stages.values())):
        members = _starting_first([node for node in graph.calls if stages.get(node) == stage])
        results = tuple(
            node
            for node in members
            if node in wanted or any(stages.get(user, stage) != stage for user in users[node])
        )
        found.append(_segment(graph, members, results, is_foreign=is_foreign(stage)))
    return tuple(found)


def _starting_first(members: list[Node]) -> list[Node]:
    """Nodes of a part in an order in which what is started waits only for what it needs."""
    needed: set[Node] = set()
    for node in reversed(members):
        if starts(node.op) or node in needed:
            needed.add(node)
            needed.update(argument for argument in node.args if isinstance(argument, Node))
    return sorted(members, key=lambda node: node not in needed) if needed else members


def _stages(
    graph: Graph, foreign: Set[Node], users: Mapping[Node, Sequence[Node]]
) -> dict[Node, int]:
    """Per computed node its stage: foreign nodes have odd ones. It is the earliest, but what
    follows from inputs alone waits for its first user: it can share that one's kernel, and does
    not lie in memory until then. What may refuse its operands runs before what is started after
    it: nobody else need hear of a call that fails. What nothing that is started needs is waited for
    when all is started."""
    stages: dict[Node, int] = {}
    early: set[Node] = set()
    needed = _needed_to_start(graph)
    last = 0
    for is_needed in (True, False):
        first = started = looked_at = 0
        refusing: list[Node] = []
        for node in graph.calls:
            if (node in needed) is is_needed:
                earliest = max(started, looked_at) if starts(node.op) else first
                if awaits(node.op) and not is_needed:
                    earliest = max(first, last + 2)  # behind what runs meanwhile
                stage = max((earliest, *(stages[a] for a in _computed(node))))
                stages[node] = stage + (stage % 2 != (node in foreign))
            if starts(node.op):
                started, first = stages[node], stages[node] + 1
                last = max(last, started)
                early.update(refusing)
            elif node in needed and _is_check(node):
                refusing.append(node)
                looked_at = max(looked_at, stages[node])
    _wait_late(graph, stages, users)
    for node in reversed(graph.calls):
        if stages[node] == 0 and users[node] and node not in early:
            stages[node] = min(stages[user] - stages[user] % 2 for user in users[node])
    return stages


def _needed_to_start(graph: Graph) -> set[Node]:
    """What runs before something is started: what that is computed of, and what comes before it
    and may refuse its operands."""
    needed: set[Node] = set()
    is_before = False
    for node in reversed(graph.calls):
        is_before = is_before or starts(node.op)
        if starts(node.op) or node in needed or (is_before and _is_check(node)):
            needed.add(node)
            needed.update(_computed(node))
    return needed


def _is_check(node: Node) -> bool:
    """Whether a node may refuse its operands, by itself."""
    return may_refuse(node) and not awaits(node.op)


def _wait_late(graph: Graph, stages: dict[Node, int], users: Mapping[Node, Sequence[Node]]) -> None:
    """Move what waits for something to where its result is read, or to the end: more is started
    meanwhile; and loops whose results are not to lie there until then. All are foreign nodes."""
    last = max(stages.values(), default=1)
    for node in reversed(graph.calls):
        if awaits(node.op) or is_repeated(node):
            read = min((stages[user] for user in users[node]), default=last)
            stages[node] = max(stages[node], read - (read % 2 == 0))


def _computed(node: Node) -> Iterator[Node]:
    return (a for a in node.args if isinstance(a, Node) and a.kind is NodeKind.CALL)


def _segment(
    graph: Graph, members: list[Node], results: tuple[Node, ...], is_foreign: bool
) -> Segment:
    builder = Builder(graph.name)  # every node keeps its name
    own, new = set(members), dict[Node, Node]()
    inputs: list[Node | str] = []
    for node in dict.fromkeys(a for m in members for a in m.args if isinstance(a, Node)):
        if node in own:
            continue
        is_made = node.kind is NodeKind.CALL
        given = Node(NodeKind.PLACEHOLDER, node.name, node.type) if is_made else node
        new[node] = builder.adopt(given).node
        if node.kind is not NodeKind.CONSTANT:
            inputs.append(node)
    for node in members:
        args = tuple(new[a] if isinstance(a, Node) else a for a in node.args)
        new[node] = builder.copy(node, args).node
    part = builder.finish(new[node] for node in results)
    hidden = sorted(sizes.symbols(part) - sizes.symbol_places(part).keys())
    for name in hidden:
        builder.adopt(Node(NodeKind.PLACEHOLDER, name, ScalarType(Category.INTEGER)))
    part = builder.finish(new[node] for node in results)
    origins = {made: node for node, made in new.items()}
    return Segment(part, is_foreign, (*inputs, *hidden), results, origins)
