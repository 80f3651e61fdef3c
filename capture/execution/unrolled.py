"""Loops that are unrolled, of which some would make a graph too long.

Contract: `Unrolled.check` is asked where a turn of a loop of the program begins. Where the turns so
far and those to come would be too many operations, the capture starts again (`TooLong`) and breaks
in front of that loop (`Refusals.loops`). Its turns are then parts of their own, or plain Python
where parts would not pay: turns of few operations, and those with inner loops of different lengths,
each of which is a version. What is one loop of the graph (`execution.loops`) is never too long.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.bytecode.instructions import Instruction
from dynajit.capture.execution import plain_programs
from dynajit.capture.execution.array_programs import Recursion, is_of_arrays
from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.machine import LoopPlace
from dynajit.capture.values.containers import (
    IteratorValue,
    RangeIterator,
    SequenceIterator,
    TupleValue,
)
from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record
from dynajit.ir.node import Node
from dynajit.ops.table.op_table import Kind

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

HEADS: Final = frozenset(
    {"FOR_ITER", "JUMP", "POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE",
     "POP_JUMP_IF_NOT_NONE"}
)  # fmt: skip
"""Instructions that begin a turn: an iterator's next item, or a way back."""

MOST_LAYERS: Final = 128
"""Turns of a loop that may be the layers of a deep model, each with weights of its own."""

MOST_OPERATIONS: Final = 2048
"""Of a loop with more turns than that: ten seconds of compiling, and more where turns differ."""

FEWEST_COMPUTING: Final = 6
"""Operations of a turn that is a part of its own, but for those that only move elements: to call a
part takes as long as five operations of NumPy."""

MOST_OF_LAYERS: Final = 12_288
"""Of a loop with no more turns than that: a deep model, and its backward pass."""

MOST_OF_ARRAYS: Final = 1024
"""Of a loop over NumPy's arrays, whatever its turns: nobody waits five seconds for them."""

MOST_SMALL: Final = 1024
"""Elements of an array of which an operation takes no longer than a call of NumPy's."""

MANY_TURNS: Final = 17
"""Turns that, where they break, are left to plain Python with the loop."""

TURNS_ASKED: Final = 64
"""Turns of all loops after which it is asked whether the program may meet a tensor at all."""

MSG_TURNS: Final = "turns of a loop over small arrays, which break at values that change"

_COUNTING: Final[type] = type(iter(range(0)))

_COMPREHENSIONS: Final = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
"""Functions that are a loop: a part for each turn would hand on what the turns before have made."""

_SETTLED: Final = 5
"""Turns after which it is known whether the others are like them (`execution.loops`)."""


class TooLong(BaseException):
    """The capture must start again, and break at a loop. No error, hence no Exception."""

    def __init__(self, place: LoopPlace, refusal: GraphBreak) -> None:
        super().__init__(str(refusal))
        self.place = place
        self.refusal = refusal


@record
class _Counted:
    """A loop.

    Args:
        frame: in which it runs.
        place: where it stands.
        iterator: what it goes over, if it is a `for`.
        span: indices of its first and last instruction, if it is none.
        rest: turns that were to come when the last one began; 0 where that is not known.
        turns: how many began.
        first, last: operations of the graph where the first and where the last turn began.
        varying: loops of different lengths that were met before.
    """

    frame: Frame
    place: LoopPlace
    iterator: Value | None
    span: tuple[int, int]
    rest: int
    turns: int
    first: int
    last: int
    varying: int

    def is_around(self, frame: Frame) -> bool:
        """Whether a frame, in which it runs, is in the middle of a turn."""
        if self.iterator is not None:
            return self.iterator in frame.stack
        first, last = self.span
        return first <= frame.index <= last


