"""Which memory loop kernels use.

Contract: `written` and `read` give every buffer that a kernel's loops store to and load from,
data indices included. Called by passes over kernels: `codegen.joining` and `codegen.cuda_text`.
"""

from collections.abc import Sequence

from dynajit.codegen.loops import (
    Accumulate,
    Buffer,
    ColumnKernel,
    DataIndex,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
    NativeKernel,
    RowKernel,
    ScanKernel,
    ScatterKernel,
    Store,
    walk,
)


def used(kernel: Kernel) -> set[Buffer]:
    """Every buffer of a kernel."""
    return read(kernel) | written(kernel)


def read(kernel: Kernel) -> set[Buffer]:
    """Buffers that a kernel reads."""
    if isinstance(kernel, MatmulKernel):
        bias = () if kernel.bias is None else (kernel.bias,)
        return {kernel.left.buffer, kernel.right.buffer, *bias}
    if isinstance(kernel, NativeKernel):
        return {buffer for buffer in kernel.reads if buffer is not None}
    return {e.buffer for e in expressions(kernel) if isinstance(e, Load)}


def written(kernel: Kernel) -> set[Buffer]:
    """Buffers that a kernel writes."""
    if isinstance(kernel, MatmulKernel):
        return {kernel.result.buffer}
    if isinstance(kernel, NativeKernel):
        return {buffer for buffer in kernel.writes if buffer is not None}
    return {store.buffer for store in _stores(kernel)}


def indices(kernel: Kernel) -> tuple[DataIndex, ...]:
    """The data indices of a kernel."""
    return () if isinstance(kernel, (MatmulKernel, NativeKernel)) else kernel.indices


def expressions(kernel: Kernel) -> list[Expression]:
    """Every expression that a kernel evaluates; none for those that are no loops."""
    roots = [store.value for store in _stores(kernel)]
    for accumulate in _accumulates(kernel):
        roots += [*accumulate.element, *(accumulate.first or ())]
    return walk((*roots, *(index.value for index in indices(kernel))))


def _stores(kernel: Kernel) -> Sequence[Store]:
    if isinstance(kernel, RowKernel):
        own = [store for phase in kernel.phases for store in phase.stores]
        return [*own, *kernel.row_stores, *kernel.finals, *kernel.column_stores]
    if isinstance(kernel, ScanKernel):
        return [store for phase in kernel.phases for store in phase.stores]
    if isinstance(kernel, ColumnKernel):
        return kernel.stores
    if isinstance(kernel, ScatterKernel):
        return (kernel.initial, kernel.write)
    return ()


def _accumulates(kernel: Kernel) -> Sequence[Accumulate]:
    if isinstance(kernel, RowKernel):
        own = [a for phase in kernel.phases for a in phase.accumulates]
        return [*own, *kernel.totals, *kernel.element_totals, *kernel.column_totals]
    if isinstance(kernel, ScanKernel):
        return [a for phase in kernel.phases for a in phase.accumulates]
    return kernel.accumulates if isinstance(kernel, ColumnKernel) else ()
