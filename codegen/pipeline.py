"""From a graph to a callable program: the stages of code generation in order.

Contract: `compile_graph(graph)` gives a program that takes raw arrays and Python numbers in the
order of the graph's inputs and returns a tuple in the order of its outputs. Without a C compiler,
and for graphs that have no native lowering, the NumPy backend is used, with a warning.
"""

import functools
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from dynajit.codegen import _runtime
from dynajit.codegen.c import biases as c_biases
from dynajit.codegen.c import column_totals as c_column_totals
from dynajit.codegen.c import panel_groups as panels
from dynajit.codegen.c import sizes as c_sizes
from dynajit.codegen.c import text as c_text
from dynajit.codegen.c.natives import may_be_winograd
from dynajit.codegen.c.support import PARALLEL_WORK, Function
from dynajit.codegen.c.turns import Body
from dynajit.codegen.compilers import openmp, toolchain
from dynajit.codegen.compilers.started import Program, Stages, Started
from dynajit.codegen.device import pipeline as device_pipeline
from dynajit.codegen.device import program as cuda_program
from dynajit.codegen.device import sequence_data
from dynajit.codegen.device.pipeline import DEFAULT, Launching, is_on_gpu, keeps_native
from dynajit.codegen.device.program import DeviceBlueprint
from dynajit.codegen.device.sequence import EitherBlueprint, RowsProgram, SequenceBlueprint
from dynajit.codegen.loops.loop_ir import Buffer, MatmulKernel, NativeKernel, PanelKernel
from dynajit.codegen.loops.turns import TURNS
from dynajit.codegen.plan import epilogues, fusion, in_place, joining, lowering, memory
from dynajit.codegen.plan.memory import Layout
from dynajit.codegen.plan.product_forms import rewrite_products
from dynajit.codegen.plan.shared_products import share_products
from dynajit.codegen.run import blueprints, mixed_data
from dynajit.codegen.run.blueprints import Blueprint, Kernel, stride_in_bytes
from dynajit.codegen.run.loop_program import LoopBlueprint, start_loops
from dynajit.codegen.run.mixed_program import MixedBlueprint, MixedProgram, blueprint_of
from dynajit.codegen.run.numpy_backend import NumpyProgram
from dynajit.codegen.run.verified import Stored, VerifiedProgram
from dynajit.codegen.unit_loops import UnitLoops
from dynajit.core.errors import (
    ArgumentError,
    CodegenError,
    CompilerTimeoutError,
    CompileWarning,
    DeviceError,
    ToolchainError,
)
from dynajit.core.process import background, config
from dynajit.core.process.warning import warn
from dynajit.core.records import record
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType, contiguous_strides
from dynajit.ir.complex_pairs import NotPaired
from dynajit.ir.graph import Graph
from dynajit.ir.loops import bodies_of, loops_of
from dynajit.ir.nests import NEST
from dynajit.ir.node import Node, NodeKind
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ir.passes.split_complex_numbers import (
    Split,
    has_pairs,
    is_complex_constant,
    split_complex_numbers,
)
from dynajit.ir.pipeline import optimize
from dynajit.ir.segments import Segment, cut
from dynajit.ops.table.op_table import Kind, is_left_to_numpy

BACKENDS: Final = ("native", "numpy", "cuda")

PRODUCT_PASSES: Final = (share_products, rewrite_products)
"""Passes over a graph for the CPU, in order; each can be left out by its name."""

MSG_NOT_ON_GPU: Final = (
    "compile(backend='cuda'): {name} computes on the CPU.  Move its tensors to a GPU with "
    ".to('cuda'), or use backend='native', which serves both."
)
MSG_TIMEOUT: Final = (
    "dynajit: {error}  Compiled functions of this process run on the NumPy backend, which fuses "
    "nothing."
)
MSG_NO_COMPILER: Final = (
    "dynajit: no C compiler is found, so compiled functions run on the NumPy backend, which fuses "
    "nothing.  Install gcc or clang, or set DYNAJIT_CC."
)


