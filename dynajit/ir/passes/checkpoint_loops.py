"""Run a loop in segments, so that backward needs what is kept of one segment's turns at a time.

What a loop's derivative keeps of each turn (`ir.loop_derivatives`) is computed again, segment by
segment from the last, out of what was carried into the segment. `checkpoint_loops` does that where
a memory budget asks for it; the segments share the graphs of their turns.

Source: Griewank and Walther, "Evaluating Derivatives", chapter 12, for one level of checkpoints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import numel
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.loops import LOOP, PART, Loop, part_of
from dynajit.ir.node import Argument, Node, type_of
from dynajit.ir.passes.merge_loops import held, pairs
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.table.op_table import TABLE

#: Segments of one loop: more would make graphs large, and save little.
MOST_SEGMENTS: Final = 64


@record
class Checkpointed:
    """What `checkpoint_loops` made.

    Args:
        graph: the same results.
        bytes: how many fewer are kept for backward.
    """

    graph: Graph
    bytes: int


@record
class _Plan:
    """A loop and its derivative, and how they are cut.

    Args:
        forward, keeping, back: nodes of the loop, of the one that keeps more, of the one that runs
            back.
        starts: the first turn of each segment, and the number of turns.
        bytes: how many fewer are kept.
    """

    forward: Node
    keeping: Node
    back: Node
    starts: Sequence[int]
    bytes: int

    @property
    def segments(self) -> list[tuple[int, int]]:
        """The first turn of each, and the one behind its last."""
        return [*zip(self.starts[:-1], self.starts[1:], strict=True)]


def checkpoint_loops(graph: Graph, budget: float) -> Checkpointed:
    """The graph with loops in segments.

    Args:
        graph: a joint graph, or one that holds a whole training step; before `merge_loops`.
        budget: from 0 to 1: of the bytes that a loop would keep so many may be, or as few as can.
    """
    plans = list(_plans(graph, budget))
    if not plans:
        return Checkpointed(graph, 0)
    return Checkpointed(rebuild(graph, _Cutting(plans)), sum(plan.bytes for plan in plans))


def _plans(graph: Graph, budget: float) -> Iterator[_Plan]:
    users = graph.users()
    for forward, keeping in pairs(graph).items():
        back = _reader(keeping, users)
        nodes = (forward, keeping) if back is None else (forward, keeping, back)
        is_read_in_parts = all(user.op is PART for node in nodes for user in users[node])
        outputs = set(graph.outputs)
        if back is None or not is_read_in_parts or outputs.intersection(nodes):
            continue
        if any(output in outputs for part in users[keeping] for output in (part, *users[part])):
            continue
        if _is_plain(forward, keeping, back):
            found = _cut(forward, keeping, budget)
            if found is not None:
                yield _Plan(forward, keeping, back, *found)


def _reader(keeping: Node, users: dict[Node, list[Node]]) -> Node | None:
    """The one loop that reads what is kept."""
    found = {reader for part in users[keeping] for reader in users[part]}
    while any(node.op is TABLE.detach for node in found):
        inner = {node for node in found if node.op is TABLE.detach}
        found = (found - inner) | {reader for node in inner for reader in users[node]}
    (only, *others) = found or (None,)
    return None if others or only is None or only.op is not LOOP else only


def _is_plain(forward: Node, keeping: Node, back: Node) -> bool:
    """Whether a loop reads nothing by turn, and its derivative reads what is kept first."""
    loop: Loop = forward.attributes["loop"]
    other: Loop = back.attributes["loop"]
    more: Loop = keeping.attributes["loop"]
    if loop.stacked or loop.tests or loop.backwards or not other.backwards:
        return False
    limit, first = forward.attributes["limit"], loop.carried + loop.collected
    if other.stacked < _kept(loop, more) or back.attributes["limit"] != limit:
        return False
    read = back.args[1 + other.carried :][: _kept(loop, more)]
    return all(
        isinstance(part := held(argument), Node)
        and part.args[0] is keeping
        and part.attributes == part_of(more, limit, first + number)
        for number, argument in enumerate(read)
    )


def _kept(loop: Loop, more: Loop) -> int:
    """How many values of each turn a loop keeps beyond what another one collects."""
    return more.collected - loop.collected


def _cut(forward: Node, keeping: Node, budget: float) -> tuple[list[int], int] | None:
    """Where segments begin, and the bytes that they save; None: the loop fits as it is."""
    loop: Loop = forward.attributes["loop"]
    more: Loop = keeping.attributes["loop"]
    turns = forward.attributes["limit"]
    sizes = [_bytes(type_of(output)) for output in more.body.outputs]
    carried = sum(sizes[: loop.carried])
    kept = sum(sizes[loop.carried + loop.collected :][: _kept(loop, more)])

    def needed(count: int) -> int:
        """What is there at once: what the last segment keeps stays until backward is over."""
        together = min(count, 2)
        total: int = (count - 1) * carried + together * -(-turns // count) * kept
        return total

    counts = range(1, min(MOST_SEGMENTS, turns) + 1)
    fitting = (count for count in counts if needed(count) <= budget * turns * kept)
    best = next(fitting, None) or min(counts, key=needed, default=1)
    if best == 1:
        return None
    length = -(-turns // best)
    starts = [*range(0, turns, length), turns]
    left = (len(starts) - 2) * carried + (turns - starts[-2]) * kept
    return starts, turns * kept - left


def _bytes(type: Any) -> int:
    found: int = numel(type.shape) * type.dtype.itemsize
    return found


class _Cutting:
    """The visitor of one run. Mutable: knows what the nodes of plans became."""

    def __init__(self, plans: Sequence[_Plan]) -> None:
        self._forward = {plan.forward: plan for plan in plans}
        self._back = {plan.back: plan for plan in plans}
        self._gone: set[Argument] = {plan.keeping for plan in plans}
        #: Results of loops that were cut.
        self._results: dict[Argument, list[Any]] = {}
        #: What is carried into each segment, and what is fixed, by the loop's node.
        self._points: dict[Node, tuple[list[list[Any]], list[Any]]] = {}
        #: By the loop's node and the first turn.
        self._segments: dict[tuple[Node, int], Loop] = {}

    def __call__(self, builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        builder.location = node.location
        if node in self._gone or (node.op in (PART, TABLE.detach) and node.args[0] in self._gone):
            self._gone.add(node)
            return None
        if node in self._forward:
            return self._run(builder, self._forward[node], args)
        if node in self._back:
            return self._run_back(builder, self._back[node], args)
        if node.op is PART and node.args[0] in self._results:
            return self._result(node)
        return keep(builder, node, args)

    def _result(self, part: Node) -> Any:
        """What stands for a part of a loop that was cut."""
        node = part.args[0]
        assert isinstance(node, Node)
        loop, limit = node.attributes["loop"], node.attributes["limit"]
        known = self._results[node]
        for number, value in enumerate(known):
            if part.attributes == part_of(loop, limit, number):
                return value
        return TABLE.full(limit, shape=(), dtype=dtypes.int64)

    def _run(self, builder: Builder, plan: _Plan, args: Sequence[Argument]) -> None:
        """The loop, segment by segment."""
        loop: Loop = plan.forward.attributes["loop"]
        operands = [as_operand(builder, argument) for argument in args[1:]]
        carried, fixed = operands[: loop.carried], operands[loop.carried :]
        points: list[list[Any]] = []
        rows: list[list[Value]] = []
        for first, last in plan.segments:
            points.append(carried)
            part = loop.segment(first, last)
            self._segments[plan.forward, first] = part
            found = _results(builder, part, last - first, [args[0], *carried, *fixed])
            carried = found[: loop.carried]
            rows.append(found[loop.carried :])
        self._points[plan.forward] = points, fixed
        self._results[plan.forward] = [*carried, *_joined(rows)]

    def _run_back(self, builder: Builder, plan: _Plan, args: Sequence[Argument]) -> None:
        """The loop that runs back; each segment is computed again in front of it."""
        loop: Loop = plan.forward.attributes["loop"]
        more: Loop = plan.keeping.attributes["loop"]
        back: Loop = plan.back.attributes["loop"]
        points, fixed = self._points[plan.forward]
        operands = [as_operand(builder, argument) for argument in args[1:]]
        carried = operands[: back.carried]
        seeds = operands[back.carried : back.carried + back.stacked][_kept(loop, more) :]
        others = operands[back.carried + back.stacked :]
        rows: list[list[Value]] = []
        for (first, last), point in zip(plan.segments[::-1], points[::-1], strict=True):
            is_last = last == plan.starts[-1]
            origin = self._segments[plan.forward, first] if is_last else None
            again = replace(more.segment(first, last), origin=origin, repeats=not is_last)
            count = last - first
            kept = _results(builder, again, count, [args[0], *point, *fixed])
            kept = kept[loop.carried + loop.collected :]
            own = [_rows(seed, first, last) for seed in seeds]
            given = [args[0], *carried, *kept, *own, *others]
            found = _results(builder, back.segment(first, last), count, given)
            carried = found[: back.carried]
            rows.append(found[back.carried :])
        self._results[plan.back] = [*carried, *_joined(rows[::-1])]


def _joined(rows: Sequence[Sequence[Value]]) -> list[Any]:
    """What segments collect, from the first to the last, as the loop does."""
    return [TABLE.cat(*parts, dim=0) for parts in zip(*rows, strict=True)]


def _rows(value: Any, first: int, last: int) -> Any:
    """Those of a segment."""
    shape = value.shape
    start, stop = (first, *(0,) * (len(shape) - 1)), (last, *shape[1:])
    return TABLE.slice(value, start=start, stop=stop, step=(1,) * len(shape))


def _results(builder: Builder, loop: Loop, limit: int, operands: Sequence[Any]) -> list[Value]:
    """A loop, and all that it gives but the number of turns."""
    contents = builder.call(LOOP, operands, {"loop": loop, "limit": limit})
    return [
        builder.call(PART, [contents], part_of(loop, limit, number))
        for number in range(loop.carried + loop.collected)
    ]


__all__ = ["Checkpointed", "checkpoint_loops"]
