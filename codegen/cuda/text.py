"""Loop kernels as CUDA C++: the other spelling of the kernels that `codegen.c.text` prints as C.

Contract: one loop kernel becomes one or a few `CudaKernel`s with their launch geometry as data.
Sizes that are known are constants in the text; symbolic ones are arguments, and geometry follows
from them when the unit runs, so that one unit serves all of them. Results do not depend on the
order in which blocks run, unless float values may meet in a scatter (`Options.deterministic`).
Products of floats are not printed: they stay `LibraryCall`s, for cuBLAS. Units include nothing, so
NVRTC compiles them without the toolkit; they are written for sm_80 and newer. The tests compile
every kind of kernel with NVRTC and run the text on an emulator; `tests/gpu` runs it on GPUs.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from dynajit.codegen.c import sizes as c_sizes
from dynajit.codegen.c.prelude import read
from dynajit.codegen.c.sizes import Symbol
from dynajit.codegen.cuda import checks as cuda_checks
from dynajit.codegen.cuda import columns as cuda_columns
from dynajit.codegen.cuda import epilogues as cuda_epilogues
from dynajit.codegen.cuda import natives as cuda_natives
from dynajit.codegen.cuda import products as cuda_products
from dynajit.codegen.cuda import rows as cuda_rows
from dynajit.codegen.cuda import scans as cuda_scans
from dynajit.codegen.cuda import scatter as cuda_scatter
from dynajit.codegen.cuda import tables as cuda_tables
from dynajit.codegen.cuda.shared import share_entries
from dynajit.codegen.cuda.tables import Group
from dynajit.codegen.cuda.units import hoisting as cuda_hoisting
from dynajit.codegen.cuda.units.steps import Choice, CudaKernel, Options, Step
from dynajit.codegen.cuda.units.support import Choices
from dynajit.codegen.loops import buffers
from dynajit.codegen.loops.loop_ir import (
    Buffer,
    ColumnKernel,
    Kernel,
    MatmulKernel,
    NativeKernel,
    RowKernel,
    ScanKernel,
    ScatterKernel,
)
from dynajit.codegen.plan import fusion, in_place, joining, lowering, memory, natives
from dynajit.codegen.plan.memory import Layout
from dynajit.codegen.plan.shared_products import share_products
from dynajit.core.quoting import in_c_comment
from dynajit.core.records import record
from dynajit.core.types.value_types import ValueType
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind, type_of
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ops.table.op_table import Kind, Op
from dynajit.ops.table.scalar import SCALARS

NO_CHOICES: Final[Mapping[str, int]] = MappingProxyType({})
NOTHING_WRITTEN: Final[Mapping[int, int]] = MappingProxyType({})


@record
class Unit:
    """The CUDA side of a graph.

    Args:
        name: of the graph.
        graph: what is computed, without composites that have no kernels.
        steps: kernels, library calls and fills, in running order; buffers that are neither inputs,
            outputs nor constants live in the workspace.
        layout: where each buffer lives.
        source: the text for NVRTC.
        symbols: sizes that are known when the unit runs; empty if all are known.
        in_place: output -> the input in whose array it is written.
        notes: one line per decision of fusion, for reports.
        choices: what `generate` may be told to do otherwise.
    """

    name: str
    graph: Graph
    steps: tuple[Step, ...]
    layout: Layout
    source: str
    symbols: tuple[Symbol, ...]
    in_place: Mapping[Node, Node]
    notes: tuple[str, ...]
    choices: tuple[Choice, ...]

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """The printed steps."""
        return tuple(step for step in self.steps if isinstance(step, CudaKernel))

    @property
    def may_fail(self) -> bool:
        """A call may refuse its values."""
        return any(kernel.may_fail for kernel in self.kernels)


def print_kernel(kernel: Kernel, choices: Choices, options: Options) -> tuple[Step, ...]:
    """What runs on the GPU for a loop kernel, in order; empty if there is nothing to compute.

    Raises:
        CodegenError: a kernel that exists in C only: its composite was not expanded.
    """
    return tuple(
        replace(step, kernel=kernel) if isinstance(step, CudaKernel) else step
        for step in _print(kernel, choices, options)
    )


def _print(kernel: Kernel, choices: Choices, options: Options) -> tuple[Step, ...]:
    if isinstance(kernel, RowKernel):
        return cuda_rows.print_rows(kernel, choices)
    if isinstance(kernel, ColumnKernel):
        return cuda_columns.print_columns(kernel, choices)
    if isinstance(kernel, ScanKernel):
        return cuda_scans.print_scan(kernel, choices)
    if isinstance(kernel, ScatterKernel):
        return cuda_scatter.print_scatter(kernel, choices, options)
    if isinstance(kernel, MatmulKernel):
        return cuda_products.print_matmul(kernel, choices)
    assert isinstance(kernel, NativeKernel)
    return cuda_natives.print_native(kernel, choices, options)


HEADERS: Final = ("device.h", "indices.h", "scalar.h", "device_packs.h")
"""The device's part, then what CUDA shares with C, then what needs both."""


