"""Kernels that write parts of an array in place, over those parts alone.

Contract: `narrowed` takes a pointwise kernel whose results lie in the array of what it reads, where
an element outside some ranges of the loops gets what it holds: a slice that is assigned. The kernel
that it gives has loops over those ranges.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from dynajit.codegen.loops.loop_ir import (
    Apply,
    Axis,
    Buffer,
    Compare,
    Expression,
    Literal,
    Load,
    RowKernel,
    Select,
    Word,
    walk,
)
from dynajit.codegen.loops.rewriting import replaced, with_variables
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number

Ranges: TypeAlias = Mapping[str, tuple[Number, Number]]
"""Loop variable -> the first value, and the one behind the last; of others all values."""


def narrowed(kernel: RowKernel, source: Buffer) -> RowKernel:
    """The kernel over the elements that it changes.

    Args:
        kernel: with one pass that only stores, and no totals.
        source: what it reads, which is the array that it writes.
    """
    (phase,) = kernel.phases
    if len(phase.stores) != 1:
        return kernel
    (store,) = phase.stores
    axes = {axis.name: axis for axis in (*kernel.rows, *kernel.elements)}
    ranges = _changed(store.value, Load(source, store.offset), axes)
    expressions = walk((store.value,))
    if not ranges or any(isinstance(expression, Word) for expression in expressions):
        return kernel
    new = {name: _within(axes[name], ranges) for name in axes}
    known = {name: new[name].symbol + low for name, (low, _) in ranges.items()}
    leaves = {e: _known(e, known) for e in expressions if e.numbers}
    value = _chosen(replaced([store.value], leaves)[0])
    offset = symint.substitute(store.offset, known)
    phase = replace(phase, stores=(replace(store, offset=offset, value=value),))
    rows = tuple(new[axis.name] for axis in kernel.rows)
    elements = tuple(new[axis.name] for axis in kernel.elements)
    return replace(kernel, rows=rows, elements=elements, phases=(phase,))


def never_meet(read: Number, written: Number, axes: Sequence[Axis]) -> bool:
    """Whether no turn of some loops reads what any turn writes: a column, from the one before it.

    Args:
        read, written: offsets into one array.
        axes: the loops, of known sizes; else nothing is known.
    """
    apart = read - written
    parts = []
    for axis in axes:
        if axis.size == 1:
            continue
        step = symint.substitute(written, {axis.name: axis.symbol + 1}) - written
        if not isinstance(step, int) or not isinstance(axis.size, int):
            return False
        parts.append((abs(step), axis.size))
    return isinstance(apart, int) and not _is_sum(apart, sorted(parts, reverse=True))


def _is_sum(number: int, parts: Sequence[tuple[int, int]]) -> bool:
    """Whether a number is the sum of multiples of steps, each by less than its size.

    Args:
        parts: steps, the largest first, and sizes.
    """
    if not parts:
        return number == 0
    (step, size), *others = parts
    reach = sum(other * (turns - 1) for other, turns in others)
    if not step:
        return _is_sum(number, others)
    first, last = -((reach - number) // step), (number + reach) // step
    multiples = range(max(first, 1 - size), min(last, size - 1) + 1)
    if len(multiples) > MOST_MULTIPLES:
        return True
    return any(_is_sum(number - step * multiple, others) for multiple in multiples)


MOST_MULTIPLES: Final = 64
"""Of a step: where more are possible, it is not looked at all of them."""


def _within(axis: Axis, ranges: Ranges) -> Axis:
    low, high = ranges.get(axis.name, (0, axis.size))
    return Axis(axis.name, high - low)


def _changed(value: Expression, held: Load, axes: Mapping[str, Axis]) -> Ranges | None:
    """Ranges outside of which a value is what the element holds; None if there are none."""
    if not isinstance(value, Select) or value.yes == held:
        return None
    own = _ranges(value.condition, axes)
    if value.no == held:
        return own
    others = _changed(value.no, held, axes)
    return None if others is None or own is None else _around(own, others)


def _ranges(condition: Expression, axes: Mapping[str, Axis]) -> Ranges:
    """Where a condition can hold: a box, which may be larger."""
    found: dict[str, tuple[Number, Number]] = {}
    for compare in _parts(condition):
        if not isinstance(compare, Compare) or compare.relation != "less":
            continue
        left, right = (symint.name_of(side) for side in compare.numbers)
        if right is not None and right in axes:  # low - 1 < i
            found[right] = (compare.left + 1, found.get(right, (0, axes[right].size))[1])
        elif left is not None and left in axes:  # i < high
            found[left] = (found.get(left, (0, 0))[0], compare.right)
    return found


def _parts(condition: Expression) -> Iterator[Expression]:
    """What must hold, all of it."""
    if isinstance(condition, Apply) and condition.function == "logical_and":
        for argument in condition.arguments:
            yield from _parts(argument)
    else:
        yield condition


def _around(a: Ranges, b: Ranges) -> Ranges:
    """A box around two, as far as it is known."""
    found: dict[str, tuple[Number, Number]] = {}
    for name in a.keys() & b.keys():
        (a_low, a_high), (b_low, b_high) = a[name], b[name]
        lows, highs = _ordered(a_low, b_low), _ordered(a_high, b_high)
        if lows is not None and highs is not None:
            found[name] = (lows[0], highs[1])
    return found


def _ordered(a: Number, b: Number) -> tuple[Number, Number] | None:
    """Two numbers, the smaller one first; None where that is not known."""
    if symint.is_at_least(b - a, 0):
        return a, b
    return (b, a) if symint.is_at_least(a - b, 0) else None


def _known(expression: Expression, known: Mapping[str, Number]) -> Expression:
    """An expression with other variables; True where it is a comparison that always holds."""
    found = with_variables(expression, known)
    if not isinstance(found, Compare) or found.relation != "less":
        return found
    is_certain = symint.is_at_least(found.right - found.left, 1)
    return Literal(True, dtypes.bool_) if is_certain else found


def _chosen(value: Expression) -> Expression:
    """A value without a condition that always holds."""
    if isinstance(value, Select) and all(map(_is_true, _parts(value.condition))):
        return value.yes
    return value


def _is_true(part: Expression) -> bool:
    return isinstance(part, Literal) and part.value is True
