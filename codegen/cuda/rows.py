"""Row kernels in CUDA: a team of threads per row, or several blocks per row.

Contract: how rows are spread over threads is decided by `codegen.cuda.units.teams`. Lanes exchange
accumulators by shuffles, warps through shared memory. What several phases need is read and computed
once where it fits into registers or shared memory. Totals over rows, and rows that are cut into
sections, leave partial accumulators that a second kernel folds: no atomics, so the bits are the
same every time. Kernels that reduce nothing are printed by `codegen.cuda.pointwise`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    ceil_div,
    combine_into,
    loop,
    start_values,
    unflattened,
)
from dynajit.codegen.cuda import columns as cuda_columns
from dynajit.codegen.cuda import pointwise as cuda_pointwise
from dynajit.codegen.cuda import sections as cuda_sections
from dynajit.codegen.cuda.ahead import Ahead, AheadText, register_bytes
from dynajit.codegen.cuda.column_totals import ColumnTotals
from dynajit.codegen.cuda.sections import SECTION
from dynajit.codegen.cuda.units import packs as cuda_packs
from dynajit.codegen.cuda.units import teams as cuda_teams
from dynajit.codegen.cuda.units.held import Held, held_values, without
from dynajit.codegen.cuda.units.packs import BASE, COUNT, Packing
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    RESIDENT_THREADS,
    WARP,
    Choices,
    Launch,
    Spans,
    define,
    exchange,
    folding,
    index_type,
    items,
    names,
    only_if,
    partial_buffers,
    remember,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.cuda.units.teams import NOTHING, REGISTERS, Team
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Axis,
    Buffer,
    ColumnKernel,
    Expression,
    Phase,
    RowKernel,
    Store,
    product_of,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

MOST_ROW_BLOCKS: Final = 1 << 16
"""Blocks of a kernel without totals; beyond it a block takes several rows."""

HEAVY_BYTES: Final = (96, 176)
"""Held by a thread, from which on half of the threads shall have twice the registers."""

COLUMN_BLOCKS: Final = 128
"""Blocks that keep accumulators for all columns, for each that an SM holds: with 132 SMs or more
all of them run at once."""

MOST_COLUMN_BLOCKS: Final = 384
"""The same in all: what they leave is read again."""

MOST_PARTIALS: Final = 1024
"""Blocks of a kernel with totals, and accumulators that its second stage folds."""

UNKNOWN_PARTIALS: Final = 256
"""The same where sizes are not known."""


def print_rows(kernel: RowKernel, choices: Choices) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a row kernel, in running order; none if there is nothing to compute."""
    reduces = any(phase.accumulates for phase in kernel.phases)
    totals = (*kernel.totals, *kernel.element_totals)
    if not reduces and not totals and not kernel.row_stores and not kernel.column_totals:
        return cuda_pointwise.print_pointwise(kernel, choices)
    if kernel.element_totals:
        return print_rows(_as_row(kernel), choices)
    if not totals and not kernel.column_totals and product_of(kernel.rows) == 0:
        return ()
    analysis = Analysis(kernel)
    steps: list[CudaKernel] = []
    for team in cuda_teams.teams_for(analysis.given(), choices):
        if team.sections > 1:
            steps += _print_sections(kernel, team, choices)
            continue
        printer = _Rows(analysis, team)
        steps.append(printer.kernel_text())
        if printer.columns is not None:
            steps += cuda_columns.print_fold(printer.columns.fold())
    if totals:
        steps += print_rows(_fold(kernel, printer.partials, printer.most_blocks), choices)
    return tuple(steps)


def _print_sections(kernel: RowKernel, team: Team, choices: Choices) -> list[CudaKernel]:
    """The kernels of rows that several blocks share."""
    steps: list[CudaKernel] = []
    for stage in cuda_sections.stages(kernel, team.sections):
        if stage.partials:
            steps.append(_Rows(Analysis(stage.kernel), team, stage.partials).kernel_text())
        else:
            steps += print_rows(stage.kernel, choices)
    return steps


