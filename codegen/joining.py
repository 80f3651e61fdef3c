"""Sums over columns computed by the row kernel that reads the same arrays.

Contract: `join(kernels)` computes the same values in the same buffers. A column kernel goes into a
row kernel over the same loops where both read a large array, so that it comes from memory once: the
gradients of a norm's weight and bias beside the gradient of what is normalised. Called by
`codegen.pipeline`.
"""

from collections.abc import Sequence
from dataclasses import replace

from dynajit.codegen.c_column_totals import may_hold
from dynajit.codegen.loops import (
    Buffer,
    ColumnKernel,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
    NativeKernel,
    PanelKernel,
    Phase,
    RowKernel,
    ScanKernel,
    ScatterKernel,
    walk,
)
from dynajit.core.symint import is_at_least

LEAST_BYTES = 1 << 19
"""Size of an array that is worth reading once: smaller ones stay in a core's own cache."""

LEAST_COLUMNS = 64
"""Columns from which the accumulators of a row fill vector registers well."""


def join(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels, with column kernels inside row kernels where that saves reads."""
    result = list(kernels)
    for kernel in kernels:
        if not isinstance(kernel, ColumnKernel):
            continue
        place = result.index(kernel)
        for other, candidate in enumerate(result):
            if isinstance(candidate, RowKernel) and _may_join(candidate, kernel):
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


def _may_join(row: RowKernel, column: ColumnKernel) -> bool:
    """True if the loops are the same, and a large array is read by both and written by neither."""
    if (row.rows, row.elements) != (column.reduced, column.columns) or column.outer:
        return False
    if row.totals or row.element_totals or row.finals or row.indices or column.indices:
        return False
    (axis,) = row.elements
    if not is_at_least(axis.size, LEAST_COLUMNS) or not may_hold(row, column):
        return False
    read = reads(column)
    if written(row) & read or written(column) & reads(row):
        return False
    return any(
        is_at_least(buffer.size * buffer.dtype.itemsize, LEAST_BYTES)
        for buffer in read & reads(row)
    )


def _is_free(kernels: Sequence[Kernel], first: int, last: int) -> bool:
    """True if the last of the kernels may run at the place of the first."""
    moved = kernels[last]
    read = reads(moved)
    return all(written(kernel).isdisjoint(read) for kernel in kernels[first:last])


def written(kernel: Kernel) -> set[Buffer]:
    """Buffers that a kernel writes."""
    if isinstance(kernel, RowKernel):
        stores = [store for phase in kernel.phases for store in phase.stores]
        stores += [*kernel.row_stores, *kernel.finals, *kernel.column_stores]
        return {store.buffer for store in stores}
    if isinstance(kernel, ScanKernel):
        return {store.buffer for phase in kernel.phases for store in phase.stores}
    if isinstance(kernel, ColumnKernel):
        return {store.buffer for store in kernel.stores}
    if isinstance(kernel, ScatterKernel):
        return {kernel.initial.buffer, kernel.write.buffer}
    if isinstance(kernel, MatmulKernel):
        return {kernel.result.buffer}
    if isinstance(kernel, PanelKernel):
        return set().union(*map(written, kernel.steps))
    return {buffer for buffer in kernel.writes if buffer is not None}


def reads(kernel: Kernel) -> set[Buffer]:
    """Buffers that a kernel reads."""
    if isinstance(kernel, MatmulKernel):
        return {kernel.left.buffer, kernel.right.buffer}
    if isinstance(kernel, NativeKernel):
        return {buffer for buffer in kernel.reads if buffer is not None}
    assert not isinstance(kernel, PanelKernel)
    return {load.buffer for load in loads(kernel)}


def loads(kernel: RowKernel | ColumnKernel | ScanKernel | ScatterKernel) -> list[Load]:
    """What a kernel reads of its buffers, each place once."""
    roots = (*_roots(kernel), *(index.value for index in kernel.indices))
    return [expression for expression in walk(roots) if isinstance(expression, Load)]


def _roots(kernel: RowKernel | ColumnKernel | ScanKernel | ScatterKernel) -> list[Expression]:
    if isinstance(kernel, RowKernel):
        return _row_roots(kernel)
    if isinstance(kernel, ColumnKernel):
        return _column_roots(kernel)
    if isinstance(kernel, ScatterKernel):
        return [kernel.initial.value, kernel.write.value]
    return _phase_roots(kernel.phases)


def _column_roots(kernel: ColumnKernel) -> list[Expression]:
    roots = [store.value for store in kernel.stores]
    for accumulate in kernel.accumulates:
        roots += [*accumulate.element, *(accumulate.first or ())]
    return roots


def _phase_roots(phases: Sequence[Phase]) -> list[Expression]:
    roots = [store.value for phase in phases for store in phase.stores]
    roots += [keep.value for phase in phases for keep in phase.keeps]
    for accumulate in (a for phase in phases for a in phase.accumulates):
        roots += [*accumulate.element, *(accumulate.first or ())]
    return roots


def _row_roots(kernel: RowKernel) -> list[Expression]:
    stores = (*kernel.row_stores, *kernel.finals, *kernel.column_stores)
    roots = [*_phase_roots(kernel.phases), *(store.value for store in stores)]
    for accumulate in (*kernel.totals, *kernel.element_totals, *kernel.column_totals):
        roots += [*accumulate.element, *(accumulate.first or ())]
    return roots
