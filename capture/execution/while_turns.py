"""A turn of a `while` that numbers of Python's end (`while k < n`, `while True: ... if k == n:
break`), and that stands for those that follow.

It has no items that say how many turns there are. The first capture of a turn finds the comparisons
that would lead out of the loop (all comparisons of numbers, where none is known to), and what
numbers are after a turn: so many turns have the same answers. From there on it is a turn like that
of a `for` (`repeated_turns`, `counted_turns`). The last turn of those is captured as it comes, and
so is the one in which an answer changes.
"""

from typing import TYPE_CHECKING, Final

from dynajit.capture.execution.arms import both_ways, jump_at
from dynajit.capture.execution.counted_turns import CountedTurn
from dynajit.capture.execution.deciding_turns import Trial
from dynajit.capture.execution.repeated_turns import RepeatedTurn
from dynajit.capture.execution.tried_turns import Differs
from dynajit.capture.execution.turn_items import Items, Periods
from dynajit.capture.execution.ways import span_of, stays_in
from dynajit.capture.machine.frames import Frame
from dynajit.capture.tensors.turns import (
    ENDLESS,
    MOST_LISTED,
    Asked,
    is_of_a_turn,
    is_of_loop,
    is_plain_number,
    key_of,
    steps_of,
    turns_alike,
)
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.core.records import record
from dynajit.ir.loops import Steps

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: The same comparison of operands the other way round.
_FLIPPED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

#: The comparison with the opposite answer.
_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


@record(eq=False)
class Ending:
    """The comparison by which a loop with any number of turns ends.

    Args:
        asked: it.
        steps: what its number of a turn is in every turn.
        turns: for how many turns it has its answer.
    """

    asked: Asked
    steps: Steps
    turns: Scalar

    def is_like(self, other: "Ending") -> bool:
        """Whether another capture of the turn has found the same."""
        mine, theirs = self.asked, other.asked
        is_same = mine.symbol == theirs.symbol and mine.answer is theirs.answer
        return is_same and self.steps == other.steps and key_of(self.turns) == key_of(other.turns)


class _WhileTurn(RepeatedTurn):
    """A turn of a `while`. Mutable: see `RepeatedTurn`."""

    def __init__(self, executor: "Executor", frame: Frame, trial: Trial) -> None:
        #: The instructions of the loop.
        self._span = span_of(frame.body, frame.index)
        #: Comparisons of the turn that is being captured which lead out of the loop.
        self._asked: list[Asked] = []
        super().__init__(executor, frame, trial)

    def _begin_turn(self, counter: Scalar, place: int) -> None:
        """The frame is in the turn already."""

    def _is_at_head(self) -> bool:
        """See `RepeatedTurn`.

        Raises:
            Differs: the turn has left the loop.
        """
        is_here = len(self._executor.frames) == self.depth
        if is_here and self._frame.index not in self._span:
            raise Differs
        return super()._is_at_head()

    def _clear(self) -> None:
        super()._clear()
        self._asked = []

    def _side(self, side: Scalar | Constant) -> Scalar | Constant:
        """A side of a comparison, made of literals, the turn's own numbers and such that vary.

        Raises:
            Differs: it is made of numbers of another loop.
        """
        recorder = self._recorder
        if isinstance(side, Constant):
            recorder.use(side)
            return side
        if is_of_a_turn(side):
            return self._of_turns_only(side)
        if recorder.sizes.varies(side):
            return side
        found = constant(recorder.specialise(side))
        assert isinstance(found, Constant)
        return found

    def _ending(self) -> Ending | None:
        """How the loop ends, if its number of turns varies; None: in another way.

        Raises:
            Varies: numbers do not go up in equal steps.
        """
        if len(self._asked) != 1:
            return None
        (asked,) = self._asked
        number = asked.b if _varying(asked) is asked.a else asked.a
        if not isinstance(number, Scalar) or not is_of_a_turn(number):
            return None
        (steps,), _ = steps_of(range(1), self._numbers_after(), [number])
        turns = _turns_until(asked, steps)
        return None if turns is None else Ending(asked, steps, turns)

    def _is_own(self, number: Scalar | Constant) -> bool:
        """Whether a number is made of what turns of this loop have alone."""
        return is_of_loop(number, self._number)

    def _leads_out(self, frame: Frame, answer: bool) -> bool:
        """Whether the next instruction would leave the loop by the other answer."""
        jump = jump_at(frame.body, frame.index) if frame is self._frame else None
        if jump is None:
            return False
        other = both_ways(frame.body, jump)[1 if answer else 0]
        return not stays_in(frame.body, self._span, other, self._start.index)


