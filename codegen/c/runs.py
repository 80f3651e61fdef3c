"""Loops over elements in runs for which a division of the loop variable has one value.

Contract: `in_runs` gives a row kernel with two loops in the place of the last one, of which the
inner one is as long as the number by which index expressions of a pass divide, and the pass over
them; what is read and written is the same. A division for each element, and what is then read from
scattered places, keep neighbours out of vector registers: group norm of 8 x 8 groups of 8 channels
with 56 x 56 elements took 5 times as long. Reductions keep their long loops.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from dynajit.codegen.loops.loop_ir import (
    Axis,
    Expression,
    Keep,
    Phase,
    RowKernel,
    Word,
    walk,
)
from dynajit.codegen.loops.rewriting import in_store, replaced, with_variables
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

LEAST_RUN = 16
"""Elements of a run that are worth a loop: a vector of floats."""


@record
class Runs:
    """A pass over other loops.

    Args:
        kernel: with these loops; of its phases only the pass is meant.
        phase: the pass.
        kept: values that earlier passes kept, and where.
    """

    kernel: RowKernel
    phase: Phase
    kept: Mapping[Expression, str]


def in_runs(kernel: RowKernel, phase: Phase, kept: Mapping[Expression, str]) -> Runs | None:
    """The pass in runs; None if nothing is divided, or not so that runs are equally long."""
    if not kernel.elements or phase.accumulates:
        return None
    axis = kernel.elements[-1]
    values = [*(store.value for store in phase.stores), *(keep.value for keep in phase.keeps)]
    expressions = walk((*values, *kept))
    numbers = [number for e in expressions for number in e.numbers]
    numbers += [store.offset for store in phase.stores]
    size = _run(axis, numbers)
    if size is None or any(isinstance(e, Word) for e in expressions):
        return None
    axes = (*kernel.rows, *kernel.elements)
    if not _variables(numbers) <= {axis.name for axis in axes}:
        return None
    outer = Axis(f"{axis.name}_run", symint.floordiv(axis.size, size))
    inner = Axis(f"{axis.name}_in", size)
    known = {axis.name: outer.symbol * size + inner.symbol}
    leaves = {e: with_variables(e, known) for e in expressions if e.numbers}
    stores = tuple(
        replace(in_store(store, leaves), offset=symint.substitute(store.offset, known))
        for store in phase.stores
    )
    keeps = tuple(Keep(keep.name, replaced([keep.value], leaves)[0]) for keep in phase.keeps)
    phase = replace(phase, stores=stores, keeps=keeps)
    elements = (*kernel.elements[:-1], outer, inner)
    names = {replaced([value], leaves)[0]: name for value, name in kept.items()}
    return Runs(replace(kernel, elements=elements, phases=(phase,)), phase, names)


def _run(axis: Axis, numbers: Iterable[Number]) -> int | None:
    """The smallest number by which the loop variable is divided, if it divides all others and the
    loop's length."""
    if not isinstance(axis.size, int):
        return None
    divisors = set(_divisors(axis, numbers))
    least = min(divisors, default=0)
    if least < LEAST_RUN or least >= axis.size or axis.size % least:
        return None
    return least if not any(divisor % least for divisor in divisors) else None


def _divisors(axis: Axis, numbers: Iterable[Number]) -> Iterator[int]:
    for number in numbers:
        for atom in symint.atoms(number):
            if atom.kind in ("floordiv", "mod") and symint.name_of(atom.operands[0]) == axis.name:
                yield atom.operands[1] if isinstance(atom.operands[1], int) else 0


def _variables(numbers: Iterable[Number]) -> set[str]:
    return {name for number in numbers for name in symint.symbols(number)}
