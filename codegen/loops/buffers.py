"""Which memory loop kernels use.

Contract: `written` and `read` give every buffer that a kernel's loops store to and load from, data
indices included.
"""

from collections.abc import Sequence

from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Buffer,
    ColumnKernel,
    DataIndex,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
    NativeKernel,
    NestKernel,
    PanelKernel,
    Phase,
    RowKernel,
    ScanKernel,
    ScatterKernel,
    Store,
    TurnsKernel,
    walk,
)


def used(kernel: Kernel) -> set[Buffer]:
    """Every buffer of a kernel."""
    return read(kernel) | written(kernel)


def read(kernel: Kernel) -> set[Buffer]:
    """Buffers that a kernel reads."""
    if isinstance(kernel, MatmulKernel):
        bias = () if kernel.bias is None else (kernel.bias,)
        return {kernel.left.buffer, kernel.right.buffer, *bias, *_beside(kernel)}
    if isinstance(kernel, NativeKernel):
        return {buffer for buffer in kernel.reads if buffer is not None} | _beside(kernel)
    if isinstance(kernel, NestKernel):
        return {operand.buffer for operand in kernel.operands}
    if isinstance(kernel, TurnsKernel):
        asked = {kernel.go} if isinstance(kernel.go, Buffer) else set()
        return {*kernel.operands, *kernel.listed, *asked}
    if isinstance(kernel, PanelKernel):
        return set().union(*map(read, kernel.steps))
    return {load.buffer for load in loads(kernel)}


def _beside(kernel: MatmulKernel | NativeKernel) -> set[Buffer]:
    """What an epilogue reads beside the result."""
    if kernel.epilogue is None:
        return set()
    return read(kernel.epilogue) - written(kernel.epilogue)


def written(kernel: Kernel) -> set[Buffer]:
    """Buffers that a kernel writes."""
    if isinstance(kernel, MatmulKernel):
        return {kernel.result.buffer}
    if isinstance(kernel, (NativeKernel, NestKernel, TurnsKernel)):
        return {buffer for buffer in kernel.writes if buffer is not None}
    if isinstance(kernel, PanelKernel):
        return set().union(*map(written, kernel.steps))
    return {store.buffer for store in _stores(kernel)}


def loads(kernel: Kernel) -> list[Load]:
    """What a kernel's loops read of its buffers, each place once."""
    return [expression for expression in expressions(kernel) if isinstance(expression, Load)]


def indices(kernel: Kernel) -> tuple[DataIndex, ...]:
    """The data indices of a kernel."""
    if isinstance(kernel, (MatmulKernel, NativeKernel, NestKernel, PanelKernel, TurnsKernel)):
        return ()
    return kernel.indices


def expressions(kernel: Kernel) -> list[Expression]:
    """Every expression that a kernel evaluates; none for those that are no loops."""
    return walk(roots(kernel))


def roots(kernel: Kernel) -> tuple[Expression, ...]:
    """The expressions whose values a kernel stores, keeps, combines or looks up."""
    found = [store.value for store in _stores(kernel)]
    found += [keep.value for phase in _phases(kernel) for keep in phase.keeps]
    for accumulate in _accumulates(kernel):
        found += [*accumulate.element, *(accumulate.first or ())]
    return (*found, *(index.value for index in indices(kernel)))


def _phases(kernel: Kernel) -> Sequence[Phase]:
    return kernel.phases if isinstance(kernel, (RowKernel, ScanKernel)) else ()


def _stores(kernel: Kernel) -> Sequence[Store]:
    own = [store for phase in _phases(kernel) for store in phase.stores]
    if isinstance(kernel, RowKernel):
        return [*own, *kernel.row_stores, *kernel.finals, *kernel.column_stores]
    if isinstance(kernel, ColumnKernel):
        return kernel.stores
    if isinstance(kernel, ScatterKernel):
        return (kernel.initial, kernel.write)
    return own


def _accumulates(kernel: Kernel) -> Sequence[Accumulate]:
    own = [accumulate for phase in _phases(kernel) for accumulate in phase.accumulates]
    if isinstance(kernel, RowKernel):
        return [*own, *kernel.totals, *kernel.element_totals, *kernel.column_totals]
    return kernel.accumulates if isinstance(kernel, ColumnKernel) else own