def _as_row(kernel: RowKernel) -> RowKernel:
    """Totals over all elements: one row of them."""
    (phase,) = kernel.phases
    phase = replace(phase, accumulates=(*phase.accumulates, *kernel.element_totals), keeps=())
    return RowKernel(
        kernel.name,
        (),
        (*kernel.rows, *kernel.elements) or (Axis("i0", 1),),
        (phase,),
        row_stores=kernel.finals,
        indices=kernel.indices,
    )


def _fold(kernel: RowKernel, partials: dict[str, list[Buffer]], blocks: int) -> RowKernel:
    """The second stage: one row whose elements are the blocks' accumulators."""
    axis = Axis("i0", blocks)
    accumulates = tuple(
        folding(total, partials[total.name], axis.symbol, 0) for total in kernel.totals
    )
    name = f"{kernel.name}_fold"
    return RowKernel(name, (), (axis,), (Phase(accumulates),), row_stores=kernel.finals)


def may_hold(kernel: RowKernel, columns: ColumnKernel) -> bool:
    """True if a row kernel can compute what a column kernel over the same loops does."""
    totals = (*kernel.column_totals, *columns.accumulates)
    if not all(len(t.element) == 1 and t.identity is not None for t in totals):
        return False
    both = replace(kernel, column_totals=totals)
    if not isinstance(product_of(kernel.elements), int):
        return False
    return cuda_teams.may_hold_columns(Analysis(both).given())


class Analysis:
    """What all forms of a row kernel share. Built once, then only read."""

    def __init__(self, kernel: RowKernel) -> None:
        self.kernel = kernel
        self.rows = product_of(kernel.rows)
        self.axes = kernel.elements
        *self.outer, self.last = kernel.elements
        self.stores = [store for phase in kernel.phases for store in phase.stores]
        self.accumulates = [a for phase in kernel.phases for a in phase.accumulates]
        columns = kernel.column_totals
        totals = (*kernel.totals, *columns)
        roots = roots_of([*self.stores, *kernel.row_stores], [*self.accumulates, *totals])
        offsets = [store.offset for store in (*self.stores, *kernel.row_stores)]
        self.expressions, self.indices = used_expressions(roots, offsets, kernel.indices)
        self.roots = roots_of(self.stores, [*self.accumulates, *columns])
        self.packing = cuda_packs.choose(
            self.last, self.roots, self.stores, self.indices, may_cut=not self.outer
        )
        self.packs: Number = product_of(self.outer) * ceil_div(self.last.size, self.packing.width)
        self.ahead: Ahead | None = None
        if columns and self.packing.width > 1:
            self.ahead = Ahead(kernel, roots, self.packing)
        read = () if self.ahead is None else self.ahead.packs
        self.phases = without(held_values(kernel), read)
        count = self.rows * product_of(self.axes)
        self.integer = index_type(self.expressions, offsets, count, self.rows)

    def given(self) -> cuda_teams.Rows:
        """What decides about teams."""
        columns = [total.element[0].dtype.itemsize for total in self.kernel.column_totals]
        kept = [keep.value.dtype for phase in self.phases for keep in phase.keeps]
        sizes = (register_bytes(dtype) if columns else dtype.itemsize for dtype in kept)
        held_bytes = sum(sizes) * self.packing.width
        ahead_bytes = 0
        if self.ahead is not None:
            held_bytes += self.ahead.packs_bytes
            ahead_bytes = self.ahead.streamed_bytes
        return cuda_teams.Rows(
            self.kernel.name,
            self.rows,
            self.packs,
            self.packing.width,
            held_bytes,
            len(self.phases),
            not self.kernel.totals and not self.kernel.column_totals,
            sum(columns) * self.packing.width,
            max(columns, default=0) * self.packing.width,
            ahead_bytes,
        )


