"""What turns of a loop append to lists that are older than the loop.

While a turn is captured that stands for others, such a list holds `Collected`: only what the turn
has appended, and reading it is refused. What is appended are tensors that the turn makes, tensors
that it found, numbers that follow the counter, constants, and tuples of these. `Appended` says
which tensor each of them is in every turn: one that a turn hands on is in the list, in a variable of
the next turn, and perhaps in one of the turn after it, and stays one object.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from dynajit.capture.tensors.rows import new_row
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import Collected, Grown, ListValue, TupleValue
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.ir import graph

#: Which tensor: (heap id of one that a turn makes, the turn), or the heap id of one in front of it.
Key: TypeAlias = Any

#: Items of one turn.
MOST_ITEMS = 16


class NotCollected(Exception):
    """What is appended cannot be told for each turn."""


class Appended:
    """What one turn appends. Mutable: it is filled after the turn, and read after the loop.

    Args:
        lists: to which the turn has appended, and what.
        stands: heap id of what stands for a tensor in front of the turn -> (that tensor, the heap
            id of what is handed on in its place).
        is_new: whether the turn has made a tensor.

    Attributes:
        made: heap id -> tensor that the turn makes, and that a stack is kept of.
        numbers: numbers that follow the counter.
    """

    def __init__(
        self,
        lists: Sequence[tuple[ListValue, tuple[Value, ...]]],
        stands: Mapping[int, tuple[TensorValue, int]],
        is_new: Any,
    ) -> None:
        self._lists, self._stands, self._is_new = lists, stands, is_new
        self.made: dict[int, TensorValue] = {}
        self.numbers: list[Scalar] = []
        leaves = [leaf for _, items in lists for item in items for leaf in _leaves(item)]
        if len(leaves) > MOST_ITEMS:
            raise NotCollected
        for leaf in leaves:
            if isinstance(leaf, Scalar) and is_of_a_turn(leaf):
                self.numbers.append(leaf)
            elif isinstance(leaf, TensorValue):
                self._note(leaf)
            elif not isinstance(leaf, (Constant, Scalar)):
                raise NotCollected

    def _note(self, value: TensorValue) -> None:
        identity, seen = value.identity, set()
        while identity in self._stands:
            if identity in seen:
                return
            seen.add(identity)
            identity = self._stands[identity][1]
        if self._is_new(identity):
            self.made[identity] = TensorValue(identity, value.cls)

    def _key(self, identity: int, turn: int) -> Key:
        """Which tensor one of a turn is."""
        while identity in self._stands:
            first, identity = self._stands[identity][0], self._stands[identity][1]
            if not turn:
                return first.identity
            turn -= 1
        return (identity, turn) if identity in self.made else identity

    def place(
        self,
        recorder: Any,
        count: int,
        stacks: Mapping[int, graph.Value],
        numbers: Sequence[Any],
        left: Mapping[int, TensorValue],
    ) -> None:
        """Let the lists hold what all turns append.

        Args:
            count: of turns.
            stacks: heap id of a tensor that a turn makes -> what all turns make, by rows.
            numbers: what each of `numbers` is in every turn.
            left: heap id of what a turn hands on -> the tensor of the last turn.
        """
        known = {self._key(identity, count - 1): value for identity, value in left.items()}
        for first, _ in self._stands.values():
            known.setdefault(first.identity, first)
        each = {id(scalar): number for scalar, number in zip(self.numbers, numbers, strict=True)}

        def item_of(value: Value, turn: int) -> Value:
            if isinstance(value, TupleValue):
                return TupleValue(tuple(item_of(item, turn) for item in value.items))
            if isinstance(value, Scalar) and id(value) in each:
                return constant(each[id(value)].at(turn))
            if not isinstance(value, TensorValue):
                return value
            key = self._key(value.identity, turn)
            if key not in known and not isinstance(key, tuple):
                return value
            if key not in known:
                known[key] = new_row(recorder, stacks[key[0]], key[1])
            return known[key]

        for target, items in self._lists:
            appended = [item_of(item, turn) for turn in range(count) for item in items]
            append_items(recorder.heap, target.identity, tuple(appended))


def append_items(heap: Any, identity: int, items: tuple[Value, ...]) -> None:
    """Let a list hold more items, whether it was read or not."""
    before = heap[identity]
    if isinstance(before, tuple):
        heap.write(identity, (*before, *items))
    elif isinstance(before, Collected):
        heap.write(identity, Collected((*before.appended, *items)))
    else:
        appended = () if before is None else before.appended
        heap.write(identity, Grown((*appended, *items)))


def _leaves(value: Value) -> Iterator[Value]:
    if isinstance(value, TupleValue) and value.cls is tuple and value.source is None:
        for item in value.items:
            yield from _leaves(item)
    else:
        yield value


__all__ = ["Appended", "NotCollected", "append_items"]
