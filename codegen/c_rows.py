"""Row kernels in C.

Contract: a row kernel runs its rows in parallel, each row by one thread; reductions within a row
use `LANES` accumulators side by side, which are combined in a fixed tree, and totals over rows one
accumulator per chunk of rows, combined in order. Called by `codegen.c_text`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dynajit.codegen import c_choices, c_short_rows
from dynajit.codegen.c_expressions import INDENT, Names, Scope
from dynajit.codegen.c_support import (
    Function,
    accumulator_names,
    after_all,
    all_expressions,
    block,
    ceil_div,
    combine_into,
    define,
    loop,
    nest,
    parallel,
    product_of,
    start_values,
    target,
    unflattened,
    work_of,
)
from dynajit.codegen.loops import (
    Accumulate,
    Accumulated,
    Buffer,
    Expression,
    Keep,
    Phase,
    RowKernel,
    Store,
)
from dynajit.core import symint
from dynajit.core.symint import Number, is_at_least

TEAM = symint.symbol("team", 1)
"""Threads that run a program, in sizes of workspace."""

LANES = 32
"""Accumulators side by side in a long row: two AVX-512 or four AVX2 registers of floats."""

SHORT_LANES = 8
"""The same in rows of fewer than 64 elements."""

BLOCK = 4096
"""Elements after which lane sums are put aside, so that long sums keep their accuracy."""

RUNS = 64
"""Runs of the innermost of several loops after which sums are put aside, for the same reason."""

LONGEST_SHORT_ROW = 63
"""Rows of unknown length are reduced by a function of their own up to this length."""

CHUNKS = 64
"""Groups of rows with a total of their own."""


def lanes_of(accumulates: Sequence[Accumulate], size: Number) -> int:
    """Accumulators side by side; one where the order of elements matters or rows are short.

    Rows of unknown length count as long.
    """
    if any(len(accumulate.element) > 1 for accumulate in accumulates) or is_at_least(15, size):
        return 1
    return SHORT_LANES if is_at_least(63, size) else LANES


def print_rows(kernel: RowKernel) -> Function:
    """The C function of a row kernel."""
    if c_short_rows.fits(kernel):
        return c_short_rows.print_short_rows(kernel)
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


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The run of the innermost element loop: C expressions, and the count if it is fixed."""

    start: str
    stop: str
    count: "Number | None"


