"""Row kernels in C.

Contract: a row kernel runs its rows in parallel, each row by one thread (the loops over its
elements: `codegen.c.row_loops`), and totals over rows use one accumulator per chunk of rows,
combined in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from dynajit.codegen.c import ahead as c_ahead
from dynajit.codegen.c import bypass as c_bypass
from dynajit.codegen.c import runs as c_runs
from dynajit.codegen.c import short_rows as c_short_rows
from dynajit.codegen.c import softmax as c_softmax
from dynajit.codegen.c import transposed as c_transposed
from dynajit.codegen.c import words as c_words
from dynajit.codegen.c.column_totals import ColumnTotals
from dynajit.codegen.c.expressions import INDENT, Names, Scope
from dynajit.codegen.c.row_loops import BLOCK, RowLoops, position, stored
from dynajit.codegen.c.segments import segments
from dynajit.codegen.c.support import (
    Function,
    accumulator_names,
    after_all,
    block,
    ceil_div,
    combine_into,
    define,
    loop,
    may_fail,
    parallel,
    start_values,
    target,
    unflattened,
    work_of,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulated,
    Axis,
    Buffer,
    Expression,
    Keep,
    Load,
    Phase,
    RowKernel,
    Store,
    Word,
    all_expressions,
    product_of,
    walk,
)
from dynajit.codegen.plan import epilogues
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least

TEAM = symint.symbol("team", 1)
"""Threads that run a program, in sizes of workspace."""

LONGEST_SHORT_ROW = 63
"""Rows of unknown length are reduced by a function of their own up to this length."""

CHUNKS = 64
"""Groups of rows with a total of their own."""


def print_rows(kernel: RowKernel) -> Function:
    """The C function of a row kernel."""
    if c_short_rows.fits(kernel):
        return c_short_rows.print_short_rows(kernel)
    if c_transposed.fits(kernel):
        return c_transposed.print_transposed(kernel)
    rows = _Rows(kernel, kernel.name, None)
    if not rows.may_be_short():
        return rows.function()
    short = _Rows(kernel, f"{kernel.name}_short", LONGEST_SHORT_ROW).function()
    rows.root.add(
        f"if ({symint.c(rows.elements)} <= {LONGEST_SHORT_ROW}) {{",
        f"{INDENT}{short.call(short.name, [b.name for b in short.buffers], 'member', 'members')}",
        f"{INDENT}return;",
        "}",
    )
    whole = rows.function()
    return replace(whole, text=f"{short.text}\n\n{whole.text}")


def may_run_between(kernel: RowKernel) -> bool:
    """True if some rows of a kernel can be computed without the others (see `RowsBetween`)."""
    if kernel.totals or kernel.element_totals or kernel.finals or kernel.column_totals:
        return False
    if kernel.in_place or c_short_rows.fits(kernel) or c_transposed.fits(kernel):
        return False
    rows = _Rows(kernel, kernel.name, None)
    return not rows.may_be_short() and (rows.is_blocked or rows.row_count != 1)


class RowsBetween:
    """The loop over some rows of a kernel that `may_run_between`, for a function around it.

    Args:
        kernel: what is printed.
        ends: the first row, and the one after the last, in C; or elements, where there are no rows.
        cached: buffers that need not be read ahead.

    Attributes:
        lines: the loop.
        read, written: the buffers.
        fails: it may leave an error in `status`.
    """

    def __init__(
        self, kernel: RowKernel, ends: tuple[str, str], cached: frozenset[Buffer] = frozenset()
    ) -> None:
        rows = _Rows(kernel, kernel.name, None, cached)
        self.lines = rows.between(*ends)
        loads = [e.buffer for e in rows.expressions if isinstance(e, Load)]
        self.read = tuple(dict.fromkeys(loads))
        self.written = tuple(dict.fromkeys(store.buffer for store in rows.stores()))
        self.fails = may_fail(rows.expressions, kernel.indices)


class EpilogueOver:
    """An epilogue (`plan.epilogues`) of parts of some planes of a result, for a function around it.

    Args:
        kernel: what is printed.
        planes: the first one, and the one after the last, in C.
        start, length: the part of each plane, in C.
        width: elements of a plane.

    Attributes:
        lines: the loop.
        operands: the buffers: what is read, then the result.
    """

    def __init__(
        self, kernel: RowKernel, planes: tuple[str, str], start: str, length: str, width: Number
    ) -> None:
        (store,) = kernel.phases[0].stores
        result = store.buffer
        ends = planes if kernel.rows else ("0", epilogues.LENGTH)
        between = RowsBetween(kernel, ends, frozenset((result,)))
        before = "" if kernel.rows else f"plane * {symint.c(width)} + "
        names = f"{epilogues.BEGIN} = {before}{start}, {epilogues.LENGTH} = {length}"
        lines = [f"const int64_t {names};", *between.lines]
        self.lines = block("", lines) if kernel.rows else loop("plane", *planes, lines)
        self.operands = (*(buffer for buffer in between.read if buffer != result), result)


class _Rows:
    """Prints one row kernel. Mutable: scopes fill up.

    Args:
        kernel: what is printed.
        name: of the C function.
        longest: elements of a row at most, if that is assumed.
        cached: buffers that need not be read ahead.
    """

    def __init__(
        self,
        kernel: RowKernel,
        name: str,
        longest: int | None,
        cached: frozenset[Buffer] = frozenset(),
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.longest = longest
        self.names = Names(kernel.indices)
        self.root = Scope(self.names)
        self.elements = product_of(kernel.elements)
        self.row_count = product_of(kernel.rows)
        self.is_blocked = self._is_blocked()
        self.is_between = False
        self.loops = RowLoops(kernel, self.names, longest, self.is_blocked, cached)
        self.busiest = c_ahead.busiest(kernel)
        self.only_reads = not longest and c_ahead.only_reads(kernel)
        self.bypassing = () if longest else c_bypass.stores(kernel)
        if self.is_blocked:
            self.row_count = ceil_div(self.elements, BLOCK)
        self.scratch: list[Buffer] = []
        self.columns = ColumnTotals(kernel, self.names) if kernel.column_totals else None
        self.totals = (*kernel.totals, *kernel.element_totals)
        self.expressions = all_expressions(self._roots(), kernel.indices)
        count = self.elements * (1 if self.is_blocked else self.row_count)
        self.work = work_of(self.expressions, count)
        self.is_alone = self.row_count == 1 and not self.totals
        self.team = "" if self.is_alone else self.work.condition

    def may_be_short(self) -> bool:
        """True if rows of unknown length are reduced: short ones are better done apart."""
        reduces = any(phase.accumulates for phase in self.kernel.phases)
        unknown = len(self.kernel.elements) == 1 and not isinstance(self.elements, int)
        return unknown and reduces and not is_at_least(self.elements, LONGEST_SHORT_ROW + 1)

    def _is_blocked(self) -> bool:
        """One long loop without reductions per row is cut into blocks."""
        reduces = any(phase.accumulates for phase in self.kernel.phases)
        one = len(self.kernel.elements) == 1 and self.row_count == 1
        return one and not reduces and not is_at_least(BLOCK, self.elements)

    # -- the whole

    def function(self) -> Function:
        kernel = self.kernel
        row = self.root.child([axis.name for axis in kernel.rows])
        self._row(row)
        if self.totals:
            self._chunked(row)
        elif self.columns is not None:
            self._by_columns(row, self.columns)
        else:
            lines = [*self._row_variables(), *row.lines]
            body = parallel(self.work, "row", symint.c(self.row_count), lines)
            self.root.add(*(["{", *lines, "}"] if self.is_alone else body))
        if self.bypassing:
            self.root.add("dj_bypassed();")
        loops = len(self.root.lines)
        if self.totals:
            self._combine_groups()
        final = self.root.child()
        _write(kernel.finals, final)
        self.root.add(*final.lines)
        lines = self.root.lines
        if self.team and self.totals:
            lines = [*lines[:loops], *after_all(lines[loops:])]
        whole = define(
            kernel,
            self.name,
            lines,
            self.expressions,
            self.stores(),
            kernel.indices,
            self.scratch,
            self.team,
        )
        return replace(whole, text=f"DJ_READS {whole.text}") if self.only_reads else whole

    def between(self, first: str, end: str) -> list[str]:
        """The lines for some rows, or for some elements of the only one."""
        row = self.root.child([axis.name for axis in self.kernel.rows])
        self.is_between = True
        self._row(row)
        last = ["dj_bypassed();"] if self.bypassing else []
        if self.is_blocked:
            head = [f"const int64_t start = {first}, stop = {end};"]
            return [*head, *self.root.lines, *row.lines, *last]
        rows = loop("row", first, end, [*self._row_variables(), *row.lines])
        return [*self.root.lines, *rows, *last]

    def _roots(self) -> list[Expression]:
        roots = [store.value for store in self.stores()]
        accumulates = [a for phase in self.kernel.phases for a in phase.accumulates]
        for accumulate in (*accumulates, *self.totals, *self.kernel.column_totals):
            roots.extend((*accumulate.element, *(accumulate.first or ())))
        return roots

    def stores(self) -> list[Store]:
        """Everything that is written."""
        stores = [store for phase in self.kernel.phases for store in phase.stores]
        kernel = self.kernel
        return [*stores, *kernel.row_stores, *kernel.finals, *kernel.column_stores]

    def _row_variables(self) -> list[str]:
        if self.is_blocked:
            return [
                f"const int64_t start = row * {BLOCK};",
                f"const int64_t stop = dj_min_index(start + {BLOCK}, {symint.c(self.elements)});",
            ]
        return unflattened("row", self.kernel.rows) if self.row_count != 1 else []

    # -- totals over rows

    def _chunks(self) -> tuple[str, str, int]:
        """(rows per group, groups, groups at most): C expressions where rows are not known."""
        if isinstance(self.row_count, int):
            per = max(1, -(-self.row_count // CHUNKS))
            chunks = max(1, -(-self.row_count // per))
            return str(per), str(chunks), chunks
        rows = symint.c(self.row_count)
        self.root.add(
            f"const int64_t per = dj_max_index(({rows} + {CHUNKS - 1}) / {CHUNKS}, 1);",
            f"const int64_t chunks = dj_max_index(({rows} + per - 1) / per, 1);",
        )
        return "per", "chunks", CHUNKS

    def _partials(self, name: str, accumulated: Expression, most: int) -> str:
        """Memory for the accumulators of groups: on the stack, or where a team can see it."""
        c = accumulated.dtype.c
        if not self.team:
            return f"{c} p_{name}[{most}];"
        buffer = Buffer(f"{self.kernel.name}_p_{name}", accumulated.dtype, most)
        self.scratch.append(buffer)
        return f"{c} *p_{name} = {buffer.name};"

    def _chunked(self, row: Scope) -> None:
        """Rows in groups with one accumulator each."""
        per, chunks, most = self._chunks()
        before = Scope(self.names, self.root)
        after = Scope(self.names, self.root)
        for total in self.totals:
            starts = start_values(before, total)
            for k, name in enumerate(accumulator_names(total, "s")):
                c = total.element[k].dtype.c
                self.root.add(self._partials(name, total.element[k], most))
                before.add(f"{c} {name} = {starts[k]};")
                after.add(f"p_{name}[chunk] = {name};")
        rows = loop(
            "row", f"chunk * {per}",
            f"dj_min_index((chunk + 1) * {per}, {symint.c(self.row_count)})",
            [*self._row_variables(), *row.lines],
        )  # fmt: skip
        lines = [*before.lines, *rows, *after.lines]
        self.root.add(*parallel(self.work, "chunk", chunks, lines))
        self.chunks = chunks

    def _by_columns(self, row: Scope, columns: ColumnTotals) -> None:
        """Rows in groups with one accumulator for each column."""
        self.scratch += columns.scratch
        start = columns.start(self.root)
        rows = loop(
            "row", f"chunk * {columns.per_group}",
            f"dj_min_index((chunk + 1) * {columns.per_group}, {columns.rows})",
            [*self._row_variables(), *row.lines],
        )  # fmt: skip
        self.root.add(*parallel(self.work, "chunk", str(columns.groups), [*start, *rows]))
        columns.finish(self.root)

    def _combine_groups(self) -> None:
        """The groups combined in order."""
        for total in self.totals:
            names = accumulator_names(total, "s")
            for k, name in enumerate(names):
                self.root.add(f"{total.element[k].dtype.c} {name} = p_{name}[0];")
            inner = Scope(self.names)
            combine_into(inner, total, names, [f"p_{name}[chunk]" for name in names])
            self.root.add(*loop("chunk", "1", self.chunks, inner.lines))
            for k, name in enumerate(names):
                self.root.known[Accumulated(total.name, k, total.element[k].dtype)] = name

    # -- one row

    def _row(self, row: Scope) -> None:
        kernel = self.kernel
        self._words(row)
        kept: dict[Expression, str] = {}
        for phase in kernel.phases:
            for keep in phase.keeps:
                row.add(self._kept(keep))
        for number, phase in enumerate(kernel.phases):
            self._phase(row, phase, kept, number == 0, phase is self.busiest)
            kept.update({keep.value: keep.name for keep in phase.keeps})
        _write(kernel.row_stores, row)
        for total in kernel.totals:
            values = [row.emit(part) for part in total.element]
            combine_into(row, total, accumulator_names(total, "s"), values)

    def _words(self, row: Scope) -> None:
        """Random words for all elements of a row, if there is room for them."""
        if self.is_blocked or not isinstance(self.elements, int):
            return
        roots = [*self._roots(), *stored(self.kernel)]
        words = c_words.runs(roots, self.kernel.elements, self.kernel.indices)
        if not 0 < sum(run.step for run in words) * self.elements <= c_words.MOST_WORDS:
            return
        for run in words:
            row.add(run.room(self.elements), *run.fill(row, "0", str(self.elements)))
        self.loops.words = words

    def _kept(self, keep: Keep) -> str:
        """Memory for a kept value: on the stack, or for rows of any length a part of the workspace
        for each thread."""
        c = keep.value.dtype.c
        if isinstance(self.elements, int):
            return f"{c} {keep.name}[{self.elements}];"
        if self.longest is not None:
            return f"{c} {keep.name}[{self.longest}];"
        own = ceil_div(self.elements, 64) * 64
        is_shared = bool(self.team)
        threads = TEAM if is_shared or self.work.is_large else 1
        buffer = Buffer(f"{self.kernel.name}_{keep.name}", keep.value.dtype, own * threads)
        self.scratch.append(buffer)
        member = "member" if is_shared else "omp_get_thread_num()" if threads is TEAM else "0"
        return f"{c} *{keep.name} = {buffer.name} + {member} * {symint.c(own)};"

    def _phase(
        self,
        row: Scope,
        phase: Phase,
        kept: dict[Expression, str],
        is_first: bool,
        reads_ahead: bool,
    ) -> None:
        totals = self.kernel.element_totals if is_first else ()
        columns = self.columns if phase is self.kernel.phases[-1] else None

        step = _Pass(self.kernel, phase, kept, self.loops)

        def body(scope: Scope) -> None:
            step.compute(scope)
            if columns is not None:
                columns.meet(scope)

        accumulates = (*phase.accumulates, *totals)
        if self._may_be_cut():
            row.add(*self._segments(row, phase, (*self.kernel.rows, *self.kernel.elements)))
            return
        if not accumulates and columns is None:
            row.add(*self._alone(row, step))
            return
        if not accumulates:
            row.add(*self.loops.plain(row, body))
            return
        self.loops.accumulate(row, accumulates, body, reads_ahead)
        for total in totals:
            names = accumulator_names(total, "r")
            combine_into(row, total, accumulator_names(total, "s"), names)

    def _alone(self, row: Scope, step: "_Pass") -> list[str]:
        """The loops over elements of a pass without reductions."""
        if not step.phase.keeps and not step.phase.stores:
            return []
        runs = None if self.is_blocked else c_runs.in_runs(step.kernel, step.phase, step.kept)
        if runs is not None:
            loops = RowLoops(runs.kernel, self.names, self.longest, False)
            step = _Pass(runs.kernel, runs.phase, runs.kept, loops)
        written = {store.buffer for store in self.bypassing}
        bypassing = [store for store in step.phase.stores if store.buffer in written]
        if not bypassing or any(isinstance(e, Word) for e in walk(tuple(stored(step.kernel)))):
            return step.loops.plain(row, step.compute)
        size = step.kernel.elements[-1].size
        bounds = ("0", symint.c(size), symint.mod(size, c_bypass.LANES) == 0)
        if self.is_blocked:
            is_even = not self.is_between and symint.mod(size, BLOCK) == 0
            bounds = ("start", "stop", is_even)
        moved = c_bypass.moved_bytes(self.kernel)
        element = partial(step.loops.element_scope, row)
        return c_bypass.lines(step.kernel.elements, moved, element, bypassing, step.compute, bounds)

    def _may_be_cut(self) -> bool:
        """True for a pointwise kernel whose loops may be cut where choices change."""
        kernel = self.kernel
        (phase, *others) = kernel.phases
        if others or phase.accumulates or phase.keeps or len(kernel.elements) != 1:
            return False
        beside = (kernel.row_stores, kernel.totals, kernel.element_totals, kernel.finals)
        return not any(beside) and not kernel.in_place and not kernel.column_totals

    def _segments(self, row: Scope, phase: Phase, axes: Sequence[Axis]) -> list[str]:
        """Loops over elements that write what a phase stores, cut along `axes`; the last one is
        theirs."""
        axis, *rest = axes
        found = segments(phase.stores, axis)
        if not found and rest:
            return self._segments(row, phase, rest)
        if not found:
            return self._alone(row, _Pass(self.kernel, phase, {}, self.loops))
        lines: list[str] = []
        for segment in found:
            arm = row.child(is_arm=True)
            if rest:
                head = f"if ({axis.name} >= {segment.low} && {axis.name} < {segment.high})"
                inner = self._segments(arm, replace(phase, stores=segment.stores), rest)
            else:
                ends = (segment.low, segment.high)
                head, inner = "", self.loops.plain(arm, partial(_write, segment.stores), ends)
            lines += block(head, [*arm.lines, *inner])
        return lines


@record
class _Pass:
    """A phase and the loops it runs in.

    Args:
        kernel: whose axes they are.
        phase: what is computed for each element.
        kept: values that earlier phases kept, and where.
        loops: their printer.
    """

    kernel: RowKernel
    phase: Phase
    kept: Mapping[Expression, str]
    loops: RowLoops

    def compute(self, scope: Scope, elsewhere: Sequence[Store] = ()) -> None:
        """Append what is kept and stored of an element, but for some stores."""
        place = symint.c(position(self.kernel))
        for value, name in self.kept.items():
            scope.known[value] = f"{name}[{place}]"
        for keep in self.phase.keeps:
            self._shares((keep.value,), scope)
            scope.add(f"{keep.name}[{place}] = {scope.emit(keep.value)};")
        self._shares([store.value for store in self.phase.stores], scope)
        _write([store for store in self.phase.stores if store not in elsewhere], scope)

    def _shares(self, values: Sequence[Expression], scope: Scope) -> None:
        """Append the shares of softmax in `values`, which are quotients otherwise."""
        if not self.loops.shares:
            return
        for expression in walk(tuple(values)):
            if expression in self.loops.shares and scope.find(expression) is None:
                term, total = map(scope.emit, self.loops.shares[expression])
                name = scope.names.new()
                share = f"{c_softmax.SHARE}({term}, {total}, 1.0f / {total})"
                scope.add(f"const {expression.dtype.c} {name} = {share};")
                scope.known[expression] = name


def _write(stores: Sequence[Store], scope: Scope) -> None:
    """Append what writes `stores`."""
    for store in stores:
        scope.store(target(scope, store), store.buffer.dtype, store.value)
