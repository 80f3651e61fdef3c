"""Scans along a loop that is not the last one, in CUDA: a thread walks down each column.

Contract: neighbouring threads have neighbouring columns, so that loads are coalesced; several rows
are on their way at once.
"""

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    block,
    ceil_div,
    combine_into,
    loop,
    unflattened,
)
from dynajit.codegen.cuda.scan_sections import Sections
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    Launch,
    define,
    index_type,
    names,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops.loop_ir import Accumulated, ScanKernel
from dynajit.core.types import symint

THREADS = 128
"""Threads of a block: few columns shall have blocks on many SMs."""


class ColumnScan:
    """Prints one kernel. Mutable: scopes fill up.

    Args:
        kernel: scans along a loop that has others inside.
        sections: of its columns.
        is_total: the totals of sections are computed, not the running values.
    """

    def __init__(self, kernel: ScanKernel, sections: Sections, *, is_total: bool) -> None:
        self.kernel, self.sections, self.is_total = kernel, sections, is_total
        self.phases = kernel.phases
        if is_total:
            self.phases = tuple(phase for phase in kernel.phases if phase.accumulates)
        self.stores = [store for phase in self.phases for store in phase.stores]
        self.stores = [] if is_total else self.stores
        offsets = [store.offset for store in self.stores]
        roots = roots_of(self.stores, sections.accumulates)
        self.expressions, self.indices = used_expressions(roots, offsets, kernel.indices)
        self.integer = index_type(
            self.expressions, offsets, sections.lines * sections.count * THREADS,
            kernel.scanned.size,
        )  # fmt: skip
        self.names = names(self.indices)

    def kernel_text(self) -> CudaKernel:
        """The kernel."""
        kernel, sections, integer = self.kernel, self.sections, self.integer
        axes = (*kernel.outer, *kernel.columns)
        root = Scope(self.names)
        line = root.child([axis.name for axis in axes])
        declared = self.sections.starts(line, "r", self.is_total)
        step = line.child([kernel.scanned.name])
        self._step(step)
        lines = [
            *unflattened("line", axes, integer), *line.lines, *declared,
            *self._walk(step), *self._ends(),
        ]  # fmt: skip
        count = symint.c(sections.lines)
        body = [
            f"const {integer} place = ({integer})blockIdx.x * {THREADS} + threadIdx.x;",
            f"const {integer} line = place % {count}, section = place / {count};",
            f"if (section < {sections.count}) {{",
            *(INDENT + text for text in lines),
            "}",
        ]
        written = [store.buffer for store in self.stores]
        expressions = list(self.expressions)
        totals = sections.totals.values() if sections.count > 1 else ()
        written += totals if self.is_total else ()
        blocks = ceil_div(sections.lines * sections.count, THREADS)
        return define(
            kernel, f"{kernel.name}{'_totals' if self.is_total else ''}", [*root.lines, *body],
            Launch(blocks, THREADS), expressions, written, self.indices,
            () if self.is_total else totals,
        )  # fmt: skip

    def _step(self, step: Scope) -> None:
        """Append: one element."""
        for phase in self.phases:
            for accumulate in phase.accumulates:
                (running,) = accumulator_names(accumulate, "r")
                value = step.emit(accumulate.element[0])
                combine_into(step, accumulate, [running], [value])
                dtype = accumulate.element[0].dtype
                step.known[Accumulated(accumulate.name, 0, dtype)] = f"now_{running}"
                step.add(f"const {dtype.c} now_{running} = {running};")
            for store in phase.stores if self.stores else ():
                step.store(target_of(step, store), store.buffer.dtype, store.value)

    def _walk(self, step: Scope) -> list[str]:
        """The loop over the elements of a section."""
        name, integer = self.kernel.scanned.name, self.integer
        size = symint.c(self.kernel.scanned.size)
        chunk = symint.c(ceil_div(self.kernel.scanned.size, self.sections.count))
        lines = [
            f"const {integer} first = section * {chunk};",
            f"const {integer} stop = dj_min_index(first + {chunk}, {size});",
            "#pragma unroll 8",
        ]
        if self.kernel.is_reverse:
            head = f"for ({integer} {name} = stop - 1; {name} >= first; {name}--)"
            return [*lines, *block(head, step.lines)]
        return [*lines, *loop(name, "first", "stop", step.lines, integer=integer)]

    def _ends(self) -> list[str]:
        """Lines that leave the totals."""
        if not self.is_total:
            return []
        return [
            f"{self.sections.total(a, 'line', 'section')} = {accumulator_names(a, 'r')[0]};"
            for a in self.sections.accumulates
        ]