def compile_graph(graph: Graph, *, backend: str = "native", name: str | None = None) -> Program:
    """A callable program.

    Args:
        graph: any graph; composites in it are expanded.
        backend: "native" (C or CUDA, by where the tensors are), "cuda" or "numpy".
        name: for messages and reports; the graph's name by default.

    Raises:
        ArgumentError: `backend` is not known.
        ToolchainError: the compiler refused the generated code.
    """
    return start_compile(graph, backend=backend, name=name)()


def start_compile(
    graph: Graph,
    *,
    backend: str = "native",
    name: str | None = None,
    written: Mapping[int, int] = MappingProxyType({}),
    verify: bool = False,
    launching: Launching = DEFAULT,
) -> Started:
    """Generate code and start the compiler.

    Several graphs are compiled at the same time by starting all before waiting for any. Arguments
    and errors as for `compile_graph`.

    Args:
        written: output -> the input that the caller copies it to. The program may write it there
            itself: then the result is the input's array.
        verify: every kernel of native code is compared with NumPy in every call.
        launching: how kernels on a GPU are launched.
    """
    if backend not in BACKENDS:
        raise ArgumentError(
            f"compile_graph(backend={backend!r}): not a backend.  Expected one of "
            f"{', '.join(BACKENDS)}."
        )
    name = name or graph.name
    if is_on_gpu(graph):
        return _start_on_gpu(graph, backend, name, written, verify, launching)
    if backend == "cuda":
        raise DeviceError(MSG_NOT_ON_GPU.format(name=name))
    if any(node.op is not None and node.op.kind is Kind.COMPOSITE for node in graph.nodes):
        graph = expand_composites(graph, keeps=keeps_native if backend == "native" else None)
    if backend == "numpy":
        return Started(functools.partial(NumpyProgram, graph, name))
    reason = _why_not_compiled()
    if reason is not None:
        graph = expand_composites(graph)
        return Started(functools.partial(NumpyProgram, graph, name, reason))
    whole, loops = graph, UnitLoops(_prepared_turn, _generate_turn)
    if not verify:
        graph = loops.bring_in(graph)
    foreign = _without_kernels(graph)
    if not foreign and not any(map(is_complex_constant, graph.outputs)):
        split = split_complex_numbers(graph)
        started = _start_native(split, name, {} if verify else written, verify, loops)
        return _or_by_numpy(started, whole, name)
    segments = cut(graph, foreign.keys())
    reasons = [*dict.fromkeys(foreign.values())]
    reason = _why_not_in_parts(segments)
    if reason is not None:
        reason = f"{' '.join(reasons)} {reason}".strip()
        graph = expand_composites(graph)
        if any(node.op is not None and not is_left_to_numpy(node.op) for node in foreign):
            warn(f"dynajit: {name} runs on the NumPy backend: {reason}", CompileWarning)
        return Started(functools.partial(NumpyProgram, graph, name, reason))
    return _start_mixed(graph, name, segments, reasons, {} if verify else written, verify, loops)


def _prepared_turn(body: Graph) -> Graph:
    """The body of a loop, as code is generated of it."""
    return _with_products(expand_composites(optimize(body, keeps=keeps_native), keeps=keeps_native))


def _generate_turn(body: Graph, name: str) -> "Generated | None":
    """The kernels of a turn; None if there are none for some row."""
    if fusion.why_not_native(body) is not None:
        return None
    return generate(body, name, prefix=name)


def _with_products(graph: Graph) -> Graph:
    """The graph in which products of matrices have the forms that are fastest on a CPU."""
    disabled = config.current().disabled_passes
    for step in PRODUCT_PASSES:
        if step.__name__ not in disabled:
            graph = step(graph)
    return graph


