"""From a graph with tensors on a GPU to a callable program: the stages in order.

Contract: as `codegen.pipeline`, which calls this. A graph that kernels and cuBLASLt compute on one
GPU is one launch plan. Any other is cut into pieces (`codegen.device.pieces`): kernels on a GPU,
generated C for what is on the CPU, transfers, rows without a kernel, which run through CuPy, and
loops, whose bodies have programs of their own; Python goes from one to the next
(`codegen.device.sequence`). The kernels of all pieces compile at the same time.
"""

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from dynajit.codegen import _device
from dynajit.codegen.compilers.started import Program, Stages, Started
from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.text import Unit
from dynajit.codegen.cuda.units.steps import Options
from dynajit.codegen.device import image as device_image
from dynajit.codegen.device import pieces as device_pieces
from dynajit.codegen.device import program as cuda_program
from dynajit.codegen.device.image import Image
from dynajit.codegen.device.pieces import Kind, Piece
from dynajit.codegen.device.program import DeviceBlueprint
from dynajit.codegen.device.sequence import (
    DETERMINISTIC,
    TF32,
    ByShape,
    EitherBlueprint,
    EitherProgram,
    RowProgram,
    SequenceBlueprint,
    SequenceProgram,
    Transfer,
    TransferProgram,
    is_asked,
    order_of,
)
from dynajit.codegen.device.tuning import TunedProgram
from dynajit.codegen.plan import fusion, natives
from dynajit.codegen.run.loop_program import LoopBlueprint, start_loops
from dynajit.codegen.run.order import Order
from dynajit.codegen.run.verified import Stored, VerifiedProgram
from dynajit.core.errors import CompileWarning, ToolchainError
from dynajit.core.process import background
from dynajit.core.process.warning import warn
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir.complex_pairs import NotPaired
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import bodies_of
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ir.passes.split_complex_numbers import (
    Split,
    is_complex_constant,
    split_complex_numbers,
)
from dynajit.ir.passes.substitute_sizes import with_sizes
from dynajit.ir.pipeline import optimize
from dynajit.ir.sizes import symbols
from dynajit.ops.table.op_table import TABLE, Op
from dynajit.ops.table.op_table import Kind as RowKind

MSG_ROWS: Final = (
    "dynajit: {name} is cut into {count} pieces on the GPU, with Python in between: {reasons}  "
    "Such rows run through CuPy."
)


@record
class Launching:
    """How programs on a GPU are launched.

    Args:
        replays: calls whose addresses were met before replay a CUDA graph.
        tunes: numbers that kernels leave open are chosen by measuring.
    """

    replays: bool = False
    tunes: bool = False


DEFAULT: Final = Launching()

HostCompile = Callable[[Graph], Started]
"""Starts the program of a graph that is on the CPU."""


def is_on_gpu(graph: Graph) -> bool:
    """Whether any value of a graph is on a GPU."""
    return any(device is not CPU for device in device_pieces.devices_of(graph))


def keeps_native(op: Op, types: Sequence[ValueType | None], attributes: Mapping[str, Any]) -> bool:
    """True for a call of a composite that has a kernel of its own where its tensors are: passes
    leave it whole."""
    if any(isinstance(type, TensorType) and type.device is not CPU for type in types):
        return cuda_text.keeps_native(op, types, attributes)
    return natives.why_not_native(op.name, types, attributes) is None


def start(
    graph: Graph,
    name: str,
    host: HostCompile,
    written: Mapping[int, int] = MappingProxyType({}),
    verify: bool = False,
    launching: Launching = DEFAULT,
) -> Started:
    """Generate code for a graph with values on a GPU and start its compilers.

    Args:
        graph: any graph; composites in it without kernels are expanded.
        name: for messages and reports.
        host: for what is on the CPU.
        written: output -> the input that the caller copies it to. The last plan may write it there
            itself: then the result is the input's array.
        verify: what kernels store is compared with NumPy in every call.
        launching: how kernels are launched.

    Raises:
        DeviceError: the driver is missing.
        UnsupportedError: NVRTC is missing.
        CodegenError: no kernel could be made.
    """
    graph = expand_composites(graph, keeps=keeps_native)
    graph = device_pieces.with_constants(numbers_by_value(graph))
    start_plan = _start_verified if verify else _start_plan
    if why_not_one_plan(graph) is None:
        return start_plan(graph, name, launching, written)
    if symbols(graph):
        made = functools.partial(_of_shape, graph, name, host, verify, launching)
        return Started(lambda: ByShape(graph, name, made))
    pieces = _pieces(graph)
    parts = []
    for piece in pieces:
        if piece.kind is Kind.HOST:
            parts.append(host(piece.graph))
        elif piece.kind is Kind.KERNELS:
            # Another piece behind it could fail, and what was written would stay.
            own = _written_by(piece, graph, written) if piece is pieces[-1] else {}
            parts.append(start_plan(piece.graph, name, launching, own))
        elif piece.kind is Kind.TURNS:
            parts.append(_start_turns(piece.graph, name, host, verify, launching))
        else:
            parts.append(_start_row(piece, name))
    _tell(name, pieces)
    return _in_order(name, order_of(graph, pieces), parts)


