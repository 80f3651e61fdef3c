"""Loops that do the same in every turn: one turn is captured that stands for the rest.

`for` over a range, or over rows (`turn_items`), is watched at its head. After two turns of a loop
that has many more, a turn is captured in which the counter is a run-time number
(`capture.tensors.turns`), and tensors that the turns before it changed are inputs. If that turn
changes nothing else, ends at the head again, and leaves what it found, up to the values of those
tensors and numbers, then so does every turn: what it recorded is taken out of the graph and becomes
the body of a loop (`ir.loops`). The last turn is captured as it comes, so that what it leaves
behind (its own variables, views, the counter) is what Python has there.

A turn may change places outside of variables (`slots`), append to lists (`collected`), write to
tensors (`memories`), write out (`shown`), draw random numbers and run backward. One that changes
how something that existed before it is built, meets an exception, leaves the loop, or breaks the
graph stands for no other: everything is as if it had not been tried, and the loop is unrolled.
Gradients pass through a loop where they are handed on in one dtype (`ir.loop_derivatives`): what
needs a gradient in front of a turn does so after it.

`Watcher` says which loops are tried; `repeated_turns` captures a turn and makes the loop of it,
`counted_turns` for any number of turns.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.execution import nests
from dynajit.capture.execution.counted_turns import CountedTurn
from dynajit.capture.execution.deciding_turns import MOST_ALIKE, Trial
from dynajit.capture.execution.memories import (
    NotCarried,
)
from dynajit.capture.execution.repeated_turns import RepeatedTurn
from dynajit.capture.execution.tried_turns import (
    Differs,
    Head,
    is_tested,
    may_try,
)
from dynajit.capture.execution.turn_items import Items, items_left, items_of
from dynajit.capture.execution.while_turns import (
    CountedWhileTurn,
    Ending,
    WhileTurn,
    turns_of,
)
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.frames import Frame
from dynajit.capture.python.iteration import MANY_ITEMS, MOST_ITEMS, settled_range
from dynajit.capture.python.tensors.counts import table_of
from dynajit.capture.python.truth import scalar_predicate
from dynajit.capture.tensors.turns import (
    ENDLESS,
    Table,
    Varies,
)
from dynajit.capture.values.containers import (
    IteratorValue,
    RangeIterator,
)
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType
from dynajit.ir.node import Node

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Loops of fewer turns are unrolled: half of them are captured as they come.
FEWEST_TURNS: Final = 8

#: On a GPU so are loops of fewer turns than these, and loops that would give fewer nodes: there
#: Python launches each turn, and kernels of many turns run up to ten times as fast.
FEWEST_TURNS_ON_GPU: Final = 17
FEWEST_NODES: Final = 512

#: For how many nodes one counts whose sizes are symbols: compiling it takes as long.
OF_SYMBOLS: Final = 4

#: Turns that are captured as they come before one stands for all others.
PEELED: Final = 2


#: How often a turn of one loop is tried: the first turns of some loops differ from all others.
MOST_TRIED: Final = 2

#: How often several turns of one loop are tried as one, and how many times as many turns there are
#: at least: as many are captured as they come.
MOST_TRIED_PERIODS: Final = 3
FEWEST_PERIODS: Final = 4


#: Lists of the caller's numbers that turns of one loop read by their counter, at most.
MOST_TABLES: Final = 8


@record
class Watched:
    """A loop at its head.

    Args:
        frame: in which it runs.
        iterator: what it goes over; None: it is no `for`.
        heads: the state in front of its last turns, the latest last.
        turns: how many turns began.
        tried: how many turns were tried.
        nodes: of the graph, in front of its last turn.
        is_loop: most of its turns have become a loop of the graph.
        period: after how many turns decisions by its counter come out alike, as far as known.
        next_period: the turn with which so many turns are tried as one: all kinds of turns have
            been there.
        tried_periods: how often so many turns were tried as one.
    """

    frame: Frame
    iterator: IteratorValue | None
    heads: tuple[Head, ...]
    turns: int
    tried: int
    nodes: int
    is_loop: bool = False
    period: int = 1
    next_period: int = 0
    tried_periods: int = 0

    def is_running(self, head: int) -> bool:
        """Whether its frame is in one of its turns.

        Args:
            head: where they begin.
        """
        if self.iterator is None:
            return head <= self.frame.index <= self.frame.body.while_loops[head]
        return any(value is self.iterator for value in self.frame.stack)

    @property
    def may_be_periodic(self) -> bool:
        """Whether several turns will be tried as one, if there are enough."""
        return self.period > 1 and self.tried_periods < MOST_TRIED_PERIODS

    @property
    def may_become_loop(self) -> bool:
        """Whether turns that begin may still stand for those that follow, as far as their number
        says."""
        if self.is_loop or self.turns <= PEELED + MOST_TRIED:
            return True
        return self.may_be_periodic and self.turns <= self.next_period


class Attempt(Protocol):
    """Something that is captured on trial. Mutable.

    Attributes:
        depth: of the frame that it begins in.
    """

    depth: int

    def next_item(self, frame: Frame, iterator: IteratorValue) -> bool:
        """Whether it has an item of an iterator of its own."""

    def begins_in(self, frame: Frame, span: range) -> bool:
        """Whether it is a turn that begins at one of some instructions of a frame."""

    def undo(self) -> None:
        """As if it had not been tried."""


class Watcher:
    """The loops of one capture. Mutable.

    Attributes:
        tried: how often the loop of a test was tried, by code object and place.
        asked: where a number was asked of a tensor in such a loop, likewise.
        refused: how often the arms of a jump were tried in vain, likewise.
        no_nests: loops that are no nests over single elements, by body, place, and whether they
            would be unrolled.
        around: jumps of which an arm is being tried that has a loop in it, likewise.
        selected: heap id of a tensor that a jump has selected -> of those that the arms have left,
            one of which it is in Python.
    """

    def __init__(self) -> None:
        self.selected: dict[int, tuple[int, ...]] = {}
        self._watched: dict[tuple[int, int], Watched] = {}
        self._open: list[Attempt] = []
        self.count = 0
        self.tried: Counter[tuple[int, int]] = Counter()
        self.asked: set[tuple[int, int]] = set()
        self.refused: Counter[tuple[int, int]] = Counter()
        self.no_nests: set[tuple[int, int, bool]] = set()
        self.around: set[tuple[int, int]] = set()

    @property
    def depth(self) -> int:
        """Of the frame whose loop's turn is being tried; 0: none is."""
        return self._open[-1].depth if self._open else 0

    def number(self) -> int:
        """A number for one more loop."""
        self.count += 1
        return self.count

    def are_running(self, frames: Iterable[Frame]) -> bool:
        """Whether one of some frames is in a turn of a loop that has many more, and that is one of
        the graph, or may become one."""
        running = {id(frame): frame for frame in frames}
        return any(
            watched.may_become_loop
            and running.get(identity) is watched.frame
            and watched.is_running(index)
            for (identity, index), watched in self._watched.items()
        )

    def is_open(self, frame: Frame, index: int) -> bool:
        """Whether the loop at a place may become one of the graph later, as it decides alike after
        some turns."""
        watched = self._watched.get((id(frame), index))
        if watched is None or watched.frame is not frame:
            return False
        return watched.may_be_periodic and watched.turns <= watched.next_period

    def ask(self, frames: Sequence[Frame], is_of_array: bool) -> bool:
        """Whether a number that some frames ask of a tensor may be one that the launch computes.

        It may in what is tried, and in turns of loops that are, or may become, one of the graph: in
        the first turn of those that end by a test, but that NumPy's programs are left to Python
        where turns break.
        """
        if self._open or self.are_running(frames):
            return True
        if is_of_array:
            return False
        tested = [frame for frame in frames if is_tested(frame.body, frame.index - 1)]
        if not tested:
            return False
        key = id(tested[-1].code), tested[-1].index
        is_first = key not in self.asked
        self.asked.add(key)
        return is_first

    def attempt(self, turn: Attempt, make: Callable[[], None]) -> bool:
        """Try a turn; what was done is undone where it stands for no other.

        Returns:
            Whether there is a loop now.
        """
        self._open.append(turn)
        try:
            make()
        except (Differs, NotCarried, GraphBreak, NotKnown, SkipFrame, Varies, RecursionError):
            turn.undo()
            return False
        finally:
            self._open.pop()
        return True

    def at_head(self, executor: "Executor", frame: Frame) -> bool:
        """The executor is in front of a `FOR_ITER`: perhaps most turns become a loop.

        Returns:
            Whether the instruction is done.
        """
        iterator = frame.stack[-1]
        if not isinstance(iterator, IteratorValue):
            return False
        if self._open and self._open[-1].next_item(frame, iterator):
            return True
        if nests.at_loop(executor, frame):
            return True
        self._at_items(executor, frame, iterator)
        watched = self._watched.get((id(frame), frame.index))
        is_unrolled = watched is not None and watched.frame is frame and watched.turns > PEELED
        return is_unrolled and nests.at_loop(executor, frame, is_unrolled=True)

    def at_way_back(self, executor: "Executor", frame: Frame, jump: int) -> None:
        """A frame has come back to the head of a loop: if that is no `for`, perhaps most turns
        become a loop of the graph.

        Args:
            jump: the instruction that led there.
        """
        head, heads = frame.index, frame.body.while_loops
        for key, watched in [*self._watched.items()]:  # loops within this one begin anew
            if watched.iterator is None and watched.frame is frame and head < key[1] <= jump:
                del self._watched[key]
        if head not in heads:
            return
        span = range(head, heads[head] + 1)
        if any(turn.begins_in(frame, span) for turn in self._open):
            return
        key = id(frame), head
        found = self._watched.get(key)
        if found is None or found.frame is not frame:
            found = Watched(frame, None, (), 1, 0, 0)
        if found.turns >= PEELED and may_try(executor, frame):
            was_loop, found = found.is_loop, self._tried(executor, found, ENDLESS)
            if found.is_loop and not was_loop:
                found = replace(found, turns=0, heads=())  # what follows may be another loop
        self._watched[key] = _after_turn(executor, found)

    def _at_items(self, executor: "Executor", frame: Frame, iterator: IteratorValue) -> None:
        left = items_left(executor, iterator)
        key = id(frame), frame.index
        if not left:
            self._watched.pop(key, None)
            return
        found = self._watched.get(key)
        if found is None or found.frame is not frame or found.iterator is not iterator:
            if left < FEWEST_TURNS:
                return
            found = Watched(frame, iterator, (), 0, 0, 0)
        if found.turns >= PEELED and may_try(executor, frame):
            found = self._tried(executor, found, left)
        is_loop = found.is_loop or items_left(executor, iterator) != left
        self._watched[key] = _after_turn(executor, replace(found, is_loop=is_loop))

    def _tried(self, executor: "Executor", found: Watched, left: int) -> Watched:
        """Try the turn that begins, or several turns as one.

        Args:
            left: how many there are.
        """
        pays = _pays(executor.recorder.builder.nodes[found.nodes :], left)
        if found.tried < MOST_TRIED and left >= FEWEST_TURNS - PEELED:
            is_tried, turn = self._try(executor, found, pays)
            return _with_period(replace(found, tried=found.tried + is_tried), turn)
        if not found.may_be_periodic or found.turns < found.next_period or not pays:
            return found
        if len(found.heads) < found.period or left < FEWEST_PERIODS * found.period:
            return found
        turn = self._try_turns(executor, found, found.heads[-found.period], found.period)
        following, count = found.turns + found.period - 1, found.tried_periods + 1
        return _with_period(replace(found, next_period=following, tried_periods=count), turn)

    def _try(
        self, executor: "Executor", found: Watched, pays: bool
    ) -> tuple[bool, RepeatedTurn | None]:
        """Try a turn that stands for all others.

        Args:
            pays: a loop with a known number of turns pays; one version for all numbers always does.

        Returns:
            Whether it was tried; the turn, if the number of turns is known.
        """
        frame, iterator = found.frame, found.iterator
        is_range = iterator is not None and isinstance(
            executor.heap[iterator.identity], RangeIterator
        )
        if iterator is not None and is_range:
            items = items_of(executor, iterator)
            if items is not None and items.stop is not None:
                mark = executor.recorder.mark()
                before = found.heads[-1]
                counted = CountedTurn(executor, frame, Trial(before, items, self.number()))
                if self.attempt(counted, counted.make):
                    return True, None
                executor.recorder.restore(mark)
                settled_range(executor, iterator)
        if not pays:
            return False, None
        return True, self._try_turns(executor, found, found.heads[-1], 1)

    def _try_turns(
        self, executor: "Executor", found: Watched, before: Head, count: int
    ) -> RepeatedTurn | None:
        """Try so many turns as one that stands for all others.

        Args:
            before: the state in front of as many turns before.

        Returns:
            None: the items are others in each turn.
        """
        mark = executor.recorder.mark()
        items = _turns_to_come(executor, found)
        if items is None:
            return None
        tables: dict[Any, Table] = {}
        fixes_numbers = False
        while True:
            trial = Trial(before, items, self.number(), count, fixes_numbers, tables)
            turn = _turn(executor, found, trial)
            turn.is_made = self.attempt(turn, turn.make)
            if turn.is_made:
                return turn
            wanted = {key: row for key, row in turn.wanted.items() if key not in tables}
            if wanted and len(tables) + len(wanted) <= MOST_TABLES:
                tables |= {key: (row, table_of(executor, row)) for key, row in wanted.items()}
            elif turn.may_fix_numbers and not fixes_numbers:
                fixes_numbers = True
            else:
                break
        executor.recorder.restore(mark)
        ending = turn.ending if isinstance(turn, WhileTurn) else None
        turn.is_made = ending is not None and self._try_counted(executor, found, before, ending)
        return turn

    def _try_counted(
        self, executor: "Executor", found: Watched, before: Head, ending: Ending
    ) -> bool:
        """Try a turn of a `while` that stands for any number of others.

        Returns:
            Whether it does.
        """
        turns = ending.turns
        if not MANY_ITEMS <= turns.value < MOST_ITEMS:
            return False
        mark = executor.recorder.mark()
        scalar_predicate(executor, turns, ">=", MANY_ITEMS)
        scalar_predicate(executor, turns, "<", MOST_ITEMS)
        executor.recorder.use_scalar_type(turns)
        trial = Trial(before, turns_of(turns), self.number())
        turn = CountedWhileTurn(executor, found.frame, trial, ending)
        if self.attempt(turn, turn.make):
            return True
        executor.recorder.restore(mark)
        return False


