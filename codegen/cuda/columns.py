"""Column kernels in CUDA: threads side by side along the columns, so that loads are coalesced.

Contract: a block is `across` packs of columns by `THREADS / across` threads down the rows, which
take every so many rows each; they are combined through shared memory as neighbours. Where columns
alone are too few to fill a GPU, sections of the rows get blocks of their own, whose accumulators a
second kernel folds in order: no atomics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    ceil_div,
    combine_into,
    start_values,
    unflattened,
)
from dynajit.codegen.cuda.units import packs as cuda_packs
from dynajit.codegen.cuda.units.packs import BASE, COUNT
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    WARP,
    Choices,
    Launch,
    Spans,
    combine_either,
    define,
    folding,
    index_type,
    items,
    names,
    only_if,
    partial_buffers,
    power_of_two,
    remember,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops.elements import linear
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Axis,
    Buffer,
    ColumnKernel,
    product_of,
    typical,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

THREADS: Final = 256
"""Threads of a block."""

WANTED_BLOCKS: Final = 512
"""Blocks that fill the largest GPUs about half: each thread has several loads on their way."""

LEAST_ROWS: Final = 16
"""Rows per thread below which another section does not pay for its second stage."""

MOST_SECTIONS: Final = 256

FOLD_ACROSS: Final = 8
"""Packs across of a block that folds what blocks have left: whole lines of 128 bytes."""

SECTION: Final = "section"


LONG: Final = 1 << 13
"""Rows from which an unknown number of them is cut into `UNKNOWN_SECTIONS`."""

UNKNOWN_SECTIONS: Final = 32


def print_columns(kernel: ColumnKernel, choices: Choices) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a column kernel; none if there are no columns."""
    if product_of((*kernel.outer, *kernel.columns)) == 0:
        return ()
    reduced = product_of(kernel.reduced)
    if isinstance(reduced, int):
        return _print(kernel, _section_count(kernel, choices))
    # Whether there are few rows or many, one of both forms is launched.
    few = _print(kernel, 1)
    many = _print(replace(kernel, name=f"{kernel.name}_long"), UNKNOWN_SECTIONS)
    return (
        *(_only_if(step, reduced, 0, LONG) for step in few),
        *(_only_if(step, reduced, LONG + 1, None) for step in many),
    )


def print_fold(kernel: ColumnKernel) -> tuple[CudaKernel, ...]:
    """The CUDA kernel of a column kernel over a few hundred rows that blocks have left: narrow
    blocks, whose threads have few rows each, need no second stage."""
    if product_of((*kernel.outer, *kernel.columns)) == 0:
        return ()
    return (_Columns(kernel, 1, FOLD_ACROSS).kernel_text(),)


def _print(kernel: ColumnKernel, sections: int) -> tuple[CudaKernel, ...]:
    printer = _Columns(kernel, sections)
    if sections == 1:
        return (printer.kernel_text(),)
    return (printer.kernel_text(), _Columns(printer.fold(), 1).kernel_text())


def _only_if(step: CudaKernel, value: Number, low: int, high: int | None) -> CudaKernel:
    x, y, z = step.grid
    return replace(step, grid=(only_if(x, value, low, high), y, z))


