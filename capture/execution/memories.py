"""Memory that turns of a loop write: what it holds is handed on, as what variables hold is.

A write to a tensor that is older than the turn gives its memory a new value, which every view sees.
While a turn is captured that stands for others, each memory that turns write holds an input of the
turn; behind the loop it holds what the last turn has left, with the versions that so many writes
give. Turns of the compiled loop write all elements of what is handed on, not only those that the
program writes: memory that is much larger than what a turn computes is not carried.

A leaf that requires a gradient is written while none are recorded: in each turn its memory holds an
input of the turn at which gradients end, as they do at the leaf.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.execution.row_writes import Changes, RowWrites, row_writes
from dynajit.capture.machine.heap import Heap
from dynajit.capture.tensors.memory import is_same_place, view_by
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.types.device import META
from dynajit.core.types.value_types import TensorType, numel
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ir.sizes import node_sizes
from dynajit.ops.table.op_table import Kind

if TYPE_CHECKING:
    from dynajit.capture.machine.recording import Recorder

#: Elements of memory that is carried whatever else a turn does: to copy them takes less than a call
#: of one function of NumPy's.
FEW_ELEMENTS: Final = 1 << 10

#: How many times as many elements as the largest value that a turn computes.
MOST_TIMES: Final = 4


class NotCarried(Exception):
    """A turn does to memory what cannot be handed on."""


class Memories:
    """The memories that turns of one loop write. Mutable: see `_Turn`.

    Args:
        recorder: of the capture.
        placeholder: makes an input that nothing will load.

    Attributes:
        carried: heap id -> what the memory holds in front of the turn.
    """

    def __init__(
        self, recorder: "Recorder", placeholder: Callable[[str, TensorType], graph.Value]
    ) -> None:
        self._recorder, self._placeholder = recorder, placeholder
        self.carried: dict[int, MemoryContents] = {}
        self._stands: dict[int, graph.Value] = {}
        self._now: dict[int, MemoryContents] = {}
        self._by_rows: dict[int, RowWrites] = {}
        self._steps: dict[int, Any] = {}

    def further(self, mark: int) -> list[int]:
        """Heap ids of memories that were written since, and are not carried."""
        heap = self._recorder.heap
        return [
            identity
            for identity, old in heap.written_since(mark).items()
            if isinstance(old, MemoryContents) and heap[identity] is not old
            if identity not in self.carried
        ]

    def carry(self, identities: Collection[int]) -> None:
        """Carry these memories as well.

        Raises:
            NotCarried: gradients pass through one, or its layout is not known.
        """
        for identity in identities:
            memory: MemoryContents = self._recorder.heap[identity]
            kind = memory.value.node.type
            is_known = isinstance(kind, TensorType) and not any(node_sizes(memory.value.node))
            if not is_known or kind.device is META:
                raise NotCarried
            if memory.is_uncertain or memory.strides is None or self._has_history(memory):
                raise NotCarried
            self.carried[identity] = memory

    def _has_history(self, memory: MemoryContents) -> bool:
        """Whether gradients pass through what memory holds, and do not end at the leaf that it is
        the memory of."""
        if not self._needs_gradient(memory):
            return False
        return memory.has_history or not self._is_of_leaf(memory.base)

    def _needs_gradient(self, memory: MemoryContents) -> bool:
        return bool(self._recorder.builder.needs_gradient(memory.value))

    def _is_of_leaf(self, base: TensorValue) -> bool:
        """Whether a tensor is a leaf which requires a gradient, and looks at its own memory."""
        contents: TensorContents = self._recorder.heap[base.identity]
        if contents.has_new_data or contents.is_frozen:
            return False
        existing = self._recorder.existing(base)
        return contents.is_new_leaf or (existing is not None and existing.is_leaf)

    @property
    def are_of_leaves(self) -> bool:
        """Whether a gradient ends at something that is carried."""
        return any(map(self._needs_gradient, self.carried.values()))

    def has(self, tensor: int) -> bool:
        """Whether a tensor looks at memory that is carried."""
        return self._recorder.heap[tensor].memory in self.carried

    def begin(self) -> None:
        """Let the memories hold inputs of the turn."""
        recorder = self._recorder
        for identity, memory in self.carried.items():
            kind = memory.value.type
            stand = self._placeholder("memory", TensorType(kind.shape, kind.dtype, kind.device))
            recorder.builder.lay_out(stand, memory.strides)
            self._stands[identity] = stand
            version = memory.version + 1
            held = stand
            if self._needs_gradient(memory):
                held = recorder.builder.leaf(stand, memory.base.identity)
                recorder.builder.lay_out(held, memory.strides)
            recorder.heap.write(
                identity, replace(memory, value=held, elements=stand, version=version)
            )

    def look(self) -> None:
        """See what the memories hold after the turn.

        Raises:
            NotCarried: gradients pass, or not all is known that a memory holds.
        """
        seen: set[graph.Node] = set()
        for identity, before in self.carried.items():
            now: MemoryContents = self._recorder.heap[identity]
            is_same = now.base is before.base and now.strides == before.strides
            if not is_same or now.is_uncertain or self._has_history(now):
                raise NotCarried
            if self._needs_gradient(now) is not self._needs_gradient(before):
                raise NotCarried
            has_own = self._needs_gradient(now) or now.value.node is now.elements.node
            if not has_own or now.elements.node in seen:
                raise NotCarried
            self._now[identity] = now
            seen.add(now.elements.node)

    def split(
        self,
        taken: Sequence[graph.Node],
        numbers: Mapping[graph.Node, Any],
        turns: int,
        others: Sequence[graph.Node],
    ) -> None:
        """Find the memories of which each turn writes one row.

        Args:
            taken: the turn.
            numbers: inputs of the turn that are numbers -> what they are in every turn.
            turns: how many there are.
            others: what else is read of a turn.
        """
        for identity, now in self._now.items():
            if self._needs_gradient(now):
                continue
            stand = self._stands[identity].node
            found = row_writes(stand, now.value.node, taken, numbers, turns)
            if found is not None and not any(node in found.changes.gone for node in others):
                self._by_rows[identity] = found
                self._steps[identity] = numbers[found.number]

    def _whole(self) -> list[int]:
        """Heap ids of the memories that are handed on."""
        return [identity for identity in self.carried if identity not in self._by_rows]

    def stands(self) -> list[graph.Node]:
        """The inputs of the turn for what is handed on."""
        return [self._stands[identity].node for identity in self._whole()]

    def given(self) -> list[graph.Node]:
        """What that is in front of the turn."""
        held = [self.carried[identity].elements for identity in self._whole()]
        return [self._recorder.builder.without_gradient(value).node for value in held]

    def after(self) -> list[graph.Node]:
        """What it is after the turn."""
        return [self._now[identity].elements.node for identity in self._whole()]

    def rows(self) -> list[graph.Node]:
        """What turns leave in rows of the other memories."""
        return [found.row for found in self._by_rows.values()]

    def in_front(self, node: graph.Node) -> graph.Node:
        """What an operand of the loop is outside of it."""
        for identity in self._by_rows:
            if self._stands[identity].node is node:
                held: graph.Node = self.carried[identity].value.node
                return held
        return node

    def changes(self) -> Changes:
        """To the turn, which writes no rows itself."""
        each = [found.changes for found in self._by_rows.values()]
        replaced: dict[graph.Node, graph.Node] = {}
        for changes in each:
            replaced.update(changes.replaced)
        gone = {node for changes in each for node in changes.gone}
        return Changes(replaced, gone, {node for changes in each for node in changes.certain})

    def check_costs(self, taken: Sequence[graph.Node]) -> None:
        """Refuse to hand on much more than a turn computes.

        Raises:
            NotCarried: a memory is too large.
        """
        computed = [
            numel(node.type.shape)
            for node in taken
            if isinstance(node.type, TensorType) and node.op is not None
            if node.op.kind not in (Kind.MOVEMENT, Kind.SCATTER)
        ]
        most = max(FEW_ELEMENTS, MOST_TIMES * max(computed, default=0))
        if any(numel(self.carried[key].value.shape) > most for key in self._whole()):
            raise NotCarried

    def end(self, results: Sequence[graph.Value], rows: Sequence[graph.Value], turns: int) -> None:
        """Let the memories hold what the last turn has left.

        Args:
            results: what is handed on.
            rows: what all turns leave in rows of the other memories.
            turns: how many there are.
        """
        for identity, result in zip(self._whole(), results, strict=True):
            self._hold(identity, result, turns)
        for (identity, found), stack in zip(self._by_rows.items(), rows, strict=True):
            steps = self._steps[identity]
            whole = found.write(self.carried[identity].value, stack, steps)
            self._hold(identity, whole, turns)

    def _hold(self, identity: int, result: graph.Value, turns: int) -> None:
        recorder = self._recorder
        before, now = self.carried[identity], self._now[identity]
        recorder.builder.lay_out(result, before.strides)
        held = result
        if self._needs_gradient(before):
            held = recorder.builder.with_history_of(before.value, result)
            recorder.builder.lay_out(held, before.strides)
        recorder.writes.placed |= {held.node, result.node}
        made = replace(
            before,
            value=held,
            elements=result,
            version=before.version + (now.version - before.version) * turns,
            bumps=before.bumps + (now.bumps - before.bumps) * turns,
            is_recorded=now.is_recorded,
        )
        recorder.heap.write(identity, made)


def is_second_view(recorder: "Recorder", value: TensorValue, old: Value) -> bool:
    """Whether a tensor is another object than an older one, over the same elements of its memory:
    `g = g.detach()`. No gradient passes through it."""
    if not isinstance(old, TensorValue) or (value.cls, old.cls) != (Tensor, Tensor):
        return False
    if not recorder.heap.has(old.identity):
        return False  # it was undone since
    contents, other = (recorder.heap[each.identity] for each in (value, old))
    if not contents.memory or contents.memory != other.memory or value.identity == old.identity:
        return False
    memory: MemoryContents = recorder.heap[contents.memory]
    if memory.is_uncertain or recorder.builder.needs_gradient(memory.value):
        return False
    is_special = contents.attributes or contents.is_new_leaf or contents.is_frozen
    if is_special or memory.base.identity == value.identity:
        return False
    is_fixed = all(step.numbers is None and not step.counted_by for step in contents.steps)
    return is_fixed and is_same_place(recorder, contents, other)


def view_like(recorder: "Recorder", value: TensorValue) -> TensorValue:
    """A further view of the same elements."""
    contents: TensorContents = recorder.heap[value.identity]
    return view_by(recorder, contents.memory, contents.steps)


def is_read_again(before: Any, now: Any) -> bool:
    """Whether a tensor is what it was, but for what its memory held when it was read last."""
    if not isinstance(before, TensorContents) or not isinstance(now, TensorContents):
        return False
    if before.value is None and now.value is not None:
        return False
    same = replace(now, value=before.value, version=before.version)
    return bool(before == same)


def is_viewed_first(heap: Heap, before: Any, now: Any) -> bool:
    """Whether a tensor is what it was, but for memory of its own, which it has since a view of it
    was made, and which nobody has written."""
    if not isinstance(before, TensorContents) or not isinstance(now, TensorContents):
        return False
    if before.memory or not now.memory or heap[now.memory].version:
        return False
    same = replace(now, value=before.value, version=before.version, memory=0)
    return bool(before == same)


__all__ = ["Memories", "NotCarried", "is_read_again", "is_second_view", "is_viewed_first",
           "view_like"]  # fmt: skip
