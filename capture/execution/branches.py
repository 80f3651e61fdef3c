"""Jumps on a tensor within the turns of a loop, whose arms compute or write: both are captured.

Where an arm of `if u > t: ...` has changed nothing but locals, slots (`slots`) and what it leaves
on the stack, a break in every turn costs more than computing both arms: each is captured from the
jump to the place where they meet, and what differs there is selected by the tensor (`where`). What
an arm writes to memory is selected as it is written (`capture.tensors.memory.write`). Contract: the
results are those of the arm that Python runs. An arm that has another effect, raises, or draws
random numbers stands for nothing: everything is as if it had not been tried, and the jump breaks.
What refuses its operands in the arm that Python leaves out (an index out of range, a division by
zero) makes the launch refuse its values, and the function runs plainly (`capture.emit.plain_run`).

What is selected are tensors, arrays and numbers of NumPy's, and numbers of Python's, of one type in
both arms. Nobody may be able to tell the selected one from the one that an arm has left: what
is known elsewhere too, or shares memory with what is, is not selected.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import numpy as np

from dynajit.capture.bytecode.instructions import live_locals
from dynajit.capture.execution.arms import (
    RETURN,
    both_ways,
    is_before,
    jump_at,
    lies_in_loop,
    meeting,
    meeting_behind_loops,
)
from dynajit.capture.execution.memories import is_read_again
from dynajit.capture.execution.slots import (
    Slot,
    changed,
    gained,
    is_alike,
    with_fields,
)
from dynajit.capture.execution.tried_turns import (
    Differs,
    Reads,
    is_like,
    is_plain,
    is_same,
    may_try,
    value_in,
)
from dynajit.capture.machine.effects import Effect
from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.recording import Mark
from dynajit.capture.python.objects.watching import reachable
from dynajit.capture.python.tensors.arrays import elements_of, made_like, new_array
from dynajit.capture.python.tensors.counts import (
    compared_in_turn,
    handed_on,
    is_number,
    new_count,
    selected_count,
)
from dynajit.capture.python.tensors.facts import number_in, tensor_type
from dynajit.capture.python.text.output import OutputEffect
from dynajit.capture.tensors.left_out import is_of_numbers
from dynajit.capture.tensors.turns import chosen_in_turn, note_both, note_negation, settled_truth
from dynajit.capture.values.containers import IteratorValue, TupleValue
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import bool_, from_numpy
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.table.op_table import Kind

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Instructions of both arms, functions that they call included.
MOST_INSTRUCTIONS: Final = 5_000

#: Operations of both arms: what Python leaves out costs time.
MOST_OPERATIONS: Final = 200

#: Operations of both arms, where the jump is known for all turns ahead: unrolled turns do without
#: those that Python leaves out.
MOST_OF_COUNTERS: Final = 16

#: Kinds of rows that such arms have.
_CHEAP: Final = (Kind.POINTWISE, Kind.REDUCTION, Kind.MOVEMENT, Kind.SCATTER)

#: How often the arms of one jump are tried in vain.
MOST_TRIED: Final = 2

#: The function by which programs ask for one graph of both arms: its module and name.
_CONDITIONAL: Final = ("dynajit.namespaces.further", "cond")


def _tested_at(executor: "Executor", frame: Frame) -> TensorValue | None:
    """The tensor that a jump in front of the frame tests; None: there is none, it holds a number
    that is known, or the arms were tried in vain before."""
    if not frame.stack or jump_at(frame.body, frame.index) is None:
        return None
    settled = settled_truth(executor.recorder.turns, frame, frame.stack[-1])
    if settled is not None:
        frame.pop()
        frame.push(constant(settled))
        return None
    found = compared_in_turn(executor, "!=", frame.stack[-1], Constant(0)) or frame.stack[-1]
    tested = handed_on(executor, found)
    if tested is None or number_in(executor, tested) is not None or not may_try(executor, frame):
        return None
    is_refused = executor.loops.refused[id(frame.code), frame.index] >= MOST_TRIED
    return None if is_refused or not _is_in_turn(executor) else tested


def at_branch(executor: "Executor", frame: Frame) -> bool:
    """In front of a jump on a tensor: perhaps both of its arms are captured.

    Returns:
        True: they are, and the frame goes on where they meet.
    """
    tested = _tested_at(executor, frame)
    if tested is None:
        return False
    key = id(frame.code), frame.index
    end = meeting(frame.body, frame.index)
    if end is None:
        return False
    branch = _Branch(executor, frame, tested, end)
    if executor.loops.attempt(branch, branch.make):
        return True
    if not executor.loops.depth:  # in a turn that is tried it is no number, perhaps
        executor.loops.refused[key] += 1
    return False


def around_loop(executor: "Executor", frame: Frame) -> bool:
    """In front of a jump on a tensor behind which a loop goes on, or begins: perhaps both of its
    arms are captured.

    The turn after the jump may differ from all others (`old = 0.0` in front of the loop is one of
    NumPy's after it): it is one arm, with the loop that follows.

    Returns:
        True: they are, and the frame goes on where they meet.
    """
    tested = _tested_at(executor, frame)
    if tested is None:
        return False
    key = id(frame.code), frame.index
    watcher = executor.loops
    if key in watcher.around or meeting(frame.body, frame.index) is not None:
        return False
    end = meeting_behind_loops(frame.body, frame.index)
    if end is None:
        return False
    branch = _Branch(executor, frame, tested, end)
    watcher.around.add(key)
    try:
        if watcher.attempt(branch, branch.make):
            return True
    finally:
        watcher.around.discard(key)
    watcher.refused[key] += 1
    return False


def join_arms(executor: "Executor", frame: Frame, known: tuple[int, Mapping[str, Value]]) -> None:
    """In front of a jump on a tensor: capture both of its arms, and go on where they meet.

    Args:
        known: where one of the arms begins, and what locals hold if Python runs it.

    Raises:
        Differs: they cannot be joined.
    """
    tested = handed_on(executor, frame.stack[-1])
    end = meeting_behind_loops(frame.body, frame.index)
    if tested is None or end is None:
        raise Differs
    branch = _Branch(executor, frame, tested, end, known)
    if not executor.loops.attempt(branch, branch.make):
        raise Differs


def _is_in_turn(executor: "Executor") -> bool:
    """Whether what is executed belongs to a turn of a loop of the program, or is the library's
    function that says so."""
    inner = executor.frames[-1]
    place = inner.namespace.globals.get("__name__"), inner.code.co_name
    return place == _CONDITIONAL or any(
        lies_in_loop(frame.body, frame.index if frame is inner else max(frame.index - 1, 0))
        for frame in executor.frames
    )


@record
class _Left:
    """What an arm leaves: where, on the stack, in locals; which of these it has read or set; in
    slots, and what they held before."""

    index: int
    stack: tuple[Any, ...]
    locals: Mapping[str, Value]
    read: frozenset[str]
    fresh: frozenset[str]
    slots: Mapping[Slot, tuple[Value, Value]]


class _Branch:
    """Two arms that are captured one behind the other. Mutable: they are joined, or undone.

    Args:
        executor, frame: in front of the jump; what it tests is on the stack.
        tested: the tensor.
        end: where the arms meet (`arms.meeting`).
        known: where one of the arms begins, and what locals hold if Python runs it.
    """

    def __init__(
        self,
        executor: "Executor",
        frame: Frame,
        tested: TensorValue,
        end: int,
        known: tuple[int, Mapping[str, Value]] = (-1, {}),
    ) -> None:
        self.depth = len(executor.frames)
        self._executor, self._frame, self._tested, self._end = executor, frame, tested, end
        self._recorder, self._builder = executor.recorder, executor.recorder.builder
        self._start = frame.save()
        self._outer = frame.locals
        self._points = len(frame.points)
        self._mark: Mark = self._recorder.mark()
        self._watched = len(self._recorder.watched)
        self._left = MOST_INSTRUCTIONS
        self._known = known
        self._around: graph.Value | None = self._builder.arm

    def next_item(self, frame: Frame, iterator: IteratorValue) -> bool:
        """An arm has no item of its own of an iterator around it."""
        return False

    def undo(self) -> None:
        """As if no arm had been tried."""
        self._builder.enter_arm(self._around)
        self._recorder.restore(self._mark)
        self._executor.frames[:] = self._executor.frames[: self.depth]
        self._frame.restore(self._start)
        self._frame.locals = self._outer
        del self._frame.points[self._points :]
        for turns in self._recorder.turns:
            turns.forget(self._builder.has_input)

    def begins_in(self, frame: Frame, span: range) -> bool:
        """False: an arm is no turn."""
        return False

    def make(self) -> None:
        """Capture both arms, and go on where they meet with what either leaves.

        Raises:
            Differs, GraphBreak, ...: they cannot be joined.
        """
        condition = self._truth()
        jump = jump_at(self._frame.body, self._start.index)
        assert jump is not None
        starts = both_ways(self._frame.body, jump)
        first = self._arm(starts[0], condition)
        other = TABLE.logical_not(condition)
        note_negation(self._recorder.turns, condition, other)
        second = self._arm(starts[1], other)
        self._builder.enter_arm(self._around)
        self._check_costs(condition.node)
        self._join(condition, first, second)

    def _check_costs(self, condition: graph.Node) -> None:
        """Refuse arms of which Python leaves one out, and that cost more than that saves.

        Raises:
            Differs: they do.
        """
        taken = self._builder.nodes[self._mark.nodes[1] :]
        is_ahead = is_of_numbers(condition)
        if len(taken) > (MOST_OF_COUNTERS if is_ahead else MOST_OPERATIONS):
            raise Differs
        if is_ahead and any(node.op is not None and node.op.kind not in _CHEAP for node in taken):
            raise Differs

    def _truth(self) -> graph.Value:
        """Whether the first arm is the one that Python runs: a bool of no dims."""
        kind = tensor_type(self._executor, self._tested)
        is_one = all(isinstance(size, int) and size == 1 for size in kind.shape)
        if not is_one:
            raise Differs
        found = self._builder.without_gradient(value_in(self._recorder, self._tested))
        found = TABLE.reshape(found, shape=()) if found.shape else found
        truth: graph.Value = found if found.dtype is bool_ else TABLE.ne(found, 0)
        return truth

    # -- an arm ------------------------------------------------------------------------------

    def _arm(self, start: int, runs: graph.Value) -> _Left:
        """Capture an arm.

        Args:
            start: its first instruction.
            runs: whether Python runs it, if it comes to the jump.
        """
        executor, frame, around = self._executor, self._frame, self._around
        self._builder.enter_arm(None)
        arm = runs if around is None else TABLE.logical_and(around, runs)
        if around is not None:
            note_both(self._recorder.turns, around, runs, arm)
        self._builder.enter_arm(arm)
        frame.restore(self._start)
        frame.pop()
        below = tuple(frame.stack)
        cells = dict(frame.cells)
        frame.index = start
        known = self._known[1] if start == self._known[0] else {}
        reads = frame.locals = Reads({**frame.locals, **known})
        mark = self._recorder.mark()
        while len(executor.frames) > self.depth or not is_before(
            frame.body, frame.index, self._end
        ):
            self._left -= 1
            if self._left < 0:
                raise Differs
            executor.run_one()
            reads = self._reads()
        self._builder.enter_arm(None)
        slots = self._taken_slots(self._checked_effects(mark, runs))
        is_out = self._end == RETURN  # what lies below is let go of
        is_changed = any(a is not b for a, b in zip(frame.stack, below, strict=False))
        if frame.cells != cells or (is_changed and not is_out):
            raise Differs
        left = _Left(
            frame.index,
            tuple(frame.stack[-1:] if is_out else frame.stack),
            dict(frame.locals),
            frozenset(reads.read),
            frozenset(reads.fresh),
            slots,
        )
        del frame.points[self._points :]
        return left

    def _reads(self) -> Reads:
        assert isinstance(self._frame.locals, Reads)
        return self._frame.locals

    def _checked_effects(self, mark: Mark, runs: graph.Value) -> dict[int, Any]:
        """Refuse an arm that has changed more than its locals, memory and slots, and written out.

        Args:
            mark: in front of the arm.
            runs: whether Python runs it.

        Returns:
            Heap id of what has slots that may have changed -> its contents in front of the arm.

        Raises:
            Differs: it has.
        """
        others: dict[int, Any] = {}
        recorder, heap = self._recorder, self._recorder.heap
        if recorder.random_blocks != mark.random_blocks or len(recorder.watched) != self._watched:
            raise Differs
        gone = self._iterators()
        for identity, old in heap.written_since(mark.heap).items():
            now = heap[identity]
            if identity in gone:
                continue
            if identity == recorder.output_ids[0]:
                self._write_where(runs, old, now)
                continue
            is_known = now is old or is_read_again(old, now) or _is_written(old, now)
            if not is_known and not self._is_met(mark, old, now):
                others[identity] = old
        return others

    def _write_where(
        self, runs: graph.Value, before: Sequence[Effect], now: Sequence[Effect]
    ) -> None:
        """What an arm writes out it writes where Python runs it.

        Args:
            before, now: what was written in front of the arm, and behind it.

        Raises:
            Differs: a loop in the arm has written.
        """
        own = [each for each in now[len(before) :] if isinstance(each, OutputEffect)]
        recorder = self._recorder
        truth = new_count(self._executor, recorder.new_tensor(runs), bool)
        if runs.device is not CPU or len(own) < len(now) - len(before):
            raise Differs
        where = [replace(each, when=(truth, *each.when)) for each in own]
        recorder.heap.write(recorder.output_ids[0], (*before, *where))

    def _taken_slots(self, before: Mapping[int, Any]) -> dict[Slot, tuple[Value, Value]]:
        """What slots held in front of an arm, and hold behind it. The heap holds the former again.

        Args:
            before: heap id -> contents in front of the arm.

        Raises:
            Differs: an object has changed in more than its slots.
        """
        heap = self._recorder.heap
        found: dict[Slot, tuple[Value, Value]] = {}
        for identity, old in before.items():
            now = heap[identity]
            heap.write(identity, old)
            full = with_fields(self._executor, identity, gained(old, now))
            if not is_alike(full, now):
                raise Differs
            heap.write(identity, full)
            for key, pair in changed(full, now).items():
                found[Slot(identity, key)] = pair
        return found

    def _iterators(self) -> set[int]:
        """Heap ids of the iterators of loops that the arms have left."""
        start = self._start
        left = start.stack[0 if self._end == RETURN else len(self._frame.stack) :]
        found = {value.identity for value in left if isinstance(value, IteratorValue)}
        return found - {value.object_id for value in start.locals.values()}

    def _is_met(self, mark: Mark, old: Any, now: Any) -> bool:
        """Whether a tensor is what it was: it was read, written or viewed for the first time."""
        if not isinstance(old, TensorContents) or not isinstance(now, TensorContents):
            return False
        heap = self._recorder.heap
        if now.memory != old.memory and (
            old.memory
            or heap[now.memory].is_uncertain
            or not heap.is_made_since(mark.heap, now.memory)
        ):
            return False
        return replace(old, value=now.value, version=now.version, memory=now.memory) == now

    # -- both --------------------------------------------------------------------------------

    def _join(self, condition: graph.Value, first: _Left, second: _Left) -> None:
        """The frame goes on where the arms meet.

        Raises:
            Differs: what they leave is not of one type, or known elsewhere.
        """
        frame = self._frame
        if len(first.stack) != len(second.stack):
            raise Differs
        live = frozenset() if self._end == RETURN else live_locals(frame.body, self._end)
        kept: dict[str, Value] = {}
        pairs: list[tuple[Any, Value, Value]] = []
        for name in dict.fromkeys((*first.locals, *second.locals)):
            a, b = first.locals.get(name), second.locals.get(name)
            if a is not None and b is not None and is_same(a, b):
                kept[name] = a
            elif name in live:
                if a is None or b is None:
                    raise Differs
                pairs.append((name, a, b))
            elif not all(value is None or self._is_plain_value(value) for value in (a, b)):
                raise Differs
        stack = list(first.stack)
        for place, (a, b) in enumerate(zip(first.stack, second.stack, strict=True)):
            if a is not b and not (isinstance(a, Value) and isinstance(b, Value) and is_same(a, b)):
                if not isinstance(a, Value) or not isinstance(b, Value):
                    raise Differs
                pairs.append((place, a, b))
        pairs += self._pairs_of_slots(first, second)
        self._check_known({name: kept[name] for name in kept if name in live}, stack, pairs)
        selected: dict[tuple[Any, Any], Value] = {}
        for place, a, b in pairs:
            key = _object_of(a), _object_of(b)  # what either arm leaves in two places is one object
            made = selected.get(key) or self._selected(condition, a, b)
            selected[key] = made
            if isinstance(place, str):
                kept[place] = made
            elif isinstance(place, Slot):
                place.write(self._recorder.heap, made)
            else:
                stack[place] = made
        frame.stack = stack
        frame.index = second.index
        frame.locals = self._locals(kept, first, second)

    def _pairs_of_slots(self, first: _Left, second: _Left) -> Iterator[tuple[Slot, Value, Value]]:
        """What differs in slots, each with what either arm leaves; until it is selected, it holds
        nothing that anybody could know."""
        fronts = {slot: old for arm in (first, second) for slot, (old, _) in arm.slots.items()}
        for slot, front in fronts.items():
            a, b = (arm.slots.get(slot, (front, front))[1] for arm in (first, second))
            if is_same(a, b):
                slot.write(self._recorder.heap, a)
                continue
            slot.write(self._recorder.heap, Constant(None))
            yield slot, a, b

    def _locals(self, kept: dict[str, Value], first: _Left, second: _Left) -> dict[str, Value]:
        """The locals behind the arms; a turn that is tried learns what was read and set."""
        outer = self._outer
        if not isinstance(outer, Reads):
            return kept
        set_by_one = (first.fresh ^ second.fresh) & kept.keys()
        found = outer.after_inner(kept, first.read | second.read | set_by_one)
        found.fresh.update((first.fresh | second.fresh) & kept.keys())
        return found

    def _is_plain_value(self, value: Value) -> bool:
        """Whether nobody notices the end of a value that nothing reads."""
        if isinstance(value, (Constant, Scalar)) or _number(value) is not None:
            return True
        return handed_on(self._executor, value) is not None

    def _selected(self, condition: graph.Value, a: Value, b: Value) -> Value:
        """What either arm leaves at one place.

        Raises:
            Differs: two things that are not of one type.
        """
        recorder = self._recorder
        if is_same(a, b):
            return a
        if _is_tuple(a) and _is_tuple(b) and len(a.items) == len(b.items):
            items = zip(a.items, b.items, strict=True)
            return TupleValue(tuple(self._selected(condition, *pair) for pair in items))
        if is_number(a) and is_number(b) and a.python_type is b.python_type:
            return self._selected_number(condition, a, b)
        forms = {getattr(value, "cls", None) for value in (a, b) if _number(value) is None}
        if a.python_type is not b.python_type or len(forms) > 1:
            raise Differs
        operands = [self._operand(value) for value in (a, b)]
        if not is_like(operands[0].type, operands[1].type):
            raise Differs
        if operands[0].device != condition.device:
            raise Differs
        if self._leaves_of(operands[0]) != self._leaves_of(operands[1]):
            raise Differs  # where no gradient comes Python leaves none; zeros are another thing
        made = recorder.new_tensor(TABLE.where(condition, *operands))
        objects = [value for value in (a, b) if not issubclass(value.python_type, np.generic)]
        held = [elements_of(self._executor, value) for value in objects]
        left = tuple(each.identity for each in held if each is not None)
        self._executor.loops.selected[made.identity] = left
        numbers = [_number(a), _number(b)]
        if None not in numbers:
            return new_array(self._executor, made, a.python_type)
        return made_like(self._executor, a if numbers[0] is None else b, made)

    def _selected_number(self, condition: graph.Value, a: Value, b: Value) -> Value:
        """The number of Python's that either arm leaves: found for all turns ahead where what the
        arms leave is, and decides which it is; else the launch computes it.

        Raises:
            Differs: it may not fit an int64, or is not known to the graph.
        """
        chosen = chosen_in_turn(
            self._recorder.turns, condition.node, self._recorder.of_turns_only, a, b
        )
        if chosen is not None:
            for value in (a, b):
                self._recorder.use(value)
            return chosen
        found = selected_count(self._executor, condition, a, b)
        if found is None:
            raise Differs
        return found

    def _leaves_of(self, value: graph.Value) -> set[graph.Node]:
        """The nodes at which gradients that pass to a value end."""
        builder = self._builder
        work = [value.node] if builder.needs_gradient(value) else []
        seen = set(work)
        found: set[graph.Node] = set()
        for node in work:
            passing = [
                a for a in node.args if isinstance(a, graph.Node) and builder.node_needs_gradient(a)
            ]
            if node in builder.leaves or not passing:
                found.add(node)
                continue
            work += [a for a in dict.fromkeys(passing) if a not in seen]
            seen.update(passing)
        return found

    def _operand(self, value: Value) -> graph.Value:
        """What a tensor, an array or a number of NumPy's holds.

        Raises:
            Differs: it is something else, or has more than elements in rows.
        """
        number = _number(value)
        if number is not None:
            kind = {"shape": (), "dtype": from_numpy(number.dtype), "device": CPU}
            return self._builder.handle(TABLE.full, (number.item(),), kind)
        held = elements_of(self._executor, value)
        if held is None or not is_plain(self._recorder, held, True):
            raise Differs
        return value_in(self._recorder, held)

    def _check_known(
        self, alive: dict[str, Value], stack: list[Any], pairs: list[tuple[Any, Value, Value]]
    ) -> None:
        """Refuse what Python would know under two names, or what the caller has.

        Args:
            alive: locals that are read behind the arms, but for those that differ.
            stack: what one arm leaves.
            pairs: what differs: where it is, and what either arm leaves there.

        Raises:
            Differs: there is such a value.
        """
        different = {(_object_of(a), _object_of(b)): (a, b) for _, a, b in pairs}.values()
        sides = [[value for pair in different for value in _parts(pair[side])] for side in (0, 1)]
        sides = [
            [
                value
                for value in side
                if not is_number(value) and not issubclass(value.python_type, np.generic)
            ]
            for side in sides
        ]
        if not any(sides):
            return
        heap, frame = self._recorder.heap, self._frame
        places = {place for place, _, _ in pairs}
        frame.locals = alive
        frame.stack = [value for place, value in enumerate(stack) if place not in places]
        others = reachable(self._executor)
        memories = {
            heap[key].memory
            for key in others
            if isinstance(key, int) and heap.has(key) and isinstance(heap[key], TensorContents)
        } - {0}
        for side in sides:
            own: set[int] = set()
            for value in side:
                if isinstance(value, Constant):
                    continue
                tensor = elements_of(self._executor, value)
                if tensor is None or value.object_id in others:
                    raise Differs
                contents: TensorContents = heap[tensor.identity]
                place = contents.memory or -tensor.identity
                if tensor.identity in others or place in memories or place in own:
                    raise Differs
                own.add(place)
                base = heap[contents.memory].base if contents.memory else tensor
                if any(self._recorder.existing(entry) is not None for entry in (tensor, base)):
                    raise Differs


def _object_of(value: Value) -> Any:
    """What tells whether two values are one object."""
    return value.object_id if value.object_id is not None else ("value", id(value))


def _is_written(old: Any, now: Any) -> bool:
    """Whether memory is what it was, but for what it holds: see `tensors.memory.write`."""
    if not isinstance(old, MemoryContents) or not isinstance(now, MemoryContents):
        return False
    is_same = now.base is old.base and now.strides == old.strides
    return is_same and not now.is_uncertain and now.has_history == old.has_history


def _is_tuple(value: Any) -> TypeGuard[TupleValue]:
    return isinstance(value, TupleValue) and value.cls is tuple


def _parts(value: Value) -> Iterator[Value]:
    """What a tuple holds, and what tuples in it do; of another value itself."""
    if not _is_tuple(value):
        yield value
        return
    for item in value.items:
        yield from _parts(item)


def _number(value: Any) -> np.number[Any] | np.bool_ | None:
    """The number of NumPy's that a value is known to be."""
    found = value.object if isinstance(value, Known) else None
    return found if type(found) in (np.bool_, np.int64, np.int32, np.float32, np.float64) else None


__all__ = ["at_branch"]