def _written_by(piece: Piece, graph: Graph, written: Mapping[int, int]) -> dict[int, int]:
    """`written` by the outputs and inputs of a piece; what others get, too, is not in it."""
    reads = {node: position for position, node in enumerate(piece.reads)}
    writes = {node: position for position, node in enumerate(piece.writes)}
    shown = Counter(graph.outputs)
    found = {}
    for output, position in written.items():
        node, source = graph.outputs[output], graph.inputs[position]
        if node in writes and source in reads and shown[node] == 1:
            found[writes[node]] = reads[source]
    return found


def _start_turns(
    graph: Graph, name: str, host: HostCompile, verify: bool, launching: Launching
) -> Started:
    """A loop and what is read of it."""
    bodies = [
        start(optimize(body, keeps=keeps_native), name, host, verify=verify, launching=launching)
        for body in bodies_of(graph)
    ]
    blueprint = LoopBlueprint(graph, tuple(body.blueprint for body in bodies))
    return start_loops(blueprint, name, bodies)


def _start_row(piece: Piece, name: str) -> Started:
    (node,) = piece.graph.calls
    if node.op is not TABLE.to_device:
        return Started(functools.partial(RowProgram, piece, name))
    return _start_transfer(Transfer(piece.device, node.attributes["non_blocking"]), name)


def _start_transfer(transfer: Transfer, name: str) -> Started:
    return Started(functools.partial(TransferProgram, name, transfer), transfer)


def _in_order(name: str, order: Order, parts: Sequence[Started]) -> Started:
    """Programs one after the other; a blueprint where all of them have one."""
    blueprint = None
    if all(part.blueprint is not None for part in parts):
        blueprint = SequenceBlueprint(name, order, tuple(part.blueprint for part in parts))
    return Started(
        lambda: SequenceProgram(name, order, [part() for part in parts], blueprint),
        blueprint, parts=tuple(parts),
    )  # fmt: skip


def start_sequence(blueprint: SequenceBlueprint, start_part: Callable[[Any], Started]) -> Started:
    """The programs of a sequence.

    Args:
        start_part: for the blueprints of other parts than transfers.
    """
    parts = [
        _start_transfer(part, blueprint.name) if isinstance(part, Transfer) else start_part(part)
        for part in blueprint.parts
    ]
    return _in_order(blueprint.name, blueprint.order, parts)


def _of_shape(
    graph: Graph,
    name: str,
    host: HostCompile,
    verify: bool,
    launching: Launching,
    numbers: Mapping[str, int],
) -> Program:
    """The program for one set of sizes."""
    return start(with_sizes(graph, numbers), name, host, verify=verify, launching=launching)()


# ---------------------------------------------------------------------------------------------
# one plan


def why_not_one_plan(graph: Graph) -> str | None:
    """Why a graph is not one launch plan on one GPU, or None."""
    devices = device_pieces.devices_of(graph)
    if len(devices) > 1:
        return f"its values are on {', '.join(map(str, devices))}."
    if any(node.op is TABLE.to_device for node in graph.calls):
        return "it moves values between devices."
    if any(map(is_complex_constant, graph.outputs)):
        return "a complex constant is a result."
    return _why_no_unit(graph)


def _why_no_unit(graph: Graph) -> str | None:
    """Why a graph on one GPU has no CUDA unit, or None."""
    try:
        return cuda_text.why_not(split_complex_numbers(graph).graph)
    except NotPaired as reason:
        return f"{reason} has no CUDA kernel."


def has_kernel(node: Node) -> bool:
    """Whether there is a kernel, or a library call of a plan, for a node by itself."""
    return _why_no_kernel(node) is None


def _pieces(graph: Graph) -> tuple[Piece, ...]:
    """The pieces of a graph; what has no pairs beside its neighbours runs through CuPy."""
    refused: set[str] = set()
    while True:
        pieces = device_pieces.cut(graph, lambda n: n.name not in refused and has_kernel(n))
        wrong = next(filter(None, map(_not_paired, pieces)), None)
        if wrong is None:
            return pieces
        refused.add(wrong)


def _not_paired(piece: Piece) -> str | None:
    """The name of a node for whose complex numbers there are no pairs, or None."""
    if piece.kind is not Kind.KERNELS:
        return None
    try:
        split_complex_numbers(piece.graph)
    except NotPaired as reason:
        name: str = reason.node.name
        return name
    return None