def _turn(executor: "Executor", found: Watched, trial: Trial) -> RepeatedTurn:
    """A turn of a loop that is about to be tried."""
    if found.iterator is not None:
        return RepeatedTurn(executor, found.frame, trial)
    count = trial.period
    fewest = FEWEST_TURNS - PEELED if count == 1 else FEWEST_PERIODS * count
    return WhileTurn(executor, found.frame, trial, fewest)


def _turns_to_come(executor: "Executor", found: Watched) -> Items | None:
    """What a loop gives in the turns that are left; None: nothing that follows a counter."""
    return turns_of() if found.iterator is None else items_of(executor, found.iterator)


def _after_turn(executor: "Executor", found: Watched) -> Watched:
    """A loop, with one more turn that begins."""
    return replace(
        found,
        heads=(*found.heads, Head.of(executor, found.frame))[-max(PEELED, found.period) :],
        turns=found.turns + 1,
        nodes=len(executor.recorder.builder.nodes),
    )


def _with_period(found: Watched, turn: RepeatedTurn | None) -> Watched:
    """What is known of a loop after a turn was tried.

    Args:
        turn: it; None: it says nothing.
    """
    found = replace(found, is_loop=found.is_loop or (turn is not None and turn.is_made))
    period = math.lcm(found.period, turn.alike) if turn is not None else found.period
    if turn is None or period == found.period:
        return found
    if period > MOST_ALIKE:
        return replace(found, period=1)
    first = found.turns + turn.rare + 1  # where a period begins
    return replace(
        found, period=period, next_period=first + max(0, -((first - period - 1) // period)) * period
    )


def _pays(turn: Sequence[Node], left: int) -> bool:
    """Whether a loop is worth more than its turns one by one.

    Args:
        turn: the nodes of one.
        left: how many there are.
    """
    is_on_gpu = any(isinstance(n.type, TensorType) and n.type.device is not CPU for n in turn)
    if not is_on_gpu:
        return bool(turn)  # of numbers alone there is nothing to compute
    is_long = left >= FEWEST_TURNS_ON_GPU - PEELED
    return is_long and sum(map(_weight, turn)) * left >= FEWEST_NODES


def _weight(node: Node) -> int:
    """For how many nodes one counts."""
    shape = node.type.shape if isinstance(node.type, TensorType) else ()
    return 1 if all(isinstance(size, int) for size in shape) else OF_SYMBOLS


__all__ = ["Watcher"]