class WhileTurn(_WhileTurn):
    """A turn of a `while` whose number of turns is the same in all calls.

    Args:
        executor, frame, trial: see there; there are no items.
        fewest: turns that pay.

    Attributes:
        ending: how it ends, if a number that varies between calls says so.
    """

    def __init__(self, executor: "Executor", frame: Frame, trial: Trial, fewest: int) -> None:
        self._fewest, self._is_counted, self._ends_by_any = fewest, False, False
        self.ending: Ending | None = None
        #: The other comparisons, until it is known how many turns there are.
        self._others: list[Asked] = []
        super().__init__(executor, frame, trial)

    def make(self) -> None:
        """Capture the turn and make a loop of it.

        Raises:
            Differs, GraphBreak, ...: it stands for no other, or nobody knows for how many.
        """
        self._capture()
        if not self._asked:
            self._asked, self._ends_by_any = self._others, True
        length = self._items.length
        if any(_varying(each) is not None for each in self._asked):
            self.ending = self._ending() if length == 1 else None
            raise Differs
        count = self._count() * length
        if count < self._fewest + length:
            raise Differs
        self.undo()
        self._again()
        self._clear()
        self._items, self._is_counted = Periods(turns_of(count), length), True
        super().make()

    def _count(self) -> int:
        """How many turns there are in which nothing leads out of the loop.

        Raises:
            Differs: there is no end of them.
            Varies: it is not known.
        """
        if not self._asked:
            raise Differs
        return turns_alike(range(ENDLESS), self._numbers_after(), self._asked)

    def _clear(self) -> None:
        super()._clear()
        self._others = []

    def _decide(self, frame: Frame, symbol: str, a: Value, b: Value) -> bool | None:
        """The answer to a comparison that leads out of the loop when it changes, or is the same in
        all turns."""
        if not is_plain_number(a) or not is_plain_number(b):
            return None
        answer = bool(FUNCTIONS[symbol](a.value, b.value))
        is_end = self._ends_by_any or self._leads_out(frame, answer)
        if self._is_counted and not is_end:
            return super()._decide(frame, symbol, a, b)
        if is_end or all(not is_of_a_turn(side) or self._is_own(side) for side in (a, b)):
            asked = self._asked if is_end else self._others
            asked.append(Asked(symbol, self._side(a), self._side(b), answer))
        return answer

    def _finish(self) -> None:
        """Put a loop in the place of the turn and of all that follow it but the last.

        Raises:
            Differs: see `make`.
        """
        if self._count() * self._items.length < len(self._items.each.counter):
            raise Differs
        super()._finish()


class CountedWhileTurn(_WhileTurn, CountedTurn):
    """A turn of a `while` whose number of turns is known at run time only.

    Args:
        executor, frame, trial: see there; the items end with the number of turns.
        ending: how it ends.
    """

    def __init__(self, executor: "Executor", frame: Frame, trial: Trial, ending: Ending) -> None:
        self._said = ending
        super().__init__(executor, frame, trial)
        self.decides = True

    def _decide(self, frame: Frame, symbol: str, a: Value, b: Value) -> bool | None:
        """The answer to the comparison that ends the loop."""
        if not is_plain_number(a) or not is_plain_number(b):
            return None
        answer = bool(FUNCTIONS[symbol](a.value, b.value))
        if not self._leads_out(frame, answer):
            return None
        self._asked.append(Asked(symbol, self._side(a), self._side(b), answer))
        return answer

    def _finish(self) -> None:
        """Put a loop in the place of the turn and of all that follow it but the last.

        Raises:
            Differs: it does not end as it was said to.
        """
        found = self._ending()
        if found is None or not found.is_like(self._said):
            raise Differs
        super()._finish()


def _varying(asked: Asked) -> Scalar | None:
    """The side of a comparison that varies between calls."""
    sides = [s for s in (asked.a, asked.b) if isinstance(s, Scalar) and not is_of_a_turn(s)]
    return sides[0] if sides else None


def _turns_until(asked: Asked, steps: Steps) -> Scalar | None:
    """For how many turns a comparison with a number that varies has its answer; None: it is no
    difference of the two.

    Args:
        steps: what the other number is in every turn.
    """
    limit = _varying(asked)
    symbol = asked.symbol if limit is asked.b else _FLIPPED.get(asked.symbol)
    symbol = symbol if asked.answer or symbol is None else _OPPOSITE.get(symbol)
    first, step = steps.start, steps.step
    if limit is None or limit.python_type is not int or not step:
        return None
    ways = ("<", "<=", "!=") if step > 0 else (">", ">=", "!=")
    if symbol not in ways or (symbol == "!=" and abs(step) > 1):
        return None
    distance = _combined("-", limit, first) if step > 0 else _combined("-", first, limit)
    rest = abs(step) if symbol in ("<=", ">=") else abs(step) - 1
    found = _combined("+", distance, rest) if rest else distance
    return found if abs(step) == 1 else _combined("//", found, abs(step))


def _combined(symbol: str, a: Scalar | int, b: Scalar | int) -> Scalar:
    """What an operator gives of two ints, computed before the launch."""
    sides = tuple([Constant(side) if isinstance(side, int) else side for side in (a, b)])
    return Scalar(FUNCTIONS[symbol](*[side.value for side in sides]), None, (symbol, sides))


def turns_of(count: int | Scalar = MOST_LISTED) -> Items:
    """So many turns without items: as many as are found one by one, where nobody knows yet."""
    stop = count if isinstance(count, Scalar) else None
    length = count.value if isinstance(count, Scalar) else count
    return Items(range(int(length)), lambda number: number, lambda done: None, stop=stop)


__all__ = ["CountedWhileTurn", "Ending", "WhileTurn", "turns_of"]
