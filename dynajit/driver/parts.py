"""Backward programs that give gradients in several goes, for those who send them on meanwhile.

Contract: the goes of a program together compute what the backward program computes, in an order in
which each computes what the ones before it have not. They are compiled when a backward asks for
them for the first time; nothing of them is kept on disk but what compilers made.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from dynajit.codegen import pipeline as code
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.driver.launches import GraphRecord
from dynajit.ir import sizes
from dynajit.ir.graph import Graph
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ir.partition import size_bytes
from dynajit.ir.segments import Segment, cut_by_outputs

Goes = Iterator[list[tuple[int, Any]]]
"""In each go, (number of the output, its array or None)."""

_REMEMBERED: Final = 8
"""Ways to cut one program that are kept: a few modules may share a function."""


def maker(
    made: GraphRecord,
) -> Callable[[tuple[int, int], tuple[bool, ...]], Callable[..., Goes] | None] | None:
    """What makes the programs of a record: see `in_parts` of `eager.backward.training`; None where
    nothing is generated."""
    if made.backend != "native":
        return None
    return functools.lru_cache(maxsize=_REMEMBERED)(functools.partial(_made, made))


def _made(
    made: GraphRecord, bytes_at_once: tuple[int, int], counted: tuple[bool, ...]
) -> Callable[..., Goes] | None:
    graph = made.backward
    if graph is None or code.is_on_gpu(graph):
        return None
    groups = grouped(graph, bytes_at_once, counted)
    if len(groups) < 2:
        return None
    segments = cut_by_outputs(graph, groups)
    started = [
        code.start_compile(
            segment.graph,
            backend=made.backend,
            name=f"{graph.name}_{place}",
            verify=made.verify,
            launching=made.launching,
        )
        for place, segment in enumerate(segments)
    ]
    steps = [_Step(part, program()) for part, program in zip(segments, started, strict=True)]
    return ProgramInParts(graph, steps, groups)


def grouped(
    graph: Graph, bytes_at_once: tuple[int, int], counted: Sequence[bool]
) -> list[list[int]]:
    """Positions of outputs by the go in which they are there, in the order of the graph's nodes.

    Args:
        bytes_at_once: of counted outputs, from which the first go ends, and each further one.
        counted: per output.
    """
    order = {node: place for place, node in enumerate(graph.nodes)}
    positions = sorted(range(len(graph.outputs)), key=lambda i: _order_of(order, graph.outputs[i]))
    groups: list[list[int]] = []
    group: list[int] = []
    filled = 0
    for position in positions:
        group.append(position)
        output = graph.outputs[position]
        if counted[position] and isinstance(output, Node) and _is_sized(output):
            filled += size_bytes(output.type)
        if filled >= bytes_at_once[min(len(groups), 1)]:
            groups.append(group)
            group, filled = [], 0
    return [*groups, group] if group else groups


def _order_of(order: dict[Node, int], output: Argument) -> int:
    return order[output] if isinstance(output, Node) else -1


def _is_sized(node: Node) -> bool:
    return isinstance(node.type, TensorType) and all(isinstance(n, int) for n in node.type.shape)


@record(eq=False)
class _Step:
    """A part of the graph and the program that computes it."""

    segment: Segment
    program: Any


class ProgramInParts:
    """A backward program in several goes. Immutable.

    Args:
        graph: the whole.
        steps: in running order.
        groups: positions of the outputs that each go gives.
    """

    def __init__(
        self, graph: Graph, steps: Sequence[_Step], groups: Sequence[Sequence[int]]
    ) -> None:
        self.graph = graph
        self.steps = tuple(steps)
        self._places = sizes.symbol_places(graph)
        self._given = _by_step(graph, self.steps, groups)
        self._later = _read_later(self.steps)

    def __call__(self, *arguments: Any) -> Goes:
        """The goes; each is computed when it is asked for."""
        known: dict[Node | str, Any] = dict(zip(self.graph.inputs, arguments, strict=True))
        if self._places:
            known.update(sizes.bind(self._places, arguments))
        del arguments
        for step, given, later in zip(self.steps, self._given, self._later, strict=True):
            yield self._go(step, given, later, known)

    def _go(
        self,
        step: _Step,
        given: Sequence[int],
        later: frozenset[Node],
        known: dict[Node | str, Any],
    ) -> list[tuple[int, Any]]:
        """Run a step; only what is read later is kept, so that results belong to who gets them."""
        segment = step.segment
        results = step.program(*(known[name] for name in segment.inputs))
        found = dict(zip(segment.results, results, strict=True))
        part = [(i, _value(self.graph.outputs[i], found, known)) for i in given]
        known.update((node, array) for node, array in found.items() if node in later)
        return part


def _by_step(
    graph: Graph, steps: Sequence[_Step], groups: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Outputs that are there after each step: those that are no results at all after the first."""
    maker_of = {node: place for place, step in enumerate(steps) for node in step.segment.results}
    found: list[list[int]] = [[] for _ in steps]
    for position in (position for group in groups for position in group):
        output = graph.outputs[position]
        found[maker_of.get(output, 0) if isinstance(output, Node) else 0].append(position)
    return found


def _read_later(steps: Sequence[_Step]) -> list[frozenset[Node]]:
    """Per step, the nodes that steps after it read."""
    found: list[frozenset[Node]] = []
    after: frozenset[Node] = frozenset()
    for step in reversed(steps):
        found.append(after)
        after |= {node for node in step.segment.inputs if isinstance(node, Node)}
    return found[::-1]


def _value(output: Argument, found: dict[Node, Any], known: dict[Node | str, Any]) -> Any:
    if not isinstance(output, Node):
        return output
    if output.kind is NodeKind.CONSTANT:
        return output.value
    return found[output] if output in found else known[output]
