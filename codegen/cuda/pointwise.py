"""Kernels that reduce nothing in CUDA: a grid-stride loop, by packs of 16 bytes where it may be.

Contract: one thread computes an element, or the elements of one pack along the last loop (see
`codegen.cuda.units.packs`). What reads across the order in which it writes is printed by
`codegen.cuda.transposed`.
"""

from typing import Final

from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.c.support import ceil_div, loop, unflattened
from dynajit.codegen.cuda import transposed as cuda_transposed
from dynajit.codegen.cuda.units import packs as cuda_packs
from dynajit.codegen.cuda.units.packs import BASE, COUNT
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    RESIDENT_THREADS,
    Choices,
    Launch,
    define,
    index_type,
    names,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops.loop_ir import Axis, RowKernel, product_of
from dynajit.core.types import symint
from dynajit.core.types.dtypes import compute_dtype
from dynajit.core.types.symint import Number

THREADS: Final = 256
"""Threads of a block: eight warps, so that an SM of 64 warps holds eight blocks."""

MOST_BLOCKS: Final = 4096
"""Blocks of a grid-stride loop: some thirty per SM of the largest GPUs."""

HEAVY_BYTES: Final = 96
"""Of the packs of a turn in registers; with more, half of the threads have twice the registers. An
optimiser's update of four tensors spilled some."""


def print_pointwise(kernel: RowKernel, choices: Choices) -> tuple[CudaKernel, ...]:
    """The kernel, or none if no element is computed."""
    if cuda_transposed.fits(kernel):
        return (cuda_transposed.print_transposed(kernel, choices),)
    printer = Pointwise(kernel, choices)
    return (printer.kernel_text(),) if printer.count != 0 and printer.stores else ()


class Pointwise:
    """Prints one kernel. Mutable: scopes fill up.

    Args:
        kernel: reduces nothing.
        choices: for it.
    """

    def __init__(self, kernel: RowKernel, choices: Choices) -> None:
        self.kernel = kernel
        axes = (*kernel.rows, *kernel.elements)
        self.axes = axes or (Axis("i0", 1),)
        self.count = product_of(self.axes)
        self.stores = tuple(store for phase in kernel.phases for store in phase.stores)
        offsets = [store.offset for store in self.stores]
        self.roots = roots_of(self.stores, ())
        self.expressions, self.indices = used_expressions(self.roots, offsets, kernel.indices)
        self.integer = index_type(self.expressions, offsets, self.count)
        self.names = names(self.indices)
        *self.outer, self.last = self.axes
        self.packing = cuda_packs.choose(
            self.last, self.roots, self.stores, self.indices, may_cut=True
        )
        self.threads = choices.of(kernel.name, "threads", (128, 256, 512), THREADS)
        self.packs = choices.of(kernel.name, "packs", (1, 2, 4), 1)

    def kernel_text(self) -> CudaKernel:
        """The kernel."""
        root = Scope(self.names)
        lines = self._turn(root)
        per_row = ceil_div(self.last.size, self.packing.width)
        count = product_of(self.outer) * per_row
        blocks = symint.minimum(ceil_div(count, self.threads * self.packs), MOST_BLOCKS)
        start = f"({self.integer})blockIdx.x * {self.threads} + threadIdx.x"
        step = f"({self.integer})gridDim.x * {self.threads}"
        shared = root.lines
        if self.count == 1:
            # Only the thread that writes reads: it may be the place that is written.
            shared, lines = [], [*root.lines, *lines]
        body = loop("turn", start, symint.c(count), lines, step, self.integer)
        if self.packs > 1:
            body = [f"#pragma unroll {self.packs}", *body]
        return define(
            self.kernel, self.kernel.name, [*self._head(), *shared, *body],
            Launch(blocks, self.threads, resident=self.resident), self.expressions,
            [store.buffer for store in self.stores], self.indices,
        )  # fmt: skip

    @property
    def resident(self) -> int:
        """Threads of an SM."""
        packed = [load.expression.dtype for load in self.packing.loads(self.roots)]
        packed += [s.buffer.dtype for s in self.stores if self.packing.is_pack(s)]
        held = self.packing.width * sum(compute_dtype(dtype).itemsize for dtype in packed)
        return RESIDENT_THREADS // 2 if held > HEAVY_BYTES else RESIDENT_THREADS

    def piece(self, elements: int) -> list[str]:
        """Lines for a block that works on `elements` of a kernel's only loop, those of `block`."""
        root = Scope(self.names)
        lines = self._turn(root)
        count = symint.c(ceil_div(self.last.size, self.packing.width))
        packs = elements // self.packing.width
        stop = f"dj_min_index((block + 1) * {packs}, {count})"
        body = loop(
            "turn", f"block * {packs} + threadIdx.x", stop, lines, str(self.threads), self.integer
        )
        return [*self._head(), *root.lines, "#pragma unroll 4", *body]

    def _head(self) -> list[str]:
        return self.packing.print_flag(self.packing.loads(self.roots), self.stores)

    def _turn(self, root: Scope) -> list[str]:
        """What a thread does at once: a pack, or an element."""
        packing = self.packing
        outer = root.child([*(axis.name for axis in self.outer), BASE])
        inner = outer.child([self.last.name])
        if packing.width == 1:
            for store in self.stores:
                inner.store(target_of(inner, store), store.buffer.dtype, store.value)
            places = unflattened("turn", self.axes, self.integer)
            return [*places, *outer.lines, *inner.lines]
        before = packing.print_loads(packing.loads(self.roots), outer, inner)
        after = []
        for number, store in enumerate(self.stores):
            if not packing.is_pack(store):
                inner.store(target_of(inner, store), store.buffer.dtype, store.value)
                continue
            pack = f"result{number}"
            inner.store(f"{pack}.at[item]", store.buffer.dtype, store.value)
            before.append(f"dj_pack<{store.buffer.dtype.c}, {packing.width}> {pack};")
            after.append(packing.print_store(store, pack))
        items = packing.print_items(inner.lines, self.integer)
        return [*self._place(), *outer.lines, *before, *items, *after]

    def _place(self) -> list[str]:
        """Definitions of the first element of a pack, and of its row."""
        width = self.packing.width
        per_row: Number = ceil_div(self.last.size, width)
        is_flat = product_of(self.outer) == 1
        position = "turn" if is_flat else f"turn % {symint.c(per_row)}"
        lines = [f"const {self.integer} {BASE} = {position} * {width};"]
        if self.packing.has_tail:
            rest = f"{symint.c(self.last.size)} - {BASE}"
            lines.append(f"const int {COUNT} = (int)dj_min_index({rest}, {width});")
        row = f"(turn / {symint.c(per_row)})"
        return [*lines, *unflattened(row, self.outer, self.integer)]
