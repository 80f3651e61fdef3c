"""Row kernels and column kernels in C.

Contract: a row kernel runs its rows in parallel, each row by one thread; reductions within a row
use `LANES` accumulators side by side, which are combined in a fixed tree, and totals over rows one
accumulator per chunk of rows, combined in order. A column kernel keeps one accumulator per
column of a block and goes down the rows. Called by `codegen.c_text`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dynajit.codegen.c_expressions import Names, Scope
from dynajit.codegen.c_support import (
    PARALLEL_WORK,
    Function,
    accumulator_names,
    all_expressions,
    block,
    combine_into,
    define,
    loop,
    nest,
    parallel,
    start_values,
    unflattened,
    work_of,
)
from dynajit.codegen.loops import (
    Accumulate,
    Accumulated,
    Axis,
    ColumnKernel,
    Expression,
    Phase,
    RowKernel,
    Store,
)
from dynajit.core import symint
from dynajit.core.symint import Number

LANES = 32
"""Accumulators side by side in a long row: two AVX-512 or four AVX2 registers of floats."""

SHORT_LANES = 8
"""The same in rows of fewer than 64 elements."""

BLOCK = 4096
"""Elements after which lane sums are put aside, so that long sums keep their accuracy."""

CHUNKS = 64
"""Groups of rows with a total of their own."""

COLUMN_BLOCK = 256
"""Columns whose accumulators stay in the first-level cache."""

LARGEST_PARTIALS = 1 << 14
"""Accumulators of a column kernel that may be kept per group of rows, on the stack."""


def lanes_of(accumulates: Sequence[Accumulate], size: int) -> int:
    """Accumulators side by side; one where the order of elements matters or rows are short."""
    if any(len(accumulate.element) > 1 for accumulate in accumulates) or size < 16:
        return 1
    return LANES if size >= 64 else SHORT_LANES


def print_rows(kernel: RowKernel) -> Function:
    """The C function of a row kernel."""
    return _Rows(kernel).function()


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The run of the innermost element loop: C expressions, and the count if it is known."""

    start: str
    stop: str
    count: int | None