def _why_not_compiled() -> str | None:
    """Why no C compiler is asked, or None."""
    compiler = toolchain.find_compiler()
    if compiler is None:
        _warn_once(MSG_NO_COMPILER)
        return "no C compiler is found."
    return "the C compiler did not finish in time." if toolchain.hangs(compiler) else None


def _without_kernels(graph: Graph) -> dict[Node, str]:
    """The nodes that no kernel computes -> why."""
    found = {node: fusion.why_not_computed(node) for node in graph.calls if not has_pairs(node)}
    foreign = {node: reason for node, reason in found.items() if reason is not None}
    while True:
        for segment in cut(graph, foreign.keys()):
            node, reason = _not_paired(segment)
            if node is not None:
                foreign[node] = reason
                break
        else:
            return foreign


def _not_paired(segment: Segment) -> tuple[Node | None, str]:
    """A node of the whole graph for whose complex numbers there are no pairs, and why."""
    if segment.is_foreign:
        return None, ""
    try:
        split_complex_numbers(segment.graph)
    except NotPaired as reason:
        return segment.origins[reason.node], f"{reason} has no native code."
    return None, ""


def _why_not_in_parts(segments: Sequence[Segment]) -> str | None:
    """Why a graph is not compiled around the rows that have no kernels, or None."""
    if any(True for segment in segments for _ in loops_of(segment.graph)):
        return None
    own = [segment.graph for segment in segments if not segment.is_foreign]
    if not any(
        node.op is not None and node.op.kind is not Kind.MOVEMENT
        for graph in own
        for node in graph.nodes
    ):
        return ""
    return next(filter(None, map(fusion.why_not_sized, own)), None)


def _start_mixed(
    graph: Graph,
    name: str,
    segments: Sequence[Segment],
    reasons: Sequence[str],
    written: Mapping[int, int],
    verify: bool,
    loops: UnitLoops,
) -> Started:
    """Programs for the parts of a graph, all started before the first is waited for. The last one
    may write inputs: nothing reads them later, and rows that refuse their operands have run."""

    def started(segment: Segment) -> Started:
        if segment.is_foreign:
            return _start_rows(segment.graph, name, verify)
        own = _written_by(segment, graph, written) if segment is segments[-1] else {}
        started = _start_native(split_complex_numbers(segment.graph), name, own, verify, loops)
        return _or_by_numpy(started, segment.graph, name)

    parts = [started(segment) for segment in segments]
    kept = [
        part.blueprint or segment.graph if segment.is_foreign else part.blueprint
        for segment, part in zip(segments, parts, strict=True)
    ]
    return _mixed(blueprint_of(graph, name, segments, kept, reasons), parts)


def _start_rows(graph: Graph, name: str, verify: bool) -> Started:
    """Rows that NumPy runs; the bodies of loops among them are programs of their own."""
    if not any(True for _ in loops_of(graph)):
        return Started(functools.partial(NumpyProgram, graph, name))
    bodies = [
        start_compile(optimize(body, keeps=keeps_native), name=name, verify=verify)
        for body in bodies_of(graph)
    ]
    blueprint = LoopBlueprint(graph, tuple(body.blueprint for body in bodies))
    return start_loops(blueprint, name, bodies)


def _mixed(blueprint: MixedBlueprint, parts: Sequence[Started]) -> Started:
    def finish() -> Program:
        return MixedProgram(blueprint, [part() for part in parts])

    return Started(finish, blueprint, parts=tuple(parts))


def _written_by(segment: Segment, graph: Graph, written: Mapping[int, int]) -> dict[int, int]:
    """`written` of a graph, by positions of a part: what nobody else gets, before or after."""
    outputs = Counter(output for output in graph.outputs if isinstance(output, Node))
    found = {}
    for position, place in written.items():
        output, source = graph.outputs[position], graph.inputs[place]
        if not isinstance(output, Node) or outputs[output] > 1 or outputs[source]:
            continue
        if output in segment.results and source in segment.inputs:
            found[segment.results.index(output)] = segment.inputs.index(source)
    return found


