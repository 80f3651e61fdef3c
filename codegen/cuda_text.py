"""Loop kernels as CUDA C++: the other spelling of the kernels that `c_text` prints as C.

Contract: one loop kernel becomes one or a few `CudaKernel`s with their launch geometry as data;
sizes are constants in the text, so a unit belongs to one set of shapes. Results do not depend on
the order in which blocks run: there are no atomics except in error reports. Matrix products are
not printed: they stay `LibraryCall`s, for cuBLAS. Units include nothing, so NVRTC compiles them
without the toolkit; they are written for sm_80 and newer. The tests compile every kind of kernel
with NVRTC and run the text on an emulator; **none has run on a GPU yet**, and nothing launches
them yet. Called by tests and, later, by the GPU backend.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from dynajit.codegen import (
    cuda_columns,
    cuda_rows,
    cuda_scans,
    cuda_scatter,
    fusion,
    joining,
    lowering,
    memory,
)
from dynajit.codegen.c_prelude import read
from dynajit.codegen.cuda_steps import CudaKernel, LibraryCall, Step
from dynajit.codegen.cuda_support import Choices
from dynajit.codegen.loops import (
    ColumnKernel,
    Kernel,
    NativeKernel,
    RowKernel,
    ScanKernel,
    ScatterKernel,
)
from dynajit.codegen.memory import Layout
from dynajit.core.errors import CodegenError
from dynajit.ir.graph import Graph
from dynajit.ir.sizes import symbols


@dataclass(frozen=True, slots=True)
class Unit:
    """The CUDA side of a graph.

    Args:
        name: of the graph.
        steps: kernels and library calls, in running order; buffers that are neither inputs,
            outputs nor constants live in the workspace.
        layout: where each buffer lives.
        source: the text for NVRTC.
    """

    name: str
    steps: tuple[Step, ...]
    layout: Layout
    source: str

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """The printed steps."""
        return tuple(step for step in self.steps if isinstance(step, CudaKernel))


def print_kernel(kernel: Kernel, choices: Choices) -> tuple[Step, ...]:
    """What runs on the GPU for a loop kernel, in order; empty if there is nothing to compute.

    Raises:
        CodegenError: a kernel that exists in C only: its composite was not expanded.
    """
    if isinstance(kernel, RowKernel):
        return cuda_rows.print_rows(kernel, choices)
    if isinstance(kernel, ColumnKernel):
        return cuda_columns.print_columns(kernel, choices)
    if isinstance(kernel, ScanKernel):
        return cuda_scans.print_scan(kernel)
    if isinstance(kernel, ScatterKernel):
        return cuda_scatter.print_scatter(kernel, choices)
    if isinstance(kernel, NativeKernel):
        raise CodegenError(
            f"{kernel.name}: kernels of convolutions, pools and orders exist in C only; "
            "expand composites before generating CUDA."
        )
    return (LibraryCall(kernel.name, kernel),)


HEADERS: Final = ("device.h", "indices.h", "scalar.h", "device_packs.h")


@functools.cache
def prelude() -> str:
    """The headers, included textually: the device's part, then what CUDA shares with C."""
    return "\n".join(read(name) for name in HEADERS)


def print_unit(name: str, steps: Sequence[Step]) -> str:
    """The text of several kernels, for one call of NVRTC."""
    texts = {step.entry: step.source for step in steps if isinstance(step, CudaKernel)}
    return "\n\n".join((f"/* {name} */", prelude(), *texts.values())) + "\n"


def generate(graph: Graph, name: str) -> Unit:
    """The CUDA unit of a graph without composites.

    Raises:
        CodegenError: a row has no native lowering, or a size is symbolic.
    """
    if symbols(graph):
        names = ", ".join(sorted(symbols(graph)))
        raise CodegenError(f"{name}: CUDA kernels need known sizes; {names} are symbolic.")
    plan = fusion.plan(graph)
    choices = Choices()
    kernels = joining.join(lowering.lower(plan), cuda_rows.may_hold)
    steps = tuple(step for kernel in kernels for step in print_kernel(kernel, choices))
    layout = memory.arrange(plan, [step.buffers for step in steps])
    return Unit(name, steps, layout, print_unit(name, steps))