class _Rows:
    """Prints one row kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: RowKernel) -> None:
        self.kernel = kernel
        self.names = Names(kernel.indices)
        self.root = Scope(self.names)
        self.elements = 1
        for axis in kernel.elements:
            self.elements *= axis.size
        self.row_count = 1
        for axis in kernel.rows:
            self.row_count *= axis.size
        self.is_blocked = self._is_blocked()
        if self.is_blocked:
            self.row_count = -(-self.elements // BLOCK)
        self.totals = (*kernel.totals, *kernel.element_totals)

    def _is_blocked(self) -> bool:
        """One long loop without reductions per row is cut into blocks."""
        reduces = any(phase.accumulates for phase in self.kernel.phases)
        one = len(self.kernel.elements) == 1 and self.row_count == 1
        return one and not reduces and self.elements > BLOCK

    # -- the whole

    def function(self) -> Function:
        kernel = self.kernel
        expressions = all_expressions(self._roots(), kernel.indices)
        work = work_of(expressions, self.elements * (1 if self.is_blocked else self.row_count))
        row = self.root.child([axis.name for axis in kernel.rows])
        self._row(row)
        if self.totals:
            self._chunked(row, work)
        else:
            lines = [*self._row_variables(), *row.lines]
            body = parallel(work, loop("row", "0", str(self.row_count), lines))
            self.root.add(*(body if self.row_count != 1 else ["{", *lines, "}"]))
        final = self.root.child()
        for store in kernel.finals:
            final.store(_target(final, store), store.buffer.dtype, store.value)
        self.root.add(*final.lines)
        return define(
            kernel, kernel.name, self.root.lines, expressions, self._stores(), kernel.indices
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
                f"const int64_t stop = dj_min_index(start + {BLOCK}, {self.elements});",
            ]
        return unflattened("row", self.kernel.rows) if self.row_count != 1 else []

    # -- totals over rows

    def _chunked(self, row: Scope, work: int) -> None:
        """Rows in groups with one accumulator each; the groups combined in order."""
        per = -(-self.row_count // min(self.row_count, CHUNKS)) if self.row_count else 1
        chunks = max(1, -(-self.row_count // per))
        before = Scope(self.names, self.root)
        after = Scope(self.names, self.root)
        for total in self.totals:
            starts = start_values(before, total)
            for k, name in enumerate(accumulator_names(total, "s")):
                c = total.element[k].dtype.c
                self.root.add(f"{c} p_{name}[{chunks}];")
                before.add(f"{c} {name} = {starts[k]};")
                after.add(f"p_{name}[chunk] = {name};")
        rows = loop(
            "row", f"chunk * {per}", f"dj_min_index((chunk + 1) * {per}, {self.row_count})",
            [*self._row_variables(), *row.lines],
        )  # fmt: skip
        body = loop("chunk", "0", str(chunks), [*before.lines, *rows, *after.lines])
        self.root.add(*parallel(work, body))
        for total in self.totals:
            names = accumulator_names(total, "s")
            for k, name in enumerate(names):
                self.root.add(f"{total.element[k].dtype.c} {name} = p_{name}[0];")
            inner = Scope(self.names)
            combine_into(inner, total, names, [f"p_{name}[chunk]" for name in names])
            self.root.add(*loop("chunk", "1", str(chunks), inner.lines))
            for k, name in enumerate(names):
                self.root.known[Accumulated(total.name, k, total.element[k].dtype)] = name

    # -- one row

    def _row(self, row: Scope) -> None:
        kernel = self.kernel
        kept: dict[Expression, str] = {}
        for phase in kernel.phases:
            for keep in phase.keeps:
                row.add(f"{keep.value.dtype.c} {keep.name}[{self.elements}];")
        for number, phase in enumerate(kernel.phases):
            self._phase(row, phase, kept, kernel.element_totals if number == 0 else ())
            kept.update({keep.value: keep.name for keep in phase.keeps})
        for store in kernel.row_stores:
            row.store(_target(row, store), store.buffer.dtype, store.value)
        for total in kernel.totals:
            values = [row.emit(part) for part in total.element]
            combine_into(row, total, accumulator_names(total, "s"), values)

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
                scope.store(_target(scope, store), store.buffer.dtype, store.value)

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
            known = BLOCK if self.elements % BLOCK == 0 else None
            return _Bounds("start", "stop", known)
        size = self.kernel.elements[-1].size if self.kernel.elements else 1
        return _Bounds("0", str(size), size)

    def _element_scope(self, row: Scope) -> Scope:
        return row.child([axis.name for axis in self.kernel.elements])

    def _plain_loop(self, row: Scope, body: Callable[[Scope], None]) -> list[str]:
        scope = self._element_scope(row)
        body(scope)
        if not self.kernel.elements or self.kernel.elements[-1].size == 1:
            return ["{", *scope.text(), "}"]
        bounds = self._bounds()
        name = self.kernel.elements[-1].name
        inner = ["#pragma omp simd", *loop(name, bounds.start, bounds.stop, scope.lines)]
        return nest(self.kernel.elements[:-1], inner)

    def _accumulate(
        self, row: Scope, accumulates: Sequence[Accumulate], body: Callable[[Scope], None]
    ) -> None:
        """Append a loop that leaves each accumulator in its `r` variables."""
        bounds = self._bounds()
        size = self.kernel.elements[-1].size if self.kernel.elements else 1
        lanes = lanes_of(accumulates, min(size, BLOCK) if self.is_blocked else size)
        for accumulate in accumulates:
            starts = start_values(row, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.add(f"{accumulate.element[k].dtype.c} {name} = {starts[k]};")
                dtype = accumulate.element[k].dtype
                row.known[Accumulated(accumulate.name, k, dtype)] = name
        if lanes == 1:
            row.add(*self._one_lane(row, accumulates, bounds, body))
            return
        long_row = len(self.kernel.elements) == 1 and not self.is_blocked and size > 2 * BLOCK
        if not long_row:
            row.add(*self._many_lanes(row, accumulates, bounds, lanes, body))
            return
        part = _Bounds("start", "stop", BLOCK if size % BLOCK == 0 else None)
        lines = self._many_lanes(row, accumulates, part, lanes, body)
        head = f"const int64_t stop = dj_min_index(start + {BLOCK}, {size});"
        row.add(*loop("start", "0", str(size), [head, *lines], step=str(BLOCK)))

    def _one_lane(
        self,
        row: Scope,
        accumulates: Sequence[Accumulate],
        bounds: _Bounds,
        body: Callable[[Scope], None],
    ) -> list[str]:
        scope = self._element_scope(row)
        self._element(scope, accumulates, body, "", "r")
        if not self.kernel.elements:
            return ["{", *scope.text(), "}"]
        last = self.kernel.elements[-1]
        if last.size == 1:
            return nest(self.kernel.elements[:-1], ["{", *scope.text(), "}"])
        inner = loop(last.name, bounds.start, bounds.stop, scope.lines)
        return nest(self.kernel.elements[:-1], inner)

    def _element(
        self,
        scope: Scope,
        accumulates: Sequence[Accumulate],
        body: Callable[[Scope], None],
        suffix: str,
        prefix: str,
    ) -> None:
        for accumulate in accumulates:
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
        lines: list[str] = []
        fill: list[str] = []
        for accumulate in accumulates:
            starts = accumulator_names(accumulate, "r")
            if accumulate.identity is not None:
                starts = start_values(Scope(self.names), accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "a")):
                lines.append(f"{accumulate.element[k].dtype.c} {name}[{lanes}];")
                fill.append(f"{name}[lane] = {starts[k]};")
        lines += loop("lane", "0", str(lanes), fill)
        scope = self._element_scope(row)
        self._element(scope, accumulates, body, "[lane]", "a")
        step = [f"const int64_t {last.name} = base + lane;", *scope.lines]
        simd = ["#pragma omp simd", *loop("lane", "0", str(lanes), step)]
        bound = f"{bounds.stop} - {lanes - 1}"
        inner = loop("base", bounds.start, bound, simd, step=str(lanes))
        if bounds.count is None or bounds.count % lanes:
            rest = self._element_scope(row)
            self._element(rest, accumulates, body, "[lane]", "a")
            run = f"({bounds.stop} - {bounds.start})"
            head = f"const int64_t base = {bounds.stop} - {run} % {lanes};"
            step = [f"const int64_t {last.name} = base + lane;", *rest.lines]
            tail = loop("lane", "0", f"{bounds.stop} - base", step)
            inner += ["{", head, *tail, "}"]
        lines += nest(self.kernel.elements[:-1], inner)
        for accumulate in accumulates:
            names = accumulator_names(accumulate, "a")
            fold = Scope(self.names)
            combine_into(
                fold, accumulate, [f"{name}[lane]" for name in names],
                [f"{name}[lane + half]" for name in names],
            )  # fmt: skip
            halves = loop("lane", "0", "half", fold.lines)
            lines += block(f"for (int half = {lanes // 2}; half > 0; half /= 2)", halves)
            result = Scope(self.names)
            combine_into(
                result, accumulate, accumulator_names(accumulate, "r"),
                [f"{name}[0]" for name in names],
            )  # fmt: skip
            lines += result.lines
        return ["{", *lines, "}"]


def _target(scope: Scope, store: Store) -> str:
    scope.bind([store.offset])
    return f"{store.buffer.name}[{symint.c(store.offset)}]"


# ---------------------------------------------------------------------------------------------
# column kernels


def print_columns(kernel: ColumnKernel) -> Function:
    """The C function of a column kernel."""
    return _Columns(kernel).function()


def _product(axes: Sequence[Axis]) -> int:
    total = 1
    for axis in axes:
        total *= axis.size
    return total


class _Columns:
    """Prints one column kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: ColumnKernel) -> None:
        self.kernel = kernel
        self.names = Names(kernel.indices)
        self.outer = _product(kernel.outer)
        self.reduced = _product(kernel.reduced)
        (self.column,) = kernel.columns
        roots = [store.value for store in kernel.stores]
        for accumulate in kernel.accumulates:
            roots.extend((*accumulate.element, *(accumulate.first or ())))
        self.expressions = all_expressions(roots, kernel.indices)
        self.work = work_of(self.expressions, self.outer * self.reduced * self.column.size)
        self.width = min(COLUMN_BLOCK, self.column.size)
        self.blocks = -(-self.column.size // self.width) if self.width else 0
        self.chunks = self._chunk_count()

    def _chunk_count(self) -> int:
        """Groups of rows that get accumulators of their own: where columns alone are too few."""
        if self.outer * self.blocks >= 8 or self.work < PARALLEL_WORK:
            return 1
        results = self.outer * self.column.size * len(self.kernel.accumulates)
        return max(1, min(16, self.reduced // 64, LARGEST_PARTIALS // max(results, 1)))

    def function(self) -> Function:
        kernel = self.kernel
        root = Scope(self.names)
        tasks = self.outer * self.blocks * self.chunks
        if self.chunks > 1:
            for accumulate in kernel.accumulates:
                for k, name in enumerate(accumulator_names(accumulate, "p")):
                    size = self.chunks * self.outer * self.column.size
                    root.add(f"{accumulate.element[k].dtype.c} {name}[{size}];")
        root.add(*parallel(self.work, loop("task", "0", str(tasks), self._task(root))))
        if self.chunks > 1:
            root.add(*self._second_stage(root))
        return define(
            kernel, kernel.name, root.lines, self.expressions, kernel.stores, kernel.indices
        )

    def _task(self, root: Scope) -> list[str]:
        kernel, column = self.kernel, self.column.name
        task = root.child([axis.name for axis in kernel.outer])
        task.add(
            f"const int64_t chunk = task % {self.chunks}, rest = task / {self.chunks};",
            f"const int64_t start = rest % {self.blocks} * {self.width};",
            f"const int64_t stop = dj_min_index(start + {self.width}, {self.column.size});",
            f"const int64_t outer = rest / {self.blocks};",
            "(void)outer, (void)chunk;",
            *unflattened("outer", kernel.outer),
        )
        per = -(-self.reduced // self.chunks)
        for accumulate in kernel.accumulates:
            for k, name in enumerate(accumulator_names(accumulate, "a")):
                task.add(f"{accumulate.element[k].dtype.c} {name}[{self.width}];")
        task.add(*self._columns(self._start(task.child([column]))))
        down = task.child([axis.name for axis in kernel.reduced])
        across = down.child([column])
        for accumulate in kernel.accumulates:
            values = [across.emit(part) for part in accumulate.element]
            names = accumulator_names(accumulate, "a")
            target = [f"{name}[{column} - start]" for name in names]
            combine_into(across, accumulate, target, values)
        lines = [
            *unflattened("position", kernel.reduced),
            *down.lines,
            *self._columns(across.lines),
        ]
        first, last = f"chunk * {per}", f"dj_min_index((chunk + 1) * {per}, {self.reduced})"
        task.add(*loop("position", first, last, lines))
        task.add(*self._columns(self._end(task.child([column]))))
        return task.lines

    def _columns(self, lines: list[str]) -> list[str]:
        return ["#pragma omp simd", *loop(self.column.name, "start", "stop", lines)]

    def _start(self, scope: Scope) -> list[str]:
        for accumulate in self.kernel.accumulates:
            values = start_values(scope, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "a")):
                scope.add(f"{name}[{self.column.name} - start] = {values[k]};")
        return scope.lines

    def _end(self, scope: Scope) -> list[str]:
        here = f"[{self.column.name} - start]"
        for accumulate in self.kernel.accumulates:
            for k, name in enumerate(accumulator_names(accumulate, "a")):
                if self.chunks > 1:
                    partial = accumulator_names(accumulate, "p")[k]
                    scope.add(f"{partial}[{self._partial('chunk')}] = {name}{here};")
                dtype = accumulate.element[k].dtype
                scope.known[Accumulated(accumulate.name, k, dtype)] = f"{name}{here}"
        if self.chunks == 1:
            self._store(scope)
        return scope.lines

    def _partial(self, chunk: str) -> str:
        return f"({chunk} * {self.outer} + outer) * {self.column.size} + {self.column.name}"

    def _store(self, scope: Scope) -> None:
        for store in self.kernel.stores:
            scope.store(_target(scope, store), store.buffer.dtype, store.value)

    def _second_stage(self, root: Scope) -> list[str]:
        """Combine the groups' accumulators in order and store the results."""
        kernel = self.kernel
        outer = root.child([axis.name for axis in kernel.outer])
        scope = outer.child([self.column.name])
        for accumulate in kernel.accumulates:
            names = accumulator_names(accumulate, "a")
            partials = accumulator_names(accumulate, "p")
            for k, name in enumerate(names):
                dtype = accumulate.element[k].dtype
                scope.add(f"{dtype.c} {name} = {partials[k]}[{self._partial('0')}];")
                scope.known[Accumulated(accumulate.name, k, dtype)] = name
            inner = Scope(self.names)
            others = [f"{partial}[{self._partial('chunk')}]" for partial in partials]
            combine_into(inner, accumulate, names, others)
            scope.add(*loop("chunk", "1", str(self.chunks), inner.lines))
        self._store(scope)
        lines = loop(self.column.name, "0", str(self.column.size), scope.lines)
        return loop(
            "outer", "0", str(self.outer),
            [*unflattened("outer", kernel.outer), *outer.lines, *lines],
        )  # fmt: skip