class _Rows:
    """Prints one form of a row kernel. Mutable: scopes fill up.

    Args:
        analysis: of the kernel.
        team: the form.
        sections: where sections of rows leave their accumulators; empty for whole rows.
    """

    def __init__(
        self,
        analysis: Analysis,
        team: Team,
        sections: Mapping[str, list[Buffer]] = cuda_sections.NO_PARTIALS,
    ) -> None:
        self.analysis = analysis
        self.kernel, self.team = analysis.kernel, team
        self.packing: Packing = analysis.packing
        self.integer = analysis.integer
        self.names = names(analysis.indices)
        self.name = f"{self.kernel.name}{team.suffix}"
        self.phases = analysis.phases
        if team.holds == NOTHING:
            self.phases = tuple(replace(phase, keeps=()) for phase in self.phases)
        self.shared_bytes = 0
        self.exchanges = sum(bool(phase.accumulates) for phase in self.phases)
        self.sections = sections
        self.tasks: Number = analysis.rows * team.sections
        most = MOST_PARTIALS if self.kernel.totals else MOST_ROW_BLOCKS
        if self.kernel.column_totals:
            most = min(MOST_COLUMN_BLOCKS, COLUMN_BLOCKS * self._column_blocks_of_sm())
        blocks = symint.minimum(ceil_div(self.tasks, team.per_block), most)
        leaves_partials = self.kernel.totals or self.kernel.column_totals
        if leaves_partials:
            # The second stage folds as many as there are, whichever form left them.
            is_known = isinstance(blocks, int) and isinstance(analysis.packs, int)
            blocks = max(blocks, 1) if is_known else UNKNOWN_PARTIALS
        self.blocks: Number = blocks
        self.most_blocks = blocks if isinstance(blocks, int) else 0
        self.partials = {
            total.name: partial_buffers(self.kernel.name, total, self.most_blocks)
            for total in self.kernel.totals
        }
        self.columns: ColumnTotals | None = None
        if self.kernel.column_totals:
            self.columns = ColumnTotals(self.kernel, team, self.packing, self.most_blocks)
            self.shared_bytes = self.columns.shared_bytes
        self.held = Held(self.phases, team, analysis.packs, self.packing.width)
        self.ahead: AheadText | None = None
        if analysis.ahead is not None:
            self.ahead = AheadText(
                analysis.ahead, team, self.integer,
                lambda lines: self._turns([*self._place(), *lines]),
            )  # fmt: skip

    # -- the whole

    def kernel_text(self) -> CudaKernel:
        kernel = self.kernel
        root = Scope(self.names)
        row = root.child([axis.name for axis in kernel.rows])
        start, stop, step = self._row_range()
        lines = [*self._task(), *unflattened("row", kernel.rows, self.integer)]
        if self.ahead is not None:
            row.known.update(self.ahead.known_numbers())
            lines += self.ahead.take(root, row, f"row + {step}", stop)
        self._row(row)
        lines += row.lines
        before, after = Scope(self.names, root), Scope(self.names, root)
        self._start_totals(before)
        self._end_totals(after)
        if self.columns is not None:
            before.add(*self.columns.start(before))
            after.add(*self.columns.finish(self.names, self._turns, self._place()))
        if self.ahead is not None:
            before.add(*self.ahead.first(root, start, stop))
        if self.alternates:
            before.add("int side = 0;")
        rows = loop("task" if self.sections else "row", start, stop, lines, step, self.integer)
        head = [*self._thread_variables(), *self.held.declared()]
        body = [*head, *root.lines, *before.lines, *rows, *after.lines]
        written = [store.buffer for store in (*self.analysis.stores, *kernel.row_stores)]
        partials = (*self.partials.values(), *self.sections.values())
        written += [buffer for buffers in partials for buffer in buffers]
        written += self.columns.partials.values() if self.columns is not None else ()
        blocks = only_if(self.blocks, self.analysis.packs, self.team.low, self.team.high)
        return define(
            kernel, self.name, body,
            Launch(
                blocks, self.team.threads, self.shared_bytes, self.held.dynamic_bytes(),
                self._resident(),
            ),
            self.analysis.expressions, written, self.analysis.indices,
        )  # fmt: skip

    def _resident(self) -> int:
        """Threads of an SM: fewer where each holds much."""
        given = self.analysis.given()
        if self.kernel.column_totals:
            return self._column_blocks_of_sm() * self.team.threads
        own = self.team.steps * (given.held_bytes if self.team.holds == REGISTERS else 0)
        halves = sum(own > limit for limit in HEAVY_BYTES)
        return RESIDENT_THREADS >> halves

    def _column_blocks_of_sm(self) -> int:
        """Blocks for which an SM has registers, where threads keep accumulators of columns."""
        given, team = self.analysis.given(), self.team
        return max(1, min(RESIDENT_THREADS // team.threads, cuda_teams.blocks_of_sm(given, team)))

    def _thread_variables(self) -> list[str]:
        lanes, per = self.team.lanes, self.team.per_block
        lines = [f"const int lane = threadIdx.x & {lanes - 1};"]
        if 1 < lanes < WARP:
            lines.append(f"const unsigned team_mask = dj_team_mask({lanes});")
        place = "blockIdx.x" if per == 1 else f"blockIdx.x * {per} + threadIdx.x / {lanes}"
        lines.append(f"const {self.integer} team = {place};")
        loads = self.packing.loads(self.analysis.roots)
        return [*lines, *self.packing.print_flag(loads, self.analysis.stores)]

    def _row_range(self) -> tuple[str, str, str]:
        """Rows of a team: every so many, or with totals a run of neighbours."""
        rows = symint.c(self.analysis.rows)
        teams = f"({self.integer})gridDim.x * {self.team.per_block}"
        if not self.kernel.totals:
            return "team", symint.c(self.tasks), teams
        per = f"(({rows} + {teams} - 1) / ({teams}))"
        return f"team * {per}", f"dj_min_index((team + 1) * {per}, {rows})", "1"

    def _task(self) -> list[str]:
        """The row and section of a task."""
        if not self.sections:
            return []
        count, integer = self.team.sections, self.integer
        chunk = symint.c(ceil_div(self.analysis.packs, count))
        packs = symint.c(self.analysis.packs)
        return [
            f"const {integer} row = task / {count}, {SECTION} = task % {count};",
            f"const {integer} first = {SECTION} * {chunk};",
            f"const {integer} stop = dj_min_index(first + {chunk}, {packs});",
        ]

    # -- totals

    def _start_totals(self, scope: Scope) -> None:
        for total in self.kernel.totals:
            starts = start_values(scope, total)
            for k, name in enumerate(accumulator_names(total, "s")):
                scope.add(f"{total.element[k].dtype.c} {name} = {starts[k]};")

    def _end_totals(self, scope: Scope) -> None:
        """Combine the block's teams in order and leave the result for the second stage."""
        if not self.kernel.totals:
            return
        per = self.team.per_block
        fold = Scope(self.names)
        for total in self.kernel.totals:
            own = accumulator_names(total, "s")
            if per > 1:
                for k, name in enumerate(own):
                    place = f"all_{name}[threadIdx.x / {self.team.lanes}]"
                    scope.add(self._shared(f"all_{name}", total.element[k], per))
                    scope.add(f"if (lane == 0) {place} = {name};")
                combine_into(fold, total, own, [f"all_{name}[i]" for name in own])
        stores = [
            f"{partial.name}[blockIdx.x] = {name};"
            for total in self.kernel.totals
            for partial, name in zip(
                self.partials[total.name], accumulator_names(total, "s"), strict=True
            )
        ]
        if per > 1:
            scope.add("__syncthreads();")
            stores = [*loop("i", "1", str(per), fold.lines, integer="int"), *stores]
        scope.add("if (threadIdx.x == 0) {", *(INDENT + line for line in stores), "}")

    def _shared(self, name: str, value: Expression, size: int) -> str:
        """The declaration of an array that the block shares."""
        self.shared_bytes += size * value.dtype.itemsize * (2 if name.endswith("[2]") else 1)
        return f"__shared__ {value.dtype.c} {name}[{size}];"

    # -- one row

    def _row(self, row: Scope) -> None:
        kernel = self.kernel
        for number in range(len(self.phases)):
            self._phase(row, number)
        last = row.child()
        for store in kernel.row_stores:
            last.store(target_of(last, store), store.buffer.dtype, store.value)
        for phase in self.phases if self.sections else ():
            for accumulate in phase.accumulates:
                own = accumulator_names(accumulate, "r")
                for partial, name in zip(self.sections[accumulate.name], own, strict=True):
                    last.add(f"{partial.name}[task] = {name};")
        if last.lines:
            row.add("if (lane == 0) {", *last.text(), "}")
        for total in kernel.totals:
            values = [row.emit(part) for part in total.element]
            combine_into(row, total, accumulator_names(total, "s"), values)

    def _phase(self, row: Scope, number: int) -> None:
        phase = self.phases[number]
        for accumulate in phase.accumulates:
            self._start(row, accumulate)
        is_last = number == len(self.phases) - 1
        if phase.accumulates or phase.keeps or phase.stores or (self.columns and is_last):
            row.add(*self._loop(row, number))
        for accumulate in phase.accumulates:
            self._gather_items(row, accumulate)
        self._exchange(row, phase.accumulates)
        for accumulate in phase.accumulates:
            remember(row, accumulate, "r")

    def _by_item(self, accumulate: Accumulate) -> bool:
        """True for an accumulator per item of a pack: shorter chains, smaller sums."""
        return self.packing.width > 1 and len(accumulate.element) == 1

    def _start(self, row: Scope, accumulate: Accumulate) -> None:
        starts = start_values(row, accumulate)
        for k, name in enumerate(accumulator_names(accumulate, "r")):
            c = accumulate.element[k].dtype.c
            if not self._by_item(accumulate):
                row.add(f"{c} {name} = {starts[k]};")
                continue
            each = [f"items_{name}[item] = {starts[k]};"]
            width = self.packing.width
            row.add(f"{c} items_{name}[{width}];", *items(width, each))

    def _gather_items(self, row: Scope, accumulate: Accumulate) -> None:
        """Append: the accumulators of the items become one."""
        if not self._by_item(accumulate):
            return
        (name,) = accumulator_names(accumulate, "r")
        inner = Scope(self.names)
        combine_into(inner, accumulate, [name], [f"items_{name}[item]"])
        row.add(f"{accumulate.element[0].dtype.c} {name} = items_{name}[0];")
        row.add(*items(self.packing.width, inner.lines, 1))

    def _loop(self, row: Scope, number: int) -> list[str]:
        """The lane's packs, every so many."""
        outer = row.child([*(axis.name for axis in self.analysis.outer), BASE])
        inner = outer.child([self.analysis.last.name])
        phase = self.phases[number]
        known = self.held.known(number)
        if self.ahead is not None:
            known = self.ahead.known() | known
        inner.known.update(known)
        roots = roots_of(phase.stores, phase.accumulates)
        roots += [keep.value for keep in phase.keeps]
        columns = self.columns if number == len(self.phases) - 1 else None
        if columns is not None:
            roots += [total.element[0] for total in self.kernel.column_totals]
        packing, after = self.packing, [*self.held.print_writes(phase)]
        before = [*self.held.print_reads(number)]
        if packing.width > 1:
            wanted = packing.loads(roots, known)
            before += packing.print_loads(wanted, outer, inner)
        before += self.held.print_new(phase)
        spans = self._spans(phase)
        self._body(inner, phase, spans, before, after)
        if columns is not None:
            columns.meet(inner)
        if packing.width > 1:
            elements = packing.print_items(inner.lines, self.integer)
        else:
            elements = ["const int item = 0;" if phase.keeps or known else "", *inner.lines]
        lines = [*self._place(), *outer.lines, *before, *filter(None, elements), *after]
        return self._turns(lines, row, spans)

    def _spans(self, phase: Phase) -> Spans:
        """How the loop over a lane's packs is cut."""
        team = self.team
        turns = ceil_div(ceil_div(self.analysis.packs, team.sections), team.lanes)
        return Spans([] if team.steps else phase.accumulates, turns, self.packing.width)

    def _own(self, accumulate: Accumulate) -> str:
        """The accumulator of one component, or the array of those of the items."""
        (name,) = accumulator_names(accumulate, "r")
        return f"items_{name}" if self._by_item(accumulate) else name

    def _body(
        self, inner: Scope, phase: Phase, spans: Spans, before: list[str], after: list[str]
    ) -> None:
        """What is done for each element."""
        for keep in phase.keeps:
            name = self.held.item(keep)
            inner.add(f"{name} = {inner.emit(keep.value)};")
            inner.known[keep.value] = name
        for accumulate in phase.accumulates:
            values = [inner.emit(part) for part in accumulate.element]
            own = accumulator_names(accumulate, "r")
            if len(own) == 1:
                item = "[item]" if self._by_item(accumulate) else ""
                own = [f"{spans.running(accumulate, self._own(accumulate))}{item}"]
            combine_into(inner, accumulate, own, values)
        for count, store in enumerate(phase.stores):
            self._store(inner, store, f"result{count}", before, after)

    def _store(
        self, inner: Scope, store: Store, pack: str, before: list[str], after: list[str]
    ) -> None:
        packing = self.packing
        if packing.width == 1 or not packing.is_pack(store):
            inner.store(target_of(inner, store), store.buffer.dtype, store.value)
            return
        inner.store(f"{pack}.at[item]", store.buffer.dtype, store.value)
        before.append(f"dj_pack<{store.buffer.dtype.c}, {packing.width}> {pack};")
        after.append(packing.print_store(store, pack))

    def _place(self) -> list[str]:
        """Definitions of the first element of the pack at hand."""
        packing, integer = self.packing, self.integer
        if packing.width == 1:
            return unflattened("pack", self.analysis.axes, integer)
        per = symint.c(ceil_div(self.analysis.last.size, packing.width))
        is_flat = product_of(self.analysis.outer) == 1
        place = "pack" if is_flat else f"pack % {per}"
        lines = [f"const {integer} {BASE} = {place} * {packing.width};"]
        if packing.has_tail:
            rest = f"{symint.c(self.analysis.last.size)} - {BASE}"
            lines.append(f"const int {COUNT} = (int)dj_min_index({rest}, {packing.width});")
        return [*lines, *unflattened(f"(pack / {per})", self.analysis.outer, integer)]

    def _turns(
        self, lines: Sequence[str], row: Scope | None = None, spans: Spans | None = None
    ) -> list[str]:
        """The loop over a lane's packs.

        Args:
            row: the scope around it.
            spans: how it is cut, where a lane may have any number of packs.
        """
        packs, lanes, steps = self.analysis.packs, self.team.lanes, self.team.steps
        if not steps:
            assert spans is not None and row is not None
            start, stop = "lane", symint.c(packs)
            if self.sections:
                start, stop = "first + lane", "stop"
            bounds = ("pack", start, stop, lanes)
            return spans.cut(row, lines, bounds, self.integer, self._own)
        head = [f"const {self.integer} pack = lane + step * {lanes};"]
        if packs != steps * lanes:
            lines = [f"if (pack < {symint.c(packs)}) {{", *(INDENT + x for x in lines), "}"]
        turns = loop("step", "0", str(steps), [*head, *lines], integer="int")
        return ["#pragma unroll", *turns]

    def _exchange(self, row: Scope, accumulates: Sequence[Accumulate]) -> None:
        """Append: the team's accumulators are combined; every lane has the result."""
        team = self.team
        for accumulate in accumulates:
            exchange(row, accumulate, "r", min(team.lanes, WARP), team.mask)
        if not team.is_block or not accumulates:
            return
        warps = team.lanes // WARP
        write, read = [], []
        sides, side = ("[2]", "[side]") if self.alternates else ("", "")
        for accumulate in accumulates:
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.add(self._shared(f"warps_{name}{sides}", accumulate.element[k], warps))
                target = f"warps_{name}{side}[lane / {WARP}]"
                write.append(f"if (lane % {WARP} == 0) {target} = {name};")
                read.append(f"{name} = warps_{name}{side}[lane & {warps - 1}];")
        row.add(*["side ^= 1;"] * self.alternates, *write, "__syncthreads();", *read)
        for accumulate in accumulates:
            exchange(row, accumulate, "r", warps, team.mask)

    @property
    def alternates(self) -> bool:
        """True if rows exchange through two places in turn: slower threads may still read what was
        exchanged for the row before, unless there was another exchange since."""
        return self.team.is_block and self.exchanges == 1 and not self._is_single_turn()

    def _is_single_turn(self) -> bool:
        """True if no block takes a second row."""
        tasks, blocks = self.tasks, self.blocks
        return isinstance(tasks, int) and isinstance(blocks, int) and tasks <= blocks