def _or_by_numpy(started: Started, graph: Graph, name: str) -> Started:
    """A program that NumPy runs if the compiler takes too long."""

    def finish() -> Program:
        try:
            return started()
        except CompilerTimeoutError as error:
            _warn_once(MSG_TIMEOUT.format(error=error))
            return NumpyProgram(expand_composites(graph), name, str(error))

    return replace(started, finish=finish)


def _start_on_gpu(
    graph: Graph,
    backend: str,
    name: str,
    written: Mapping[int, int],
    verify: bool,
    launching: Launching,
) -> Started:
    if backend == "numpy":
        return Started(functools.partial(RowsProgram, expand_composites(graph), name))
    host = functools.partial(start_compile, backend="native", name=name, verify=verify)
    return device_pipeline.start(graph, name, host, written, verify, launching)


def ask_machine() -> None:
    """Find the C compiler and its flags, which are remembered."""
    with suppress(ToolchainError):  # whoever needs it will say so
        compiler = toolchain.find_compiler()
        if compiler is not None:
            toolchain.flags(compiler)


def may_use_gpu() -> bool:
    """Whether tensors of this process may be on a GPU."""
    return "cupy" in sys.modules


def is_cuda(program: Program) -> bool:
    """Whether a program's text is CUDA, all of it or in part."""
    return "__global__" in program.source


_warned: Final[set[str]] = set()


def _warn_once(message: str) -> None:
    """Warn at the first time in this process, whatever the warning filters say."""
    if message not in _warned:
        _warned.add(message)
        warn(message, CompileWarning)


@record
class Generated:
    """A graph's kernels and text, before a compiler sees them; `makers` says which kernel's work a
    value in memory is, `inner` are the kernels of turns of loops."""

    functions: tuple[Function, ...]
    layout: Layout
    source: str
    notes: tuple[str, ...]
    in_place: Mapping[Node, Node]
    makers: Mapping[Node, str]
    stored: tuple[Stored, ...] = ()
    inner: tuple[Function, ...] = ()

    @property
    def every(self) -> tuple[Function, ...]:
        """The kernels, and those of turns."""
        return (*self.functions, *self.inner)


def generate(
    graph: Graph,
    name: str,
    stages: Stages | None = None,
    written: Mapping[int, int] = MappingProxyType({}),
    verify: bool = False,
    arrays: Mapping[Node, TensorType] = MappingProxyType({}),
    bodies: Sequence[Body] = (),
    prefix: str = "",
) -> Generated:
    """Everything up to the C text (used by tests and reports, which need no compiler).

    Args:
        written, verify: see `start_compile`.
        arrays: see `Split.array_types`.
        bodies: of the loops in the graph.
        prefix: what the names of kernels begin with.
    """
    stages = stages or Stages()
    with stages.timed("fusion"):
        plan = fusion.plan(graph)
    with stages.timed("lowering"):
        kernels = lowering.lower(plan, prefix)
        if not fusion.is_left_out():
            kernels = joining.join(kernels, c_column_totals.may_hold)
        buffers = plan.storage.buffers
        shown = frozenset(buffers[o] for o in graph.outputs if isinstance(o, Node) and o in buffers)
        kernels = panels.join(c_biases.fold(kernels, shown), shown)
        if not fusion.is_left_out():
            kernels = epilogues.join(kernels, shown, c_text.may_have_epilogue)
    with stages.timed("printing"):
        functions = tuple(c_text.print_kernel(kernel) for kernel in kernels)
        used = [function.buffers for function in functions]
        last = max((n for n, function in enumerate(functions) if function.may_fail), default=-1)
        changed, same = in_place.share(plan, kernels, used, written, last, takes_scatters=True)
        hosts = memory.NO_HOSTS
        if not verify:
            changed, hosts = in_place.hosts(plan, changed, used, same, last)
        functions = tuple(
            function if new is old else c_text.print_kernel(new)
            for function, old, new in zip(functions, kernels, changed, strict=True)
        )
        used = [function.buffers for function in functions]
        layout = memory.arrange(plan, used, same, keeps_all=verify, hosts=hosts)
        source = c_text.print_unit(name, functions, layout, graph, arrays, bodies)
    makers = _makers(functions, plan)
    stored = _stored(functions, layout, makers) if verify else ()
    inner = tuple(function for body in bodies for function in body.functions)
    notes = tuple(plan.notes)
    return Generated(functions, layout, source, notes, same, makers, stored, inner)


