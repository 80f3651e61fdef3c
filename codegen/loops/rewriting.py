"""Expressions with some of their parts replaced.

Contract: what does not contain a replaced part comes back as the same object.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    ColumnKernel,
    Compare,
    DataIndex,
    Expression,
    Index,
    Keep,
    Load,
    Phase,
    RowKernel,
    Store,
    walk,
)
from dynajit.core.types import symint
from dynajit.core.types.symint import Number


def replaced(
    roots: Sequence[Expression], known: Mapping[Expression, Expression]
) -> list[Expression]:
    """The roots with every key of `known` replaced by its value, wherever it stands."""
    made: dict[Expression, Expression] = {}
    for expression in walk(tuple(roots)):
        if expression in known:
            made[expression] = known[expression]
        elif all(made[operand] is operand for operand in expression.operands):
            made[expression] = expression
        else:
            made[expression] = _rebuilt(expression, made)
    return [made[root] for root in roots]


def _rebuilt(expression: Expression, made: Mapping[Expression, Expression]) -> Expression:
    def part(value: Any) -> Any:
        if isinstance(value, Expression):
            return made[value]
        if isinstance(value, tuple):
            return tuple(map(part, value))
        return value

    given = [part(getattr(expression, field.name)) for field in fields(expression)]  # type: ignore[arg-type]
    found: Expression = type(expression)(*given)
    return found


def with_variables(expression: Expression, known: Mapping[str, Number]) -> Expression:
    """A load, an index or a comparison of them with other index expressions for loop variables.

    Args:
        known: name of a variable -> what stands for it.
    """
    if isinstance(expression, Load):
        return Load(expression.buffer, symint.substitute(expression.offset, known))
    if isinstance(expression, Index):
        return Index(symint.substitute(expression.value, known))
    assert isinstance(expression, Compare)
    left, right = (symint.substitute(side, known) for side in expression.numbers)
    return Compare(expression.relation, left, right)


def in_store(store: Store, known: Mapping[Expression, Expression]) -> Store:
    """A store of a value with replaced parts."""
    return replace(store, value=replaced([store.value], known)[0])


def in_accumulate(accumulate: Accumulate, known: Mapping[Expression, Expression]) -> Accumulate:
    """A reduction of elements with replaced parts."""
    first = accumulate.first
    return replace(
        accumulate,
        element=tuple(replaced(accumulate.element, known)),
        first=None if first is None else tuple(replaced(first, known)),
    )


def in_kernel(kernel: Any, known: Mapping[Expression, Expression]) -> Any:
    """A kernel of loops, or a part of one, with replaced parts in every expression."""
    if isinstance(kernel, Expression):
        return replaced([kernel], known)[0]
    if isinstance(kernel, tuple):
        return tuple(in_kernel(part, known) for part in kernel)
    if isinstance(kernel, Store):
        return in_store(kernel, known)
    if isinstance(kernel, Accumulate):
        return in_accumulate(kernel, known)
    if isinstance(kernel, DataIndex):
        return in_index(kernel, known)
    if not isinstance(kernel, (RowKernel, ColumnKernel, Phase, Keep)):
        return kernel
    parts = {field.name: getattr(kernel, field.name) for field in fields(kernel)}
    return replace(kernel, **{name: in_kernel(part, known) for name, part in parts.items()})


def in_index(index: DataIndex, known: Mapping[Expression, Expression]) -> DataIndex:
    """A data index whose value has replaced parts."""
    return replace(index, value=replaced([index.value], known)[0])
