"""Rows that several blocks share: one row kernel as several, each with one pass over the rows.

Contract: `stages(kernel, sections)` gives kernels that compute the same when they run in order. A
pass that reduces leaves accumulators per section, which the kernel after it folds in order; later
passes load what was folded.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dynajit.codegen.cuda.units.support import folding, partial_buffers
from dynajit.codegen.loops import rewriting
from dynajit.codegen.loops.elements import linear
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Axis,
    Buffer,
    Expression,
    Load,
    Phase,
    RowKernel,
    Store,
)
from dynajit.core.records import record
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import numel

SECTION: Final = "section"
"""The loop variable of a section."""

NO_PARTIALS: Final[Mapping[str, list[Buffer]]] = MappingProxyType({})


@record
class Stage:
    """One kernel of several.

    Args:
        kernel: one pass over rows.
        partials: accumulator -> where a section leaves it, at `row * sections + section`; empty for
            a kernel whose rows are whole.
    """

    kernel: RowKernel
    partials: Mapping[str, list[Buffer]]


def stages(kernel: RowKernel, sections: int) -> list[Stage]:
    """The kernels that a row kernel without totals becomes."""
    return _Stages(kernel, sections).made


class _Stages:
    """Makes the stages. Mutable: they are added in order."""

    def __init__(self, kernel: RowKernel, sections: int) -> None:
        self.kernel, self.sections = kernel, sections
        self.made: list[Stage] = []
        self.known: dict[Expression, Expression] = {}
        shape = tuple(axis.size for axis in kernel.rows)
        self.rows = numel(shape)
        self.row: Number = linear([axis.symbol for axis in kernel.rows], shape)
        reducing = [n for n, phase in enumerate(kernel.phases) if phase.accumulates]
        for number, phase in enumerate(kernel.phases):
            if phase.accumulates:
                is_last = number == reducing[-1]
                is_needed = number < len(kernel.phases) - 1
                self._reduce(number, phase, kernel.row_stores if is_last else (), is_needed)
            elif phase.stores:
                stores = tuple(rewriting.in_store(store, self.known) for store in phase.stores)
                self._add(f"{kernel.name}_{number}", Phase(stores=stores))

    def _add(
        self, name: str, phase: Phase, partials: Mapping[str, list[Buffer]] = NO_PARTIALS
    ) -> None:
        indices = tuple(rewriting.in_index(index, self.known) for index in self.kernel.indices)
        part = RowKernel(name, self.kernel.rows, self.kernel.elements, (phase,), indices=indices)
        self.made.append(Stage(part, partials))

    def _reduce(
        self, number: int, phase: Phase, row_stores: tuple[Store, ...], is_needed: bool
    ) -> None:
        """A pass over sections, and the one that folds them."""
        name = f"{self.kernel.name}_{number}"
        accumulates = tuple(rewriting.in_accumulate(a, self.known) for a in phase.accumulates)
        stores = tuple(rewriting.in_store(store, self.known) for store in phase.stores)
        size = self.rows * self.sections
        partials = {a.name: partial_buffers(name, a, size) for a in accumulates}
        self._add(name, Phase(accumulates, stores=stores), partials)
        final = tuple(rewriting.in_store(store, self.known) for store in row_stores)
        kept = tuple(store for a in accumulates for store in self._kept(name, a))
        axis = Axis(SECTION, self.sections)
        first = self.row * self.sections
        folds = tuple(folding(a, partials[a.name], first + axis.symbol, first) for a in accumulates)
        fold = RowKernel(
            f"{name}_fold", self.kernel.rows, (axis,), (Phase(folds),),
            row_stores=(*final, *(kept if is_needed else ())),
            indices=tuple(rewriting.in_index(i, self.known) for i in self.kernel.indices),
        )  # fmt: skip
        self.made.append(Stage(fold, NO_PARTIALS))
        for store in kept:
            self.known[store.value] = Load(store.buffer, self.row)

    def _kept(self, name: str, accumulate: Accumulate) -> list[Store]:
        """Stores of an accumulator of each row."""
        return [
            Store(
                Buffer(f"{name}_a{k}_{accumulate.name}", element.dtype, self.rows),
                self.row,
                Accumulated(accumulate.name, k, element.dtype),
            )
            for k, element in enumerate(accumulate.element)
        ]
