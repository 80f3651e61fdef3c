"""Sums over columns computed by the row kernel that reads the same arrays.

Contract: `join(kernels)` computes the same values in the same buffers. A column kernel goes into a
row kernel over the same loops where both read a large array, so that it comes from memory once: the
gradients of a norm's weight and bias beside the gradient of what is normalised. Called by
`codegen.pipeline` and `codegen.cuda_text`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dynajit.codegen.buffers import written
from dynajit.codegen.loops import (
    Buffer,
    ColumnKernel,
    Expression,
    Kernel,
    Load,
    RowKernel,
    walk,
)
from dynajit.core.symint import is_at_least

LEAST_BYTES = 1 << 19
"""Size of an array that is worth reading once: smaller ones stay in a core's own cache."""

LEAST_COLUMNS = 64
"""Columns from which the accumulators of a row fill vector registers well."""


def join(
    kernels: Sequence[Kernel], may_hold: Callable[[RowKernel, ColumnKernel], bool]
) -> list[Kernel]:
    """The kernels, with column kernels inside row kernels where that saves reads.

    Args:
        may_hold: whether a row kernel's printer can compute a column kernel beside it.
    """
    result = list(kernels)
    for kernel in kernels:
        if not isinstance(kernel, ColumnKernel):
            continue
        place = result.index(kernel)
        for other, candidate in enumerate(result):
            if isinstance(candidate, RowKernel) and _may_join(candidate, kernel, may_hold):
                first, last = sorted((place, other))
                if _is_free(result, first, last):
                    result[first] = replace(
                        candidate,
                        column_totals=(*candidate.column_totals, *kernel.accumulates),
                        column_stores=(*candidate.column_stores, *kernel.stores),
                    )
                    del result[last]
                    break
    return result


def _may_join(
    row: RowKernel, column: ColumnKernel, may_hold: Callable[[RowKernel, ColumnKernel], bool]
) -> bool:
    """True if the loops are the same, and a large array is read by both and written by neither."""
    if (row.rows, row.elements) != (column.reduced, column.columns) or column.outer:
        return False
    if row.totals or row.element_totals or row.finals or row.indices or column.indices:
        return False
    (axis,) = row.elements
    if not is_at_least(axis.size, LEAST_COLUMNS) or not may_hold(row, column):
        return False
    reads = _loads(_column_roots(column))
    if written(row) & reads or written(column) & _loads(_row_roots(row)):
        return False
    return any(
        is_at_least(buffer.size * buffer.dtype.itemsize, LEAST_BYTES)
        for buffer in reads & _loads(_row_roots(row))
    )


def _is_free(kernels: Sequence[Kernel], first: int, last: int) -> bool:
    """True if the last of the kernels may run at the place of the first."""
    moved = kernels[last]
    assert isinstance(moved, (RowKernel, ColumnKernel))
    roots = _row_roots(moved) if isinstance(moved, RowKernel) else _column_roots(moved)
    reads = _loads(roots)
    return all(written(kernel).isdisjoint(reads) for kernel in kernels[first:last])


def _column_roots(kernel: ColumnKernel) -> list[Expression]:
    roots = [store.value for store in kernel.stores]
    for accumulate in kernel.accumulates:
        roots += accumulate.element
    return roots


def _row_roots(kernel: RowKernel) -> list[Expression]:
    roots = [store.value for phase in kernel.phases for store in phase.stores]
    roots += [store.value for store in (*kernel.row_stores, *kernel.column_stores)]
    for accumulate in (*(a for phase in kernel.phases for a in phase.accumulates),
                       *kernel.column_totals):  # fmt: skip
        roots += [*accumulate.element, *(accumulate.first or ())]
    return roots


def _loads(roots: Iterable[Expression]) -> set[Buffer]:
    return {e.buffer for e in walk(tuple(roots)) if isinstance(e, Load)}
