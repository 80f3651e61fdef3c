"""Row kernels with rows of a few elements in C: windows of pools and convolutions, small dims.

Contract: the rows along the innermost kept axis lie side by side in vector lanes, and the elements
of a row are written out one after the other, in order; the result has the bits of a loop over
elements. `fits` says for which kernels; the others are printed by `codegen.c.rows`, which also
calls this module.
"""

import itertools
from collections.abc import Iterator

from dynajit.codegen.c.expressions import Names, Scope
from dynajit.codegen.c.support import (
    Function,
    accumulator_names,
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
    Accumulated,
    Apply,
    Expression,
    Phase,
    RowKernel,
    Select,
    Store,
    all_expressions,
    product_of,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import is_at_least

MOST_ELEMENTS = 16
"""Elements of a row that are written out."""

MOST_TEXT = 500
"""Expressions of a row, written out, that a compiler takes without spilling half of them."""

LEAST_ROWS = 4
"""Rows side by side from which lanes are worth it."""

BLOCK = 256
"""Rows that one thread takes at a time: what it holds of them stays in the first-level cache."""


def fits(kernel: RowKernel) -> bool:
    """True if the rows of a kernel are few elements, and many."""
    if not kernel.rows or not kernel.elements or kernel.indices or kernel.in_place:
        return False
    if kernel.totals or kernel.element_totals or kernel.finals or kernel.column_totals:
        return False
    if _chooses_for_neighbours(kernel):
        return False
    count = product_of(kernel.elements)
    if not isinstance(count, int) or not 2 <= count <= MOST_ELEMENTS:
        return False
    text = count * len(all_expressions(_roots(kernel), ()))
    return text <= MOST_TEXT and is_at_least(kernel.rows[-1].size, LEAST_ROWS)


def print_short_rows(kernel: RowKernel) -> Function:
    """The C function of a kernel that `fits`."""
    return _ShortRows(kernel).function()


def _chooses_for_neighbours(kernel: RowKernel) -> bool:
    """True if values of elements that are stored side by side are choices between others.

    GCC would take the elements of a row for one group then (`codegen.c.masked_groups`).
    """
    stored = [store.value for phase in kernel.phases for store in phase.stores]
    return any(
        isinstance(e, Select) or (isinstance(e, Apply) and e.function == "where")
        for e in all_expressions(stored, ())
    )


def _stores(kernel: RowKernel) -> list[Store]:
    return [*(s for phase in kernel.phases for s in phase.stores), *kernel.row_stores]


def _roots(kernel: RowKernel) -> list[Expression]:
    roots = [store.value for store in _stores(kernel)]
    for phase in kernel.phases:
        for accumulate in phase.accumulates:
            roots.extend((*accumulate.element, *(accumulate.first or ())))
    return roots


class _ShortRows:
    """Prints one kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: RowKernel) -> None:
        self.kernel = kernel
        *outer, self.lane = kernel.rows
        self.outer = tuple(outer)
        self.held: dict[Expression, tuple[str, int | None]] = {}  # (variable, element or None)

    def function(self) -> Function:
        """The whole function."""
        kernel, lane = self.kernel, self.lane
        expressions = all_expressions(_roots(kernel), ())
        outer, rows = product_of(self.outer), product_of(kernel.rows)
        work = work_of(expressions, rows * product_of(kernel.elements))
        root = Scope(Names(()))
        around = root.child([axis.name for axis in self.outer])
        passes = self._passes(around)
        blocks, size = ceil_div(lane.size, BLOCK), symint.c(lane.size)
        lines = [
            f"const int64_t start = task % {symint.c(blocks)} * {BLOCK};",
            f"const int64_t stop = dj_min_index(start + {BLOCK}, {size});",
            f"const int64_t outer = task / {symint.c(blocks)};",
            "(void)outer;",
        ]
        if blocks == 1:
            lines = [f"const int64_t outer = task, start = 0, stop = {size};", "(void)outer;"]
        lines += [*unflattened("outer", self.outer), *around.lines, *passes]
        root.add(*parallel(work, "task", symint.c(outer * blocks), lines))
        return define(
            kernel, kernel.name, root.lines, expressions, _stores(kernel), (), (), work.condition
        )

    def _positions(self) -> Iterator[tuple[int, str]]:
        """(row-major position, definitions of the loop variables) of each element."""
        sizes = [range(axis.known) for axis in self.kernel.elements]
        names = [axis.name for axis in self.kernel.elements]
        for number, at in enumerate(itertools.product(*sizes)):
            values = ", ".join(f"{name} = {k}" for name, k in zip(names, at, strict=True))
            yield number, f"const int64_t {values};"

    def _passes(self, around: Scope) -> list[str]:
        """One loop over rows for each phase: a compiler that sees what a choice is used for makes
        branches of it."""
        lines = []
        *before, last = self.kernel.phases
        for phase in before:
            row = around.child([self.lane.name])
            self._phase(row, phase)
            self._hold(around, row, phase)
            lines += ["#pragma omp simd", *loop(self.lane.name, "start", "stop", row.lines)]

        def body(row: Scope) -> None:
            self._phase(row, last)
            for store in self.kernel.row_stores:
                row.store(target(row, store), store.buffer.dtype, store.value)

        name = self.lane.name
        return [
            *lines,
            *simd_loop(lambda: around.child([name]), body, name, "start", "stop"),
        ]

    def _here(self, variable: str) -> str:
        return f"held_{variable}[{self.lane.name} - start]"

    def _phase(self, row: Scope, phase: Phase) -> None:
        """Append what a phase does for one row."""
        for value, (variable, element) in self.held.items():
            if element is None:
                row.add(f"const {value.dtype.c} {variable} = {self._here(variable)};")
                row.known[value] = variable
        for keep in phase.keeps:
            names = ", ".join(f"{keep.name}_{k}" for k, _ in self._positions())
            row.add(f"{keep.value.dtype.c} {names};")
        for accumulate in phase.accumulates:
            starts = start_values(row, accumulate)
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.add(f"{accumulate.element[k].dtype.c} {name} = {starts[k]};")
        for number, definitions in self._positions():
            self._element(row, phase, number, definitions)
        for accumulate in phase.accumulates:
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                row.known[Accumulated(accumulate.name, k, accumulate.element[k].dtype)] = name

    def _element(self, row: Scope, phase: Phase, number: int, definitions: str) -> None:
        scope = row.child([axis.name for axis in self.kernel.elements])
        for value, (variable, element) in self.held.items():
            if element is not None:
                scope.known[value] = self._here(f"{variable}_{number}")
        for accumulate in phase.accumulates:
            values = [scope.emit(part) for part in accumulate.element]
            combine_into(scope, accumulate, accumulator_names(accumulate, "r"), values)
        for keep in phase.keeps:
            scope.add(f"{keep.name}_{number} = {scope.emit(keep.value)};")
        for store in phase.stores:
            scope.store(target(scope, store), store.buffer.dtype, store.value)
        row.add("{", definitions, *scope.text(), "}")

    def _hold(self, around: Scope, row: Scope, phase: Phase) -> None:
        """Put what later phases may read into arrays over the rows of a block."""
        for accumulate in phase.accumulates:
            for k, name in enumerate(accumulator_names(accumulate, "r")):
                dtype = accumulate.element[k].dtype
                around.add(f"{dtype.c} held_{name}[{self._width()}];")
                row.add(f"{self._here(name)} = {name};")
                self.held[Accumulated(accumulate.name, k, dtype)] = (name, None)
        for keep in phase.keeps:
            for number, _ in self._positions():
                name = f"{keep.name}_{number}"
                around.add(f"{keep.value.dtype.c} held_{name}[{self._width()}];")
                row.add(f"{self._here(name)} = {name};")
            self.held[keep.value] = (keep.name, 0)

    def _width(self) -> int:
        size = self.lane.size
        return min(size, BLOCK) if isinstance(size, int) else BLOCK
