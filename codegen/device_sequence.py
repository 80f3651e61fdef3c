"""Programs that are several: pieces of a graph one after the other, and one program per shape.

Contract: the interface of any program (`codegen.started.Program`). Values go from piece to piece as
arrays, wherever they are; one that nobody needs any more is let go. Made by
`codegen.device_pipeline`.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynajit.codegen.device_pieces import Piece
from dynajit.codegen.started import Program
from dynajit.core import any_arrays, gpu, gpu_arrays
from dynajit.core.device import CPU
from dynajit.ir import interpret, sizes
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table import Kind, Op


class RowProgram:
    """One row through CuPy, or a transfer. Immutable.

    Args:
        piece: with one call.
        name: of the graph.
    """

    def __init__(self, piece: Piece, name: str) -> None:
        (self.node,) = piece.graph.calls
        self.graph = piece.graph
        self.device = piece.device
        self.name = name
        self.kernels: tuple[Any, ...] = ()
        self.source = ""
        self.stages: dict[str, float] = {}
        self.from_cache = True
        self.may_fail = True
        self.explain = f"  {self.node.name}: through CuPy on {self.device}"

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The row's result."""
        return interpret.run(self.graph, arguments, evaluate_where_they_are)


class RowsProgram:
    """All rows of a graph through CuPy, or NumPy for those of the CPU, one after the other: where
    no kernels can be made. Immutable.

    Args:
        graph: any graph.
        name: of the graph.
        reason: why there are no kernels; empty if none were asked for.
    """

    def __init__(self, graph: Graph, name: str, reason: str = "") -> None:
        self.graph = graph
        self.name = name
        self.kernels: tuple[Any, ...] = ()
        self.source = str(graph)
        self.stages: dict[str, float] = {}
        self.from_cache = True
        self.may_fail = True
        self.explain = "rows run one after the other through CuPy, nothing is fused."
        if reason:
            self.explain += f"\n  no kernels: {reason}"

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; arrays are new, an output that is an input is that input."""
        results = interpret.run(self.graph, arguments, evaluate_where_they_are)
        return tuple(
            any_arrays.row_major(result) if is_computed(output) else result
            for output, result in zip(self.graph.outputs, results, strict=True)
        )


def is_computed(output: Any) -> bool:
    """Whether an output of a graph is the result of a call."""
    return isinstance(output, Node) and output.kind is NodeKind.CALL


def evaluate_where_they_are(op: Op, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """The result of a row on the device that it names, or that its operands are on."""
    wanted = attributes.get("device")
    on = [gpu.device_of(operand) for operand in operands if gpu.is_gpu_array(operand)]
    place = wanted if wanted is not None else on[0] if on else CPU
    if place.type != "cuda":
        return evaluate(op, operands, attributes)
    if op.kind is Kind.POINTWISE:
        operands = [_by_value(operand) for operand in operands]
    with gpu.on(place.index or 0):
        return evaluate(op, operands, attributes, gpu_arrays.arrays())


def _by_value(operand: Any) -> Any:
    """A zero-dim array of the CPU as a scalar of NumPy; anything else as it is."""
    is_host = hasattr(operand, "ndim") and not gpu.is_gpu_array(operand)
    return operand[()] if is_host and operand.ndim == 0 else operand


class SequenceProgram:
    """Pieces one after the other. Immutable.

    Args:
        graph: the whole.
        name: for reports.
        pieces: in running order.
        programs: of the pieces.
    """

    def __init__(
        self, graph: Graph, name: str, pieces: Sequence[Piece], programs: Sequence[Program]
    ) -> None:
        self.graph = graph
        self.name = name
        self.steps = tuple(zip(pieces, programs, _let_go(graph, pieces), strict=True))
        self.kernels = tuple(kernel for program in programs for kernel in program.kernels)
        self.source = "\n".join(dict.fromkeys(p.source for p in programs if p.source))
        self.stages = _summed(programs)
        self.from_cache = all(program.from_cache for program in programs)
        self.may_fail = any(program.may_fail for program in programs)
        self.explain = "\n".join(
            [f"{len(pieces)} pieces, one after the other", *(p.explain for p in programs)]
        )

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run all pieces."""
        known: dict[Node, Any] = dict(zip(self.graph.inputs, arguments, strict=True))
        for piece, program, finished in self.steps:
            results = program(*(known[node] for node in piece.reads))
            known.update(zip(piece.writes, results, strict=True))
            for node in finished:
                del known[node]
        return tuple(
            o.value if isinstance(o, Node) and o.kind is NodeKind.CONSTANT
            else known[o] if isinstance(o, Node) else o
            for o in self.graph.outputs
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<SequenceProgram {self.name}: {len(self.steps)} pieces>"


def _let_go(graph: Graph, pieces: Sequence[Piece]) -> list[tuple[Node, ...]]:
    """Per piece the values that nothing needs after it."""
    needed = {output for output in graph.outputs if isinstance(output, Node)}
    found: list[tuple[Node, ...]] = []
    for piece in reversed(pieces):
        seen = dict.fromkeys((*piece.reads, *piece.writes))
        found.append(tuple(node for node in seen if node not in needed))
        needed |= set(piece.reads)
    return found[::-1]


def _summed(programs: Sequence[Program]) -> dict[str, float]:
    total: dict[str, float] = {}
    for program in programs:
        for stage, milliseconds in program.stages.items():
            total[stage] = total.get(stage, 0.0) + milliseconds
    return total


class ByShape:
    """A program per set of sizes, made when it is first met. Mutable: programs are added.

    Args:
        graph: with symbolic sizes.
        name: for reports.
        make: gives the program for the values of the symbols.
    """

    def __init__(
        self, graph: Graph, name: str, make: Callable[[Mapping[str, int]], Program]
    ) -> None:
        self.graph = graph
        self.name = name
        self.stages: dict[str, float] = {}
        self.may_fail = True
        self._make = make
        self._places = sizes.symbol_places(graph)
        self._made: dict[tuple[int, ...], Program] = {}
        self._lock = threading.Lock()

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run the program for these sizes."""
        numbers = sizes.bind(self._places, arguments)
        key = tuple(numbers.values())
        program = self._made.get(key)
        if program is None:
            with self._lock:
                program = self._made.get(key)
                if program is None:
                    program = self._made[key] = self._make(numbers)
        return program(*arguments)

    @property
    def kernels(self) -> tuple[Any, ...]:
        """Kernels of the programs made so far."""
        return tuple(kernel for program in self._made.values() for kernel in program.kernels)

    @property
    def source(self) -> str:
        """Texts of the programs made so far."""
        return "\n".join(dict.fromkeys(program.source for program in self._made.values()))

    @property
    def from_cache(self) -> bool:
        """No compiler was run so far."""
        return all(program.from_cache for program in self._made.values())

    @property
    def explain(self) -> str:
        """What was made so far, per set of sizes."""
        lines = [f"sizes vary: one program for each, {len(self._made)} so far"]
        for key, program in self._made.items():
            shown = ", ".join(f"{n} = {v}" for n, v in zip(self._places, key, strict=True))
            lines.append(f"  {shown}: {program.explain}")
        return "\n".join(lines)
