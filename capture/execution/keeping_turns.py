"""A turn of which something is kept for every turn that it stands for.

What it appends to lists that are older than the loop (`collected`), and what it writes out
(`shown`). Contract: `KeepingTurn` says what that is, and refuses what is not told for each turn;
the loops that end by themselves (`repeated_turns`) and by a tensor (`tested_loops`) collect it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from dynajit.capture.execution.collected import Appended, NotCollected
from dynajit.capture.execution.shown import NotShown, ShownOfTurn
from dynajit.capture.execution.tried_turns import Differs, Tried, is_new, is_plain, value_in
from dynajit.capture.machine.frames import Frame
from dynajit.capture.values.containers import Collected, ListValue, TupleValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.eager import Tensor
from dynajit.ir import graph

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor


class KeepingTurn(Tried):
    """A turn that may append to lists, and write out. Mutable: see `Tried`.

    Args:
        executor, frame, number: see `Tried`.
    """

    def __init__(self, executor: "Executor", frame: Frame, number: int) -> None:
        #: A list that holds, behind the loop, what differs between turns of what they write out.
        self._rows = ListValue(executor.heap.allocate(()), list)
        super().__init__(executor, frame, number)

    def _all_stands(self) -> Collection[int]:
        """Heap ids of what stands for tensors that turns hand on."""
        raise NotImplementedError

    def _followed(self) -> Collection[int]:
        return {*super()._followed(), *self._grown(), *self._recorder.output_ids[:1]}

    def _shown(self) -> ShownOfTurn | None:
        """What the turn writes out; None: nothing.

        Raises:
            Differs: it cannot be told for each turn.
        """
        recorder = self._recorder
        before = recorder.heap.written_since(self._mark.heap).get(recorder.output_ids[0])
        if before is None:
            return None
        try:
            return ShownOfTurn(self._executor, recorder.output[len(before) :])
        except NotShown:
            raise Differs from None

    def _grown(self) -> Mapping[int, ListValue]:
        """Lists that the turn has appended to, and done nothing else."""
        heap, turns = self._recorder.heap, self._turns
        return {
            identity: target
            for identity, target in turns.grown.items()
            if identity not in turns.asked and isinstance(heap[identity], Collected)
        }

    def _appended(
        self, stands: Mapping[int, tuple[Value, Value]], shown: ShownOfTurn | None
    ) -> Appended:
        """What the turn appends to lists.

        Args:
            stands: see `Appended`.
            shown: what it writes out.

        Raises:
            Differs: it cannot be told for each turn.
        """
        heap = self._recorder.heap
        lists = [(target, heap[key].appended) for key, target in self._grown().items()]
        if shown is not None:
            lists.append((self._rows, (TupleValue(tuple(shown.row)),)))
        try:
            return Appended(self._executor, lists, stands if lists else {}, self._is_made_by_turn)
        except NotCollected:
            raise Differs from None

    def _is_made_by_turn(self, identity: int) -> bool:
        """Whether a tensor is new in each turn; False: it is the same one in all turns.

        Raises:
            Differs: neither.
        """
        heap = self._recorder.heap
        if not heap.is_made_since(self._mark.heap, identity):
            return False
        stands = self._all_stands()
        if self._may_be_older(identity, stands):
            raise Differs
        value = TensorValue(identity, Tensor)
        is_own = is_new(self._recorder, value, self._mark, stands)
        if not is_own or not is_plain(self._recorder, value, True):
            raise Differs
        return True

    def _may_be_older(self, identity: int, stands: Collection[int]) -> bool:
        """Whether a tensor is, in some turns, one that there was before: an arm has left it."""
        heap = self._recorder.heap
        return any(
            left in stands
            or not heap.is_made_since(self._mark.heap, left)
            or self._may_be_older(left, stands)
            for left in self._executor.loops.selected.get(identity, ())
        )

    def _held_in(
        self, made: Iterable[TensorValue], handed_on: Iterable[TensorValue]
    ) -> dict[int, graph.Node]:
        """Heap id of a tensor that is appended -> what it holds after the turn.

        Raises:
            Differs: it shares memory with another one, or with what is handed on.
        """
        recorder = self._recorder
        owners: dict[int, int] = {}
        found: dict[int, graph.Node] = {}
        for value in (*handed_on, *made):
            place = recorder.heap[value.identity].memory or value.identity
            if owners.setdefault(place, value.identity) != value.identity:
                raise Differs
        for value in made:
            found[value.identity] = value_in(recorder, value).node
        return found


__all__ = ["KeepingTurn"]
