"""Sums over columns computed by the row kernel that reads the same arrays.

Contract: `join(kernels)` computes the same values in the same buffers. A column kernel goes into a
row kernel over the same loops where both read a large array, so that it comes from memory once: the
gradients of a norm's weight and bias beside the gradient of what is normalised.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from dynajit.codegen.loops.buffers import read, written
from dynajit.codegen.loops.loop_ir import ColumnKernel, Kernel, RowKernel
from dynajit.core.types.symint import is_at_least

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
    inputs = read(column)
    if written(row) & inputs or written(column) & read(row):
        return False
    return any(
        is_at_least(buffer.size * buffer.dtype.itemsize, LEAST_BYTES)
        for buffer in inputs & read(row)
    )


def _is_free(kernels: Sequence[Kernel], first: int, last: int) -> bool:
    """True if the last of the kernels may run at the place of the first."""
    inputs = read(kernels[last])
    return all(written(kernel).isdisjoint(inputs) for kernel in kernels[first:last])