@functools.cache
def prelude() -> str:
    """The headers of all units, included textually."""
    return "\n".join(read(name) for name in HEADERS)


def print_unit(name: str, steps: Sequence[Step]) -> str:
    """The text of several kernels, for one call of NVRTC."""
    kernels = [step for step in steps if isinstance(step, CudaKernel)]
    texts = {kernel.entry: kernel.source for kernel in kernels}
    own = map(read, cuda_natives.headers_of(kernels))
    return "\n\n".join((f"/* {in_c_comment(name)} */", prelude(), *own, *texts.values())) + "\n"


def keeps_native(op: Op, types: Sequence[ValueType | None], attributes: Mapping[str, Any]) -> bool:
    """True for a call of a composite that has a CUDA kernel of its own: passes leave it whole."""
    return cuda_natives.why_not_native(op.name, types, attributes) is None


def prepare(graph: Graph) -> Graph:
    """The graph as `generate` plans it: composites that have no kernels are expanded."""
    return share_products(expand_composites(graph, keeps=keeps_native))


def why_not(graph: Graph) -> str | None:
    """Why a graph has no CUDA unit, or None if it has."""
    graph = prepare(graph)
    for node in graph.nodes:
        if node.op is not None and _is_without_function(node.op):
            return f"{node.op.name} has no CUDA kernel."
        if node.op is not None and natives.is_native(node):
            types = [type_of(argument) for argument in node.args]
            reason = cuda_natives.why_not_native(node.op.name, types, node.attributes)
            if reason is not None:
                return reason
    return fusion.why_not_native(graph)


def _is_without_function(op: Op) -> bool:
    """True for a row of a scalar function of floats that CUDA lacks."""
    function = SCALARS.get(op.name) if op.kind is Kind.POINTWISE else None
    return function is not None and function.kernels is not None and function.cuda is None


def generate(
    graph: Graph,
    name: str,
    *,
    written: Mapping[int, int] = NOTHING_WRITTEN,
    choices: Mapping[str, int] = NO_CHOICES,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Unit:
    """The CUDA unit of a graph.

    Args:
        graph: any graph; composites in it are expanded.
        name: for the text.
        written: output -> the input that the caller copies it to. The unit may write it there
            itself.
        choices: values for some of the unit's choices, by name.
        options: of the whole unit.

    Raises:
        CodegenError: a row has no CUDA kernel; `why_not` tells before.
    """
    graph = prepare(graph)
    plan = fusion.plan(graph)
    results = {plan.storage.buffers[o] for o in graph.outputs if o in plan.storage.buffers}
    kernels = cuda_epilogues.fold(joining.join(lowering.lower(plan), cuda_rows.may_hold), results)
    found = Choices(choices)
    same: Mapping[Node, Node] = memory.NOTHING
    if written and not any(map(cuda_checks.may_report, kernels)):
        used = [list(buffers.used(kernel)) for kernel in kernels]
        kernels, same = in_place.share(plan, kernels, used, written)
    kernels = cuda_checks.ahead(kernels, _given(plan))
    kernels = [part for kernel in kernels for part in _hoisted(kernel)]
    groups = cuda_tables.group(kernels, {k.name: buffers.used(k) for k in kernels})
    steps = share_entries([step for entry in groups for step in _steps(entry, found, options)])
    layout = memory.arrange(plan, [step.buffers for step in steps], same)
    return Unit(
        name, graph, steps, layout, print_unit(name, steps), c_sizes.symbols_of(graph), same,
        tuple(plan.notes), tuple(found.found.values()),
    )  # fmt: skip


def _given(plan: fusion.Plan) -> set[Buffer]:
    """The buffers of inputs and constants."""
    found = plan.storage.buffers
    return {buffer for node, buffer in found.items() if node.kind is not NodeKind.CALL}


def _hoisted(kernel: Kernel) -> tuple[Kernel, ...]:
    return cuda_hoisting.hoist(kernel) if isinstance(kernel, RowKernel) else (kernel,)


def _steps(entry: Kernel | Group, choices: Choices, options: Options) -> tuple[Step, ...]:
    if isinstance(entry, Group):
        return cuda_tables.print_group(entry, choices)
    return print_kernel(entry, choices, options)
