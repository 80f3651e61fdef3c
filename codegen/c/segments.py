"""Loops cut where a choice by position changes: concatenations, pads, chunks put side by side.

Contract: `segments` cuts one axis into ranges in which comparisons of its loop variable with
numbers hold or do not, and gives what is stored in each without the arms that are not chosen there;
its loop needs no branches then, or fewer.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dynajit.codegen.loops.loop_ir import (
    Apply,
    Axis,
    Cast,
    Compare,
    Expression,
    Literal,
    Select,
    Store,
    Word,
    walk,
)
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number

MOST_SEGMENTS = 64
"""Ranges into which an axis is cut."""

MOST_TEXT = 2
"""How many times as many expressions all ranges together may have as the loop that is cut."""

SMALL_TEXT = 64
"""Expressions that they may have beside that."""


@record
class Segment:
    """What is stored where the loop variable is in `range(low, high)`."""

    low: int
    high: int
    stores: tuple[Store, ...]


def segments(stores: Sequence[Store], axis: Axis) -> tuple[Segment, ...]:
    """The ranges of an axis, in order; none if it need not or cannot be cut."""
    expressions = walk(tuple(store.value for store in stores))
    if not isinstance(axis.size, int):
        return ()
    ends = sorted({p for e in expressions for p in _places(e, axis) if 0 < p < axis.size})
    if not 0 < len(ends) < MOST_SEGMENTS:
        return ()
    found = []
    left = MOST_TEXT * len(expressions) + SMALL_TEXT
    for low, high in zip((0, *ends), (*ends, axis.size), strict=True):
        within = _Within(axis, low, high)
        kept = tuple(replace(store, value=within.resolved(store.value)) for store in stores)
        left -= len(walk(tuple(store.value for store in kept)))
        if left < 0:
            return ()
        found.append(Segment(low, high, kept))
    return tuple(found)


def _places(expression: Expression, axis: Axis) -> Iterator[int]:
    """Positions from which on a comparison of the loop variable has another outcome."""
    if not isinstance(expression, Compare):
        return
    difference = expression.left - expression.right
    if symint.symbols(difference) != {axis.name}:
        return
    at_zero = symint.substitute(difference, {axis.name: 0})
    slope = symint.substitute(difference, {axis.name: 1}) - at_zero
    if slope not in (1, -1) or difference != at_zero + axis.symbol * slope:
        return
    assert isinstance(at_zero, int) and isinstance(slope, int)
    place = -at_zero * slope  # where both sides are equal
    if expression.relation == "equal":
        yield from (place, place + 1)
    else:
        yield place if slope > 0 else place + 1


class _Within:
    """Expressions where a loop variable is in a range. Mutable: remembers what it has resolved."""

    def __init__(self, axis: Axis, low: int, high: int) -> None:
        symbol: Number = symint.symbol(axis.name, low, high - 1) if high - low > 1 else low
        self.known: Mapping[str, Number] = {axis.name: symbol}
        self.done: dict[Expression, Expression] = {}

    def resolved(self, expression: Expression) -> Expression:
        """The expression without the arms that are not chosen; the same object if nothing is."""
        stack = [expression]
        while stack:
            current = stack[-1]
            waits = [] if current in self.done else self._step(current)
            stack.extend(waits)
            if not waits:
                stack.pop()
        return self.done[expression]

    def _step(self, expression: Expression) -> list[Expression]:
        """What has to be resolved first; if nothing, it is done."""
        if isinstance(expression, Select):
            return self._choose(expression)
        waits = [o for o in expression.operands if o not in self.done]
        if not waits:
            operands = tuple(self.done[o] for o in expression.operands)
            self.done[expression] = self._outcome(expression, operands)
        return waits

    def _choose(self, select: Select) -> list[Expression]:
        """A choice: arms are looked at only if they may be chosen."""
        if select.condition not in self.done:
            return [select.condition]
        condition = self.done[select.condition]
        arms = [select.yes, select.no]
        if isinstance(condition, Literal):
            arms = arms[:1] if condition.value else arms[1:]
        waits = [arm for arm in arms if arm not in self.done]
        if not waits:
            kept = [self.done[arm] for arm in arms]
            self.done[select] = kept[0] if len(kept) == 1 else Select(condition, *kept)
        return waits

    def _outcome(self, expression: Expression, operands: tuple[Expression, ...]) -> Expression:
        if isinstance(expression, Compare):
            outcome = self._compared(expression)
            return expression if outcome is None else Literal(outcome, dtypes.bool_)
        if isinstance(expression, Apply):
            decided = _decided(expression.function, operands)
            if decided is not None:
                return decided
        if operands == expression.operands:
            return expression
        if isinstance(expression, Cast):
            return Cast(operands[0], expression.dtype)
        if isinstance(expression, Word):
            seed, block = operands
            return Word(seed, block, expression.position)
        assert isinstance(expression, Apply)
        return Apply(expression.function, operands, expression.dtype)

    def _compared(self, compare: Compare) -> bool | None:
        """The outcome of a comparison, if it is the same in the whole range."""
        difference = symint.substitute(compare.left - compare.right, self.known)
        low, high = symint.bounds(difference)
        is_above, is_below = low is not None and low > 0, high is not None and high < 0
        if compare.relation == "equal":
            return False if is_above or is_below else True if low == high == 0 else None
        return True if is_below else False if low is not None and low >= 0 else None


def _decided(function: str, operands: Sequence[Expression]) -> Expression | None:
    """The value of a logical function that one of its operands decides."""
    if function not in ("logical_and", "logical_or", "bitwise_and", "bitwise_or"):
        return None
    if any(operand.dtype is not dtypes.bool_ for operand in operands):
        return None
    decisive = function.endswith("or")
    for operand, other in (operands, operands[::-1]):
        if isinstance(operand, Literal):
            return operand if operand.value is decisive else other
    return None
