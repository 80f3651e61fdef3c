"""Column kernels in C: reductions whose results lie side by side.

Contract: one accumulator per column of a block, down the rows; long sums are put aside now and
then, so that they keep their accuracy. Where columns alone are too few to keep a team busy, rows
are cut into groups with accumulators of their own, which are combined in order.
"""

from collections.abc import Sequence

from dynajit.codegen.c.expressions import INDENT, Names, Scope
from dynajit.codegen.c.support import (
    Function,
    accumulator_names,
    after_all,
    block,
    ceil_div,
    combine_into,
    define,
    is_rounded,
    loop,
    parallel,
    start_values,
    target,
    unflattened,
    work_of,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Apply,
    Axis,
    Buffer,
    ColumnKernel,
    Load,
    Slot,
    all_expressions,
    product_of,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number, is_at_least

COLUMN_BYTES = 1 << 14
"""Bytes of the accumulators of columns that are summed side by side: they stay in the first-level
cache. Fewer columns break up what is read: sums over rows of 4096 floats took 1.5 times as long
with 1024 at a time (EPYC, Zen 4)."""

LEAST_COLUMNS = 512
"""Such columns, however large their accumulators are."""

ROWS_AT_ONCE = 4
"""Rows that are met while an accumulator is in a register."""

SPAN = 128
"""Rows after which sums are put aside, so that long sums keep their accuracy."""

FEW_EXPRESSIONS = 24
"""Expressions of an element up to which rows are met together: more would fill the registers."""

LARGEST_PARTIALS = 1 << 14
"""Accumulators of a column kernel that may be kept per group of rows, on the stack."""


def print_columns(kernel: ColumnKernel) -> Function:
    """The C function of a column kernel."""
    return _Columns(kernel).function()


_SUFFIXES = {dtypes.float32: "f32", dtypes.float64: "f64"}


def _is_sum(total: Accumulate) -> bool:
    """Whether numbers are added, and nothing else."""
    if total.identity is None or len(total.combine) != 1:
        return False
    (combined,) = total.combine
    is_added = isinstance(combined, Apply) and combined.function == "add"
    return is_added and all(isinstance(part, Slot) for part in combined.operands)


def _row_major(loops: Sequence[Axis]) -> Number:
    """The place of an element of an array with these dims."""
    place: Number = 0
    for axis in loops:
        place = place * axis.size + axis.symbol
    return place


class _Columns:
    """Prints one column kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: ColumnKernel) -> None:
        self.kernel = kernel
        self.names = Names(kernel.indices)
        self.outer = product_of(kernel.outer)
        self.reduced = product_of(kernel.reduced)
        (self.column,) = kernel.columns
        roots = [store.value for store in kernel.stores]
        for accumulate in kernel.accumulates:
            roots.extend((*accumulate.element, *(accumulate.first or ())))
        self.expressions = all_expressions(roots, kernel.indices)
        self.work = work_of(self.expressions, self.outer * self.reduced * self.column.size)
        each = sum(part.dtype.itemsize for a in kernel.accumulates for part in a.element)
        self.width = max(LEAST_COLUMNS, COLUMN_BYTES // max(each, 1))
        if isinstance(self.column.size, int):
            self.width = min(self.width, self.column.size)
        self.blocks = ceil_div(self.column.size, self.width) if self.width else 0
        self.chunks = self._chunk_count()
        self.scratch: list[Buffer] = []
        self.sums: tuple[Accumulate, ...] = ()
        if not is_at_least(SPAN * (self.chunks or 1), self.reduced):
            self.sums = tuple(filter(is_rounded, kernel.accumulates))
        self.calls = self._whole_sums()
        if self.calls and self.chunks == 1:
            self.sums = ()

    def _chunk_count(self) -> int | None:
        """Groups of rows that get accumulators of their own: where columns alone are too few.

        None where the program has to look.
        """
        if is_at_least(self.outer * self.blocks, 8) or self.work.is_large is False:
            return 1
        results = self.outer * self.column.size * len(self.kernel.accumulates)
        if not isinstance(results, int) or not isinstance(self.reduced, int):
            return None
        return max(1, min(16, self.reduced // 64, LARGEST_PARTIALS // max(results, 1)))

    def _chunk_text(self) -> list[str]:
        """`chunks` as `_chunk_count` would find it, and the rows of each, `per`."""
        groups = len(self.kernel.accumulates)
        results, rows = symint.c(self.outer * self.column.size * groups), symint.c(self.reduced)
        most = f"{LARGEST_PARTIALS} / dj_max_index({results}, 1)"
        few = f"{symint.c(self.outer * self.blocks)} < 8"
        large = f" && {self.work.condition}" if self.work.condition else ""
        return [
            "int64_t chunks = 1;",
            f"if ({few}{large})",
            f"{INDENT}chunks = dj_min_index(16, dj_min_index({rows} / 64, {most}));",
            "chunks = dj_max_index(chunks, 1);",
            f"const int64_t per = ({rows} + chunks - 1) / chunks;",
        ]

    def function(self) -> Function:
        kernel = self.kernel
        root = Scope(self.names)
        if self.chunks is None:
            root.add(*self._chunk_text())
        chunks = "chunks" if self.chunks is None else str(self.chunks)
        tasks = self.outer * self.blocks
        if self.chunks != 1:
            for accumulate in kernel.accumulates:
                for k, name in enumerate(accumulator_names(accumulate, "p")):
                    size: Number = LARGEST_PARTIALS // len(kernel.accumulates)
                    if self.chunks is not None:
                        size = self.chunks * self.outer * self.column.size
                    root.add(self._partials(name, accumulate.element[k].dtype, size))
        count = symint.c(tasks * self.chunks) if self.chunks else f"{symint.c(tasks)} * chunks"
        root.add(*parallel(self.work, "task", count, self._task(root, chunks)))
        if self.chunks != 1:
            root.add(*self._whole_second_stage(root, chunks))
        return define(
            kernel,
            kernel.name,
            root.lines,
            self.expressions,
            kernel.stores,
            kernel.indices,
            self.scratch,
            self.work.condition,
        )

    def _whole_sums(self) -> list[str]:
        """Calls that set the accumulators where all are sums of matrices in memory, in PyTorch's
        order, as eager execution has it; none for what is more than that, or cut."""
        if self.outer * self.blocks != 1 or self.chunks not in (1, None):
            return []
        prefix = "m" if self.sums and self.chunks is None else "a"
        place = _row_major((*self.kernel.reduced, self.column))
        calls = []
        for total in self.kernel.accumulates:
            element = total.element[0]
            if not _is_sum(total) or not isinstance(element, Load) or element.offset != place:
                return []
            suffix = _SUFFIXES.get(element.dtype)
            if suffix is None or element.buffer.dtype is not element.dtype:
                return []
            sizes = f"{symint.c(self.reduced)}, {symint.c(self.column.size)}"
            (name,) = accumulator_names(total, prefix)
            calls.append(
                f"dj_sum_columns_{suffix}(runtime, {element.buffer.name}, {sizes}, {name});"
            )
        return calls

    def _partials(self, name: str, dtype: DType, size: Number) -> str:
        """Memory for the groups' accumulators: on the stack, or where a team can see it."""
        if not self.work.condition:
            return f"{dtype.c} {name}[{symint.c(size)}];"
        buffer = Buffer(f"{self.kernel.name}_{name}", dtype, size)
        self.scratch.append(buffer)
        return f"{dtype.c} *{name} = {buffer.name};"

    def _whole_second_stage(self, root: Scope, chunks: str) -> list[str]:
        lines = self._second_stage(root, chunks)
        if self.work.condition:
            lines = after_all(lines)
        return block("if (chunks > 1)", lines) if self.chunks is None else lines

    def _task(self, root: Scope, chunks: str) -> list[str]:
        kernel, column = self.kernel, self.column.name
        blocks, rows = symint.c(self.blocks), symint.c(self.reduced)
        columns = symint.c(self.column.size)
        task = root.child([axis.name for axis in kernel.outer])
        task.add(
            f"const int64_t chunk = task % {chunks}, rest = task / {chunks};",
            f"const int64_t start = rest % {blocks} * {self.width};",
            f"const int64_t stop = dj_min_index(start + {self.width}, {columns});",
            f"const int64_t outer = rest / {blocks};",
            "(void)outer, (void)chunk;",
            *unflattened("outer", kernel.outer),
        )
        per = "per" if self.chunks is None else symint.c(ceil_div(self.reduced, self.chunks))
        for accumulate, prefix in self._kept():
            for k, name in enumerate(accumulator_names(accumulate, prefix)):
                task.add(f"{accumulate.element[k].dtype.c} {name}[{self.width}];")
        first, last = f"chunk * {per}", f"dj_min_index((chunk + 1) * {per}, {rows})"
        if self.calls and self.chunks == 1:
            task.add(*self.calls)
        else:
            inner = task.child([])
            inner.add(*self._columns(self._start(task.child([column]), self._kept())))
            inner.add(*(self._in_spans if self.sums else self._rows)(inner, first, last))
            if self.calls:
                task.add(*block("if (chunks == 1)", self.calls), *block("else", inner.lines))
            else:
                task.add(*inner.lines)
        whole, part = (self._columns(self._end(task.child([column]), p)) for p in (False, True))
        if self.chunks is None:
            task.add(*block("if (chunks > 1)", part), *block("else", whole))
        else:
            task.add(*(whole if self.chunks == 1 else part))
        return task.lines

    def _kept(self) -> list[tuple[Accumulate, str]]:
        """The accumulators of a group, with their prefixes: those of sums twice."""
        kept = [(accumulate, "a") for accumulate in self.kernel.accumulates]
        return [*kept, *((accumulate, "m") for accumulate in self.sums)]

    def _in_spans(self, task: Scope, first: str, last: str) -> list[str]:
        """Lines that meet rows; sums start anew in each span, whose sums are added up."""
        sums = [(accumulate, "a") for accumulate in self.sums]
        starts = self._start(task.child([self.column.name]), sums)
        here = f"[{self.column.name} - start]"
        aside = Scope(self.names)
        for accumulate in self.sums:
            whole, part = (
                [f"{name}{here}" for name in accumulator_names(accumulate, prefix)]
                for prefix in "ma"
            )
            combine_into(aside, accumulate, whole, part)
        lines = [
            f"const int64_t until = dj_min_index(from + {SPAN}, end);",
            *self._rows(task, "from", "until"),
            *self._columns([*aside.lines, *starts]),
        ]
        return [f"const int64_t end = {last};", *loop("from", first, "end", lines, str(SPAN))]

    def _rows(self, task: Scope, first: str, last: str) -> list[str]:
        """Lines that meet the rows from `first` to `last`, in order."""
        # Positions along several loops would be divided for every column.
        is_plain = len(self.kernel.reduced) == 1 and not self.kernel.indices
        if not is_plain or len(self.expressions) > FEW_EXPRESSIONS:
            return loop("position", first, last, self._one_row(task))
        head = f"for (; next < last - {ROWS_AT_ONCE - 1}; next += {ROWS_AT_ONCE})"
        return [
            f"const int64_t last = {last};",
            f"int64_t next = {first};",
            *block(head, self._many_rows(task)),
            *loop("position", "next", "last", self._one_row(task)),
        ]

    def _one_row(self, task: Scope) -> list[str]:
        """Lines that meet the row `position`."""
        down = task.child([axis.name for axis in self.kernel.reduced])
        across = down.child([self.column.name])
        self._meet(across, f"[{self.column.name} - start]", "a")
        return [
            *unflattened("position", self.kernel.reduced),
            *down.lines,
            *self._columns(across.lines),
        ]

    def _many_rows(self, task: Scope) -> list[str]:
        """Lines that meet `ROWS_AT_ONCE` rows from `next` on, in order."""
        accumulates = self.kernel.accumulates
        here = f"[{self.column.name} - start]"
        pairs = [
            (accumulate.element[k].dtype.c, name, register)
            for accumulate in accumulates
            for k, (name, register) in enumerate(
                zip(
                    accumulator_names(accumulate, "a"),
                    accumulator_names(accumulate, "c"),
                    strict=True,
                )
            )
        ]
        lines = [f"{c} {register} = {name}{here};" for c, name, register in pairs]
        for k in range(ROWS_AT_ONCE):
            row = task.child([self.column.name, *(axis.name for axis in self.kernel.reduced)])
            self._meet(row, "", "c")
            position = f"const int64_t position = next + {k};"
            lines += [
                "{",
                position,
                *unflattened("position", self.kernel.reduced),
                *row.text(),
                "}",
            ]
        lines += [f"{name}{here} = {register};" for _, name, register in pairs]
        return self._columns(lines)

    def _meet(self, scope: Scope, here: str, prefix: str) -> None:
        """Combine the element at hand into the accumulators, `prefix` their names."""
        for accumulate in self.kernel.accumulates:
            values = [scope.emit(part) for part in accumulate.element]
            target = [f"{name}{here}" for name in accumulator_names(accumulate, prefix)]
            combine_into(scope, accumulate, target, values)

    def _columns(self, lines: list[str]) -> list[str]:
        return ["#pragma omp simd", *loop(self.column.name, "start", "stop", lines)]

    def _start(self, scope: Scope, kept: Sequence[tuple[Accumulate, str]]) -> list[str]:
        for accumulate, prefix in kept:
            values = start_values(scope, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, prefix)):
                scope.add(f"{name}[{self.column.name} - start] = {values[k]};")
        return scope.lines

    def _end(self, scope: Scope, is_part: bool) -> list[str]:
        """Put the accumulators of a group aside, or store the results if there is one group."""
        here = f"[{self.column.name} - start]"
        for accumulate in self.kernel.accumulates:
            prefix = "m" if accumulate in self.sums else "a"
            for k, name in enumerate(accumulator_names(accumulate, prefix)):
                if is_part:
                    partial = accumulator_names(accumulate, "p")[k]
                    scope.add(f"{partial}[{self._partial('chunk')}] = {name}{here};")
                dtype = accumulate.element[k].dtype
                scope.known[Accumulated(accumulate.name, k, dtype)] = f"{name}{here}"
        if not is_part:
            self._store(scope)
        return scope.lines

    def _partial(self, chunk: str) -> str:
        outer, columns = symint.c(self.outer), symint.c(self.column.size)
        return f"({chunk} * {outer} + outer) * {columns} + {self.column.name}"

    def _store(self, scope: Scope) -> None:
        for store in self.kernel.stores:
            scope.store(target(scope, store), store.buffer.dtype, store.value)

    def _second_stage(self, root: Scope, chunks: str) -> list[str]:
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
            scope.add(*loop("chunk", "1", chunks, inner.lines))
        self._store(scope)
        lines = loop(self.column.name, "0", symint.c(self.column.size), scope.lines)
        return loop(
            "outer", "0", symint.c(self.outer),
            [*unflattened("outer", kernel.outer), *outer.lines, *lines],
        )  # fmt: skip
