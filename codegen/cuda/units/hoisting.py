"""Numbers that every element needs, computed once in front of a pointwise kernel.

Contract: `hoist(kernel)` computes the same. What depends on no loop and takes long (the powers of
an optimiser's bias corrections, in float64) would be computed anew by every thread; here it is done
by a kernel of one element, which leaves it in memory.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dynajit.codegen.loops import rewriting
from dynajit.codegen.loops.loop_ir import (
    Apply,
    Axis,
    Buffer,
    Expression,
    Load,
    Phase,
    RowKernel,
    Store,
    Word,
    is_expensive,
    is_size,
    product_of,
    typical,
    walk,
)
from dynajit.core.types import symint

LEAST_ELEMENTS: Final = 1 << 10
"""Elements from which another launch pays."""


def hoist(kernel: RowKernel) -> tuple[RowKernel, ...]:
    """The kernel, after one that computes what all its elements share."""
    if len(kernel.phases) != 1 or kernel.row_stores or kernel.indices:
        return (kernel,)
    if kernel.totals or kernel.element_totals or kernel.column_totals:
        return (kernel,)
    (phase,) = kernel.phases
    count = product_of((*kernel.rows, *kernel.elements))
    if phase.accumulates or typical(count) < LEAST_ELEMENTS:
        return (kernel,)
    roots = [store.value for store in phase.stores]
    shared = _shared(roots)
    written = {store.buffer for store in phase.stores}
    if not shared or any(b in written for b in _loaded(shared)):
        return (kernel,)
    known: dict[Expression, Expression] = {}
    stores = []
    for number, expression in enumerate(shared):
        buffer = Buffer(f"{kernel.name}_n{number}", expression.dtype, 1)
        stores.append(Store(buffer, 0, expression))
        known[expression] = Load(buffer, 0)
    first = RowKernel(f"{kernel.name}_shared", (), (Axis("i0", 1),), (Phase(stores=(*stores,)),))
    changed = tuple(rewriting.in_store(store, known) for store in phase.stores)
    return first, replace(kernel, phases=(replace(phase, keeps=(), stores=changed),))


def _shared(roots: Iterable[Expression]) -> list[Expression]:
    """The largest expressions that no loop changes and that are worth a kernel."""
    fixed: set[Expression] = set()
    heavy: set[Expression] = set()
    order = walk(tuple(roots))
    for e in order:
        names = set[str]().union(*(symint.symbols(number) for number in e.numbers))
        if isinstance(e, Word) or not all(map(is_size, names)):
            continue
        if all(operand in fixed for operand in e.operands):
            fixed.add(e)
            is_heavy = isinstance(e, Apply) and is_expensive(e.function)
            if is_heavy or any(operand in heavy for operand in e.operands):
                heavy.add(e)
    used = {operand for e in order if e not in fixed for operand in e.operands} | set(roots)
    return [e for e in order if e in heavy and e in used]


def _loaded(expressions: Iterable[Expression]) -> set[Buffer]:
    return {e.buffer for e in walk(tuple(expressions)) if isinstance(e, Load)}
