"""Scan kernels in C: running sums and products.

Contract: each running value is combined from its neighbour's, in order, whatever the loops are, so
results depend neither on the number of threads nor on widths. Along the last axis, rows lie side by
side: a block of each is computed by vectors into the first-level cache, then `SIDES` rows run at
the same time, since one waits for every addition, then vectors compute what follows. Along others,
columns are vector lanes.
"""

from collections.abc import Iterator
from dataclasses import replace

from dynajit.codegen.c.expressions import Names, Scope
from dynajit.codegen.c.support import (
    Function,
    accumulator_names,
    block,
    ceil_div,
    combine_into,
    define,
    loop,
    parallel,
    simd_loop,
    start_values,
    target,
    unflattened,
    work_of,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Expression,
    Phase,
    ScanKernel,
    Store,
    all_expressions,
    product_of,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least

SIDES = 4
"""Rows that run side by side: an addition takes four cycles, and one value is stored per cycle."""

BLOCK = 256
"""Elements of a row that are computed before they are scanned: four rows of doubles are 8 KB."""

COLUMN_BLOCK = 1024
"""Columns whose running values stay in the first-level cache."""

LEAST_COLUMN_BLOCK = 128
"""Columns of a task where there are few: fewer would break up what is read."""

FEW_COLUMNS = 4
"""Columns that would leave lanes empty: each is a row then, whose elements lie apart."""

ENOUGH_TASKS = 8


def print_scan(kernel: ScanKernel) -> Function:
    """The C function of a scan kernel."""
    if not kernel.columns:
        return _Rows(kernel).function()
    if is_at_least(FEW_COLUMNS, product_of(kernel.columns)):
        return _Rows(replace(kernel, outer=(*kernel.outer, *kernel.columns), columns=())).function()
    return _Columns(kernel).function()


class _Scan:
    """What both forms share. Mutable: scopes fill up."""

    def __init__(self, kernel: ScanKernel) -> None:
        self.kernel = kernel
        self.scanned = kernel.scanned
        self.size = symint.c(kernel.scanned.size)
        self.names = Names(kernel.indices)
        self.root = Scope(self.names)
        self.accumulates = [a for phase in kernel.phases for a in phase.accumulates]
        roots: list[Expression] = [store.value for store in self.stores()]
        for accumulate in self.accumulates:
            roots.extend((*accumulate.element, *accumulate.combine))
        self.expressions = all_expressions(roots, kernel.indices)
        loops = product_of((*kernel.outer, *kernel.columns))
        self.work = work_of(self.expressions, loops * kernel.scanned.size)

    def stores(self) -> list[Store]:
        """Everything that is stored."""
        return [store for phase in self.kernel.phases for store in phase.stores]

    def defined(self, team: str) -> Function:
        """The function around what is in the root scope."""
        kernel = self.kernel
        return define(
            kernel, kernel.name, self.root.lines, self.expressions, self.stores(), kernel.indices,
            team=team,
        )  # fmt: skip

    def scan_steps(self, lines: list[str], first: str, stop: str) -> list[str]:
        """A loop over [first, stop) of the scanned axis, in the order of the scan."""
        name = self.scanned.name
        if not self.kernel.is_reverse:
            return loop(name, first, stop, lines)
        return block(f"for (int64_t {name} = {stop} - 1; {name} >= {first}; {name}--)", lines)


def _variable(accumulate: Accumulate, prefix: str) -> str:
    (name,) = accumulator_names(accumulate, prefix)
    return name


def _type(accumulate: Accumulate) -> str:
    return accumulate.element[0].dtype.c


def _value(accumulate: Accumulate) -> Accumulated:
    return Accumulated(accumulate.name, 0, accumulate.element[0].dtype)


# ---------------------------------------------------------------------------------------------
# along the last axis


class _Rows(_Scan):
    """Rows side by side, block by block."""

    def __init__(self, kernel: ScanKernel) -> None:
        super().__init__(kernel)
        self.rows = product_of(kernel.outer)
        self.sides = min(SIDES, self.rows) if isinstance(self.rows, int) else SIDES
        self.sides = max(self.sides, 1)
        size = kernel.scanned.size
        wide = BLOCK * SIDES // self.sides
        self.width = min(wide, size) if isinstance(size, int) else wide
        self.held: dict[Expression, str] = {}  # value -> array of the blocks of all rows

    def function(self) -> Function:
        groups: Number = ceil_div(self.rows, self.sides)
        is_alone = groups == 1
        lines = self._group()
        if is_alone:
            self.root.add("{", "const int64_t group = 0;", *lines, "}")
        else:
            self.root.add(*parallel(self.work, "group", symint.c(groups), lines))
        return self.defined("" if is_alone else self.work.condition)

    def _group(self) -> list[str]:
        """Lines that scan the rows of one group."""
        sides, size = self.sides, self.size
        task = self.root.child()
        task.add(f"const int64_t first = group * {sides};")
        here = f"dj_min_index({sides}, {symint.c(self.rows)} - first)"
        task.add(f"const int64_t here = {sides if self._is_whole() else here};", "(void)here;")
        for accumulate in self.accumulates:
            c, running = _type(accumulate), _variable(accumulate, "r")
            (start,) = start_values(task, accumulate)
            task.add(f"{c} {_variable(accumulate, 't')}[{sides * self.width}], {running}[{sides}];")
            task.add(*loop("side", "0", str(sides), [f"{running}[side] = {start};"]))
            # GCC 12 (-O2, straight-line vectors) drops these stores where the last group has fewer
            # rows: it began with the values of the group before. They stay where they may be read.
            task.add(*([] if self._is_whole() else [f'__asm__("" : "+m"({running}));']))
        for phase in self.kernel.phases:
            for keep in phase.keeps:
                task.add(f"{keep.value.dtype.c} {keep.name}[{sides * self.width}];")
        blocks = f"({size} + {self.width - 1}) / {self.width}"
        number = f"({blocks} - 1 - block)" if self.kernel.is_reverse else "block"
        step = [
            f"const int64_t start = {number} * {self.width};",
            f"const int64_t stop = dj_min_index(start + {self.width}, {size});",
        ]
        for phase in self.kernel.phases:
            step += self._vector_pass(task, phase)
            for accumulate in phase.accumulates:
                step += self._running(accumulate)
        task.add(*loop("block", "0", blocks, step))
        return task.lines

    def _is_whole(self) -> bool:
        return isinstance(self.rows, int) and self.rows % self.sides == 0

    def _place(self, array: str) -> str:
        """The element at hand in an array of blocks."""
        return f"{array}[side * {self.width} + {self.scanned.name} - start]"

    def _vector_pass(self, task: Scope, phase: Phase) -> list[str]:
        """What a phase computes of each element, row by row."""
        axes = self.kernel.outer
        row = task.child(["side", *(axis.name for axis in axes)])
        row.add("const int64_t row = first + side;", "(void)row;")
        row.add(*(unflattened("row", axes) if self.rows != 1 else []))
        held = dict(self.held)

        def element() -> Scope:
            scope = row.child([self.scanned.name, "start"])
            scope.known.update({value: self._place(array) for value, array in held.items()})
            return scope

        def body(scope: Scope) -> None:
            for accumulate in phase.accumulates:
                place = self._place(_variable(accumulate, "t"))
                scope.add(f"{place} = {scope.emit(accumulate.element[0])};")
            for keep in phase.keeps:
                scope.add(f"{self._place(keep.name)} = {scope.emit(keep.value)};")
            for store in phase.stores:
                scope.store(target(scope, store), store.buffer.dtype, store.value)

        inner = simd_loop(element, body, self.scanned.name, "start", "stop")
        for keep in phase.keeps:
            self.held[keep.value] = keep.name
        for accumulate in phase.accumulates:
            self.held[_value(accumulate)] = _variable(accumulate, "t")
        # Once for each row, what does not change within it is computed in front of the loop.
        return loop("side", "0", "here", [*row.lines, *inner])

    def _running(self, accumulate: Accumulate) -> list[str]:
        """The blocks of all rows become running values."""
        if self.sides == 1:
            return self._sides(accumulate, ["0"])
        together = self._sides(accumulate, [str(side) for side in range(self.sides)])
        if self._is_whole():
            return together
        apart = loop("side", "0", "here", self._sides(accumulate, ["side"]))
        return [*block(f"if (here == {self.sides})", together), *block("else", apart)]

    def _sides(self, accumulate: Accumulate, sides: list[str]) -> list[str]:
        array, running = _variable(accumulate, "t"), _variable(accumulate, "r")
        names = [f"a{number}" for number in range(len(sides))]
        before = [
            f"{_type(accumulate)} {name} = {running}[{side}];"
            for name, side in zip(names, sides, strict=True)
        ]
        step = Scope(self.names)
        for name, side in zip(names, sides, strict=True):
            place = f"{array}[{side} * {self.width} + {self.scanned.name} - start]"
            combine_into(step, accumulate, [name], [place])
            step.add(f"{place} = {name};")
        after = [f"{running}[{side}] = {name};" for name, side in zip(names, sides, strict=True)]
        return ["{", *before, *self.scan_steps(step.lines, "start", "stop"), *after, "}"]


# ---------------------------------------------------------------------------------------------
# along another axis


class _Columns(_Scan):
    """A vector lane for each column."""

    def __init__(self, kernel: ScanKernel) -> None:
        super().__init__(kernel)
        *inner, self.column = kernel.columns
        self.outer = (*kernel.outer, *inner)
        self.width = _column_block(self.column.size, product_of(self.outer))
        self.blocks = ceil_div(self.column.size, self.width)

    def function(self) -> Function:
        columns, blocks = symint.c(self.column.size), symint.c(self.blocks)
        task = self.root.child([axis.name for axis in self.outer])
        if self.blocks == 1:
            bounds = f"const int64_t start = 0, stop = {columns}, outer = task;"
            task.add(bounds)
        else:
            task.add(
                f"const int64_t start = task % {blocks} * {self.width};",
                f"const int64_t stop = dj_min_index(start + {self.width}, {columns});",
                f"const int64_t outer = task / {blocks};",
            )
        task.add("(void)outer;", *unflattened("outer", self.outer))
        task.add(*self._start(task))
        down = task.child([self.scanned.name])
        across = down.child([self.column.name])
        self._meet(across)
        task.add(*self.scan_steps([*down.lines, *self._across(across.lines)], "0", self.size))
        tasks = symint.c(self.blocks * product_of(self.outer))
        self.root.add(*parallel(self.work, "task", tasks, task.lines))
        return self.defined(self.work.condition)

    def _across(self, lines: list[str]) -> list[str]:
        return ["#pragma omp simd", *loop(self.column.name, "start", "stop", lines)]

    def _here(self, accumulate: Accumulate) -> str:
        return f"{_variable(accumulate, 'a')}[{self.column.name} - start]"

    def _start(self, task: Scope) -> Iterator[str]:
        fill = []
        for accumulate in self.accumulates:
            (start,) = start_values(task, accumulate)
            yield f"{_type(accumulate)} {_variable(accumulate, 'a')}[{self.width}];"
            fill.append(f"{self._here(accumulate)} = {start};")
        yield from self._across(fill)

    def _meet(self, scope: Scope) -> None:
        """Combine the element at hand, then compute what follows from it."""
        for phase in self.kernel.phases:
            for accumulate in phase.accumulates:
                value = scope.emit(accumulate.element[0])
                combine_into(scope, accumulate, [self._here(accumulate)], [value])
                name = self.names.new()
                scope.add(f"const {_type(accumulate)} {name} = {self._here(accumulate)};")
                scope.known[_value(accumulate)] = name
            for store in phase.stores:
                scope.store(target(scope, store), store.buffer.dtype, store.value)


def _column_block(columns: Number, outer: Number) -> int:
    """Columns of a task: as many as the cache holds, fewer where a team would be without work."""
    if not isinstance(columns, int):
        return COLUMN_BLOCK
    tasks = outer * ceil_div(columns, COLUMN_BLOCK)
    if is_at_least(tasks, ENOUGH_TASKS):
        return min(columns, COLUMN_BLOCK)
    fair = -(-columns // ENOUGH_TASKS)
    return min(columns, COLUMN_BLOCK, max(LEAST_COLUMN_BLOCK, -(-fair // 64) * 64))
