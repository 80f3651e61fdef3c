"""Pointwise kernels that read across the order in which they write: transposed copies.

Contract: `find` says which arrays are read so, and along which of the outer loops they lie in
memory; printers read them through tiles, each in the order of its memory.
"""

from collections.abc import Callable, Sequence
from typing import Final

from dynajit.codegen.loops.loop_ir import (
    Axis,
    Expression,
    Load,
    RowKernel,
    Select,
    Store,
    all_expressions,
    product_of,
)
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

LEAST_STEP: Final = 16
"""Elements from one to the next in memory from which reads count as going across: a line of
floats, so that neighbours share none."""

LEAST_ELEMENTS: Final = 1 << 12
"""Elements of a kernel from which tiles are worth it: less stays in a first-level cache."""


@record
class Transposed:
    """What is read across.

    Args:
        near: the outer loop along which `loads` lie in memory.
        loads: that go across the innermost loop.
    """

    near: Axis
    loads: tuple[Load, ...]


def find(kernel: RowKernel, is_enough: Callable[[Number, int], bool]) -> Transposed | None:
    """What a pointwise kernel reads along one of its outer loops, or None.

    Args:
        is_enough: whether a size counts as at least a number.
    """
    if len(kernel.phases) != 1 or kernel.row_stores or kernel.in_place or kernel.indices:
        return None
    if kernel.totals or kernel.element_totals or kernel.finals or kernel.column_totals:
        return None
    (phase,) = kernel.phases
    if phase.accumulates or phase.keeps or len(kernel.elements) != 1:
        return None
    if not is_enough(product_of((*kernel.rows, *kernel.elements)), LEAST_ELEMENTS):
        return None
    if any(isinstance(e, Select) for e in expressions_of(phase.stores)):
        return None  # what is not chosen may lie out of range
    (far,) = kernel.elements
    if not is_enough(far.size, LEAST_STEP):
        return None
    loads = [e for e in expressions_of(phase.stores) if isinstance(e, Load)]
    loads = [load for load in loads if is_enough(_step(load.offset, far), LEAST_STEP)]
    for axis in kernel.rows:
        along = tuple(load for load in loads if _step(load.offset, axis) == 1)
        if along and is_enough(axis.size, LEAST_STEP):
            return Transposed(axis, along)
    return None


def _step(offset: Number, axis: Axis) -> Number:
    return symint.substitute(offset, {axis.name: axis.symbol + 1}) - offset


def expressions_of(stores: Sequence[Store]) -> list[Expression]:
    """What is evaluated for some stores."""
    return all_expressions([store.value for store in stores], ())
