"""Scan kernels in CUDA: a thread for each row or column, which it walks in order.

Contract: the same order of operations as in C. Neighbouring threads read neighbouring elements
where the scanned axis is not the last one. Compiled, not yet run on a GPU. Called by
`codegen.cuda_text`.
"""

from dynajit.codegen.c_expressions import Scope
from dynajit.codegen.c_support import (
    accumulator_names,
    block,
    combine_into,
    loop,
    product_of,
    start_values,
    unflattened,
)
from dynajit.codegen.cuda_pointwise import MOST_BLOCKS, THREADS
from dynajit.codegen.cuda_steps import CudaKernel
from dynajit.codegen.cuda_support import (
    Launch,
    define,
    index_type,
    names,
    roots_of,
    target_of,
    used_expressions,
)
from dynajit.codegen.loops import Accumulated, ScanKernel


def print_scan(kernel: ScanKernel) -> tuple[CudaKernel, ...]:
    """The kernel, or none if no element is computed."""
    lines_axes = (*kernel.outer, *kernel.columns)
    count = product_of(lines_axes)
    stores = [store for phase in kernel.phases for store in phase.stores]
    if not stores or count * kernel.scanned.known == 0:
        return ()
    accumulates = [a for phase in kernel.phases for a in phase.accumulates]
    offsets = [store.offset for store in stores]
    expressions, indices = used_expressions(roots_of(stores, accumulates), offsets, kernel.indices)
    integer = index_type(expressions, offsets, count * kernel.scanned.known)
    root = Scope(names(indices))
    line = root.child([axis.name for axis in lines_axes])
    starts = {a: start_values(line, a)[0] for a in accumulates}
    step = line.child([kernel.scanned.name])
    for phase in kernel.phases:
        for accumulate in phase.accumulates:
            (running,) = accumulator_names(accumulate, "r")
            dtype = accumulate.element[0].dtype
            value = step.emit(accumulate.element[0])
            combine_into(step, accumulate, [running], [value])
            step.known[Accumulated(accumulate.name, 0, dtype)] = running
        for store in phase.stores:
            step.store(target_of(step, store), store.buffer.dtype, store.value)
    declared = [
        f"{a.element[0].dtype.c} {accumulator_names(a, 'r')[0]} = {starts[a]};" for a in accumulates
    ]
    name, size = kernel.scanned.name, kernel.scanned.known
    steps = loop(name, "0", str(size), step.lines, integer=integer)
    if kernel.is_reverse:
        head = f"for ({integer} {name} = {size - 1}; {name} >= 0; {name}--)"
        steps = block(head, step.lines)
    lines = [*unflattened("line", lines_axes, integer), *line.lines, *declared, *steps]
    grid = max(1, min(MOST_BLOCKS, -(-count // THREADS)))
    start = f"({integer})blockIdx.x * {THREADS} + threadIdx.x"
    body = loop("line", start, str(count), lines, str(grid * THREADS), integer)
    return (
        define(
            kernel, kernel.name, [*root.lines, *body], Launch(grid, THREADS),
            expressions, [store.buffer for store in stores], indices,
        ),
    )  # fmt: skip
