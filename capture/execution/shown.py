"""What turns of a loop write out: prints, calls of loggers and warnings.

A turn that is captured has recorded what it writes (`capture.python.text.output`). `ShownOfTurn`
takes that apart into values that differ between turns, which are collected as what turns append to
a list is (`collected`), and calls that are the same in all of them. Contract: behind the loop one
effect makes all calls, in the program's order.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.capture.library.shown_turns import Argument, Fixed, InRow, Made, ShownInTurn
from dynajit.capture.machine.effects import Effect
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.arrays import is_array
from dynajit.capture.python.tensors.counts import handed_on, is_count
from dynajit.capture.python.text.output import OutputEffect, TurnsEffect
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import DictValue, ListValue, TupleValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.texts import LaterText
from dynajit.core.types.value_types import numel

#: Elements of a tensor that a turn writes under a condition: all turns keep them.
MOST_ELEMENTS: Final = 64


class NotShown(Exception):
    """What a turn writes cannot be told for each turn."""


class ShownOfTurn:
    """What one turn writes out. Mutable while it is filled.

    Args:
        machine: what captures.
        effects: what the turn has recorded.

    Attributes:
        row: the values that differ between turns.

    Raises:
        NotShown: see there.
    """

    def __init__(self, machine: Machine, effects: Sequence[Effect]) -> None:
        self._machine = machine
        self.row: list[Value] = []
        self._fixed: list[Value] = []
        calls = [effect for effect in effects if isinstance(effect, OutputEffect)]
        if len(calls) < len(effects):
            raise NotShown  # a loop in the turn has written
        self._shown = tuple(map(self._call, calls))
        self._touched = tuple(touched for effect in calls for touched in effect.touched)
        if any(effect.when for effect in calls):
            self._refuse_large()
        if not self.row:
            self.row.append(Constant(None))  # there is a row for each turn

    def _call(self, effect: OutputEffect) -> ShownInTurn:
        keywords = dict(effect.keywords)
        return ShownInTurn(
            effect.function,
            tuple(map(self._argument, effect.when)),
            tuple(map(self._argument, (*effect.arguments, *keywords.values()))),
            tuple(keywords),
        )

    def _argument(self, value: Value) -> Argument:
        if isinstance(value, LaterText):
            return Made(value.function, tuple(map(self._argument, value.arguments)))
        if isinstance(value, TupleValue) and value.cls is tuple:
            return Made(_tuple_of, tuple(map(self._argument, value.items)))
        if type(value) is ListValue:
            items = self._machine.heap[value.identity]
            return Made(_list_of, tuple(map(self._argument, items)))
        if type(value) is DictValue and value.cls is dict:
            entries = self._machine.heap[value.identity].values()
            return Made(_dict_of, tuple(self._argument(part) for pair in entries for part in pair))
        if isinstance(value, (Constant, Known, Opaque)):
            return self._placed(value)
        if isinstance(value, Scalar) and not is_of_a_turn(value):
            return self._placed(value)
        is_existing = isinstance(value, ObjectValue) and value.source is not None
        if is_existing and not is_array(value):
            return self._placed(value)
        is_of_turn = isinstance(value, (Scalar, TensorValue)) or is_array(value) or is_count(value)
        if not is_of_turn:
            raise NotShown
        self.row.append(value)
        return InRow(len(self.row) - 1)

    def _refuse_large(self) -> None:
        """Refuse to keep of all turns what few of them write.

        Raises:
            NotShown: a tensor is large.
        """
        found = [handed_on(self._machine, value) for value in self.row]
        tensors = [self._machine.recorder.graph_value(held) for held in found if held is not None]
        if any(numel(tensor.shape) > MOST_ELEMENTS for tensor in tensors):
            raise NotShown

    def _placed(self, value: Value) -> Fixed:
        self._fixed.append(value)
        return Fixed(len(self._fixed) - 1)

    def effect(self, rows: ListValue) -> TurnsEffect:
        """What all turns write.

        Args:
            rows: holds of each turn a tuple of `row`.
        """
        return TurnsEffect(self._shown, rows, tuple(self._fixed), self._touched)


def _list_of(*items: object) -> list[object]:
    return [*items]


def _dict_of(*parts: object) -> dict[object, object]:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _tuple_of(*items: object) -> tuple[object, ...]:
    return items


__all__ = ["NotShown", "ShownOfTurn"]