def _makers(functions: Sequence[Function], plan: fusion.Plan) -> dict[Node, str]:
    """Every value in memory that a kernel computes -> its name: the first one with its buffer."""
    first: dict[Buffer, str] = {}
    for function in functions:
        for buffer in function.buffers:
            first.setdefault(buffer, function.name)
    buffers = plan.storage.buffers.items()
    return {
        node: first[buffer]
        for node, buffer in buffers
        if node.kind is NodeKind.CALL and buffer in first
    }


def _stored(
    functions: Sequence[Function], layout: Layout, makers: Mapping[Node, str]
) -> tuple[Stored, ...]:
    """Every value with an output array, in running order of the kernels that compute them."""
    order = {function.name: number for number, function in enumerate(functions)}
    found = [Stored(node, makers[node]) for node in layout.outputs if node in makers]
    return tuple(sorted(found, key=lambda stored: order[stored.kernel]))


def _start_native(
    split: Split, name: str, written: Mapping[int, int], verify: bool, loops: UnitLoops
) -> Started:
    split = replace(split, graph=_with_products(split.graph))
    stages = Stages()
    arrays = split.array_types()
    bodies = loops.of(split.graph)
    generated = generate(split.graph, name, stages, written, verify, arrays, bodies)
    started = _start(_blueprint(split.graph, name, generated, arrays), stages)
    if not verify:
        return started
    wait = started.finish
    return Started(
        lambda: VerifiedProgram(wait(), split.graph, generated.stored, tuple(split.inputs)),
        building=started.building,
    )


compiler_ahead: Final = toolchain.compiler_ahead


AnyBlueprint: TypeAlias = (
    Blueprint
    | MixedBlueprint
    | LoopBlueprint
    | DeviceBlueprint
    | SequenceBlueprint
    | EitherBlueprint
)


def start_build(blueprint: AnyBlueprint, launching: Launching = DEFAULT) -> Started:
    """As `start_compile`, for a program whose code was generated before."""
    if isinstance(blueprint, MixedBlueprint):
        return _mixed(blueprint, [_start_part(blueprint.name, part) for part in blueprint.parts])
    if isinstance(blueprint, LoopBlueprint):
        bodies = [start_build(body, launching) for body in blueprint.bodies]
        return start_loops(blueprint, blueprint.graph.name, bodies)
    if isinstance(blueprint, SequenceBlueprint):
        start_part = functools.partial(start_build, launching=launching)
        return device_pipeline.start_sequence(blueprint, start_part)
    if isinstance(blueprint, EitherBlueprint):
        return device_pipeline.start_either(blueprint, launching)
    if isinstance(blueprint, DeviceBlueprint):
        return device_pipeline.start_build(blueprint, launching)
    return _start(blueprint, Stages())


def _start_part(name: str, part: Any) -> Started:
    if not isinstance(part, Graph):
        return start_build(part)
    return Started(functools.partial(NumpyProgram, part, name))


