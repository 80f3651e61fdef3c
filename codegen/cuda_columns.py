"""Column kernels in CUDA: threads side by side along the columns, so that loads are coalesced.

Contract: a block is `across` columns by `THREADS / across` runs of rows; each thread goes down its
run, the runs are combined through shared memory as neighbours, the earlier rows on the left. Where
columns alone are too few to fill a GPU, sections of the rows get blocks of their own, whose
accumulators a second kernel folds in order: no atomics. Compiled, not yet run on a GPU. Called by
`codegen.cuda_text`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dynajit.codegen.c_expressions import INDENT, Scope
from dynajit.codegen.c_support import (
    accumulator_names,
    combine,
    combine_into,
    loop,
    start_values,
    unflattened,
)
from dynajit.codegen.cuda_steps import CudaKernel
from dynajit.codegen.cuda_support import (
    THREADS,
    WARP,
    Launch,
    define,
    folding,
    index_type,
    names,
    partial_buffers,
    power_of_two,
    product,
    remember,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.elements import linear
from dynajit.codegen.loops import Accumulate, Axis, ColumnKernel
from dynajit.core.symint import Number

WANTED_BLOCKS: Final = 256
"""Blocks that fill the largest GPUs about twice; sections of rows are made up to it."""

LEAST_ROWS: Final = 64
"""Rows per thread below which another section does not pay for its second stage."""

MOST_SECTIONS: Final = 128


def print_columns(kernel: ColumnKernel) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a column kernel; none if there are no columns."""
    printer = _Columns(kernel)
    if printer.outer * printer.column.size == 0:
        return ()
    first = printer.kernel_text()
    return (first,) if printer.sections == 1 else (first, printer.fold().kernel_text())


