"""A turn of a `for` that stands for others, whatever number of them there is: the loop of the graph
ends by a test (`repeated_turns` for all else).
"""

from typing import TYPE_CHECKING

from dynajit.capture.execution.deciding_turns import Trial
from dynajit.capture.execution.repeated_turns import SETTLED, RepeatedTurn
from dynajit.capture.execution.tried_turns import (
    Differs,
    body_of,
    elements_in,
)
from dynajit.capture.machine.frames import Frame
from dynajit.capture.places import sources
from dynajit.capture.python.iteration import MOST_ITEMS
from dynajit.capture.tensors.turns import (
    blocks_after,
    steps_of,
)
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.symint import Number
from dynajit.ir import graph
from dynajit.ir.loops import Loop
from dynajit.ops import TABLE

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor


class CountedTurn(RepeatedTurn):
    """A turn of a loop whose number of turns is known at run time only: it ends by a test.

    What the loop hands on are tensors and ints that go up in equal steps. Lists that grow, and
    memory that is written, have a size, or a count, for each number of turns.
    """

    hands_numbers_on = False

    def __init__(self, executor: "Executor", frame: Frame, trial: Trial) -> None:
        assert trial.items.stop is not None
        self._stop = trial.items.stop
        before_last = Scalar(self._stop.value - 2, None, ("-", (self._stop, Constant(2))))
        self._bound = self._as_tensor(executor, before_last)
        super().__init__(executor, frame, trial)

    @staticmethod
    def _as_tensor(executor: "Executor", number: Scalar) -> graph.Value:
        lifted = executor.recorder.lift_scalar(number)
        found: graph.Value = TABLE.full(lifted, shape=(), dtype=dtypes.int64, device=CPU)
        return found

    def make(self) -> None:
        """Capture the turn and make a loop of it.

        Raises:
            Differs, GraphBreak, ...: it stands for no other, or asks how many there are.
        """
        self._capture()
        if self._memories.further(self._mark.heap) or self._grown() or self._shown():
            raise Differs
        self._finish()

    def _finish(self) -> None:
        """Put a loop in the place of the turn and of all that follow it but the last."""
        self._check_effects()
        self._check_locals()
        self._check_structures()
        if self._views:
            raise Differs
        recorder, builder = self._recorder, self._builder
        kept = self._kept()
        self._refuse_views(kept)
        pairs = [(self._tensors[name][1], self._after(name)) for name in kept]
        after = self._held_after(pairs, [stand for _, stand in self._tensors.values()], SETTLED)
        after = self._without_ended(kept, after)
        counter = Scalar(self._items.counter[0], sources.Turn(self._number, ""))
        goes_on = TABLE.lt(self._as_tensor(self._executor, counter), self._bound)
        taken = self._take()
        scalars = [scalar for scalar, _ in self._turns.taken.values()]
        wanted = [*scalars, *self._turns.relied.values()]
        drawn = blocks_after(self._turns, recorder.random_blocks)
        after_turn = {**self._numbers_after(), **drawn}
        numbers, changes = steps_of(self._items.counter, after_turn, wanted)
        self._end_draws(self._count() if drawn else 0)
        numbers = numbers[: len(scalars)]
        inputs = [value.node for _, value in self._turns.taken.values()]
        self._check_gradients_end(after)
        stands = [elements_in(recorder, stand).node for stand, _ in pairs]
        body, fixed = body_of(builder.name, taken, inputs, stands, [*after, goes_on.node])
        builder.take(self._mark.nodes, self._stand_ins.nodes)
        recorder.heap.restore(self._mark.heap)
        given = [self._given(name).node for name in kept]
        loop = Loop(body, tuple(numbers), len(kept), tests=True)
        results = self._appended_loop(loop, MOST_ITEMS, (*given, *fixed), after)
        self._prove(self._ints(kept, stands, results), numbers, MOST_ITEMS)
        found = dict(self._start.locals)
        for name in self._changed:
            found.pop(name, None)
        for name, change in changes.items():
            if name in drawn:
                continue
            found[name] = self._end_of(self._numbers[name][0], change)
        for name, result in zip(kept, results, strict=False):
            found[name] = self._result(name, result)
        self._fill_unread(found, kept)
        self._name_twins(found)
        self._leave(found)
        self._items.skip(len(self._items.counter) - 1)

    def _count(self) -> Number:
        """The number of turns of the loop, as a size.

        Raises:
            Differs: no place has it; or the loop is in a turn of another one, whose turns use as
                many blocks each.
        """
        sizes = self._recorder.sizes
        in_turn = any(turns is not self._turns for turns in self._recorder.turns)
        stop = None if in_turn else sizes.shape_int(self._stop)
        if stop is None or sizes.is_computed(stop):
            raise Differs
        return stop - 1 - self._items.counter[0]

    def _end_of(self, first: int | float, change: int) -> Value:
        """What a variable holds behind the loop, in front of the last turn."""
        if not change:
            return constant(first)
        turns = self._stop.value - 1 - self._items.counter[0]
        begin = Constant(self._items.counter[0] + 1)
        count = Scalar(turns, None, ("-", (self._stop, begin)))
        more = Scalar(turns * change, None, ("*", (count, Constant(change))))
        return Scalar(first + turns * change, None, ("+", (more, Constant(first))))


__all__ = ["CountedTurn"]
