"""A graph as several programs in a row: kernels, and rows that only NumPy has between them.

Contract: `MixedProgram` has the attributes of a native program and gives what one would give. Made
by `codegen.pipeline` for graphs in which a row is a call of a library: all others still have
kernels.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.core.records import record
from dynajit.ir import sizes
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.segments import Segment


@record
class Step:
    """A part of the graph and the program that computes it."""

    segment: Segment
    program: Any


class MixedProgram:
    """See the module. Immutable.

    Args:
        graph: the whole.
        name: for reports.
        steps: in running order.
        reasons: why rows have no kernels, for reports.
    """

    def __init__(
        self, graph: Graph, name: str, steps: Sequence[Step], reasons: Sequence[str]
    ) -> None:
        self.graph = graph
        self.name = name
        self.steps = tuple(steps)
        self.reasons = tuple(reasons)
        self.kernels = tuple(kernel for step in steps for kernel in step.program.kernels)
        self.source = "\n".join(step.program.source for step in steps)
        self.stages = _summed(step.program.stages for step in steps)
        self.from_cache = all(step.program.from_cache for step in steps)
        self.may_fail = True  # a library may refuse its operands
        self.explain = "\n".join(
            [
                *(f"by NumPy between kernels: {reason}" for reason in reasons),
                *(step.program.explain for step in steps if not step.segment.is_foreign),
            ]
        )
        self._places = sizes.symbol_places(graph)
        self._inputs = graph.inputs

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; arrays are new, an output that is an input is that input."""
        known: dict[Node | str, Any] = dict(zip(self._inputs, arguments, strict=True))
        if self._places:
            known.update(sizes.bind(self._places, arguments))
        for step in self.steps:
            results = step.program(*(known[name] for name in step.segment.inputs))
            known.update(zip(step.segment.results, results, strict=True))
        return tuple(_value(output, known) for output in self.graph.outputs)

    def __repr__(self) -> str:
        return f"<MixedProgram {self.name}>"


def _value(output: Any, known: Mapping[Node | str, Any]) -> Any:
    if not isinstance(output, Node):
        return output
    return output.value if output.kind is NodeKind.CONSTANT else known[output]


def _summed(stages: Any) -> dict[str, float]:
    total: dict[str, float] = {}
    for named in stages:
        for name, milliseconds in named.items():
            total[name] = total.get(name, 0.0) + milliseconds
    return total