class _Rows:
    """Prints one row kernel. Mutable: scopes fill up.

    Args:
        kernel: what is printed.
        name: of the C function.
        longest: elements of a row at most, if that is assumed.
    """

    def __init__(self, kernel: RowKernel, name: str, longest: int | None) -> None:
        self.kernel = kernel
        self.name = name
        self.longest = longest
        self.names = Names(kernel.indices)
        self.root = Scope(self.names)
        self.elements = product_of(kernel.elements)
        self.row_count = product_of(kernel.rows)
        self.is_blocked = self._is_blocked()
        if self.is_blocked:
            self.row_count = ceil_div(self.elements, BLOCK)
        self.scratch: list[Buffer] = []
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
        else:
            lines = [*self._row_variables(), *row.lines]
            body = parallel(self.work, "row", symint.c(self.row_count), lines)
            self.root.add(*(["{", *lines, "}"] if self.is_alone else body))
        loops = len(self.root.lines)
        if self.totals:
            self._combine_groups()
        final = self.root.child()
        for store in kernel.finals:
            final.store(target(final, store), store.buffer.dtype, store.value)
        self.root.add(*final.lines)
        lines = self.root.lines
        if self.team and self.totals:
            lines = [*lines[:loops], *after_all(lines[loops:])]
        return define(
            kernel,
            self.name,
            lines,
            self.expressions,
            self._stores(),
            kernel.indices,
            self.scratch,
            self.team,
        )

    def _roots(self) -> list[Expression]:
        roots = [store.value for store in self._stores()]
        accumulates = [a for phase in self.kernel.phases for a in phase.accumulates]
        for accumulate in (*accumulates, *self.totals):
            roots.extend((*accumulate.element, *(accumulate.first or ())))
        return roots

    def _stores(self) -> list[Store]:
        stores = [store for phase in self.kernel.phases for store in phase.stores]
        return [*stores, *self.kernel.row_stores, *self.kernel.finals]

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
        kept: dict[Expression, str] = {}
        for phase in kernel.phases:
            for keep in phase.keeps:
                row.add(self._kept(keep))
        for number, phase in enumerate(kernel.phases):
            self._phase(row, phase, kept, kernel.element_totals if number == 0 else ())
            kept.update({keep.value: keep.name for keep in phase.keeps})
        for store in kernel.row_stores:
            row.store(target(row, store), store.buffer.dtype, store.value)
        for total in kernel.totals:
            values = [row.emit(part) for part in total.element]
            combine_into(row, total, accumulator_names(total, "s"), values)

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
        totals: Sequence[Accumulate],
    ) -> None:
        def body(scope: Scope) -> None:
            position = symint.c(self._position())
            for value, name in kept.items():
                scope.known[value] = f"{name}[{position}]"
            for keep in phase.keeps:
                scope.add(f"{keep.name}[{position}] = {scope.emit(keep.value)};")
            for store in phase.stores:
                scope.store(target(scope, store), store.buffer.dtype, store.value)

        accumulates = (*phase.accumulates, *totals)
        if not accumulates:
            if phase.keeps or phase.stores:
                row.add(*self._plain_loop(row, body))
            return
        self._accumulate(row, accumulates, body)
        for total in totals:
            names = accumulator_names(total, "r")
            combine_into(row, total, accumulator_names(total, "s"), names)

    def _position(self) -> Number:
        position: Number = 0
        for axis in self.kernel.elements:
            position = position * axis.size + axis.symbol
        return position

    def _bounds(self) -> _Bounds:
        if self.is_blocked:
            known = BLOCK if symint.mod(self.elements, BLOCK) == 0 else None
            return _Bounds("start", "stop", known)
        size = self.kernel.elements[-1].size if self.kernel.elements else 1
        return _Bounds("0", symint.c(size), size)

    def _element_scope(self, row: Scope) -> Scope:
        return row.child([axis.name for axis in self.kernel.elements])

    def _plain_loop(self, row: Scope, body: Callable[[Scope], None]) -> list[str]:
        if not self.kernel.elements or self.kernel.elements[-1].size == 1:
            scope = self._element_scope(row)
            body(scope)
            return ["{", *scope.text(), "}"]
        # What was read and overwritten cannot be computed again.
        near: list[str] = []
        scope = self._element_scope(row)
        scope.near = None if self.kernel.in_place else near
        body(scope)
        bounds = self._bounds()
        name = self.kernel.elements[-1].name
        if not near:
            inner = ["#pragma omp simd", *loop(name, bounds.start, bounds.stop, scope.lines)]
            return nest(self.kernel.elements[:-1], inner)
        whole = self._element_scope(row)
        body(whole)
        far = " | ".join(dict.fromkeys(near))
        step = [*scope.lines, f"far |= {far};"]
        inner = [
            "int far = 0;",
            "#pragma omp simd reduction(|:far)",
            *loop(name, bounds.start, bounds.stop, step),
            *block("if (far)", loop(name, bounds.start, bounds.stop, whole.lines)),
        ]
        return nest(self.kernel.elements[:-1], ["{", *inner, "}"])

    def _accumulate(
        self, row: Scope, accumulates: Sequence[Accumulate], body: Callable[[Scope], None]
    ) -> None:
        """Append a loop that leaves each accumulator in its `r` variables."""
        if self._finds_positions(accumulates):
            self._choose(row, accumulates, body)
            return
        bounds = self._bounds()
        size = self.kernel.elements[-1].size if self.kernel.elements else 1
        block_size = symint.minimum(size, BLOCK) if self.is_blocked else size
        if self.longest is not None:
            size = block_size = self.longest
        lanes = lanes_of(accumulates, block_size)
        for accumulate in accumulates:
            starts = start_values(row, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.add(f"{accumulate.element[k].dtype.c} {name} = {starts[k]};")
                dtype = accumulate.element[k].dtype
                row.known[Accumulated(accumulate.name, k, dtype)] = name
        if lanes == 1:
            row.add(*self._one_lane(row, accumulates, bounds, body))
            return
        is_long = not self.is_blocked and not is_at_least(2 * BLOCK, size)
        if len(self.kernel.elements) != 1 or not is_long:
            row.add(*self._many_lanes(row, accumulates, bounds, lanes, body))
            return
        part = _Bounds("start", "stop", BLOCK if symint.mod(size, BLOCK) == 0 else None)
        lines = self._many_lanes(row, accumulates, part, lanes, body)
        head = f"const int64_t stop = dj_min_index(start + {BLOCK}, {symint.c(size)});"
        row.add(*loop("start", "0", symint.c(size), [head, *lines], step=str(BLOCK)))

    def _finds_positions(self, accumulates: Sequence[Accumulate]) -> bool:
        """True if choices are better found in two passes over a long row: value, then position."""
        return (
            any(map(c_choices.is_choice, accumulates))
            and len(self.kernel.elements) == 1
            and not self.is_blocked
            and self.longest is None
            and not is_at_least(2 * LANES, self.elements)
        )

    def _choose(
        self, row: Scope, accumulates: Sequence[Accumulate], body: Callable[[Scope], None]
    ) -> None:
        """Append what `_accumulate` does, with the positions of choices found in a second pass."""
        choices = [a for a in accumulates if c_choices.is_choice(a)]
        reduced = [c_choices.value_of(a) if a in choices else a for a in accumulates]
        self._accumulate(row, reduced, body)
        (axis,) = self.kernel.elements
        for choice in choices:
            position = accumulator_names(choice, "r")[1]
            row.add(f"int64_t {position} = 0;")
            row.known[Accumulated(choice.name, 1, choice.element[1].dtype)] = position
            scopes = (self._element_scope(row), self._element_scope(row))
            stop = symint.c(axis.size)
            row.add(*c_choices.search(choice, scopes, axis.name, stop, LANES))

    def _one_lane(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        body: Callable[[Scope], None],
    ) -> list[str]:
        scope = self._element_scope(row)
        self._element(scope, accumulates, body, "", dict.fromkeys(accumulates, "r"))
        if not self.kernel.elements:
            return ["{", *scope.text(), "}"]
        if self._rounds(accumulates):
            return self._in_runs(row, accumulates, bounds, body)
        last = self.kernel.elements[-1]
        if last.size == 1:
            return nest(self.kernel.elements[:-1], ["{", *scope.text(), "}"])
        inner = loop(last.name, bounds.start, bounds.stop, scope.lines)
        return nest(self.kernel.elements[:-1], inner)

    def _rounds(self, accumulates: Sequence[Accumulate]) -> bool:
        """True for long sums over several loops, whose order decides how accurate they are."""
        runs = product_of(self.kernel.elements[:-1])
        return not is_at_least(RUNS, runs) and any(map(_is_sum, accumulates))

    def _in_runs(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        body: Callable[[Scope], None],
    ) -> list[str]:
        """One lane, with sums of their own for the innermost loop and for `RUNS` turns of it."""
        sums = [accumulate for accumulate in accumulates if _is_sum(accumulate)]
        prefixes = {accumulate: "q" if accumulate in sums else "r" for accumulate in accumulates}
        scope = self._element_scope(row)
        self._element(scope, accumulates, body, "", prefixes)
        last = self.kernel.elements[-1]
        inner = loop(last.name, bounds.start, bounds.stop, scope.lines)
        if last.size == 1:
            inner = ["{", *scope.text(), "}"]
        turn = Scope(self.names)
        aside = Scope(self.names)
        lines: list[str] = ["int64_t run = 0;"]
        for accumulate in sums:
            starts = start_values(Scope(self.names), accumulate)
            names = {prefix: accumulator_names(accumulate, prefix) for prefix in "mqr"}
            for k, value in enumerate(starts):
                c = accumulate.element[k].dtype.c
                lines.append(f"{c} {names['m'][k]} = {value};")
                inner.insert(0, f"{c} {names['q'][k]} = {value};")
            combine_into(turn, accumulate, names["m"], names["q"])
            combine_into(aside, accumulate, names["r"], names["m"])
            aside.add(*(f"{name} = {value};" for name, value in
                        zip(names["m"], starts, strict=True)))  # fmt: skip
        flush = block(f"if (++run % {RUNS} == 0)", aside.lines)
        whole = nest(self.kernel.elements[:-1], [*inner, *turn.lines, *flush])
        return ["{", *lines, *whole, *aside.lines, "}"]

    def _element(
        self,
        scope: Scope,
        accumulates: Sequence[Accumulate],
        body: Callable[[Scope], None],
        suffix: str,
        prefixes: Mapping[Accumulate, str],
    ) -> None:
        for accumulate in accumulates:
            prefix = prefixes[accumulate]
            # While it runs, the accumulator must not be taken for its result.
            values = [scope.emit(part) for part in accumulate.element]
            target = [f"{name}{suffix}" for name in accumulator_names(accumulate, prefix)]
            combine_into(scope, accumulate, target, values)
        body(scope)

    def _many_lanes(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        lanes: int,
        body: Callable[[Scope], None],
    ) -> list[str]:
        """Lines of a block that combines its elements, by lanes, into the `r` variables."""
        last = self.kernel.elements[-1]
        lane_names = dict.fromkeys(accumulates, "a")
        lines: list[str] = []
        fill: list[str] = []
        for accumulate in accumulates:
            starts = accumulator_names(accumulate, "r")
            if accumulate.identity is not None:
                starts = start_values(Scope(self.names), accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "a")):
                lines.append(f"{accumulate.element[k].dtype.c} {name}[{lanes}];")
                fill.append(f"{name}[lane] = {starts[k]};")
        fills = loop("lane", "0", str(lanes), fill)
        lines += fills
        scope = self._element_scope(row)
        self._element(scope, accumulates, body, "[lane]", lane_names)
        step = [f"const int64_t {last.name} = base + lane;", *scope.lines]
        simd = ["#pragma omp simd", *loop("lane", "0", str(lanes), step)]
        bound = f"{bounds.stop} - {lanes - 1}"
        inner = loop("base", bounds.start, bound, simd, step=str(lanes))
        if bounds.count is None or symint.mod(bounds.count, lanes) != 0:
            rest = self._element_scope(row)
            self._element(rest, accumulates, body, "[lane]", lane_names)
            run = f"({bounds.stop} - {bounds.start})"
            head = f"const int64_t base = {bounds.stop} - {run} % {lanes};"
            step = [f"const int64_t {last.name} = base + lane;", *rest.lines]
            tail = loop("lane", "0", f"{bounds.stop} - base", step)
            inner += ["{", head, *tail, "}"]
        folds = self._folded(accumulates, lanes)
        if self._rounds(accumulates):
            aside = block(f"if (++run % {RUNS} == 0)", [*folds, *fills])
            lines.append("int64_t run = 0;")
            inner = [*inner, *aside]
        return ["{", *lines, *nest(self.kernel.elements[:-1], inner), *folds, "}"]

    def _folded(self, accumulates: Sequence[Accumulate], lanes: int) -> list[str]:
        """Lines that combine the lanes into the `r` variables."""
        lines: list[str] = []
        for accumulate in accumulates:
            names = accumulator_names(accumulate, "a")
            # Constant trips: a loop whose bounds vary would take scalar steps, and branch.
            for half in (lanes >> k for k in range(1, lanes.bit_length())):
                fold = Scope(self.names)
                combine_into(
                    fold, accumulate, [f"{name}[lane]" for name in names],
                    [f"{name}[lane + {half}]" for name in names],
                )  # fmt: skip
                lines += ["#pragma omp simd", *loop("lane", "0", str(half), fold.lines)]
            result = Scope(self.names)
            combine_into(
                result, accumulate, accumulator_names(accumulate, "r"),
                [f"{name}[0]" for name in names],
            )  # fmt: skip
            lines += result.lines
        return lines


def _is_sum(accumulate: Accumulate) -> bool:
    """True if the order of the elements changes how the result is rounded."""
    is_floating = accumulate.element[0].dtype.is_floating_point
    return accumulate.identity is not None and is_floating
