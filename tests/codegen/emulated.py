"""CUDA units on the CPU: the text that NVRTC gets, compiled by g++ with `cuda_emulator.h`.

Contract: `emulate(units, folder)` compiles all units at once; each is called with NumPy arrays and
numbers and gives arrays, or raises what its kernels report. Products are NumPy's, as they are the
library's on a GPU. The emulator sees no missing barriers and no misaligned packs.
"""

import ctypes
import dataclasses
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dynajit.codegen import blueprints, cuda_text
from dynajit.codegen.cuda_support import SCALARS, STATUS, CudaKernel, LibraryCall
from dynajit.codegen.cuda_text import Unit
from dynajit.core.types import ScalarType
from dynajit.ir.graph import Graph, Node, NodeKind

EMULATOR = Path(__file__).parent / "cuda_emulator.h"
FLAGS = ("-std=c++17", "-O0", "-w", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing")


def renamed(kernel: CudaKernel, prefix: str) -> CudaKernel:
    """The kernel under a name of its own in a text of many units."""
    name = f"{prefix}_{kernel.name}"
    return dataclasses.replace(
        kernel, name=name, source=re.sub(rf"\b{kernel.name}\b", name, kernel.source)
    )


def launcher(kernel: CudaKernel) -> str:
    """A C function that runs a kernel on an array of pointers."""
    types = []
    for argument in kernel.arguments:
        special = {SCALARS: "dj_scalar", STATUS: "int64_t"}
        types.append(special[argument] if isinstance(argument, str) else argument.dtype.c)
    given = ", ".join(f"({c} *)pointers[{i}]" for i, c in enumerate(types))
    call = f"[=] {{ {kernel.name}({given}); }}"
    return (
        f'extern "C" void launch_{kernel.name}(void **pointers) {{\n'
        f"    emulator::launch({kernel.grid}, {kernel.block}, {call});\n}}"
    )


class Emulated:
    """A unit whose kernels run on the CPU; products are NumPy's."""

    def __init__(self, graph: Graph, unit: Unit, library: Any, prefix: str) -> None:
        self.graph, self.unit, self.library, self.prefix = graph, unit, library, prefix

    def __call__(self, *arguments: Any) -> list[Any]:
        layout = self.unit.layout
        numbers, tensors = [np.zeros(8)], []
        for node, argument in zip(self.graph.inputs, arguments, strict=True):
            if not isinstance(node.type, ScalarType):
                tensors.append(argument)
            elif isinstance(argument, float):
                numbers.append(np.array([argument]))
            else:
                numbers.append(np.array([int(argument)]).view(np.float64))
        outputs = [np.empty(tuple(n.type.shape), n.type.dtype.numpy) for n in layout.outputs]
        constants = [np.ascontiguousarray(value) for value in layout.constants]
        workspace = np.full(layout.workspace_bytes + 64, 0xAB, np.uint8)
        scalars, status = np.concatenate(numbers[1:] or numbers), np.zeros(4, np.int64)
        arrays = {"inputs": tensors, "outputs": outputs, "constants": constants}

        def pointer(argument: Any) -> int:
            if isinstance(argument, str):
                return (scalars if argument == SCALARS else status).ctypes.data
            kind, position = layout.places[argument]
            if kind == "workspace":
                return workspace.ctypes.data + position
            return arrays[kind][position].__array_interface__["data"][0]

        for step in self.unit.steps:
            if isinstance(step, LibraryCall):
                multiply(step, pointer)
                continue
            pointers = [pointer(argument) for argument in step.arguments]
            launch = getattr(self.library, f"launch_{self.prefix}_{step.name}")
            launch((ctypes.c_void_p * len(pointers))(*pointers))
            if status[0]:
                blueprints.failure("emulated")(*map(int, status))
        found = dict(zip(layout.outputs, outputs, strict=True))
        found |= dict(zip(self.graph.inputs, arguments, strict=True))

        def result(output: Any) -> Any:
            if not isinstance(output, Node):
                return output
            return output.value if output.kind is NodeKind.CONSTANT else found[output]

        return [result(output) for output in self.graph.outputs]


def multiply(call: LibraryCall, pointer: Any) -> None:
    """What cuBLAS would do."""
    kernel = call.kernel

    def view(matrix: Any, rows: int, columns: int) -> np.ndarray:
        size = matrix.buffer.dtype.itemsize
        memory = (ctypes.c_char * (matrix.buffer.size * size)).from_address(pointer(matrix.buffer))
        flat = np.frombuffer(memory, matrix.buffer.dtype.numpy)[matrix.offset :]
        strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
        return np.lib.stride_tricks.as_strided(
            flat, (*kernel.batch, rows, columns), [step * size for step in strides]
        )

    view(kernel.result, kernel.rows, kernel.columns)[...] = np.matmul(
        view(kernel.left, kernel.rows, kernel.inner),
        view(kernel.right, kernel.inner, kernel.columns),
    )


def emulate(units: Mapping[str, tuple[Graph, Unit]], folder: Path) -> dict[str, Emulated]:
    """Every unit as a function on the CPU.

    Args:
        units: optimised graphs and their units, by name.
        folder: for the text and the library.
    """
    kernels = {
        name: [renamed(kernel, f"u{number}") for kernel in unit.kernels]
        for number, (name, (_, unit)) in enumerate(units.items())
    }
    flat = [kernel for own in kernels.values() for kernel in own]
    text = "\n".join(
        [f'#include "{EMULATOR}"', cuda_text.print_unit("tests", flat), *map(launcher, flat)]
    )
    source, library = folder / "unit.cpp", folder / "unit.so"
    source.write_text(text)
    command = ["g++", *FLAGS, "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    return {
        name: Emulated(graph, unit, loaded, f"u{number}")
        for number, (name, (graph, unit)) in enumerate(units.items())
    }