def _section_count(kernel: ColumnKernel, choices: Choices) -> int:
    printer = _Columns(kernel, 1)
    blocks, reduced = typical(printer.outer * printer.blocks), typical(printer.reduced)
    wanted = -(-WANTED_BLOCKS // max(blocks, 1))
    fitting = min(reduced // (printer.down * LEAST_ROWS), MOST_SECTIONS)
    default = max(1, min(wanted, fitting))
    values = sorted({default, max(1, default // 2), max(1, min(2 * default, fitting))})
    return choices.of(kernel.name, "sections", values, default)


class _Columns:
    """Prints one column kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: ColumnKernel, sections: int, across: int = WARP) -> None:
        self.kernel = kernel
        (self.column,) = kernel.columns
        self.outer, self.reduced = product_of(kernel.outer), product_of(kernel.reduced)
        self.results: Number = self.outer * self.column.size
        elements = roots_of((), kernel.accumulates)
        self.packing = cuda_packs.choose(
            self.column, elements, kernel.stores, kernel.indices, may_cut=True
        )
        self.width = self.packing.width
        self.packs = ceil_div(self.column.size, self.width)
        self.across = min(across, power_of_two(typical(self.packs)))
        self.down = THREADS // self.across
        self.blocks = ceil_div(self.packs, self.across)
        self.sections = sections
        # With sections the stores belong to the second stage.
        self.stores = kernel.stores if self.sections == 1 else ()
        offsets = [store.offset for store in self.stores]
        roots = roots_of(self.stores, kernel.accumulates)
        self.expressions, self.indices = used_expressions(roots, offsets, kernel.indices)
        self.integer = index_type(
            self.expressions, offsets, self.outer * self.blocks * self.sections,
            self.reduced + THREADS, self.results * self.sections,
        )  # fmt: skip
        self.names = names(self.indices)
        self.partials: Mapping[str, list[Buffer]] = {
            accumulate.name: partial_buffers(kernel.name, accumulate, self.results * self.sections)
            for accumulate in kernel.accumulates
        }
        self.shared_bytes = 0

    def fold(self) -> ColumnKernel:
        """The second stage: the sections are the rows."""
        kernel = self.kernel
        section = Axis(SECTION, self.sections)
        here = [axis.symbol for axis in (*kernel.outer, self.column)]
        sizes = [axis.size for axis in (*kernel.outer, self.column)]
        place: Number = linear(here, sizes)
        offset = section.symbol * self.results + place
        accumulates = tuple(
            folding(accumulate, self.partials[accumulate.name], offset, place)
            for accumulate in kernel.accumulates
        )
        name = f"{kernel.name}_fold"
        return replace(kernel, name=name, reduced=(section,), accumulates=accumulates)

    # -- the whole

    def kernel_text(self) -> CudaKernel:
        kernel, integer = self.kernel, self.integer
        root = Scope(self.names)
        task = root.child([*(axis.name for axis in kernel.outer), BASE])
        self._reduce(task)
        task.add(*self._combine_runs())
        column = task.child([self.column.name])
        self._finish(column)
        own = self.packing.print_items(column.lines, integer) if self.width > 1 else column.lines
        last = [*self._pack_stores(), *own, *self._pack_writes()]
        task.add("if (down == 0 && is_there) {", *(INDENT + line for line in last), "}")
        body = [*self._places(), *root.lines, *task.lines]
        partials = [buffer for buffers in self.partials.values() for buffer in buffers]
        written = [s.buffer for s in self.stores] if self.sections == 1 else partials
        launch = Launch(self.outer * self.blocks * self.sections, THREADS, self.shared_bytes)
        return define(kernel, kernel.name, body, launch, self.expressions, written, self.indices)

    def _places(self) -> list[str]:
        """Which columns and rows are the thread's."""
        integer, across = self.integer, self.across
        blocks, packs = symint.c(self.blocks), symint.c(self.packs)
        lines = [
            f"const int across = threadIdx.x % {across}, down = threadIdx.x / {across};",
            f"const {integer} part = blockIdx.x % {self.sections};",
            f"const {integer} outer = blockIdx.x / {self.sections} / {blocks};",
            f"const {integer} block = blockIdx.x / {self.sections} % {blocks};",
            f"const bool is_there = block * {across} + across < {packs};",
            f"const {integer} {BASE} = (is_there ? block * {across} + across : 0) * {self.width};",
        ]
        if self.width == 1:
            lines.append(f"const {integer} {self.column.name} = {BASE};")
        if self.packing.has_tail:
            rest = f"{symint.c(self.column.size)} - {BASE}"
            lines.append(f"const int {COUNT} = (int)dj_min_index({rest}, {self.width});")
        lines += unflattened("outer", self.kernel.outer, integer)
        loads = self.packing.loads(roots_of((), self.kernel.accumulates))
        return lines + self.packing.print_flag(loads, self.stores)

    def _item(self, name: str) -> str:
        return f"{name}[item]" if self.width > 1 else name

    def _each(self, lines: Sequence[str]) -> list[str]:
        """Lines for every column of the pack."""
        if self.width == 1:
            return ["{", *(INDENT + line for line in lines), "}"]
        return items(self.width, lines)

    def _reduce(self, task: Scope) -> None:
        """Append: every thread combines its rows."""
        kernel, integer = self.kernel, self.integer
        starts = task.child([self.column.name])
        for accumulate in kernel.accumulates:
            values = start_values(starts, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                size = f"[{self.width}]" if self.width > 1 else ""
                task.add(f"{accumulate.element[k].dtype.c} {name}{size};")
                starts.add(f"{self._item(name)} = {values[k]};")
        if self.width > 1:
            # The columns behind the last one start from it; nobody reads their results.
            place = f"const {integer} {self.column.name} = {BASE} + {self._own_item()};"
            task.add(*self._each([place, *starts.lines]))
        else:
            task.add(*starts.lines)
        turns = ceil_div(ceil_div(self.reduced, self.sections), self.down)
        spans = Spans(kernel.accumulates, turns, self.width)
        row = task.child([axis.name for axis in kernel.reduced])
        column = row.child([self.column.name])
        roots = [part for accumulate in kernel.accumulates for part in accumulate.element]
        packs = []
        if self.width > 1:
            packs = self.packing.print_loads(self.packing.loads(roots), row, column)
        for accumulate in kernel.accumulates:
            elements = [column.emit(part) for part in accumulate.element]
            own = accumulator_names(accumulate, "r")
            if len(own) == 1:
                own = [spans.running(accumulate, own[0])]
            combine_into(column, accumulate, [self._item(name) for name in own], elements)
        each = self.packing.print_items(column.lines, integer) if self.width > 1 else column.lines
        per_section = symint.c(ceil_div(self.reduced, self.sections))
        reduced = symint.c(self.reduced)
        lines = [*unflattened("position", kernel.reduced, integer), *row.lines, *packs, *each]
        task.add(
            f"const {integer} stop = dj_min_index((part + 1) * {per_section}, {reduced});",
            *spans.cut(
                task, lines, ("position", f"part * {per_section} + down", "stop", self.down),
                integer, lambda accumulate: accumulator_names(accumulate, "r")[0],
            ),
        )  # fmt: skip

    def _own_item(self) -> str:
        return f"(item < {COUNT} ? item : 0)" if self.packing.has_tail else "item"

    def _combine_runs(self) -> list[str]:
        """Lines by which the threads of a column become one, neighbours first."""
        if self.down == 1:
            return []
        fold, writes, reads, declared = Scope(self.names), [], [], []
        row = self.across * self.width
        for accumulate in self.kernel.accumulates:
            own = accumulator_names(accumulate, "r")
            for name, element in zip(own, accumulate.element, strict=True):
                size = self.down * row
                self.shared_bytes += size * element.dtype.itemsize
                declared.append(f"__shared__ {element.dtype.c} all_{name}[{self.down}][{row}];")
                writes.append(f"all_{name}[down][place] = {self._item(name)};")
                reads.append(f"{self._item(name)} = all_{name}[0][place];")
            self._combine_pair(fold, accumulate, [f"all_{name}" for name in own])
        # Neighbouring threads write neighbouring words.
        place = f"const int place = {f'item * {self.across} + ' * (self.width > 1)}across;"
        pair = f"if ((down & (2 * step - 1)) == 0 && down + step < {self.down}) {{"
        inner = self._each([place, *fold.lines])
        return [
            *declared,
            *self._each([place, *writes]),
            "__syncthreads();",
            f"for (int step = 1; step < {self.down}; step *= 2) {{",
            INDENT + pair, *(INDENT * 2 + line for line in inner), INDENT + "}",
            f"{INDENT}__syncthreads();",
            "}",
            *self._each([place, *reads]),
        ]  # fmt: skip

    def _combine_pair(self, fold: Scope, accumulate: Accumulate, shared: Sequence[str]) -> None:
        inner = Scope(self.names)
        left = [f"own{k}" for k in range(len(shared))]
        right = [f"{memory}[down + step][place]" for memory in shared]
        for k, memory in enumerate(shared):
            inner.add(f"{accumulate.element[k].dtype.c} own{k} = {memory}[down][place];")
        combine_either(inner, accumulate, left, right, "false")
        for k, memory in enumerate(shared):
            inner.add(f"{memory}[down][place] = own{k};")
        fold.add("{", *inner.text(), "}")

    # -- results

    def _finish(self, column: Scope) -> None:
        """Append: the stores, or the section's accumulators for the second stage."""
        if self.sections > 1:
            place = f"(part * {symint.c(self.outer)} + outer) * {symint.c(self.column.size)}"
            for accumulate in self.kernel.accumulates:
                own = accumulator_names(accumulate, "r")
                for partial, name in zip(self.partials[accumulate.name], own, strict=True):
                    target = f"{partial.name}[{place} + {self.column.name}]"
                    column.add(f"{target} = {self._item(name)};")
            return
        for accumulate in self.kernel.accumulates:
            remember(column, accumulate, "r")
        if self.width > 1:
            column.known.update({e: self._item(name) for e, name in column.known.items()})
        for number, store in enumerate(self.stores):
            target = target_of(column, store)
            if self._is_pack(number):
                target = f"result{number}.at[item]"
            column.store(target, store.buffer.dtype, store.value)

    def _is_pack(self, number: int) -> bool:
        return self.width > 1 and self.packing.is_pack(self.stores[number])

    def _pack_stores(self) -> list[str]:
        return [
            f"dj_pack<{store.buffer.dtype.c}, {self.width}> result{number};"
            for number, store in enumerate(self.stores) if self._is_pack(number)
        ]  # fmt: skip

    def _pack_writes(self) -> list[str]:
        return [
            self.packing.print_store(store, f"result{number}")
            for number, store in enumerate(self.stores) if self._is_pack(number)
        ]  # fmt: skip