def to_data(blueprint: AnyBlueprint) -> dict[str, Any]:
    """A blueprint of any kind as what JSON keeps unchanged.

    Raises:
        Unstorable: it holds what a file cannot.
    """
    if isinstance(blueprint, MixedBlueprint):
        return {"mixed": mixed_data.to_data(blueprint, to_data)}
    if isinstance(blueprint, LoopBlueprint):
        return {"loops": mixed_data.loops_to_data(blueprint, to_data)}
    if isinstance(blueprint, SequenceBlueprint):
        return {"sequence": sequence_data.to_data(blueprint, to_data)}
    if isinstance(blueprint, EitherBlueprint):
        parts = [to_data(blueprint.usual), to_data(blueprint.other)]
        return {"either": parts, "what": blueprint.what}
    if isinstance(blueprint, DeviceBlueprint):
        return {"gpu": cuda_program.to_data(blueprint)}
    return {"cpu": blueprints.to_data(blueprint)}


def from_data(data: dict[str, Any]) -> AnyBlueprint | None:
    """What `to_data` was given; None if it cannot be built here.

    Raises:
        KeyError, IndexError, TypeError, ValueError: the data is something else.
    """
    if "mixed" in data:
        return mixed_data.from_data(data["mixed"], from_data)
    if "loops" in data:
        return mixed_data.loops_from_data(data["loops"], from_data)
    if "sequence" in data:
        return sequence_data.from_data(data["sequence"], from_data)
    if "either" in data:
        usual, other = map(from_data, data["either"])
        return EitherBlueprint(usual, other, data["what"])
    if "gpu" in data:
        return cuda_program.from_data(data["gpu"])
    return None if toolchain.find_compiler() is None else blueprints.from_data(data["cpu"])


def _start(blueprint: Blueprint, stages: Stages) -> Started:
    with stages.timed("compiler"):
        found = toolchain.find_built(blueprint.source)
    if found is not None:
        return Started(lambda: _finish_native(blueprint, found, stages), blueprint)
    # The thread only waits for the compiler's process.
    ahead = toolchain.take_ahead(blueprint.source)
    building = background.start_yielding(toolchain.building, blueprint.source, ahead)
    openmp.load()  # while the compiler works

    def wait() -> Program:
        with stages.timed("compiler"):
            built = building.result()
        return _finish_native(blueprint, built, stages)

    return Started(wait, blueprint, building)


def _finish_native(blueprint: Blueprint, built: toolchain.Built, stages: Stages) -> Program:
    with stages.timed("load"):
        program = blueprints.load(blueprint, built.library)
    program.stages = stages.milliseconds
    program.from_cache = built.from_cache
    return program


def _blueprint(
    graph: Graph, name: str, generated: Generated, arrays: Mapping[Node, TensorType]
) -> Blueprint:
    layout = generated.layout
    symbols = c_sizes.symbols_of(graph)
    return Blueprint(
        name=name,
        source=generated.source,
        kernels=_kernels(generated),
        arguments=tuple(_argument(arrays.get(node, node.type)) for node in graph.inputs),
        outputs=tuple(_tensor_spec(arrays.get(node, node.type), False) for node in layout.outputs),
        results=tuple(
            _result(graph, generated, output)
            for output in (*graph.outputs, *(stored.node for stored in generated.stored))
        ),
        constants=tuple(np.ascontiguousarray(array) for array in layout.constants),
        symbols=tuple((s.argument, s.dim, s.low, s.high) for s in symbols),
        workspace=max(_known(layout.workspace_bytes), 0),
        releases_gil=_work(graph) >= PARALLEL_WORK and not _is_alone(graph),
        has_products=any(
            isinstance(f.kernel, (MatmulKernel, PanelKernel)) for f in generated.every
        ),
        may_fail=any(function.may_fail for function in generated.functions),
        explain=_explained(generated),
    )


def _kernels(generated: Generated) -> tuple[Kernel, ...]:
    stores: dict[str, list[str]] = {}
    for node, maker in generated.makers.items():
        stores.setdefault(maker, []).append(node.name)
    return tuple(
        Kernel(f.name, f.text, _kind(f), tuple(stores.get(f.name, ()))) for f in generated.every
    )


