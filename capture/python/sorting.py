"""Sorting by Python's rules: keys inlined, stable, `<` of user classes, exact errors."""

from typing import Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, at_once, is_known, is_none
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.truth import truth
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.symbolic import NONE, Constant, Value

#: More objects with an order of their own are not sorted symbolically.
MAX_COMPARED: Final = 200


def sort_items(
    machine: Machine, items: list[Value], keywords: dict[str, Value]
) -> Steps[list[Value]]:
    """Items in sorted order.

    Raises:
        GraphBreak: the order depends on the contents of a tensor.
    """
    key = keywords.get("key", NONE)
    reverse = False
    if "reverse" in keywords:
        reverse = yield from _flag(machine, keywords["reverse"])
    measures = []
    has_key = not is_none(machine, key)
    for item in items:
        if not has_key:
            measures.append(item)
        else:
            measures.append((yield from machine.call(key, [item], {})))
    if all(is_known(measure) and not _has_own_order(measure) for measure in measures):
        known = [as_python(machine, measure) for measure in measures]
        try:
            chosen = sorted(range(len(items)), key=known.__getitem__, reverse=reverse)
        except TypeError as error:
            raise_python(machine, TypeError, *error.args)
    else:
        chosen = yield from _compare_sort(machine, measures, reverse)
    return [items[position] for position in chosen]


@at_once
def _flag(machine: Machine, value: Value) -> bool:
    if not is_known(value):
        refuse(machine, "sort", lambda reverse: [].sort(reverse=reverse), [value])
    found = as_python(machine, value)
    try:
        [].sort(reverse=found)
    except TypeError as error:
        raise_python(machine, TypeError, *error.args)
    return bool(found)


def _has_own_order(measure: Value) -> bool:
    """True for a known object whose comparison may be written in Python."""
    return not isinstance(measure, (Constant, TupleValue)) and hasattr(measure, "object")


class _Asks(Exception):
    """The sort needs to know whether one measure is less than another."""


class _Proxy:
    """Stands for a measure in a real sort: answers `<` from what is known so far."""

    __slots__ = ("answers", "position")

    def __init__(self, position: int, answers: dict[tuple[int, int], bool]) -> None:
        self.position = position
        self.answers = answers

    def __lt__(self, other: "_Proxy") -> bool:
        pair = (self.position, other.position)
        if pair not in self.answers:
            raise _Asks(*pair)
        return self.answers[pair]


def _compare_sort(machine: Machine, measures: list[Value], reverse: bool) -> Steps[list[int]]:
    """Positions in order, asking for `<` as Python's own sort does, in the same sequence.

    The real sort is repeated with one more answer each time.
    """
    if len(measures) > MAX_COMPARED:
        raise GraphBreak(breaks.LIMIT, f"sorting {len(measures)} objects")
    answers: dict[tuple[int, int], bool] = {}
    while True:
        proxies = [_Proxy(position, answers) for position in range(len(measures))]
        try:
            proxies.sort(reverse=reverse)
            return [proxy.position for proxy in proxies]
        except _Asks as question:
            left, right = question.args
        less = yield from machine.compare("<", measures[left], measures[right])
        answers[left, right] = yield from truth(machine, less)
