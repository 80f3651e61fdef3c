"""Programs that are several: pieces of a graph one after the other, and one program per shape.

Contract: the interface of any program (`codegen.compilers.started.Program`). Values go from piece
to piece as arrays, wherever they are; one that nobody needs any more is let go. Made by
`codegen.device.pipeline`.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynajit.codegen.compilers.started import Program
from dynajit.codegen.device.pieces import Piece
from dynajit.codegen.run import order
from dynajit.codegen.run.order import Order
from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import arrays as gpu_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.process import config, determinism, recording
from dynajit.core.records import record
from dynajit.core.types.device import CPU, Device
from dynajit.ir import interpret, sizes
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.evaluate import evaluate
from dynajit.ops.table.op_table import Kind, Op


class _Plain:
    """A program without kernels. Immutable; the attributes that reports read.

    Args:
        name: of the graph.
        explain: what it does.
        source: its text.
    """

    def __init__(self, name: str, explain: str, source: str = "") -> None:
        self.name = name
        self.explain = explain
        self.source = source
        self.kernels: tuple[Any, ...] = ()
        self.stages: dict[str, float] = {}
        self.from_cache = True
        self.may_fail = True


class RowProgram(_Plain):
    """One row through CuPy.

    Args:
        piece: with one call.
        name: of the graph.
    """

    def __init__(self, piece: Piece, name: str) -> None:
        (node,) = piece.graph.calls
        super().__init__(name, f"{node.name}: through CuPy on {piece.device}")
        self.graph = piece.graph

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The row's result."""
        return interpret.run(self.graph, arguments, evaluate_where_they_are)


@record
class Transfer:
    """A copy to a device, as data.

    Args:
        device: where to.
        non_blocking: see the row `to_device`.
    """

    device: Device
    non_blocking: bool


class TransferProgram(_Plain):
    """One copy to a device.

    Args:
        name: of the graph.
        transfer: what it does.
    """

    def __init__(self, name: str, transfer: Transfer) -> None:
        super().__init__(name, f"a copy to {transfer.device}")
        self.transfer = transfer
        self.may_fail = False

    def __call__(self, array: Any) -> tuple[Any, ...]:
        """The copy."""
        device = self.transfer.device
        if device is not CPU:
            return (gpu.to_device(array, device.index or 0, self.transfer.non_blocking),)
        if gpu.is_gpu_array(array):
            return (gpu.to_host(array, self.transfer.non_blocking),)
        return (array.copy(order="K"),)


class RowsProgram(_Plain):
    """All rows of a graph through CuPy, or NumPy for those of the CPU, one after the other: where
    no kernels are made.

    Args:
        graph: any graph.
        name: of the graph.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        super().__init__(
            name, "rows run one after the other through CuPy, nothing is fused.", str(graph)
        )
        self.graph = graph

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs, in order; arrays are new, an output that is an input is that input."""
        with recording.recorded(recording.Kind.PROGRAM, self):
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


# ---------------------------------------------------------------------------------------------
# one after the other


def order_of(graph: Graph, pieces: Sequence[Piece]) -> Order:
    """How the pieces of a graph follow each other."""
    return order.order_of(graph, graph.inputs, [(piece.reads, piece.writes) for piece in pieces])


@record(eq=False)
class SequenceBlueprint:
    """Programs one after the other, as data.

    Args:
        name: of the graph.
        order: how they follow each other.
        parts: their blueprints, or `Transfer`s.
    """

    name: str
    order: Order
    parts: tuple[Any, ...]

    @property
    def peak(self) -> None:
        """Not known: see the parts."""
        return None


class SequenceProgram:
    """Pieces one after the other. Immutable.

    Args:
        name: for reports.
        steps: how they follow each other.
        programs: of the pieces.
        blueprint: what can be kept on disk of it, or None.
    """

    def __init__(
        self, name: str, steps: Order, programs: Sequence[Program], blueprint: Any = None
    ) -> None:
        self.name = name
        self.order = steps
        self.programs = tuple(programs)
        self.blueprint = blueprint
        self.kernels = tuple(kernel for program in programs for kernel in program.kernels)
        self.source = "\n".join(dict.fromkeys(p.source for p in programs if p.source))
        self.stages = _summed(programs)
        self.from_cache = all(program.from_cache for program in programs)
        self.may_fail = any(program.may_fail for program in programs)
        parts = (f"  {line}" for program in programs for line in program.explain.splitlines())
        self.explain = "\n".join([f"{len(programs)} pieces, one after the other", *parts])

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run all pieces."""
        return order.run_in_order(self.order, self.programs, arguments)

    def __repr__(self) -> str:
        return f"<SequenceProgram {self.name}: {len(self.programs)} pieces>"


def _summed(programs: Sequence[Program]) -> dict[str, float]:
    total: dict[str, float] = {}
    for program in programs:
        for stage, milliseconds in program.stages.items():
            total[stage] = total.get(stage, 0.0) + milliseconds
    return total


# ---------------------------------------------------------------------------------------------
# one of two


DETERMINISTIC: Final = "deterministic"
TF32: Final = "tf32"

_ASKED: Final[Mapping[str, Callable[[], bool]]] = {
    DETERMINISTIC: determinism.is_required,
    TF32: lambda: config.current().allow_tf32,
}


def is_asked(what: str) -> bool:
    """Whether sums must come out in one order, or products may be rounded to TF32, right now."""
    return _ASKED[what]()


@record(eq=False)
class EitherBlueprint:
    """A program, and another one for while something is asked for, as data.

    Args:
        usual, other: their blueprints.
        what: is asked for: `DETERMINISTIC` or `TF32`.
    """

    usual: Any
    other: Any
    what: str

    @property
    def peak(self) -> Any:
        """That of the usual one."""
        return self.usual.peak


class EitherProgram:
    """A program, and the one that takes its place while something is asked for: sums in one order
    where it adds at indices in any order, or the freedom to round to TF32. Mutable: each is made
    when it is first needed.

    Args:
        usual, other: give them.
        what: see `EitherBlueprint`.
    """

    def __init__(
        self, usual: Callable[[], Program], other: Callable[[], Program], what: str
    ) -> None:
        self._starts = usual, other
        self._made: list[Program | None] = [None, None]
        self._is_asked = _ASKED[what]
        self._lock = threading.RLock()  # a handler of signals may call it within
        self._first = self._program(self._is_asked())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)

    def _program(self, asked: bool) -> Program:
        with self._lock:
            program = self._made[asked]
            if program is None:
                program = self._made[asked] = self._starts[asked]()
            return program

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """Run the one that is asked for now."""
        asked = self._is_asked()
        program = self._made[asked] or self._program(asked)
        return program(*arguments)


# ---------------------------------------------------------------------------------------------
# one per shape


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
        self._lock = threading.RLock()  # a handler of signals may call it within

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
