"""Epilogues: row kernels over results of products and convolutions, part by part while a part is
cached.

Contract: `join(kernels, outside, may_have)` computes the same values in the same buffers, but for
results that one row kernel alone reads, element by element: it becomes the epilogue of what
computes them, which has them where that kernel stores its own. So norms in evaluation, residual
sums and activations read nothing from memory but what else they need.

An epilogue is a row kernel over some elements of a row, or of its only row: from `BEGIN` on, so
many as `LENGTH` says, both variables of C.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from dynajit.codegen.loops import buffers
from dynajit.codegen.loops.loop_ir import (
    Axis,
    Buffer,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
    NativeKernel,
    RowKernel,
    Store,
    Word,
    walk,
)
from dynajit.codegen.loops.rewriting import in_store, with_variables
from dynajit.codegen.plan.natives import CONVOLUTIONS
from dynajit.core.types import symint
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import numel

Maker: TypeAlias = MatmulKernel | NativeKernel

BEGIN: Final = "begin"
LENGTH: Final = "length"

NEAR: Final = 8
"""Kernels behind a result among which its reader is looked for."""

LEAST_BYTES: Final = 1 << 18
"""Size of a result from which a pass over it is worth saving: less stays in a core's cache."""


def join(
    kernels: Sequence[Kernel], outside: frozenset[Buffer], may_have: Callable[[Maker], bool]
) -> list[Kernel]:
    """The kernels, some of them with epilogues.

    Args:
        outside: buffers that are read when all kernels are done.
        may_have: whether the printer of a kernel can print it with one.
    """
    found = list(kernels)
    for kernel in kernels:
        if not isinstance(kernel, (MatmulKernel, NativeKernel)) or not _is_worth(kernel):
            continue
        result = _result(kernel)
        if result in outside or not may_have(kernel):
            continue
        place = found.index(kernel)
        reader = _only_reader(found, place, result)
        epilogue = None if reader is None else _epilogue(found[reader], kernel)
        if reader is None or epilogue is None:
            continue
        (store,) = epilogue.phases[0].stores
        found[place] = replace(_into(kernel, store.buffer), epilogue=epilogue)
        del found[reader]
    return found


def _is_worth(kernel: Maker) -> bool:
    if isinstance(kernel, NativeKernel) and kernel.row not in CONVOLUTIONS[:2]:
        return False
    result = _result(kernel)
    return kernel.epilogue is None and not symint.is_at_least(
        (LEAST_BYTES - 1) // result.dtype.itemsize, result.size
    )


def _result(kernel: Maker) -> Buffer:
    if isinstance(kernel, MatmulKernel):
        return kernel.result.buffer
    (result,) = kernel.writes
    assert result is not None
    return result


def _into(kernel: Maker, buffer: Buffer) -> Maker:
    """The kernel with another buffer for its result."""
    if isinstance(kernel, MatmulKernel):
        return replace(kernel, result=replace(kernel.result, buffer=buffer))
    return replace(kernel, writes=(buffer,))


def _only_reader(kernels: Sequence[Kernel], place: int, result: Buffer) -> int | None:
    """The place of the only kernel that reads a result, if what else it reads is there before."""
    readers = [i for i, kernel in enumerate(kernels) if result in buffers.read(kernel)]
    if len(readers) != 1 or not place < readers[0] <= place + NEAR:
        return None
    others = [kernel for i, kernel in enumerate(kernels) if i != place]
    if any(result in buffers.written(kernel) for kernel in others):
        return None
    between = set().union(*map(buffers.written, kernels[place + 1 : readers[0]]))
    return None if between & buffers.used(kernels[readers[0]]) else readers[0]


def planes_of(kernel: Maker) -> tuple[Number, Number]:
    """How many planes a result has, and the elements of each: matrices' rows, images' channels."""
    if isinstance(kernel, MatmulKernel):
        return numel(kernel.batch) * kernel.rows, kernel.columns
    numbers = dict(kernel.numbers)
    channels, sizes = ("outputs", "out") if kernel.row == CONVOLUTIONS[0] else ("channels", "in")
    (batch,), (groups,), (own,) = (numbers[name] for name in ("batch", "groups", channels))
    return batch * groups * own, numel(tuple(numbers[sizes]))


def _epilogue(kernel: Kernel, maker: Maker) -> RowKernel | None:
    """What a kernel computes of a result, as an epilogue; None if it needs more than an element."""
    result = _result(maker)
    if not isinstance(kernel, RowKernel) or not _only_stores(kernel):
        return None
    ((store,), (axis,)) = (kernel.phases[0].stores, kernel.elements)
    if store.buffer.dtype is not result.dtype or store.buffer.size != result.size:
        return None
    expressions = walk((store.value,))
    loads = [e for e in expressions if isinstance(e, Load) and e.buffer in (result, store.buffer)]
    if any(load != Load(result, store.offset) for load in loads):
        return None
    if any(isinstance(e, Word) for e in expressions) or not _goes_byplanes_of(kernel, maker):
        return None
    return _cut(kernel, store, axis, {Load(result, store.offset): store.buffer})


def _only_stores(kernel: RowKernel) -> bool:
    """True for one value for each element of a loop, and nothing else."""
    others = (
        kernel.row_stores, kernel.totals, kernel.element_totals, kernel.finals, kernel.indices,
        kernel.column_totals, kernel.column_stores, kernel.in_place,
    )  # fmt: skip
    if any(others) or len(kernel.elements) != 1 or len(kernel.phases) != 1:
        return False
    (phase,) = kernel.phases
    return not phase.accumulates and not phase.keeps and len(phase.stores) == 1


def _goes_byplanes_of(kernel: RowKernel, maker: Maker) -> bool:
    """True if rows are planes, or the only row is all of them, and elements are stored in order."""
    planes, width = planes_of(maker)
    (store,), (axis,) = kernel.phases[0].stores, kernel.elements
    position: Number = 0
    for row in kernel.rows:
        position = position * row.size + row.symbol
    count = numel(tuple(row.size for row in kernel.rows))
    is_whole = not kernel.rows and axis.size == planes * width
    is_plane = bool(kernel.rows) and count == planes and axis.size == width
    return (is_whole or is_plane) and store.offset == position * axis.size + axis.symbol


def _cut(kernel: RowKernel, store: Store, axis: Axis, known: dict[Expression, Buffer]) -> RowKernel:
    """The kernel over elements from `BEGIN` on, which reads loads from other buffers."""
    moved = {axis.name: axis.symbol + symint.symbol(BEGIN)}
    places: dict[Expression, Expression] = {}
    for expression in walk((store.value,)):
        if expression.numbers:
            places[expression] = with_variables(expression, moved)
        if expression in known:
            assert isinstance(expression, Load)
            offset = symint.substitute(expression.offset, moved)
            places[expression] = Load(known[expression], offset)
    value = in_store(store, places).value
    cut = Store(store.buffer, symint.substitute(store.offset, moved), value)
    phase = replace(kernel.phases[0], stores=(cut,))
    return replace(kernel, elements=(Axis(axis.name, symint.symbol(LENGTH)),), phases=(phase,))