def _why_no_kernel(node: Node) -> str | None:
    if any(_is_complex_number(argument) for argument in node.args):
        return f"{node.name}: a complex number of the CPU."
    builder = Builder(node.name)
    new = {
        argument: builder.placeholder(argument.name, argument.type).node
        for argument in dict.fromkeys(a for a in node.args if isinstance(a, Node))
    }
    args = tuple(new[a] if isinstance(a, Node) else a for a in node.args)
    return _why_no_unit(builder.finish([builder.copy(node, args)]))


def _is_complex_number(argument: Any) -> bool:
    """True for a zero-dim complex tensor on the CPU, which no kernel takes by value."""
    return (
        isinstance(argument, Node)
        and device_pieces.is_by_value(argument)
        and device_pieces.dtype_of(argument).is_complex
    )


def numbers_by_value(graph: Graph) -> Graph:
    """The graph with zero-dim inputs on the CPU as run-time numbers, if only a GPU reads them."""
    if not is_on_gpu(graph):
        return graph
    found = {
        node
        for node in graph.inputs
        if device_pieces.is_by_value(node)
        and not _is_complex_number(node)
        and all(_reads_by_value(user) for user in graph.users()[node])
        and node not in graph.outputs
    }
    return device_pieces.with_numbers(graph, found) if found else graph


def _reads_by_value(user: Node) -> bool:
    if user.op is TABLE.to_device or device_pieces.loop_of(user) is not None:
        return False
    return device_pieces.device_of(user) is not CPU


def _start_plan(
    graph: Graph,
    name: str,
    launching: Launching,
    written: Mapping[int, int] = MappingProxyType({}),
) -> Started:
    split = split_complex_numbers(graph)
    make = functools.partial(cuda_text.generate, split.graph, name, written=written)
    start_unit = functools.partial(_start_unit, split, _number_of(graph), launching)
    if not any(_may_round(node) for node in split.graph.calls):
        return _start_orders(make, start_unit, Options(), is_wanted=True)
    rounds = is_asked(TF32)
    usual, other = (
        _start_orders(make, start_unit, Options(tf32=tf32), is_wanted=tf32 is rounds)
        for tf32 in (False, True)
    )
    return _start_either(usual, other, TF32)


def _may_round(node: Node) -> bool:
    """True for what a kernel of its own may multiply with TF32; products ask when they run."""
    return (
        node.op is not None
        and node.op.name in (*natives.ATTENTION, *natives.CONVOLUTIONS)
        and device_pieces.dtype_of(node) is dtypes.float32
    )


def _start_orders(
    make: Callable[..., Unit], start_unit: Callable[..., Started], options: Options, is_wanted: bool
) -> Started:
    """The program of a unit, and the deterministic one if it adds in any order."""
    make = functools.partial(make, options=options)
    stages = Stages()
    with stages.timed("printing"):
        unit = make()
    usual = start_unit(unit, make, stages, is_wanted=is_wanted)
    if not any(n.op is not None and n.op.kind is RowKind.SCATTER for n in unit.graph.calls):
        return usual
    make = functools.partial(make, options=replace(options, deterministic=True))
    exact = make()
    if exact.source == unit.source:
        return usual
    other = start_unit(exact, make, Stages(), is_wanted=False)
    return _start_either(usual, other, DETERMINISTIC)


def _start_either(usual: Started, other: Started, what: str) -> Started:
    blueprint = None
    if usual.blueprint is not None and other.blueprint is not None:
        blueprint = EitherBlueprint(usual.blueprint, other.blueprint, what)
    first = other if is_asked(what) else usual
    return Started(lambda: EitherProgram(usual, other, what), blueprint, first.building)


def start_either(
    blueprint: EitherBlueprint, launching: Launching = DEFAULT, is_wanted: bool = True
) -> Started:
    """A program and the one that takes its place; the one that is asked for now compiles now."""
    asked = is_asked(blueprint.what)
    usual, other = (
        start_either(part, launching, is_wanted and place is asked)
        if isinstance(part, EitherBlueprint)
        else start_build(part, launching, is_wanted=is_wanted and place is asked)
        for place, part in ((False, blueprint.usual), (True, blueprint.other))
    )
    return _start_either(usual, other, blueprint.what)


def _start_unit(
    split: Split,
    device: int,
    launching: Launching,
    unit: Unit,
    make: Callable[..., Unit],
    stages: Stages,
    is_wanted: bool = True,
) -> Started:
    """The program of one unit.

    Args:
        split: which of its arrays are complex ones.
        make: gives the unit with other choices.
        is_wanted: its compiler starts now; otherwise when the program is asked for.
    """

    def blueprint_of(unit: Unit) -> DeviceBlueprint:
        arrays = replace(split, graph=unit.graph).array_types()
        return cuda_program.blueprint_of(unit, device, arrays)

    blueprint = blueprint_of(unit)
    started = start_build(blueprint, launching, stages, is_wanted=is_wanted)
    if not launching.tunes:
        return started

    def build(choices: Mapping[str, int], algorithms: tuple[bytes, ...]) -> Started:
        return start_build(blueprint_of(make(choices=choices)), launching, presets=algorithms)

    return Started(lambda: TunedProgram(started(), unit, build), building=started.building)


