"""A graph as several programs in a row: kernels, and rows that only NumPy has between them.

Contract: `MixedProgram` has the attributes of a native program and gives what one would give. Made
by `codegen.pipeline` for graphs in which a row is a call of a library: all others still have
kernels. `MixedBlueprint` is what can be kept on disk of it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.codegen.run.order import Order, order_of, run_in_order
from dynajit.core.records import record
from dynajit.ir import sizes
from dynajit.ir.graph import Graph
from dynajit.ir.segments import Segment
from dynajit.ir.sizes import Place


@record(eq=False)
class MixedBlueprint:
    """Programs in a row, as data.

    Args:
        name: of the graph.
        places: where the arguments have the symbols that parts read; they follow the arguments.
        order: how parts follow each other.
        parts: the blueprint of a native program each, or the graph of rows that NumPy runs; None
            for what cannot be kept.
        reasons: why rows have no kernels, for reports.
    """

    name: str
    places: Mapping[str, Place]
    order: Order
    parts: tuple[Any, ...]
    reasons: tuple[str, ...]

    @property
    def peak(self) -> None:
        """Not known: see the parts."""
        return None

    @property
    def may_fail(self) -> bool:
        """True: a library may refuse its operands."""
        return True


def blueprint_of(
    graph: Graph,
    name: str,
    segments: Sequence[Segment],
    parts: Sequence[Any],
    reasons: Sequence[str],
) -> MixedBlueprint:
    """The blueprint of a graph that was cut into segments."""
    places = sizes.symbol_places(graph)
    order = order_of(
        graph, (*graph.inputs, *places), [(part.inputs, part.results) for part in segments]
    )
    return MixedBlueprint(name, places, order, tuple(parts), tuple(reasons))


class MixedProgram:
    """See the module. Immutable.

    Args:
        blueprint: how programs follow each other.
        programs: of its parts.
    """

    def __init__(self, blueprint: MixedBlueprint, programs: Sequence[Any]) -> None:
        self.name = blueprint.name
        self.blueprint = blueprint
        self.programs = tuple(programs)
        self.reasons = blueprint.reasons
        self.kernels = tuple(kernel for program in programs for kernel in program.kernels)
        self.source = "\n".join(program.source for program in programs)
        self.stages = _summed(program.stages for program in programs)
        self.from_cache = all(program.from_cache for program in programs)
        self.may_fail = True  # a library may refuse its operands
        self.explain = "\n".join(
            [
                *(f"by NumPy between kernels: {reason}" for reason in self.reasons),
                *(program.explain for program in programs if program.kernels),
            ]
        )

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; arrays are new, an output that is an input is that input."""
        places = self.blueprint.places
        numbers = sizes.bind(places, arguments).values() if places else ()
        return run_in_order(self.blueprint.order, self.programs, (*arguments, *numbers))

    def __repr__(self) -> str:
        return f"<MixedProgram {self.name}>"


def _summed(stages: Any) -> dict[str, float]:
    total: dict[str, float] = {}
    for named in stages:
        for name, milliseconds in named.items():
            total[name] = total.get(name, 0.0) + milliseconds
    return total