class Unrolled:
    """The loops of one capture. Mutable."""

    def __init__(self) -> None:
        self._turns = 0
        self._counted: dict[tuple[int, int], _Counted] = {}
        self._lengths: dict[LoopPlace, int] = {}
        self._varying = 0
        self.recursion = Recursion()

    def check(self, executor: "Executor", frame: Frame, instruction: Instruction) -> None:
        """A loop's next turn is about to begin.

        Raises:
            GraphBreak: it is known to be too long.
            TooLong: it is.
            SkipFrame: see `plain_programs`.
        """
        refused = executor.refusals.loops
        is_head = instruction.operation == "FOR_ITER" or instruction.argument < frame.index
        if not is_head or not frame.is_user or executor.loops.depth:
            return
        self._turns += 1
        if self._turns == TURNS_ASKED:
            plain_programs.refuse(executor, is_long=True)
        if refused is None:
            return
        place = LoopPlace(frame.code, instruction.offset)
        if place in refused:
            raise GraphBreak(refused[place].reason, refused[place].detail)
        nodes = len(executor.recorder.builder.nodes)
        found = self._counted.get((id(frame), instruction.offset))
        iterator = frame.stack[-1] if instruction.operation == "FOR_ITER" else None
        rest = _rest(executor, iterator)
        if found is None or found.frame is not frame or rest > found.rest:
            span = (-1, -1) if iterator else (instruction.argument, instruction.index)
            found = _Counted(frame, place, iterator, span, rest, 0, nodes, nodes, self._varying)
            self._varying += self._lengths.setdefault(place, rest) != rest
        head = instruction.index if iterator is not None else instruction.argument
        self._refuse_long(executor, found, rest, executor.loops.is_open(frame, head))
        counted = replace(found, rest=rest, turns=found.turns + 1, last=nodes)
        self._counted[id(frame), instruction.offset] = counted

    def end(self, executor: "Executor") -> None:
        """The end of the program.

        Raises:
            SkipFrame: see `plain_programs`.
        """
        if self._turns and executor.refusals.loops is not None:
            plain_programs.refuse(executor)

    def _may_be_long(self, executor: "Executor") -> bool:
        """Whether there are loops of many turns, as far as one has begun."""
        if not self._counted:
            return any(row.operation == "FOR_ITER" for row in executor.root.body) or bool(
                executor.root.body.while_loops
            )
        rests = [found.rest for found in self._counted.values()]
        return not all(rests) or math.prod(rests) >= TURNS_ASKED

    def _refuse_long(
        self, executor: "Executor", found: _Counted, rest: int, may_be_alike: bool
    ) -> None:
        nodes = executor.recorder.builder.nodes
        is_settled = found.turns >= _SETTLED and not may_be_alike  # else it may become one loop
        made, to_come = len(nodes) - found.first, rest if is_settled else 0
        turns = found.turns + to_come
        expected = made + to_come * (len(nodes) - found.last)
        most = MOST_OPERATIONS if turns > MOST_LAYERS else MOST_OF_LAYERS
        if is_settled and expected > MOST_OF_ARRAYS and is_of_arrays(executor):
            most = min(most, MOST_OF_ARRAYS)
        if expected <= most:
            return
        is_comprehension = found.frame.code.co_name in _COMPREHENSIONS
        is_plain = _is_short(found, nodes) or self._varying > found.varying or is_comprehension
        reason = breaks.PLAIN_LOOP if is_plain else breaks.LONG_LOOP
        raise TooLong(found.place, GraphBreak(reason, f"{turns} turns, {expected} operations"))

    def leave(self, executor: "Executor", stop: GraphBreak) -> None:
        """A break: a loop around it, over numbers of arrays, is left to plain Python.

        Raises:
            TooLong: there is one whose turns do little until they break.
            SkipFrame: see `plain_programs` and `array_programs`; the rest of a turn, and of its
                loop, breaks at a value that changes, and has no large arrays.
        """
        if executor.refusals.loops is None or stop.reason is breaks.REQUESTED:
            return
        plain_programs.refuse(executor, may_be_long=self._may_be_long(executor))
        self.recursion.leave(executor)
        if not is_of_arrays(executor):
            return
        if stop.reason is breaks.CHANGES and _is_in_small_turn(executor):
            guards = plain_programs.guards_of(executor.root_function, executor.given)
            raise SkipFrame(MSG_TURNS, permanent=False, guards=guards)
        if stop.reason is breaks.LOOP_GOES_ON:
            return
        nodes = executor.recorder.builder.nodes
        for frame in executor.frames:
            for found in self._counted.values():
                is_around = found.is_around(frame)
                is_long = not found.rest or found.rest >= MANY_TURNS
                is_short = _is_short(found, nodes, 2 * FEWEST_COMPUTING)  # of two parts
                if found.frame is frame and is_around and is_long and is_short:
                    detail = f"turns break: {stop.reason.explanation}"
                    raise TooLong(found.place, GraphBreak(breaks.PLAIN_LOOP, detail))


def _is_in_small_turn(executor: "Executor") -> bool:
    """Whether a part goes on within a loop that counts, and is given no array that is large.

    Turns over the rows of an array may do much before such a part.
    """
    given = executor.given
    return any(isinstance(each, _COUNTING) for each in given) and all(
        each.size <= MOST_SMALL for each in given if isinstance(each, np.ndarray)
    )


def _is_short(found: _Counted, nodes: Sequence[Node], fewest: int = FEWEST_COMPUTING) -> bool:
    """Whether a part for each turn would not pay.

    Args:
        fewest: operations of a turn whose part pays.
    """
    return sum(map(_computes, nodes[found.first :])) < fewest * found.turns


def _computes(node: Node) -> bool:
    return node.op is not None and node.op.kind is not Kind.MOVEMENT


def _rest(executor: "Executor", iterator: Value | None) -> int:
    """How many turns there will be; 0 where only the iterator knows."""
    state = executor.heap[iterator.identity] if isinstance(iterator, IteratorValue) else None
    if isinstance(state, SequenceIterator) and isinstance(state.sequence, TupleValue):
        return len(state.sequence.items) - state.position
    return len(state.rest) if isinstance(state, RangeIterator) else 0
