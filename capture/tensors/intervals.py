"""How large ints of Python's may be that the graph computes: the least and the largest of a node.

Python's ints have no end, those of the graph are int64. `interval` goes through the rows that ints
of Python's become (sums, products, choices, what loops hand on) and refuses what may be too large.
Of a loop it finds by how much a turn may move what it hands on, wherever in a wide interval that
is: after so many turns it is no further from what was there before, or from what a turn puts there.
What stands for something in a turn that is being tried is not known; `Intervals` notes what was
computed of it, and proves it when there is a loop that says what it may be.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.types.dtypes import Category, DType, bool_, int8, int16, int32, int64, uint8
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.loops import LOOP, PART, Listed, Loop, Steps
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.table import intervals
from dynajit.ops.table.intervals import Interval


def _ends(dtype: DType) -> Interval:
    bounds = np.iinfo(dtype.numpy)
    return int(bounds.min), int(bounds.max)


#: No int is beyond: sums of two fit an int64.
LARGEST: Final = 1 << 61

#: Ints up to here are floats: a quotient of two such is rounded once.
EXACT: Final = 1 << 53

#: Beyond what turns hand on nothing is looked at.
WIDE: Final = 1 << 58

#: dtypes of fewer than 64 bits -> the least and the largest of their elements.
NARROW: Final[dict[DType, Interval]] = {
    bool_: (0, 1),
    **{dtype: _ends(dtype) for dtype in (int8, int16, int32, uint8)},
}


class Intervals:
    """How large ints of a capture are. Mutable.

    Attributes:
        unproven: ints that may be too large, for all that is known so far.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Interval] = {}
        self.unproven: list[Node] = []

    def fits(self, node: Node, is_tried: bool) -> bool:
        """Whether an int of the graph is the one that Python has, however large that is.

        Args:
            is_tried: a turn is being tried: what is not known yet is noted.
        """
        try:
            interval(node, self._known)
        except TooLarge:
            return _is_element(node)
        except NotKnown:
            if is_tried:
                self.unproven.append(node)
            return is_tried
        return True

    def is_exact(self, node: Node) -> bool:
        """Whether an int of the graph is known to be no larger than 2**53, and so a float."""
        try:
            return max(map(abs, interval(node, self._known))) <= EXACT
        except (TooLarge, NotKnown):
            return False

    def note(self, node: Node, values: Iterable[int]) -> None:
        """What a node may be is known otherwise."""
        ends = [*values]
        self._known[node] = min(ends), max(ends)

    def prove(self, stands: Mapping[Node, Node], since: int, is_tried: bool) -> bool:
        """Look at what a turn has computed, now that there is a loop of it.

        Args:
            stands: what stood for an int in front of the turn -> the int behind the loop, which is
                as large as it ever is.
            since: what was unproven in front of the turn.
            is_tried: a turn around the loop is being tried.

        Returns:
            Whether none of it may be too large.
        """
        for stand, result in stands.items():
            try:
                self._known[stand] = interval(result, self._known)
            except TooLarge:
                return False
            except NotKnown:
                if not is_tried:
                    return False
                self._known[stand] = (-WIDE, WIDE)
                self.unproven.append(result)
        open_ones = self.unproven[since:]
        del self.unproven[since:]
        return all(self.fits(node, is_tried) for node in open_ones)


class TooLarge(Exception):
    """An int may not fit an int64, or is made by a row that is not looked at."""


class NotKnown(Exception):
    """It depends on what stands for something in a turn that is being tried."""


def _is_element(node: Node) -> bool:
    """Whether an int is an element of a tensor, which Python has asked for: as large as it is."""
    while node.op is not None and node.op.interval is intervals.unchanged:
        operand = node.args[0]
        if not isinstance(operand, Node):
            return False
        node = operand
    return node.op is not None and node.op.interval is None and node.op.name not in _LOOKED_INTO


#: Rows without a rule that ints of Python's are made by.
_LOOKED_INTO: Final = frozenset({"where", PART.name})


def is_int(node: Any) -> bool:
    """Whether a node may be an int of Python's."""
    kind = node.type
    return isinstance(kind, TensorType) and not kind.shape and kind.dtype is int64


def interval(value: Any, known: dict[Any, Interval]) -> Interval:
    """The least and the largest that an argument of a node may be.

    Args:
        known: of nodes that were looked at; it gets more.

    Raises:
        TooLarge, NotKnown: see there.
    """
    if not isinstance(value, Node):
        return int(value), int(value)
    found = known.get(value)
    if found is None:
        found = known[value] = _of_node(value, known)
    if max(abs(found[0]), abs(found[1])) > LARGEST:
        raise TooLarge
    return found


