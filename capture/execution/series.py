"""Numbers of Python's behind a loop whose turns data count: what they are after each turn.

Contract: a `Series` says what a number is in front of every turn, and after the last; `behind` is
the number after as many turns as the launch has run. Ints are as the program computes them, floats
to the bit: both were found for all turns ahead (`capture.tensors.turns`).
"""

from typing import TYPE_CHECKING

import numpy as np

from dynajit.capture.execution.tried_turns import Differs
from dynajit.capture.python.tensors.counts import fits, new_count
from dynajit.capture.tensors.intervals import LARGEST
from dynajit.capture.values.symbolic import Value, constant
from dynajit.core.records import record
from dynajit.ir import graph
from dynajit.ir.loops import Listed, Steps
from dynajit.ops import TABLE

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor


@record
class Series:
    """A number that turns change.

    Args:
        before: what it is in front of each turn.
        end: after the last turn that there may be.
    """

    before: Steps | Listed
    end: int | float

    def behind(self, executor: "Executor", turns: graph.Value, limit: int) -> Value:
        """The number behind the loop.

        Args:
            turns: how many ran.
            limit: how many there are at most.

        Raises:
            Differs: it may be too large.
        """
        before, end = self.before, self.end
        if isinstance(before, Steps) and before.at(limit) == end:
            return _of_steps(executor, before, turns, limit)
        values = [*map(before.at, range(limit)), end]
        if not all(type(value) is type(end) for value in values):
            raise Differs
        is_int = type(end) is int
        if is_int and any(abs(value) > LARGEST for value in values):
            raise Differs
        recorder = executor.recorder
        whole = recorder.builder.constant(np.array(values, np.int64 if is_int else np.float64))
        found = TABLE.reshape(whole[turns], shape=())
        if is_int:
            recorder.intervals.note(found.node, map(int, values))
        return new_count(executor, recorder.new_tensor(found), type(end))


def _of_steps(executor: "Executor", steps: Steps, turns: graph.Value, limit: int) -> Value:
    if not steps.step:
        return constant(steps.start)
    if any(abs(end) > LARGEST for end in (steps.start, steps.step)):
        raise Differs
    found = turns if steps.step == 1 else TABLE.mul(turns, steps.step)
    found = TABLE.add(found, steps.start) if steps.start else found
    if not fits(executor, found):
        raise Differs
    return new_count(executor, executor.recorder.new_tensor(found), int)


__all__ = ["Series"]
