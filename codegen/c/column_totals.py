"""Totals over rows for each column of a row kernel, in C.

Contract: rows are met in groups; each group has accumulators of its own, one per column, in the
workspace, and the groups are combined in a fixed tree, so the bits do not depend on the number of
threads.
"""

from dynajit.codegen.c.expressions import Names, Scope
from dynajit.codegen.c.support import (
    accumulator_names,
    block,
    combine_into,
    loop,
    start_values,
    target,
)
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Buffer,
    ColumnKernel,
    RowKernel,
    product_of,
)
from dynajit.core.types.symint import c

GROUPS = 64
"""Groups of rows that are enough: work for many threads."""

LONG_GROUP = 256
"""Rows of a group from which there are more groups, so that long sums keep their accuracy."""

LEAST_GROUPS = 16
"""Fewer would leave threads idle."""

LEAST_ROWS = 32
"""Rows of a group at least: combining the groups must cost little beside them."""

MOST_ACCUMULATORS = 1 << 11
"""Accumulators of a group: 8 KiB of floats stay in the first-level cache beside the rows."""


def group_count(rows: int, accumulators: int) -> int:
    """Groups of `rows` rows with `accumulators` results each; 0 if they do not pay."""
    groups = max(min(GROUPS, rows // LEAST_ROWS), rows // LONG_GROUP)
    return groups if groups >= LEAST_GROUPS and accumulators <= MOST_ACCUMULATORS else 0


def may_hold(kernel: RowKernel, columns: ColumnKernel) -> bool:
    """True if a row kernel can compute what a column kernel over the same loops does."""
    totals = (*kernel.column_totals, *columns.accumulates)
    rows, size = product_of(kernel.rows), product_of(kernel.elements)
    if not isinstance(rows, int) or not isinstance(size, int):
        return False
    plain = all(len(t.element) == 1 and t.identity is not None for t in totals)
    return plain and group_count(rows, size * len(totals)) > 0


class ColumnTotals:
    """Prints the column totals of one row kernel.

    Args:
        kernel: has column totals.
        names: of the function that is printed.
    """

    def __init__(self, kernel: RowKernel, names: Names) -> None:
        self.kernel = kernel
        self.names = names
        (self.axis,) = kernel.elements
        rows, size = product_of(kernel.rows), self.axis.size
        assert isinstance(rows, int) and isinstance(size, int)
        groups = group_count(rows, size * len(kernel.column_totals))
        self.rows = rows
        self.per_group = -(-rows // groups)
        self.groups = -(-rows // self.per_group)
        self.scratch = [
            Buffer(f"{kernel.name}_{self._name(t)}", t.element[0].dtype, self.groups * size)
            for t in kernel.column_totals
        ]

    def _name(self, total: Accumulate) -> str:
        return accumulator_names(total, "p")[0]

    def _place(self, buffer: Buffer, group: str) -> str:
        return f"{buffer.name}[{group} * {c(self.axis.size)} + {self.axis.name}]"

    def _across(self, lines: list[str]) -> list[str]:
        return ["#pragma omp simd", *loop(self.axis.name, "0", c(self.axis.size), lines)]

    def start(self, root: Scope) -> list[str]:
        """Lines that set the accumulators of `chunk` to the identity."""
        lines = []
        for total, buffer in zip(self.kernel.column_totals, self.scratch, strict=True):
            (value,) = start_values(root, total)
            lines.append(f"{self._place(buffer, 'chunk')} = {value};")
        return self._across(lines)

    def meet(self, scope: Scope) -> None:
        """Append what combines one element into the accumulators of `chunk`."""
        for total, buffer in zip(self.kernel.column_totals, self.scratch, strict=True):
            value = scope.emit(total.element[0])
            combine_into(scope, total, [self._place(buffer, "chunk")], [value])

    def finish(self, root: Scope) -> None:
        """Append what combines neighbouring groups, then their neighbours, and so on, and stores
        the results."""
        inner = Scope(self.names)
        for total, buffer in zip(self.kernel.column_totals, self.scratch, strict=True):
            places = (self._place(buffer, group) for group in ("chunk", "(chunk + step)"))
            combine_into(inner, total, *([place] for place in places))
        pairs = loop(
            "chunk", "0", f"{self.groups} - step", self._across(inner.lines), step="2 * step"
        )
        root.add(*block(f"for (int64_t step = 1; step < {self.groups}; step *= 2)", pairs))
        column = root.child([self.axis.name])
        for total, buffer in zip(self.kernel.column_totals, self.scratch, strict=True):
            dtype = total.element[0].dtype
            column.known[Accumulated(total.name, 0, dtype)] = self._place(buffer, "0")
        for store in self.kernel.column_stores:
            column.store(target(column, store), store.buffer.dtype, store.value)
        root.add(*self._across(column.lines))
