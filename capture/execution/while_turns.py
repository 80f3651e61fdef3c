"""A turn of a `while` that numbers of Python's end (`while k < n`, `while True: ... if k == n:
break`), and that stands for those that follow.

It has no items that say how many turns there are. The first capture of a turn finds the comparisons
that would lead out of the loop (all comparisons of numbers, where none is known to), and what
numbers are after a turn: so many turns have the same answers. From there on it is a turn like that
of a `for` (`repeated_turns`). The last turn of those is captured as it comes, and so is the one in
which an answer changes.
"""

from typing import TYPE_CHECKING, Final

from dynajit.capture.execution.arms import both_ways, jump_at
from dynajit.capture.execution.repeated_turns import RepeatedTurn
from dynajit.capture.execution.tried_turns import Differs, Head
from dynajit.capture.execution.turn_items import Items, Periods
from dynajit.capture.execution.ways import span_of, stays_in
from dynajit.capture.machine.frames import Frame
from dynajit.capture.tensors.turns import MOST_LISTED, Asked, Varies, is_of_a_turn, turns_alike
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Turns that no loop reaches: years.
ENDLESS: Final = 1 << 40


class WhileTurn(RepeatedTurn):
    """A turn of a `while` that stands for others. Mutable: see `RepeatedTurn`.

    Args:
        fewest: turns that pay.
    """

    def __init__(
        self,
        executor: "Executor",
        frame: Frame,
        before: Head,
        number: int,
        period: int,
        fewest: int,
    ) -> None:
        self._fewest, self._is_counted, self._ends_by_any = fewest, False, False
        self._span = span_of(frame.body, frame.index)
        #: Comparisons of the turn that is being captured which lead out of the loop.
        self._asked: list[Asked] = []
        #: The others, until it is known how many turns there are.
        self._others: list[Asked] = []
        super().__init__(executor, frame, before, _turns(2 * period), number, period)

    def make(self) -> None:
        """Capture the turn and make a loop of it.

        Raises:
            Differs, GraphBreak, ...: it stands for no other, or nobody knows for how many.
        """
        self._capture()
        if not self._asked:
            self._asked, self._ends_by_any = self._others, True
        length = self._items.length
        count = self._count() * length
        if count < self._fewest + length:
            raise Differs
        self.undo()
        self._again()
        self._clear()
        self._items, self._is_counted = Periods(_turns(count), length), True
        super().make()

    def _count(self) -> int:
        """How many turns there are in which nothing leads out of the loop.

        Raises:
            Differs: there is no end of them.
        """
        if not self._asked:
            raise Differs
        after_turn = self._numbers_after()
        try:
            count = turns_alike(range(ENDLESS), after_turn, self._asked)
        except Varies:
            count = turns_alike(range(MOST_LISTED), after_turn, self._asked)
            if count == MOST_LISTED:
                raise Differs from None
        return count

    def _clear(self) -> None:
        super()._clear()
        self._asked, self._others = [], []

    def _begin_turn(self, counter: Scalar, place: int) -> None:
        """The frame is in the turn already."""

    def _is_at_head(self) -> bool:
        """See `RepeatedTurn`.

        Raises:
            Differs: the turn has left the loop.
        """
        if len(self._executor.frames) == self.depth and self._frame.index not in self._span:
            raise Differs
        return super()._is_at_head()

    def _decide(self, frame: Frame, symbol: str, a: Value, b: Value) -> bool | None:
        """The answer to a comparison that leads out of the loop when it changes, or is the same in
        all turns."""
        if not isinstance(a, (Constant, Scalar)) or not isinstance(b, (Constant, Scalar)):
            return None
        answer = FUNCTIONS[symbol](a.value, b.value)
        if type(answer) is not bool:
            return None
        is_end = self._ends_by_any or self._leads_out(frame, answer)
        if self._is_counted and not is_end:
            return super()._decide(frame, symbol, a, b)
        first, second = self._settled_side(a), self._settled_side(b)
        asked = self._asked if is_end else self._others
        asked.append(Asked(symbol, first, second, answer))
        return answer

    def _settled_side(self, side: Scalar | Constant) -> Scalar | Constant:
        """A side of a comparison, made of nothing but literals and the turn's own numbers."""
        if isinstance(side, Constant):
            self._recorder.use(side)
            return side
        if is_of_a_turn(side):
            return self._recorder.of_turns_only(side)
        found = constant(self._recorder.specialise(side))
        assert isinstance(found, Constant)
        return found

    def _leads_out(self, frame: Frame, answer: bool) -> bool:
        """Whether the next instruction would leave the loop by the other answer."""
        jump = jump_at(frame.body, frame.index) if frame is self._frame else None
        if jump is None:
            return False
        other = both_ways(frame.body, jump)[1 if answer else 0]
        return not stays_in(frame.body, self._span, other, self._start.index)

    def _finish(self) -> None:
        """Put a loop in the place of the turn and of all that follow it but the last.

        Raises:
            Differs: see `make`.
        """
        if self._count() * self._items.length < len(self._items.each.counter):
            raise Differs
        super()._finish()


def _turns(count: int) -> Items:
    """So many turns without items."""
    return Items(range(count), lambda number: number, lambda done: None)


__all__ = ["WhileTurn"]