def _number_of(graph: Graph) -> int:
    """The number of the GPU that a graph is on."""
    (device,) = device_pieces.devices_of(graph)
    return device.index or 0


def _start_verified(
    graph: Graph,
    name: str,
    launching: Launching,
    written: Mapping[int, int] = MappingProxyType({}),
) -> Started:
    """The program of a graph that gives out all that its kernels store, checked in every call;
    nothing is written in place."""
    split = split_complex_numbers(graph)
    graph = cuda_text.prepare(split.graph)
    buffers = fusion.plan(graph).storage.buffers
    nodes = tuple(node for node in buffers if node.kind is NodeKind.CALL)
    whole = Graph(graph.name, graph.nodes, (*graph.outputs, *nodes))
    stages = Stages()
    make = functools.partial(cuda_text.generate, whole, name)
    unit = make()
    started = _start_unit(split, _number_of(graph), launching, unit, make, stages)
    kernel = _makers(unit)
    stored = [Stored(node, kernel.get(node, name)) for node in nodes]
    paired = tuple(split.inputs)
    return Started(
        lambda: VerifiedProgram(started(), graph, stored, paired), building=started.building
    )


def _makers(unit: Unit) -> dict[Node, str]:
    """Which kernel computes each result of a unit: the first that is given its memory."""
    found: dict[Node, str] = {}
    places = {place: buffer for buffer, place in unit.layout.places.items()}
    for position, node in enumerate(unit.layout.outputs):
        buffer = places["outputs", position]
        found[node] = next((s.name for s in unit.steps if buffer in s.buffers), unit.name)
    return found


def start_build(
    blueprint: DeviceBlueprint,
    launching: Launching = DEFAULT,
    stages: Stages | None = None,
    presets: tuple[bytes, ...] = (),
    is_wanted: bool = True,
) -> Started:
    """The program of a blueprint, whose kernels are compiled if they are not on disk.

    Args:
        blueprint: what runs.
        launching: how.
        stages: milliseconds so far.
        presets: algorithms of products.
        is_wanted: the compiler starts now; otherwise when the program is asked for.
    """
    noted = stages or Stages()
    with noted.timed("compiler"):
        architecture = device_image.architecture_of(blueprint.device)
        found = device_image.find(blueprint.source, architecture)
    load = functools.partial(
        cuda_program.load, blueprint, replays=launching.replays, presets=presets
    )
    if found is not None:
        return Started(lambda: _finish(blueprint, load, found, architecture, noted), blueprint)
    if not is_wanted:
        again = functools.partial(start_build, blueprint, launching, noted, presets)
        return Started(lambda: again()(), blueprint)
    building = background.start(device_image.build, blueprint.source, architecture)

    def wait() -> Program:
        with noted.timed("compiler"):
            image = building.result()
        return _finish(blueprint, load, image, architecture, noted)

    return Started(wait, blueprint, building)


def _finish(
    blueprint: DeviceBlueprint,
    load: Callable[[bytes], _device.Program],
    image: Image,
    architecture: str,
    stages: Stages,
) -> Program:
    with stages.timed("load"):
        try:
            program = load(image.content)
        except ToolchainError:
            if not image.from_cache:
                raise
            # Damaged in a way that its checksum does not show, or for another driver.
            device_image.discard(blueprint.source, architecture)
            image = device_image.build(blueprint.source, architecture)
            program = load(image.content)
    program.stages = stages.milliseconds
    program.from_cache = image.from_cache
    return program


# ---------------------------------------------------------------------------------------------
# pieces


_told: Final[set[str]] = set()
"""Rows that were named in a warning of this process."""


def _tell(name: str, pieces: tuple[Piece, ...]) -> None:
    """Warn once of each row that has no kernel."""
    reasons = {}
    for piece in pieces:
        (node, *_) = piece.graph.calls
        if piece.kind is not Kind.ROW or node.op is None or node.op is TABLE.to_device:
            continue
        if not node.op.opaque:  # operators of the program's own run as it says
            reasons[node.op.name] = _why_no_kernel(node)
    fresh = {row: reason for row, reason in reasons.items() if row not in _told}
    if fresh:
        _told.update(fresh)
        text = " ".join(str(reason) for reason in dict.fromkeys(fresh.values()))
        warn(MSG_ROWS.format(name=name, count=len(pieces), reasons=text), CompileWarning)