def _kind(function: Function) -> str:
    return type(function.kernel).__name__.removesuffix("Kernel").lower()


def _algorithm(function: Function) -> str:
    if isinstance(function.kernel, NativeKernel) and may_be_winograd(function.kernel):
        return " (a convolution, by Winograd's form where its sizes suit, else direct sums)"
    return ""


def _argument(type: ValueType) -> Any:
    if isinstance(type, ScalarType):
        return (
            _runtime.ARGUMENT_BOOL, _runtime.ARGUMENT_INTEGER, _runtime.ARGUMENT_FLOATING
        )[type.category]  # fmt: skip
    return _tensor_spec(type, True)


def _tensor_spec(type: ValueType, is_input: bool) -> tuple[Any, ...]:
    assert isinstance(type, TensorType)
    strides = type.strides if is_input else None
    is_contiguous = strides is None or type.is_contiguous
    if strides is None:
        strides = contiguous_strides(type.shape)
    in_bytes = tuple(stride_in_bytes(stride, type.dtype.itemsize) for stride in strides)
    return type.dtype.numpy, tuple(map(_known, type.shape)), in_bytes, is_contiguous


def _known(size: Number) -> int:
    """A size; -1 for symbolic ones, which `measure` computes when the program runs."""
    return size if isinstance(size, int) else -1


def _result(graph: Graph, generated: Generated, output: Any) -> tuple[int, int, Any]:
    layout = generated.layout
    if not isinstance(output, Node):
        return _runtime.RESULT_OBJECT, 0, output
    if output.kind is NodeKind.PLACEHOLDER:
        return _runtime.RESULT_ARGUMENT, graph.inputs.index(output), None
    if output.kind is NodeKind.CONSTANT:
        return _runtime.RESULT_OBJECT, 0, output.value
    if output in generated.in_place:
        return _runtime.RESULT_WRITTEN, graph.inputs.index(generated.in_place[output]), None
    return _runtime.RESULT_NEW, layout.outputs.index(output), None


def _work(graph: Graph) -> int:
    """Elements that the graph's nodes have together: whether a call is worth a GIL release."""
    total = 0
    for node in graph.nodes:
        if node.op is NEST and node.attributes["nest"].is_polled:
            total += PARALLEL_WORK
        if node.op is TURNS:
            turns = node.attributes["turns"]
            total += turns.work * turns.limit if turns.limit > 0 else PARALLEL_WORK
        size = node.type.numel if isinstance(node.type, TensorType) else 1
        total += size if isinstance(size, int) else 0
    return total


def _is_alone(graph: Graph) -> bool:
    """Whether no other thread may run meanwhile."""
    return any(node.op is NEST and node.attributes["nest"].is_alone for node in graph.calls)


def _explained(generated: Generated) -> str:
    lines = [f"{len(generated.functions)} kernels"]
    for function in generated.functions:
        lines.append(f"  {function.name}: {_kind(function)}{_algorithm(function)}")
    for function in generated.inner:
        lines.append(f"  in each turn of a loop: {function.name}: {_kind(function)}")
    lines += [f"  {note}" for note in generated.notes]
    sizes = sorted({name for function in generated.functions for name in function.sizes})
    if sizes:
        lines.append(f"  known when it runs: {', '.join(sizes)}")
    if generated.layout.workspace_bytes != 0:
        lines.append(f"  workspace: {generated.layout.workspace_bytes} bytes")
    return "\n".join(lines)


__all__ = [
    "DEFAULT",
    "CodegenError",
    "Generated",
    "Kernel",
    "Launching",
    "MixedProgram",
    "Program",
    "Started",
    "ask_machine",
    "compile_graph",
    "compiler_ahead",
    "from_data",
    "generate",
    "is_cuda",
    "is_on_gpu",
    "keeps_native",
    "may_use_gpu",
    "start_build",
    "start_compile",
    "to_data",
]