def _of_node(node: Node, known: dict[Any, Interval]) -> Interval:
    if isinstance(node.type, TensorType) and node.type.dtype in NARROW:
        return NARROW[node.type.dtype]
    if node.kind is NodeKind.PLACEHOLDER:
        raise NotKnown
    if node.kind is NodeKind.CONSTANT:
        return int(node.value.min()), int(node.value.max())
    assert node.op is not None
    if node.op is PART:
        return _of_part(node, known)
    if node.op.name == "sum":
        return _of_truths(node.args[0])
    if node.op.name in ("argmax", "argmin"):
        return 0, max(_count(node.args[0]) - 1, 0)
    if node.op.name == "where":
        return _hull(interval(argument, known) for argument in node.args[1:])
    rule = node.op.interval
    found = None if rule is None else rule(*(interval(x, known) for x in node.args))
    if found is None:
        raise TooLarge
    return found


def _of_truths(added: Any) -> Interval:
    """How many truths there may be."""
    is_cast = isinstance(added, Node) and added.op is not None and added.op.name == "cast"
    truths = added.args[0] if is_cast else added
    kind = getattr(truths, "type", None)
    if not isinstance(kind, TensorType) or kind.dtype is not bool_:
        raise TooLarge
    return 0, _count(truths)


def _count(node: Any) -> int:
    """How many elements a node has."""
    count = node.type.numel
    if not isinstance(count, int):
        raise TooLarge
    return count


def _hull(intervals: Iterable[Interval]) -> Interval:
    lows, highs = zip(*intervals, strict=True)
    return min(lows), max(highs)


# ---------------------------------------------------------------------------------------------
# loops


def ints_in(number: Steps | Listed, limit: int) -> list[int]:
    """The ends of what a number of turns is; []: it is a float, or there is no turn."""
    if isinstance(number, Steps):
        return [number.at(0), number.at(max(limit - 1, 0))]
    return [value for value in number.values if isinstance(value, int)]


def _of_part(part: Node, known: dict[Any, Interval]) -> Interval:
    node = part.args[0]
    assert isinstance(node, Node) and node.op is LOOP
    loop, limit = node.attributes["loop"], node.attributes["limit"]
    offsets = loop.offsets(limit)
    place = offsets.index(part.attributes["offset"])
    if place == loop.carried + loop.collected:
        return 0, limit
    if place >= loop.carried:
        raise TooLarge
    return _of_carried(loop, limit, node.args[1:], place, known)


def _of_carried(
    loop: Loop, limit: int, operands: Sequence[Any], place: int, known: dict[Any, Interval]
) -> Interval:
    """What an int is behind a loop that hands it on, and others that it may be made of."""
    ints = _linked(loop, place)
    stands = [loop.inputs[index] for index in ints]
    results = [loop.body.outputs[index] for index in ints]
    outer = _outer(loop, limit, operands, known)
    first = _hull(interval(operands[index], known) for index in ints)
    wide = max(WIDE, 2 * max(map(abs, first)))  # of a loop within the turn of another one

    def turn(given: Interval) -> Interval:
        inner = {**outer, **dict.fromkeys(stands, given)}
        return _hull(interval(result, inner) for result in results)

    once = _hull((first, turn(first)))
    low, high = turn((-wide, wide))
    growth = max(high - wide, -wide - low, 0)
    found = once[0] - growth * limit, once[1] + growth * limit
    if max(abs(found[0]), abs(found[1])) > wide:
        raise TooLarge
    return found


def _linked(loop: Loop, place: int) -> list[int]:
    """Which of the values that turns hand on an int is made of, itself first."""
    found = [place]
    for index in found:
        work, seen = [loop.body.outputs[index]], set()
        for node in work:
            if not isinstance(node, Node) or node in seen:
                continue
            seen.add(node)
            if node in loop.inputs[: loop.carried] and is_int(node):
                other = loop.inputs.index(node)
                found += [other] if other not in found else []
            work += [argument for argument in _ints_of(node) if isinstance(argument, Node)]
    return found


def _ints_of(node: Node) -> Sequence[Any]:
    """The ints that an int is computed of."""
    if node.op is None:
        return ()
    if node.op is PART:
        loop = node.args[0]
        assert isinstance(loop, Node)
        return [a for a in loop.args if isinstance(a, Node) and is_int(a)]
    return node.args[1:] if node.op.name == "where" else node.args


def _outer(
    loop: Loop, limit: int, operands: Sequence[Any], known: dict[Any, Interval]
) -> dict[Any, Interval]:
    """What the inputs of a turn may be, but for what is handed on."""
    found: dict[Any, Interval] = {}
    for node, number in zip(loop.body.inputs, loop.numbers, strict=False):
        values = ints_in(number, limit)
        if isinstance(node.type, ScalarType) and values:
            found[node] = min(values), max(values)
    for node, operand in zip(loop.inputs, operands, strict=True):
        is_whole = is_int(node) or _is_whole_number(node)
        if is_whole and node not in loop.inputs[: loop.carried]:
            try:
                found[node] = interval(operand, known)
            except (TooLarge, NotKnown):  # then so is what is made of it, if anything is
                continue
    return found


def _is_whole_number(node: Node) -> bool:
    """Whether a node is an int of the turns of a loop around this one."""
    return isinstance(node.type, ScalarType) and node.type.category is Category.INTEGER


__all__ = ["EXACT", "LARGEST", "Intervals", "ints_in"]
