"""Checks of the indices that a program is given, in front of its other kernels.

Contract: `ahead(kernels, given)` computes the same. A call waits for the last kernel that may find
an index out of range; one behind the whole forward pass would keep the host from running ahead of
the GPU. Where all such indices come from inputs, kernels that do nothing but look at them stand
first; the others take position 0 for one that is out of range, and report nothing.
"""

import itertools
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import Final

from dynajit.codegen.c.support import may_fail
from dynajit.codegen.loops import buffers
from dynajit.codegen.loops.loop_ir import (
    Axis,
    Buffer,
    ColumnKernel,
    DataIndex,
    Index,
    Kernel,
    Load,
    Phase,
    RowKernel,
    ScanKernel,
    ScatterKernel,
    Store,
    product_of,
    walk,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import contiguous_strides

LEAST_BEHIND: Final = 3
"""Kernels up to the last one that may fail from which another launch pays."""


def ahead(kernels: Sequence[Kernel], given: Collection[Buffer]) -> list[Kernel]:
    """The kernels, behind those that check their indices.

    Args:
        kernels: in running order.
        given: buffers that no kernel writes.
    """
    failing = [place for place, kernel in enumerate(kernels) if may_report(kernel)]
    if not failing or failing[-1] + 1 < LEAST_BEHIND:
        return [*kernels]
    checks: dict[Hashable, Kernel] = {}
    changed = [*kernels]
    for place in failing:
        kernel = kernels[place]
        indices = []
        for index in buffers.indices(kernel):
            check = _check(f"{kernel.name}_{index.name}", kernel, index, given)
            if check is not None:
                meaning = index.value, index.size, index.wrap, check.rows, check.elements
                checks.setdefault(meaning, check)
                index = replace(index, is_checked=True)
            indices.append(index)
        changed[place] = replace(kernel, indices=tuple(indices))  # type: ignore[arg-type]
        if may_report(changed[place]):
            return [*kernels]
    return [*checks.values(), *changed]


def may_report(kernel: Kernel) -> bool:
    """True if a kernel may report an index out of range or an integer division by zero."""
    return may_fail(buffers.expressions(kernel), buffers.indices(kernel))


def _check(
    name: str, kernel: Kernel, index: DataIndex, given: Collection[Buffer]
) -> RowKernel | None:
    """The kernel that stores an index wherever it is used; None if that is not known beforehand.

    It must read each element of what it reads: then it reads nothing that the kernel would not
    have read, whatever conditions stand around it there.
    """
    loads = [e for e in walk((index.value,)) if isinstance(e, Load)]
    names = set[str]().union(*(symint.symbols(n) for e in walk((index.value,)) for n in e.numbers))
    used = tuple(axis for axis in _loops(kernel) if axis.name in names)
    is_known = bool(loads) and names <= {axis.name for axis in used}
    if not is_known or any(e.buffer not in given for e in loads):
        return None
    axes = _in_order(loads, used)
    if axes is None:
        return None
    symbol = symint.symbol(index.name, 0, None)
    buffer = Buffer(name, dtypes.int64, product_of(axes))
    store = Store(buffer, _row_major(axes), Index(symbol))
    # As for any pointwise kernel, the innermost loop is over the elements of a row.
    rows, elements = axes[:-1], axes[-1:] or (Axis("i0", 1),)
    return RowKernel(f"{name}_check", rows, elements, (Phase(stores=(store,)),), indices=(index,))


def _loops(kernel: Kernel) -> tuple[Axis, ...]:
    """The loops in which a kernel uses its indices."""
    if isinstance(kernel, RowKernel):
        return (*kernel.rows, *kernel.elements)
    if isinstance(kernel, ColumnKernel):
        return (*kernel.outer, *kernel.reduced, *kernel.columns)
    if isinstance(kernel, ScanKernel):
        return (*kernel.outer, kernel.scanned, *kernel.columns)
    return kernel.loops if isinstance(kernel, ScatterKernel) else ()


def _in_order(loads: Sequence[Load], axes: Sequence[Axis]) -> tuple[Axis, ...] | None:
    """The axes as loops that read every element of each load's buffer, in order; None if no order
    of them does: sums over the rows of a gather take a later axis first."""
    for ordered in itertools.permutations(axes):
        offset = _row_major(ordered)
        if all(_is_whole(load, ordered, offset) for load in loads):
            return ordered
    return None


def _row_major(axes: Sequence[Axis]) -> Number:
    """The place of an element among those of all loops."""
    strides = contiguous_strides(tuple(axis.size for axis in axes))
    place: Number = 0
    for axis, stride in zip(axes, strides, strict=True):
        place = place + axis.symbol * stride
    return place


def _is_whole(load: Load, axes: Sequence[Axis], offset: Number) -> bool:
    """True if the loops read every element of a buffer once, in order, or its only one."""
    if load.buffer.size == 1 and load.offset == 0:
        return True
    return load.offset == offset and load.buffer.size == product_of(axes)
