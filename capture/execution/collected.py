"""What turns of a loop append to lists that are older than the loop.

While a turn is captured that stands for others, such a list holds `Collected`: only what the turn
has appended, and reading it is refused. What is appended are tensors and arrays that the turn
makes, or that it found, numbers that follow the counter, constants, and tuples of these. `Appended`
says which tensor each of them is in every turn: one that a turn hands on is in the list, in a
variable of the next turn, and perhaps in one of the turn after it, and stays one object. Where only
the launch knows how many turns there are, so does it how many items (`counted_lists`).
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from dynajit.capture.execution.counted_lists import Chain, CountedList, is_simple
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.counts import handed_on, like
from dynajit.capture.tensors.rows import Run, new_row
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import (
    Collected,
    Grown,
    HeapValue,
    ListValue,
    TupleValue,
)
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.records import record
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ir.loops import Steps

#: Which tensor: (heap id of one that a turn makes, the turn), or the heap id of what stands for one
#: of before the first turn, or of one that is the same in all turns.
Key: TypeAlias = Any

#: Items of one turn.
MOST_ITEMS: Final = 16

#: Lists that get fewer items are filled at once.
FEWEST_UNREAD: Final = 16


class NotCollected(Exception):
    """What is appended cannot be told for each turn."""


class Appended:
    """What one turn appends. Mutable: it is filled after the turn, and read after the loop.

    Args:
        machine: what captures.
        lists: to which the turn has appended, and what.
        stands: heap id of what stands for a tensor in front of the turn -> (that tensor, or its
            array, in the first turn; what is handed on in its place).
        is_new: whether the turn has made the tensor of this heap id.

    Attributes:
        made: heap id -> tensor that the turn makes, and that a stack is kept of.
        numbers: numbers that follow the counter.

    Raises:
        NotCollected: see there.
    """

    def __init__(
        self,
        machine: Machine,
        lists: Sequence[tuple[ListValue, tuple[Value, ...]]],
        stands: Mapping[int, tuple[Value, Value]],
        is_new: Callable[[int], bool],
    ) -> None:
        # What was left unread in the heap refers to this: the machine shall not live for it.
        self._machine: Machine = weakref.proxy(machine)
        self._lists = lists
        self._first = {identity: first for identity, (first, _) in stands.items()}
        self._after = {identity: self._tensor(last) for identity, (_, last) in stands.items()}
        self.made: dict[int, TensorValue] = {}
        self.numbers: list[Scalar] = []
        leaves = [leaf for _, items in lists for item in items for leaf in _leaves(item)]
        if len(leaves) > MOST_ITEMS:
            raise NotCollected
        self._places = {
            leaf.identity: self._tensor(leaf) for leaf in leaves if isinstance(leaf, HeapValue)
        }
        self._likes = {leaf.identity: leaf for leaf in leaves if isinstance(leaf, HeapValue)}
        self._refuse_twins([*leaves, *(last for _, last in stands.values())])
        for leaf in leaves:
            if isinstance(leaf, Scalar) and is_of_a_turn(leaf):
                self.numbers.append(leaf)
            elif not isinstance(leaf, (Constant, Scalar)):
                self._note(self._tensor(leaf), is_new)

    def _tensor(self, value: Value) -> int:
        """Heap id of a tensor, or of that of an array."""
        found = handed_on(self._machine, value)
        if found is None:
            raise NotCollected
        return found.identity

    def _refuse_twins(self, values: Sequence[Value]) -> None:
        """Two arrays over one tensor would become one."""
        owners: dict[int, int] = {}
        for value in values:
            if isinstance(value, HeapValue):
                owner = owners.setdefault(self._tensor(value), value.identity)
                if owner != value.identity:
                    raise NotCollected

    def _note(self, identity: int, is_new: Callable[[int], bool]) -> None:
        seen = set()
        while identity in self._after:
            if identity in seen:
                return
            seen.add(identity)
            identity = self._after[identity]
        if is_new(identity):
            self.made[identity] = TensorValue(identity, Tensor)

    def _key(self, identity: int, turn: int) -> Key:
        """Which tensor one of a turn is."""
        while identity in self._after:
            if not turn:
                return identity
            identity, turn = self._after[identity], turn - 1
        return (identity, turn) if identity in self.made else identity

    def place(
        self,
        count: int,
        stacks: Mapping[int, graph.Value],
        numbers: Sequence[Any],
        left: Mapping[int, Value],
    ) -> None:
        """Let the lists hold what all turns append.

        Args:
            count: of turns.
            stacks: heap id of a tensor that a turn makes -> what all turns make, by rows.
            numbers: what each of `numbers` is in every turn.
            left: heap id of the tensor of what a turn hands on -> what the last turn does.
        """
        known: dict[Key, Value] = dict(self._first)
        for identity, value in left.items():
            known[self._key(identity, count - 1)] = value
        each = {id(scalar): number for scalar, number in zip(self.numbers, numbers, strict=True)}
        facts = _Facts(count, stacks, known, each)
        heap = self._machine.heap
        for target, items in self._lists:
            before = heap[target.identity]
            if isinstance(before, Collected) or count * len(items) < FEWEST_UNREAD:
                append_items(heap, target.identity, self.items(items, facts))
                continue
            is_known = isinstance(before, tuple)
            first = before if is_known else () if before is None else before.appended
            unread = _Unread(self, first, items, facts, is_known=is_known)
            heap.leave_unread(target.identity, unread)

    def place_counted(
        self,
        turns: Value,
        limit: int,
        stacks: Mapping[int, graph.Value],
        numbers: Sequence[Any],
        left: Mapping[int, Value],
    ) -> None:
        """Let the lists hold what all turns append, of which the launch knows how many there are.

        Args:
            turns: how many, as a number that the launch computes.
            limit: how many there are at most.
            stacks, numbers, left: see `place`.

        Raises:
            NotCollected: an item may be one object with something else in a few turns only, or a
                list has other items that are not known by now.
        """
        lasts = self._depths(left)
        chains = {
            identity: chain
            for identity in self._places
            if (chain := self._chain(identity, stacks, lasts)) is not None
        }
        given = {id(scalar): number for scalar, number in zip(self.numbers, numbers, strict=True)}
        each = {key: _series(number, limit) for key, number in given.items()}
        heap = self._machine.heap
        for target, items in self._lists:
            if heap.unread(target.identity) is not None:
                raise NotCollected
            before = heap[target.identity]
            is_known = isinstance(before, tuple)
            first = before if is_known else () if before is None else before.appended
            if isinstance(before, Collected) or not all(map(is_simple, first)):
                raise NotCollected
            contents = CountedList(turns, first, items, chains, each, is_known)
            heap.leave_unread(target.identity, contents)

    def _depths(self, left: Mapping[int, Value]) -> dict[int, dict[int, Value]]:
        """Heap id of a tensor that a turn makes -> how many turns before the last one it was made
        -> what holds it behind the loop.

        Args:
            left: see `place`.
        """
        found: dict[int, dict[int, Value]] = {}
        for identity, value in left.items():
            made, steps = self._origin(identity)
            if made in self.made:
                found.setdefault(made, {})[len(steps)] = value
        return found

    def _origin(self, identity: int) -> tuple[int, list[Value]]:
        """What a tensor of a turn is once all turns make it, and what it is before that.

        Raises:
            NotCollected: turns hand it around.
        """
        firsts: list[Value] = []
        while identity in self._after:
            if len(firsts) > len(self._after):
                raise NotCollected
            firsts.append(self._first[identity])
            identity = self._after[identity]
        return identity, firsts

    def _chain(
        self,
        identity: int,
        stacks: Mapping[int, graph.Value],
        lasts: Mapping[int, Mapping[int, Value]],
    ) -> Chain | None:
        """What is over a tensor in all turns; None: the same.

        Args:
            identity: its heap id.
            lasts: see `_depths`.
        """
        made, firsts = self._origin(self._places[identity])
        if made not in self.made:
            if firsts:
                raise NotCollected
            return None
        known = lasts.get(made, {})
        behind = len(firsts)
        if behind and any(known):
            raise NotCollected  # after few turns it is one of the first
        depths = range(behind, max(known, default=-1) + 1)
        if any(depth not in known for depth in depths):
            raise NotCollected
        found = tuple(known[depth] for depth in depths)
        return Chain(tuple(firsts), stacks[made], found, self._likes[identity])

    def items(self, items: Sequence[Value], facts: "_Facts") -> tuple[Value, ...]:
        """What all turns append to a list."""
        return tuple(
            [self.item(item, turn, facts) for turn in range(facts.count) for item in items]
        )

    def parts(self, item: Value, facts: "_Facts") -> list[Value | Run] | None:
        """What something over a tensor, which turns append, is in all turns: values, and rows of
        the stack that nobody has asked for. None: it is something else, or many are no rows."""
        if not isinstance(item, HeapValue):
            return None
        identity, behind = self._places[item.identity], 0
        while identity in self._after and behind < facts.count:
            identity, behind = self._after[identity], behind + 1
        if identity not in self.made or behind == facts.count:
            return None
        own = sorted(key[1] for key in facts.known if isinstance(key, tuple) and key[0] == identity)
        if behind + len(own) > MOST_ITEMS:
            return None
        found: list[Value | Run] = [self.item(item, turn, facts) for turn in range(behind)]
        stack, first, stop = facts.stacks[identity], 0, facts.count - behind
        for index in [*own, stop]:
            if index > first:
                found.append(Run(stack, first, min(index, stop) - first, item))
            if index < stop:
                found.append(facts.known[identity, index])
            first = index + 1
        return found

    def item(self, value: Value, turn: int, facts: "_Facts") -> Value:
        """What a turn appends."""
        if isinstance(value, TupleValue):
            return TupleValue(tuple([self.item(item, turn, facts) for item in value.items]))
        if isinstance(value, Scalar) and id(value) in facts.each:
            return constant(facts.each[id(value)].at(turn))
        if not isinstance(value, HeapValue):
            return value
        key = self._key(self._places[value.identity], turn)
        known = facts.known
        if key not in known and isinstance(key, tuple):
            row = new_row(self._machine.recorder, facts.stacks[key[0]], key[1])
            known[key] = like(self._machine, value, row)
        return known.get(key, value)


@record(eq=False)
class _Facts:
    """What is known after the loop.

    Args:
        count: of turns.
        stacks: heap id of a tensor that a turn makes -> what all turns make, by rows.
        known: tensors that have been made so far; grows.
        each: id of a number of turns -> what it is in every turn.
    """

    count: int
    stacks: Mapping[int, graph.Value]
    known: dict[Key, Value]
    each: Mapping[int, Any]


@record(eq=False)
class _Unread:
    """What turns appended to a list that nobody has read: see `heap.Unread`.

    Args:
        before: what the list held.
        items: what a turn appends.
        behind: what was appended after the loop.
        is_known: these are all items; else there are others in front, which nobody has read.
    """

    appended: Appended
    before: tuple[Value, ...]
    items: tuple[Value, ...]
    facts: _Facts
    behind: tuple[Value, ...] = ()
    is_known: bool = True

    @property
    def most(self) -> int:
        """See `heap.Unread`: a row, and what is over it, for each leaf."""
        return 2 * self.facts.count * sum(1 for item in self.items for _ in _leaves(item))

    def make(self) -> Any:
        """See `heap.Unread`."""
        turns = self.appended.items(self.items, self.facts)
        return self.of_items((*self.before, *turns, *self.behind))

    @property
    def length(self) -> int | None:
        """See `heap.Unread`."""
        whole = len(self.before) + self.count * len(self.items) + len(self.behind)
        return whole if self.is_known else None

    def item(self, position: int) -> Value:
        """See `heap.Unread`."""
        if position < len(self.before):
            return self.before[position]
        turn, place = divmod(position - len(self.before), len(self.items))
        if turn < self.count:
            return self.appended.item(self.items[place], turn, self.facts)
        return self.behind[position - len(self.before) - self.count * len(self.items)]

    def held(self) -> list[Value]:
        """See `heap.Unread`: of rows those that somebody has asked for."""
        return [*self.before, *self.items, *self.behind, *self.facts.known.values()]

    def mark(self) -> int:
        """See `heap.Unread`."""
        return len(self.facts.known)

    def forget(self, mark: int) -> None:
        """See `heap.Unread`."""
        for key in list(self.facts.known)[mark:]:
            del self.facts.known[key]

    def of_items(self, items: tuple[Value, ...]) -> Any:
        """See `heap.Unread`."""
        return items if self.is_known else Grown(items)

    @property
    def count(self) -> int:
        """See `heap.Unread`."""
        return self.facts.count

    def parts(self) -> list[Value | Run] | None:
        """See `heap.Unread`."""
        is_long = len(self.before) + len(self.behind) > MOST_ITEMS
        if not self.is_known or len(self.items) > 1 or is_long:
            return None
        found = self.parts_of(self.items[0])
        return None if found is None else [*self.before, *found, *self.behind]

    def parts_of(self, item: Value) -> list[Value | Run] | None:
        """See `heap.Unread`."""
        return self.appended.parts(item, self.facts)

    def numbers_of(self, item: Value) -> tuple[int | float, ...] | None:
        """See `heap.Unread`."""
        number = self.facts.each.get(id(item))
        return None if number is None else tuple(map(number.at, range(self.count)))

    def grown(self, items: tuple[Value, ...]) -> "_Unread | None":
        """See `heap.Unread`."""
        behind = (*self.behind, *items)
        return replace(self, behind=behind) if len(behind) <= MOST_ITEMS else None


def _series(number: Any, limit: int) -> Sequence[int | float]:
    """What a number of turns is in each."""
    if isinstance(number, Steps) and number.step:
        return range(number.at(0), number.at(limit), number.step)
    return tuple([number.at(turn) for turn in range(limit)])


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
