"""CUDA units on the CPU: the text that NVRTC gets, compiled by g++ with `cuda_emulator.h`.

Contract: `build(source, entries, folder)` compiles any CUDA text; the shared library has a function
`emulated_<entry>` for each kernel (`launch` calls it). `emulate(units, folder)` compiles whole
units at once; each is called with NumPy arrays and numbers and gives arrays, or raises what its
kernels report. Products are NumPy's, as they are the library's on a GPU. What the emulator finds
wrong with a kernel is a `KernelError`. `kernels_met()` are all kernels that were made here, for
`test_kernels_met.py`, which compiles them for GPUs.
"""

import ctypes
import dataclasses
import functools
import math
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynajit.codegen.cuda import text as cuda_text
from dynajit.codegen.cuda.text import Unit
from dynajit.codegen.cuda.units.steps import (
    CudaKernel,
    LibraryCall,
    Memset,
    ScalarArgument,
    SizeArgument,
    TableArgument,
)
from dynajit.codegen.loops.loop_ir import Buffer
from dynajit.codegen.run import blueprints
from dynajit.codegen.run.blueprints import Kernel
from dynajit.core.types import symint
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Graph, Node, NodeKind, symbol_places

EMULATOR = Path(__file__).parent / "cuda_emulator.h"
FLAGS = ("-std=c++17", "-w", "-fwrapv", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC")
FLAGS += ("-fvisibility=hidden", "-fno-exceptions", "-fno-rtti")
HEAVY = ("dj_attention", "dj_convolution", "dj_pool", "dj_order")
"""What makes a text worth the time of an optimising compiler."""
CHECKED = ("-fsanitize=thread,bounds,alignment", "-fno-sanitize-recover=all")
"""The compiler calls the emulator for every access to memory."""


SLACK = 4
"""Memory of a GPU is given out by more bytes than that: atomic operations are on whole words."""


_met: dict[str, CudaKernel] = {}
"""By their text without their names."""


def kernels_met() -> list[CudaKernel]:
    """Kernels of all units that were compiled in this process, equal ones once."""
    return list(_met.values())


def _note(kernels: Sequence[CudaKernel]) -> None:
    for kernel in kernels:
        _met.setdefault(re.sub(rf"\b{kernel.entry}\b", "kernel", kernel.source), kernel)


class KernelError(AssertionError):
    """A kernel did what no GPU would let it do, or what no order of threads makes right."""


def build(source: str, entries: Sequence[str], folder: Path, checked: bool = True) -> Path:
    """The library of some kernels.

    Args:
        source: a whole unit, prelude and all.
        entries: names of its kernels.
        folder: for the text and the library.
        checked: every access to memory is looked at.
    """
    exports = "\n".join(f"DJ_EMULATE({entry})" for entry in entries)
    text, library = folder / "unit.cpp", folder / "unit.so"
    level = "-O1" if any(name in source for name in HEAVY) else "-O0"
    flags = (*FLAGS, level, *(CHECKED if checked else ()))
    head, rest = read_ahead(source, flags)
    text.write_text(f"{rest}\n{exports}\n")
    made = folder / "unit.o"
    command = ["g++", *flags, *head, "-c", "-o", str(made), str(text)]
    subprocess.run(command, check=True)
    subprocess.run(linking(library, made), check=True)
    made.unlink()
    return library


def linking(library: Path, made: Path) -> list[str]:
    """The command that makes a library of what g++ made: not by the flags for that, which would
    load the sanitizer, whose calls the emulator answers."""
    linker = ["gcc", "-shared", "-nostdlib", "-fno-use-linker-plugin"]
    return [*linker, "-o", str(library), str(made), "-lm", "-lc", "-lgcc"]


def read_ahead(source: str, flags: tuple[str, ...]) -> tuple[tuple[str, str], str]:
    """The options by which g++ takes the emulator and the prelude, and a unit without these.

    Args:
        source: a whole unit.
        flags: that it is compiled with.
    """
    return ("-include", str(_head(flags))), source.replace(cuda_text.prelude(), "", 1)


@functools.cache
def _head(flags: tuple[str, ...]) -> Path:
    """What all units begin with, the emulator and the prelude, read by the compiler once."""
    folder = tempfile.TemporaryDirectory(prefix="emulator")
    _held.append(folder)
    head = Path(folder.name) / "head.h"
    head.write_text(f'#include "{EMULATOR}"\n{cuda_text.prelude()}')
    command = ["g++", *flags, "-x", "c++-header", "-o", f"{head}.gch", str(head)]
    subprocess.run(command, check=True)
    return head


_held: list[tempfile.TemporaryDirectory] = []
"""Folders that stay as long as the process."""


def load(library: Path) -> ctypes.CDLL:
    """A library that `build` made."""
    loaded = ctypes.CDLL(str(library))
    loaded.emulator_message.restype = ctypes.c_char_p
    loaded.emulator_run_last.argtypes = [ctypes.c_uint]
    loaded.emulator_allow.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return loaded


def launch(
    library: ctypes.CDLL,
    entry: str,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[bytes],
    dynamic_bytes: int = 0,
) -> None:
    """Run a kernel.

    Args:
        library: from `load`.
        entry: the kernel.
        grid, block: three numbers each.
        arguments: the bytes of each.
        dynamic_bytes: dynamic shared memory.

    Raises:
        KernelError: what the kernel did wrong, and where.
    """
    held = [ctypes.create_string_buffer(given, len(given)) for given in arguments]
    pointers = (ctypes.c_void_p * max(len(held), 1))(*map(ctypes.addressof, held))
    three = ctypes.c_uint * 3
    call = getattr(library, f"emulated_{entry}")
    if call(three(*grid), three(*block), ctypes.c_size_t(dynamic_bytes), pointers):
        raise KernelError(f"{entry}: {library.emulator_message().decode()}")


def renamed(kernel: CudaKernel, prefix: str) -> CudaKernel:
    """The kernel under a name of its own in a text of many units."""
    entry = f"{prefix}_{kernel.entry}"
    source = re.sub(rf"\b{kernel.entry}\b", entry, kernel.source)
    return dataclasses.replace(kernel, name=f"{prefix}_{kernel.name}", entry=entry, source=source)


class Emulated:
    """A unit whose kernels run on the CPU; products are NumPy's."""

    def __init__(self, graph: Graph, unit: Unit, library: Any, prefix: str) -> None:
        self.graph, self.unit, self.library, self.prefix = graph, unit, library, prefix

    def __call__(self, *arguments: Any) -> list[Any]:
        return _Run(self, arguments).results()

    def last_blocks(self, count: int, *arguments: Any) -> list[Any]:
        """What the last blocks of each kernel give, for arrays of billions of elements.

        Memory that nothing is written to takes no room, and accesses are not looked at.
        """
        self.library.emulator_run_last(count)
        try:
            return _Part(self, arguments).results()
        finally:
            self.library.emulator_run_last(0)


class EmulatedProgram(Emulated):
    """A graph's unit as a `Program` of `codegen.pipeline`: tests of C kernels run on it.

    Args:
        graph: any graph.
        name: of the unit.
        asked: further arguments of `codegen.cuda.text.generate`.
    """

    def __init__(self, graph: Graph, name: str = "unit", **asked: Any) -> None:
        unit = cuda_text.generate(graph, name, **asked)
        _note(unit.kernels)
        entries = list(dict.fromkeys(kernel.entry for kernel in unit.kernels))
        with tempfile.TemporaryDirectory() as folder:
            library = load(build(unit.source, entries, Path(folder)))
        super().__init__(unit.graph, unit, library, "")
        self.name, self.source, self.may_fail = name, unit.source, unit.may_fail
        texts: dict[str, list[str]] = {}  # of loop kernels: as many as there are in C
        for step in unit.steps:
            if not isinstance(step, Memset):
                own = step.source if isinstance(step, CudaKernel) else ""
                texts.setdefault(step.kernel.name, []).append(own)
        self.kernels = tuple(Kernel(name, "\n".join(own)) for name, own in texts.items())
        self.stages: dict[str, float] = {}
        self.from_cache = False
        kinds = {
            step.kernel.name: type(step.kernel).__name__.removesuffix("Kernel").lower()
            for step in unit.steps if not isinstance(step, Memset)
        }  # fmt: skip
        lines = [f"  {name}: {kind}" for name, kind in kinds.items()]
        self.explain = "\n".join((f"{len(kinds)} kernels", *lines, *unit.notes))
        self.threads = 1

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        return tuple(super().__call__(*arguments))


class _Run:
    """One call. Mutable: memory is filled."""

    def __init__(self, program: Emulated, arguments: Sequence[Any]) -> None:
        self.program, self.arguments = program, arguments
        layout, graph = program.unit.layout, program.graph
        pairs = list(zip(graph.inputs, arguments, strict=True))
        self.numbers = [
            word_of(given) for node, given in pairs if isinstance(node.type, ScalarType)
        ]
        tensors = [given for node, given in pairs if isinstance(node.type, TensorType)]
        self.sizes = {
            name: int(arguments[position] if dim is None else arguments[position].shape[dim])
            for name, (position, dim) in symbol_places(graph).items()
        }
        self.outputs = [self.unwritten(node.type) for node in layout.outputs]
        self.constants = [np.ascontiguousarray(value) for value in layout.constants]
        self.workspace = np.full(self.known(layout.workspace_bytes) + 64, 0xAB, np.uint8)
        start = -self.workspace.ctypes.data % 64
        self.workspace = self.workspace[start:]
        self.status = np.zeros(4, np.int64)
        self.arrays = {"inputs": tensors, "outputs": self.outputs, "constants": self.constants}

    def unwritten(self, type: TensorType) -> np.ndarray:
        """An array that holds nothing of use."""
        shape = tuple(map(self.known, type.shape))
        size = math.prod(shape) * type.dtype.itemsize
        memory = np.full(size + SLACK, 0xAB, np.uint8)[:size]
        return memory.view(type.dtype.numpy).reshape(shape)

    def known(self, number: Any) -> int:
        """A size of this call."""
        return int(symint.substitute(number, self.sizes))

    def address(self, buffer: Buffer) -> int:
        """Where a buffer lies."""
        kind, position = self.program.unit.layout.places[buffer]
        if kind == "workspace":
            return self.workspace.ctypes.data + self.known(position)
        return self.arrays[kind][position].__array_interface__["data"][0]

    def extent(self, buffer: Buffer) -> tuple[int, int]:
        """Address and size of what kernels may touch of a buffer."""
        kind, position = self.program.unit.layout.places[buffer]
        if kind == "inputs" and self.arrays[kind][position].size:
            start, stop = np.lib.array_utils.byte_bounds(self.arrays[kind][position])
            return start, stop - start
        size = self.known(buffer.size) * buffer.dtype.itemsize
        return self.address(buffer), -(-size // SLACK) * SLACK

    def word(self, word: Any) -> bytes:
        """Eight bytes of an argument."""
        if isinstance(word, Buffer):
            return self.address(word).to_bytes(8, "little")
        if isinstance(word, ScalarArgument):
            return self.numbers[word.position]
        assert isinstance(word, SizeArgument)
        return self.known(word.value).to_bytes(8, "little", signed=True)

    def argument(self, argument: Any) -> bytes:
        """The bytes of an argument."""
        if isinstance(argument, str):
            return self.status.ctypes.data.to_bytes(8, "little")
        if isinstance(argument, TableArgument):
            return b"".join(self.word(word) for row in argument.rows for word in row)
        return self.word(argument)

    def step(self, step: Any) -> None:
        """Run one step."""
        if isinstance(step, LibraryCall):
            self.multiply(step)
        elif isinstance(step, Memset):
            size = self.known(step.buffer.size) * step.buffer.dtype.itemsize
            ctypes.memset(self.address(step.buffer), step.byte, size)
        else:
            self.launch(step)

    def launch(self, kernel: CudaKernel) -> None:
        grid = tuple(map(self.known, kernel.grid))
        if 0 in grid:
            return
        library = self.program.library
        self.allow(kernel)
        try:
            launch(
                library, f"{self.program.prefix}{kernel.entry}", grid, kernel.block,
                [self.argument(argument) for argument in kernel.arguments],
                self.known(kernel.dynamic_bytes),
            )  # fmt: skip
        finally:
            library.emulator_forget()
        if self.status[0]:
            blueprints.failure("emulated")(*map(int, self.status))

    def allow(self, kernel: CudaKernel) -> None:
        """Tell the emulator what a kernel may touch."""
        library = self.program.library
        for buffer in dict.fromkeys(kernel.buffers):
            library.emulator_allow(*self.extent(buffer))
        library.emulator_allow(self.status.ctypes.data, self.status.nbytes)

    def results(self) -> list[Any]:
        """What the graph gives."""
        for step in self.program.unit.steps:
            self.step(step)
        graph = self.program.graph
        found = dict(zip(self.program.unit.layout.outputs, self.outputs, strict=True))
        found |= dict(zip(graph.inputs, self.arguments, strict=True))
        found |= {node: found[source] for node, source in self.program.unit.in_place.items()}

        def result(output: Any) -> Any:
            if not isinstance(output, Node):
                return output
            return output.value if output.kind is NodeKind.CONSTANT else found[output]

        return [result(output) for output in graph.outputs]

    def multiply(self, call: LibraryCall) -> None:
        """What cuBLAS would do."""
        kernel = call.kernel
        batch = tuple(map(self.known, kernel.batch))
        rows, inner, columns = map(self.known, (kernel.rows, kernel.inner, kernel.columns))

        def view(matrix: Any, rows: int, columns: int) -> np.ndarray:
            size = matrix.buffer.dtype.itemsize
            bytes = self.known(matrix.buffer.size) * size
            memory = (ctypes.c_char * bytes).from_address(self.address(matrix.buffer))
            flat = np.frombuffer(memory, matrix.buffer.dtype.numpy)[self.known(matrix.offset) :]
            strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
            steps = [self.known(step) * size for step in strides]
            return np.lib.stride_tricks.as_strided(flat, (*batch, rows, columns), steps)

        left, right = view(kernel.left, rows, inner), view(kernel.right, inner, columns)
        if left.dtype.itemsize == 2:
            left, right = left.astype(np.float32), right.astype(np.float32)
        result = view(kernel.result, rows, columns)
        with np.errstate(all="ignore"):
            total = np.matmul(left, right)
            if kernel.bias is not None:
                size = self.known(kernel.bias.size) * kernel.bias.dtype.itemsize
                memory = (ctypes.c_char * size).from_address(self.address(kernel.bias))
                total = total + np.frombuffer(memory, kernel.bias.dtype.numpy).astype(total.dtype)
            result[...] = total.astype(result.dtype)


class _Part(_Run):
    """A call of which some blocks run."""

    def unwritten(self, type: TensorType) -> np.ndarray:
        return np.zeros(tuple(map(self.known, type.shape)), type.dtype.numpy)

    def allow(self, kernel: CudaKernel) -> None:
        """All memory may be touched."""


def word_of(number: Any) -> bytes:
    """A run-time number in eight bytes."""
    if isinstance(number, float):
        return np.array([number]).tobytes()
    return np.array([int(number)]).tobytes()


def emulate(
    units: Mapping[str, tuple[Graph, Unit]], folder: Path, checked: bool = True
) -> dict[str, Emulated]:
    """Every unit as a function on the CPU.

    Args:
        units: optimised graphs and their units, by name.
        folder: for the text and the library.
        checked: see `build`.
    """
    for _, unit in units.values():
        _note(unit.kernels)
    kernels = {
        name: [renamed(kernel, f"u{number}") for kernel in unit.kernels]
        for number, (name, (_, unit)) in enumerate(units.items())
    }
    flat = [kernel for own in kernels.values() for kernel in own]
    entries = list(dict.fromkeys(kernel.entry for kernel in flat))
    loaded = load(build(cuda_text.print_unit("tests", flat), entries, folder, checked))
    return {
        name: Emulated(graph, unit, loaded, f"u{number}_")
        for number, (name, (graph, unit)) in enumerate(units.items())
    }
