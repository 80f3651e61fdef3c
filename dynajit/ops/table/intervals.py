"""Between which ints of Python's the result of a row lies, if its operands lie between some.

Contract: a rule takes an interval per operand, the least and the largest int, and gives that of the
result, however large; None: not known. Rows name theirs (`RowFacts.interval`).
"""

from collections.abc import Callable
from typing import TypeAlias

Interval: TypeAlias = tuple[int, int]


def of_ends(function: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    """Of a function of two ints that is largest and least at ends."""

    def rule(a: Interval, b: Interval) -> Interval:
        found = [function(x, y) for x in a for y in b]
        return min(found), max(found)

    return rule


def of_bits(a: Interval, b: Interval) -> Interval:
    """Of bits of two ints: as many as the longer one has."""
    bits = max(number.bit_length() for number in (*a, *b))
    return -(1 << bits), (1 << bits) - 1


def of_quotient(a: Interval, b: Interval) -> Interval | None:
    """`a // b`, by one number that is not 0."""
    if b[0] != b[1] or not b[0]:
        return None
    found = [end // b[0] for end in a]
    return min(found), max(found)


def of_rest(a: Interval, b: Interval) -> Interval | None:
    """`a % b`, by one number that is not 0."""
    if b[0] != b[1] or not b[0]:
        return None
    return min(0, b[0] + 1), max(0, b[0] - 1)


def of_magnitude(a: Interval) -> Interval:
    """`abs(a)`."""
    ends = sorted(map(abs, a))
    return (0 if a[0] < 0 < a[1] else ends[0]), ends[1]


def unchanged(a: Interval) -> Interval:
    """Of what an operand holds."""
    return a
