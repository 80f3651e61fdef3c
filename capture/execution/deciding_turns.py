"""Numbers of Python's in a turn that stands for others, and comparisons of them.

A comparison that comes out alike in all turns is a constant of the turn. Where answers come again
after some turns, as many may be captured as one. What numbers are in all turns is found of what the
turn makes of them (`capture.tensors.turns`).
Contract: a turn that asks otherwise than in all turns raises `Differs` when its numbers are found.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.execution.keeping_turns import KeepingTurn
from dynajit.capture.execution.tried_turns import Differs, Head
from dynajit.capture.execution.turn_items import Items, Periods
from dynajit.capture.machine.frames import Frame
from dynajit.capture.python.tensors.counts import is_of_calls
from dynajit.capture.tensors.turns import (
    Table,
    always,
    is_of_a_turn,
    is_of_loop,
    is_plain_number,
    names_in,
    period_of,
    place_of_rare,
    step_of,
    truths,
)
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.core.records import record
from dynajit.ir.loops import Listed, Steps

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: After how many turns decisions by counters come out alike, at most: so many turns are captured.
MOST_ALIKE: Final = 16


@record(eq=False)
class Trial:
    """What a turn is tried with.

    Args:
        before: the state in front of the turn before.
        items: what the loop gives in the turns that are left.
        number: of the loop.
        period: how many turns of the program are one: as many as decide alike by their counter when
            they are gone through again.
        fixes_numbers: numbers of the caller's that turns change, and that have differed in no call
            yet, are taken to be what they are, so that Python finds for all turns what is computed
            of them; and a comparison of them is taken to come out alike in all turns.
        tables: of the caller's numbers that turns read by their counter (`Turns.tables`).
    """

    before: Head
    items: Items
    number: int
    period: int = 1
    fixes_numbers: bool = False
    tables: Mapping[Any, Table] = field(default_factory=dict)


class DecidingTurn(KeepingTurn):
    """A turn whose numbers are found for all turns ahead. Mutable: see `RepeatedTurn`.

    Args:
        executor, frame: at the head of the loop.
        trial: what it is tried with.

    Attributes:
        alike: after how many turns the comparisons that were met come out alike, as far as known.
        decides: whether comparisons are asked whether they are the same in all turns.
        may_fix_numbers: there are numbers that it could fix (`Trial`), which the launch computes.
        rare: how many turns behind this one the last of these has the answer that is rare: what
            adds up over turns ends there, mostly.
    """

    def __init__(self, executor: "Executor", frame: Frame, trial: Trial) -> None:
        super().__init__(executor, frame, trial.number)
        self._turns.tables = trial.tables
        self._before, self._items = trial.before.frame, Periods(trial.items, trial.period)
        self._fixes_numbers, self.may_fix_numbers = trial.fixes_numbers, False
        self.alike, self.rare, self.decides = trial.period, 0, trial.items.stop is None
        #: Local with a number -> what it holds in front of the turn, what stands for that.
        self._numbers: dict[str, tuple[int | float, Scalar]] = {}
        #: Locals with ints that are taken to go up by so much in each turn.
        self._assumed: dict[str, int] = {}
        #: Comparisons that are taken to come out alike in all turns, and how they do.
        self._alike: list[tuple[Scalar, bool]] = []
        #: The last turn goes another way, and may read whatever the turn before has left.
        self._is_last_other = False

    def _fixed(self, value: Value) -> Value:
        """A number of the caller's as what it is, where such are taken so; other values as they
        are."""
        if not is_of_calls(value) or is_of_a_turn(value) or self._recorder.sizes.varies(value):
            return value
        self.may_fix_numbers = True
        return Constant(self._recorder.specialise(value)) if self._fixes_numbers else value

    def _decide(self, frame: Frame, symbol: str, a: Value, b: Value) -> bool | None:
        """The answer to a comparison that is the same in all turns that the loop will have: those
        of its first and its last turn are captured as they come."""
        counter, count = self._items.with_rest, len(self._items.counter) - 1
        answer = always(counter[:count], self._number, symbol, a, b)
        if answer is None:
            answer = self._settled(symbol, a, b)
        elif always(counter[count:], self._number, symbol, a, b) is not answer:
            self._is_last_other = True
        if answer is not None:
            for value in (a, b):
                self._recorder.use(value)
        return answer

    def _settled(self, symbol: str, a: Value, b: Value) -> bool | None:
        """Likewise, found by computing it for every turn; after how many turns it comes out alike
        is noted where it does not."""
        if not is_plain_number(a) or not is_plain_number(b):
            return None
        asked = self._recorder.of_turns_only(Scalar(True, None, (symbol, (a, b))))
        counter, count = self._items.with_rest, len(self._items.counter) - 1
        steps = self._int_steps()
        carried = {
            name: range(first, first + step * len(counter), step)
            for name, (first, step) in steps.items()
        }
        answers = truths(counter, self._number, carried, asked)
        if answers is None:
            return self._taken_alike(asked, bool(FUNCTIONS[symbol](a.value, b.value)))
        assumed = {name: steps[name][1] for name in names_in(asked) & steps.keys()}
        if len(set(answers[:count])) > 1:
            period = period_of(answers[:count], MOST_ALIKE) or 1
            self.alike = math.lcm(self.alike, self._items.length * period)
            self.rare = place_of_rare(answers[:period]) * self._items.length
            return None
        self._assumed |= assumed
        self._is_last_other = self._is_last_other or len(set(answers)) > 1
        return answers[0]

    def _taken_alike(self, asked: Scalar, answer: bool) -> bool | None:
        """The answer to a comparison of numbers that are known for all turns only when the turn is
        over; None: the launch finds it.

        Args:
            answer: in this turn.
        """
        if not self._fixes_numbers or not names_in(asked) <= self._numbers.keys():
            return None
        self._alike.append((Scalar(int(answer), None, ("int", (asked,))), answer))
        return answer

    def _int_steps(self) -> dict[str, tuple[int, int]]:
        """Locals with ints -> what they hold in front of the turn, and by how much they differ from
        what was there in front of the turn before."""
        found: dict[str, tuple[int, int]] = {}
        for name, (first, _) in self._numbers.items():
            old = self._fixed(self._before.locals[name])
            if isinstance(first, int) and isinstance(old, Constant) and first != old.value:
                found[name] = first, first - old.value
        return found

    def _asked_alike(self, after_turn: Collection[str]) -> list[Scalar]:
        """The comparisons that are taken to come out alike.

        Args:
            after_turn: variables that are known for all turns.

        Raises:
            Differs: one is of others.
        """
        asked = [number for number, _ in self._alike]
        if any(not names_in(number) <= {*after_turn} for number in asked):
            raise Differs
        return asked

    def _check_alike(self, numbers: Sequence[Steps | Listed]) -> None:
        """Refuse a turn in which a comparison came out as it does not in all turns.

        Args:
            numbers: what numbers are in all turns; those of the comparisons are the last.

        Raises:
            Differs: there is such a comparison.
        """
        found = numbers[len(numbers) - len(self._alike) :]
        for number, (_, answer) in zip(found, self._alike, strict=True):
            if number != Steps(int(answer), 0):
                raise Differs

    def _check_assumed(self, after_turn: Mapping[str, tuple[int | float, Any]]) -> None:
        """Refuse a turn in which an int does not go up as it was taken to.

        Raises:
            Differs: it goes up by something else.
        """
        for name, step in self._assumed.items():
            if name not in after_turn or step_of(name, after_turn[name]) != step:
                raise Differs

    def _numbers_after(self) -> dict[str, tuple[int | float, Any]]:
        """For each variable that holds a number: in front of the turn, and after it."""
        found: dict[str, tuple[int | float, Any]] = {}
        for name, (first, _) in self._numbers.items():
            if name not in self._now.read:
                continue
            after = dict.get(self._now, name)
            if not isinstance(after, (Scalar, Constant)) or after.python_type is not type(first):
                raise Differs
            if isinstance(after, Scalar):
                after = self._of_turns_only(after)
            found[name] = first, after
        return found

    def _of_turns_only(self, scalar: Scalar) -> Scalar:
        """A number that is made of what turns of this loop have alone.

        Raises:
            Differs: it is another one.
        """
        if not is_of_loop(scalar, self._number):
            raise Differs
        return self._recorder.of_turns_only(scalar)


__all__ = ["MOST_ALIKE", "DecidingTurn", "Trial"]