class _Columns:
    """Prints one column kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: ColumnKernel, sections: int | None = None) -> None:
        self.kernel = kernel
        (self.column,) = kernel.columns
        self.outer, self.reduced = product(kernel.outer), product(kernel.reduced)
        self.across = min(WARP, power_of_two(self.column.known))
        self.down = THREADS // self.across
        self.blocks = -(-self.column.known // self.across)
        self.sections = sections or self._section_count()
        # With sections the stores belong to the second stage.
        stores = kernel.stores if self.sections == 1 else ()
        roots = roots_of(stores, kernel.accumulates)
        offsets = [store.offset for store in stores]
        self.expressions, self.indices = used_expressions(roots, offsets, kernel.indices)
        count = self.outer * self.blocks * self.sections + self.reduced
        self.integer = index_type(
            self.expressions, offsets, max(count, self._results() * self.sections)
        )
        self.names = names(self.indices)
        self.partials = {
            accumulate.name: partial_buffers(
                kernel.name, accumulate, self.sections * self._results()
            )
            for accumulate in kernel.accumulates
        }

    def _results(self) -> int:
        return self.outer * self.column.known

    def _section_count(self) -> int:
        wanted = -(-WANTED_BLOCKS // max(self.outer * self.blocks, 1))
        return max(1, min(wanted, self.reduced // (self.down * LEAST_ROWS), MOST_SECTIONS))

    def fold(self) -> "_Columns":
        """The second stage: the sections are the rows."""
        kernel = self.kernel
        section = Axis("section", self.sections)
        here = [axis.symbol for axis in (*kernel.outer, self.column)]
        sizes = [axis.size for axis in (*kernel.outer, self.column)]
        place: Number = linear(here, sizes)
        offset = section.symbol * self._results() + place
        accumulates = tuple(
            folding(accumulate, self.partials[accumulate.name], offset, place)
            for accumulate in kernel.accumulates
        )
        name = f"{kernel.name}_fold"
        folded = replace(kernel, name=name, reduced=(section,), accumulates=accumulates)
        return _Columns(folded, sections=1)

    # -- the whole

    def kernel_text(self) -> CudaKernel:
        kernel, column, integer = self.kernel, self.column.name, self.integer
        root = Scope(self.names)
        task = root.child([*(axis.name for axis in kernel.outer), column])
        self._reduce(task)
        self._combine_runs(task)
        last = task.child()
        self._finish(last)
        task.add(f"if (down == 0 && start + across < {self.column.known}) {{", *last.text(), "}")
        body = [
            f"const int across = threadIdx.x % {self.across}, down = threadIdx.x / {self.across};",
            f"const {integer} part = blockIdx.x % {self.sections};",
            f"const {integer} block = blockIdx.x / {self.sections} % {self.blocks};",
            f"const {integer} start = block * {self.across};",
            f"const {integer} outer = blockIdx.x / {self.sections * self.blocks};",
            # Threads beyond the last column repeat it: all must reach the barriers.
            f"const {integer} {column} = dj_min_index(start + across, {self.column.known - 1});",
            *unflattened("outer", kernel.outer, integer),
            *root.lines,
            *task.lines,
        ]
        if self.sections == 1:
            written = [store.buffer for store in kernel.stores]
        else:
            written = [buffer for buffers in self.partials.values() for buffer in buffers]
        shared = sum(e.dtype.itemsize for a in kernel.accumulates for e in a.element) * THREADS
        launch = Launch(self.outer * self.blocks * self.sections, THREADS, shared)
        return define(kernel, kernel.name, body, launch, self.expressions, written, self.indices)

    def _reduce(self, task: Scope) -> None:
        """Append: every thread combines its run of rows."""
        kernel, integer = self.kernel, self.integer
        for accumulate in kernel.accumulates:
            starts = start_values(task, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                task.add(f"{accumulate.element[k].dtype.c} {name} = {starts[k]};")
        scope = task.child([axis.name for axis in kernel.reduced])
        for accumulate in kernel.accumulates:
            values = [scope.emit(part) for part in accumulate.element]
            combine_into(scope, accumulate, accumulator_names(accumulate, "r"), values)
        per_section = -(-self.reduced // self.sections)
        per_run = -(-per_section // self.down)
        end = f"dj_min_index((part + 1) * {per_section}, {self.reduced})"
        task.add(
            f"const {integer} first = part * {per_section} + down * {per_run};",
            f"const {integer} stop = dj_min_index(first + {per_run}, {end});",
            *loop(
                "position", "first", "stop",
                [*unflattened("position", kernel.reduced, integer), *scope.lines],
                integer=integer,
            ),
        )  # fmt: skip

    def _combine_runs(self, task: Scope) -> None:
        """Append: the runs of a column become one, neighbours first."""
        fold, writes, reads = Scope(self.names), [], []
        for accumulate in self.kernel.accumulates:
            own = accumulator_names(accumulate, "r")
            shared = [f"all_{name}" for name in own]
            for name, memory, element in zip(own, shared, accumulate.element, strict=True):
                task.add(f"__shared__ {element.dtype.c} {memory}[{self.down}][{self.across}];")
                writes.append(f"{memory}[down][across] = {name};")
                reads.append(f"{name} = {memory}[0][across];")
            self._combine_pair(fold, accumulate, shared)
        pair = f"if ((down & (2 * step - 1)) == 0 && down + step < {self.down}) {{"
        task.add(
            *writes,
            "__syncthreads();",
            f"for (int step = 1; step < {self.down}; step *= 2) {{",
            INDENT + pair, *(INDENT + line for line in fold.text()), INDENT + "}",
            f"{INDENT}__syncthreads();",
            "}",
            *reads,
        )  # fmt: skip

    def _combine_pair(self, fold: Scope, accumulate: Accumulate, shared: Sequence[str]) -> None:
        inner = Scope(self.names)
        left = [f"{memory}[down][across]" for memory in shared]
        right = [f"{memory}[down + step][across]" for memory in shared]
        values = combine(inner, accumulate, left, right)
        for k, value in enumerate(values):
            inner.add(f"const {accumulate.element[k].dtype.c} n{k} = {value};")
        inner.add(*(f"{target} = n{k};" for k, target in enumerate(left)))
        fold.add("{", *inner.text(), "}")

    def _finish(self, last: Scope) -> None:
        """Append: the stores, or the section's accumulators for the second stage."""
        if self.sections == 1:
            for accumulate in self.kernel.accumulates:
                remember(last, accumulate, "r")
            for store in self.kernel.stores:
                last.store(target_of(last, store), store.buffer.dtype, store.value)
            return
        place = f"(part * {self.outer} + outer) * {self.column.known} + {self.column.name}"
        for accumulate in self.kernel.accumulates:
            own = accumulator_names(accumulate, "r")
            for partial, name in zip(self.partials[accumulate.name], own, strict=True):
                last.add(f"{partial.name}[{place}] = {name};")
