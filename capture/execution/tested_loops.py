"""Loops that go on until a tensor says so: `while error > tolerance`, `for ...: if done: break`.

A jump that tests a tensor, an array or a number of NumPy's is no break where it ends a loop whose
turns do the same. From its arm that stays in the loop a turn is captured that stands for all, as
`capture.execution.loops` does it: what it changes is found by trying again with more that is
carried, until nothing else changes. The turn ends at the same test, or at one that is followed by
the same instructions. In front of its first effect it may ask for what counts turns (`k < n`, the
next item of a range): the number of turns for which the answer stays the same is the loop's limit.
A range that may be over later in a turn limits the loop as well; behind it the two ends are arms.

Behind the loop a number that depends on how many turns ran is one that the launch computes
(`series`). A variable of which nobody knows whether a turn ran that sets it is refused if anything
may read it. Where no turn runs, Python leaves the very tensors that variables held in front of the
loop: if somebody else has them, a launch without a turn refuses its values; so it does where
gradients pass: tensors would get a gradient that get none in Python. What turns append and write
out is kept for as many turns as there is room for (`counted_lists`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from dynajit.capture.bytecode.instructions import live_locals
from dynajit.capture.execution.arms import both_ways, jump_at
from dynajit.capture.execution.branches import join_arms
from dynajit.capture.execution.collected import Appended, NotCollected
from dynajit.capture.execution.keeping_turns import KeepingTurn
from dynajit.capture.execution.series import Series
from dynajit.capture.execution.tried_turns import (
    MOST_INSTRUCTIONS,
    Differs,
    Reads,
    body_of,
    is_like,
    is_plain,
    is_same,
    may_try,
    noted,
    value_in,
    with_gradients,
)
from dynajit.capture.execution.ways import arms_of_loop, is_same_way, settled, way_between
from dynajit.capture.machine.frames import Frame
from dynajit.capture.places import sources
from dynajit.capture.python.iteration import settled_range
from dynajit.capture.python.objects.watching import reachable
from dynajit.capture.python.tensors.arrays import elements_of, made_like
from dynajit.capture.python.tensors.counts import (
    counted_in,
    handed_on,
    held_number,
    held_number_of_calls,
    is_count,
    is_number,
    is_of_calls,
    like,
    new_count,
)
from dynajit.capture.python.tensors.facts import number_in
from dynajit.capture.tensors.turns import (
    ENDLESS,
    Asked,
    is_of_a_turn,
    is_of_loop,
    is_plain_number,
    numbers_of,
    turns_alike,
)
from dynajit.capture.values.containers import IteratorValue, RangeIterator, TupleValue
from dynajit.capture.values.numbers import FUNCTIONS
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import bool_, int64
from dynajit.core.types.value_types import numel
from dynajit.ir import graph
from dynajit.ir.autodiff import is_reach_of_one_turn
from dynajit.ir.loops import Listed, Loop, Steps, append
from dynajit.ops import TABLE
from dynajit.ops.calls.contents import require

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Where a value is: a local, then places in tuples.
Path: TypeAlias = tuple[Any, ...]

#: How often more is carried before a loop is given up.
MOST_ROUNDS: Final = 8

#: How often the loop of one test is tried in a capture: the first turns of some differ.
MOST_TRIED: Final = 2

#: Memory for what turns append, in bytes: the C code is given it at once, and touches what it
#: fills. A launch that needs more refuses its values.
MOST_KEPT: Final = 1 << 28
MOST_KEPT_ON_GPU: Final = 1 << 24

#: Turns for which there is room, or they are not kept.
FEWEST_KEPT: Final = 16


def at_test(executor: "Executor", frame: Frame) -> bool:
    """In front of a jump on a tensor: perhaps it ends a loop of the graph.

    Returns:
        True: it does, and the frame goes on behind the loop.
    """
    tested = _tested(executor, frame)
    if tested is None or not may_try(executor, frame):
        return False
    place = frame.index
    arms = arms_of_loop(frame.body, place)
    key = id(frame.code), place
    if arms is None or executor.loops.tried[key] >= MOST_TRIED:
        return False
    executor.loops.tried[key] += 1
    value = frame.pop()
    frame.index = arms[0]
    turn = _Test(executor, frame, place, arms, tested)
    if executor.loops.attempt(turn, turn.make):
        executor.loops.tried[key] -= 1
        return True
    frame.index = place
    frame.push(value)
    return False


def _tested(executor: "Executor", frame: Frame) -> TensorValue | None:
    """What the next instruction jumps by, a tensor or NumPy's, if nothing tells its truth."""
    if not frame.stack or jump_at(frame.body, frame.index) is None:
        return None
    tested = handed_on(executor, frame.stack[-1])
    return None if tested is None or number_in(executor, tested) is not None else tested


# ---------------------------------------------------------------------------------------------
# the turn


@record
class _Known:
    """What is known of all turns ahead.

    Args:
        limit: how many there are at most.
        is_cut: there may be more, but no room for what they append: the launch refuses its values.
        numbers: those that a turn reads, in every turn.
        collected: likewise, those that it appends.
        series: of numbers that are read behind the loop, what they are after each turn.
    """

    limit: int
    is_cut: bool
    numbers: list[Steps | Listed]
    collected: list[Steps | Listed]
    series: dict[Path, Series]

    @property
    def ends(self) -> dict[Path, int | float]:
        """What those are after the last turn."""
        return {path: each.end for path, each in self.series.items()}


def _most_turns(rows: Sequence[graph.Node]) -> int:
    """For how many turns there is room to keep what each of them appends.

    Raises:
        Differs: hardly any.
    """
    kinds = [row.type for row in rows]
    sizes = [kind.dtype.itemsize * numel(kind.shape) for kind in kinds]  # type: ignore[union-attr]
    if not any(sizes):
        return ENDLESS
    is_on_gpu = any(kind.device is not CPU for kind in kinds)  # type: ignore[union-attr]
    most = (MOST_KEPT_ON_GPU if is_on_gpu else MOST_KEPT) // sum(sizes)
    if most < FEWEST_KEPT:
        raise Differs
    return int(most)


class _Test(KeepingTurn):
    """A turn between two tests. Mutable: see `Tried`.

    Args:
        executor: the frame is in front of the turn, without what is tested.
        place: of the test.
        arms: where it leads: into the turn, and out of the loop.
        tested: the tensor.
    """

    differentiable = True
    follows_slots = True

    def __init__(
        self,
        executor: "Executor",
        frame: Frame,
        place: int,
        arms: tuple[int, int],
        tested: TensorValue,
    ) -> None:
        super().__init__(executor, frame, executor.loops.number())
        self._place, self._tested = place, tested
        self._stay, self._leave_at = arms
        jump = jump_at(frame.body, place)
        assert jump is not None
        self._stays_if_true = both_ways(frame.body, jump)[0] == self._stay
        self._exit = settled(frame.body, self._leave_at, len(self._start.stack))
        self._live = live_locals(frame.body, self._exit[0])
        self._carried: set[Path] = set()
        #: Those that need a gradient after a turn, and perhaps not before it.
        self._needing: set[Path] = set()
        #: Those that hold numbers of Python's which the launch computes.
        self._counted: set[Path] = set()
        self._dropped: set[str] = set()
        #: The range may be over where a turn has done something already.
        self._ends_late = False
        self._clear()

    def _clear(self) -> None:
        self._tensors: dict[Path, tuple[TensorValue, TensorValue]] = {}
        self._counts: dict[Path, TensorValue] = {}
        self._numbers: dict[Path, tuple[int | float, Scalar]] = {}
        self._asked: list[Asked] = []
        self._rest: range | None = None
        self._turns.clear()
        self._stand_ins.nodes.clear()

    def make(self) -> None:
        """Capture turns until one changes what is carried, and nothing else; make a loop of it.

        Raises:
            Differs, GraphBreak, ...: no turn stands for all.
        """
        for _ in range(MOST_ROUNDS):
            self._run()
            is_more = self._carries_more() | self._has_gained()
            slots = self._changed_slots(self._mark.heap)
            if not is_more and not slots:
                self._finish()
                return
            self.undo()
            self._again()
            self._clear()
            self._follow(self._named(slots))
        raise Differs

    # -- before ------------------------------------------------------------------------------

    def _stand(self, path: Path, value: Value) -> Value:
        """What stands for a value in front of the turn."""
        if isinstance(value, TupleValue) and any(
            len(other) > len(path) and other[: len(path)] == path for other in self._carried
        ):
            return TupleValue(
                tuple(self._stand((*path, place), item) for place, item in enumerate(value.items))
            )
        if path not in self._carried:
            return value
        if path in self._counted:
            self._counts[path] = self._stand_in_of_number(value.python_type)
            return new_count(self._executor, self._counts[path], value.python_type)
        held = elements_of(self._executor, value)
        if held is not None:
            made = self._stand_in("carried", held, path in self._needing)
            self._tensors[path] = held, made
            return made_like(self._executor, value, made)
        first = self._known(value)
        scalar = Scalar(first, sources.Turn(self._number, repr(path)))
        self._numbers[path] = first, scalar
        return scalar

    def _known(self, value: Any) -> int | float:
        """The number that a value is in front of the loop, relied on."""
        found: int | float = value.value
        return self._recorder.specialise(value) if isinstance(value, Scalar) else found

    def _run(self) -> None:
        executor, frame = self._executor, self._frame
        found = {
            name: self._stand((name,), value)
            for name, value in self._start.locals.items()
            if name not in self._dropped
        }
        identities = [value.identity for value, _ in self._tensors.values()]
        if len(set(identities)) < len(identities):
            raise Differs
        self._given = found
        self._enter(found)
        self._turns.decide = self._decide
        frame.index = self._stay
        for count in range(MOST_INSTRUCTIONS):
            if count and len(executor.frames) == self.depth and self._is_at_end():
                self._look_into_slots()
                return
            executor.run_one()
        raise Differs

    def _is_at_end(self) -> bool:
        """Whether the frame is in front of the test again, or of one like it."""
        frame = self._frame
        if _tested(self._executor, frame) is None:
            return False
        if frame.index == self._place:
            return True
        body = frame.body
        own, other = jump_at(body, self._place), jump_at(body, frame.index)
        assert own is not None and other is not None
        pairs = zip(both_ways(body, own), both_ways(body, other), strict=True)
        return all(is_same_way(body, a, b) for a, b in pairs)

    # -- during ------------------------------------------------------------------------------

    def _is_untouched(self) -> bool:
        """Whether the turn has had no effect so far."""
        is_same_heap = not any(self._recorder.heap.written_since(self._entered))
        has_nodes = len(self._builder.nodes) > self._mark.nodes[1]
        return is_same_heap and not has_nodes and not self._now.fresh

    def next_item(self, frame: Frame, iterator: IteratorValue) -> bool:
        """The counter of the loop around the test; its end is the loop's end."""
        if frame is not self._frame or not any(iterator is entry for entry in self._start.stack):
            return False
        state = self._recorder.heap[iterator.identity]
        if not isinstance(state, RangeIterator) or not state.rest or self._rest is not None:
            raise Differs
        target = frame.body.instructions[frame.index].argument
        is_end = self._is_exit(target, len(frame.stack) - 1)
        if frame.stack[-1] is not iterator:
            raise Differs
        if not self._is_untouched() or not is_end:
            if not self._leaves_for_good(frame.index):
                raise Differs
            self._ends_late = True
            self._live = live_locals(frame.body, self._place)
        self._rest = settled_range(self._executor, iterator).rest
        frame.push(Scalar(state.rest[0], sources.Turn(self._number, "")))
        frame.index += 1
        return True

    def _leaves_for_good(self, head: int) -> bool:
        """Whether the arm of the test that leaves the loop has no further item of its range.

        Args:
            head: where the items are taken.
        """
        is_dropped = self._exit[1] < len(self._start.stack)
        return is_dropped or way_between(self._frame.body, self._leave_at, head) is None

    def _is_exit(self, index: int, depth: int) -> bool:
        """Whether the program is out of the loop there, as behind the test."""
        place, depth = settled(self._frame.body, index, depth)
        return depth == self._exit[1] and is_same_way(self._frame.body, place, self._exit[0])

    def _decide(self, frame: Frame, symbol: str, a: Value, b: Value) -> bool | None:
        """The answer to a comparison of what counts turns, which ends the loop when it changes."""
        if frame is not self._frame or symbol not in FUNCTIONS:
            return None
        jump = jump_at(frame.body, frame.index)
        if jump is None or not all(map(is_plain_number, (a, b))):
            return None
        if any(is_of_a_turn(x) and not is_of_loop(x, self._number) for x in (a, b)):
            return None
        a, b = (x if is_of_a_turn(x) else constant(self._known(x)) for x in (a, b))
        assert isinstance(a, (Scalar, Constant)) and isinstance(b, (Scalar, Constant))
        answer = FUNCTIONS[symbol](a.value, b.value)
        other = both_ways(frame.body, jump)[1 if answer else 0]
        if type(answer) is not bool:
            return None
        if not self._is_untouched() or not self._is_exit(other, len(frame.stack)):
            ends = (other, self._leave_at)
            if any(way_between(frame.body, end, self._place) is not None for end in ends):
                return None
            self._ends_late = True
            self._live = live_locals(frame.body, self._place)
        self._asked.append(Asked(symbol, a, b, answer))
        return answer

    # -- after -------------------------------------------------------------------------------

    def _carries_more(self) -> bool:
        """Whether the turn has changed what was not known to change."""
        before = self._size()
        now = self._now
        for name, given in self._given.items():
            after = dict.get(now, name)
            if (
                after is None
                or not self._is_followed((name,), self._start.locals[name], given, after)
                or (name not in now.read and not self._is_live(name) and not is_same(given, after))
            ):
                self._drop(name, now)
        if any(name in now.read for name in self._dropped):
            raise Differs
        if (now.fresh - self._start.locals.keys()) & self._live:
            raise Differs  # nobody knows whether a turn has set it
        self._needing.update(path for path in self._tensors if self._needs_after(path))
        return self._size() > before

    def _is_live(self, name: str) -> bool:
        """Whether anybody may read it behind the loop."""
        return name in self._live or name in self._slots

    def _size(self) -> int:
        """How much is known of what is carried; it grows."""
        known = len(self._carried) + len(self._counted) + len(self._dropped)
        return known + len(self._needing)

    def _needs_after(self, path: Path) -> bool:
        found = self._after(path)
        after = None if found is None else elements_of(self._executor, found)
        needs = self._builder.needs_gradient
        return after is not None and bool(needs(value_in(self._recorder, after)))

    def _drop(self, name: str, now: Reads) -> None:
        """Nobody reads what a local holds in front of a turn, or behind the loop."""
        if name in now.read or self._is_live(name):
            raise Differs
        self._dropped.add(name)

    def _is_followed(self, path: Path, first: Value, given: Value, after: Value) -> bool:
        """Whether a value is the same after the turn, or carried from now on; False: neither."""
        is_number_of_both = is_number(first) and first.python_type is after.python_type
        is_slot = path[0] in self._slots
        is_computed = is_count(after) or (is_slot and (self._ends_late or is_of_calls(first)))
        if is_number_of_both and is_computed and not is_same(given, after):
            self._carried.add(path)
            self._counted.add(path)
            return True
        if path in self._carried or is_same(given, after):
            return True
        parts = first, given, after
        if all(isinstance(part, TupleValue) and part.cls is tuple for part in parts):
            lists = [part.items for part in parts]  # type: ignore[attr-defined]
            if len({len(items) for items in lists}) > 1:
                return False
            return all(
                self._is_followed((*path, place), *items)
                for place, items in enumerate(zip(*lists, strict=True))
            )
        old, new = (elements_of(self._executor, part) for part in (first, after))
        if old is not None and new is not None:
            recorder = self._recorder
            if first.python_type is not after.python_type:
                return False
            if not is_plain(recorder, old, True) or not is_plain(recorder, new, True):
                return False
            if not is_like(value_in(recorder, old).type, value_in(recorder, new).type):
                return False
        elif (
            not isinstance(first, (Scalar, Constant))
            or is_of_a_turn(first)
            or first.python_type not in (int, float)
            or not isinstance(after, (Scalar, Constant))
            or after.python_type is not first.python_type
        ):
            return False
        self._carried.add(path)
        return True

    def _after(self, path: Path) -> Any:
        """What is at a place after the turn."""
        found: Any = dict.get(self._now, path[0])
        for place in path[1:]:
            if not isinstance(found, TupleValue) or place >= len(found.items):
                raise Differs
            found = found.items[place]
        return found

    def _first(self, path: Path) -> Any:
        """What is at a place in front of the loop."""
        found: Any = self._start.locals[path[0]]
        for place in path[1:]:
            found = found.items[place]
        return found

    def _elements_after(self, path: Path) -> TensorValue:
        """The tensor of what is at a place after the turn, of the class that was there before."""
        found = self._after(path)
        held = None if found is None else elements_of(self._executor, found)
        if held is None or found.python_type is not self._first(path).python_type:
            raise Differs
        return held

    def _number_after(self, path: Path) -> TensorValue:
        """The tensor of a number of Python's after the turn."""
        found = self._after(path)
        if found is None or found.python_type is not self._first(path).python_type:
            raise Differs
        held = counted_in(self._executor, found)
        return self._recorder.new_tensor(self._held_number(found)) if held is None else held

    def _held_number(self, value: Value) -> graph.Value:
        """A number of Python's as one of the graph."""
        found = held_number(self._executor, value)
        if found is None:
            raise Differs
        return found

    def _held_in_front(self, path: Path) -> graph.Value:
        """A number of Python's in front of the loop as one of the graph."""
        found = held_number_of_calls(self._executor, self._first(path))
        if found is None:
            raise Differs
        return found

    def _finish(self) -> None:
        """Put the loop in the place of its turns."""
        again = handed_on(self._executor, self._frame.pop())
        assert again is not None
        self._check_effects()
        self._check_iterator()
        seen, depth = self._seen_behind()
        pairs = [(stand, self._elements_after(path)) for path, (_, stand) in self._tensors.items()]
        pairs += [(stand, self._number_after(path)) for path, stand in self._counts.items()]
        after = self._held_after(pairs, [stand for stand, _ in pairs])
        goes_on = self._truth(again)
        shown = self._shown()
        appended = self._appended(self._handed_on(), shown)
        collected = self._held_in(appended.made.values(), [last for _, last in pairs])
        rows = [*collected.values()]
        known = self._known_of_turns(_most_turns(rows), appended.numbers)
        limit, numbers, series, ends = known.limit, known.numbers, known.series, known.ends
        if known.is_cut and self._ends_late:
            raise Differs
        stays = self._stand_in_of_number(int) if self._ends_late or known.is_cut else None
        if stays is not None:
            after.append(TABLE.cast(goes_on, dtype=int64).node)
        taken = self._take()
        stands = [value_in(self._recorder, stand).node for stand, _ in pairs]
        stands += [value_in(self._recorder, stays).node] if stays is not None else []
        inputs = [value.node for _, value in self._turns.taken.values()]
        outputs = [*after, *rows, goes_on.node]
        body, fixed = body_of(self._builder.name, taken, inputs, stands, outputs)
        recorder, builder = self._recorder, self._builder
        builder.take(self._mark.nodes, self._stand_ins.nodes)
        recorder.heap.restore(self._mark.heap)
        are_known = self._are_known(seen)
        go, arm = self._truth(self._tested), builder.arm
        given = [value_in(recorder, value).node for value, _ in self._tensors.values()]
        given += [self._held_in_front(path).node for path in self._counts]
        given += [TABLE.cast(go, dtype=int64).node] if stays is not None else []
        loop = Loop(body, tuple(numbers), len(stands), len(rows), tests=True, unset=True)
        if any(map(builder.node_needs_gradient, [*after, *rows])):
            *results, turns = self._differentiable(loop, limit, go, (*given, *fixed), after)
        else:
            with builder.outside_arm():
                if arm is not None and arm.device != go.device:
                    raise Differs
                go = go if arm is None else TABLE.logical_and(arm, go)  # else it might never end
                operands = self._operands((*given, *fixed))
                *results, turns = append(builder, loop, limit, go, operands)
        stacks = dict(zip(collected, results[len(after) :], strict=True))
        del results[len(after) :]
        stayed = results.pop() if stays is not None else None
        if are_known:
            self._require_turns(turns, depth)
        if stayed is not None and known.is_cut:
            require(TABLE.eq(stayed, 0))
        paths = (*self._tensors, *self._counts)
        ints = {
            stand: result.node
            for path, stand, result in zip(paths, stands, results, strict=False)
            if self._first(path).python_type is int
        }
        self._prove(ints, numbers, limit)
        made = {
            path: like(self._executor, self._first(path), recorder.new_tensor(result))
            for path, result in zip(paths, results, strict=True)
        }
        made |= {path: each.behind(self._executor, turns, limit) for path, each in series.items()}
        gone = {path[0] for path in self._numbers if not self._is_live(path[0])} | self._dropped
        found = {
            name: _with_results((name,), value, made)
            for name, value in self._start.locals.items()
            if name not in gone
        }
        self._leave(found)
        lasts = {path: last for path, (_, last) in zip(self._tensors, pairs, strict=False)}
        self._fill_lists(appended, stacks, turns, known, made, lasts)
        if shown is not None:
            recorder.add_output(shown.effect(self._rows))
        if stayed is not None and self._ends_late:
            self._leave_late(stayed, ends)
            return
        self._frame.index = self._exit[0]
        del self._frame.stack[self._exit[1] :]

    def _all_stands(self) -> Collection[int]:
        stands = (*(stand for _, stand in self._tensors.values()), *self._counts.values())
        return {stand.identity for stand in stands}

    def _handed_on(self) -> dict[int, tuple[Value, Value]]:
        """Heap id of what stands for a tensor -> that tensor, and what is handed on."""
        return {
            stand.identity: (self._first(path), self._after(path))
            for path, (_, stand) in self._tensors.items()
        }

    def _fill_lists(
        self,
        appended: Appended,
        stacks: Mapping[int, graph.Value],
        turns: graph.Value,
        known: "_Known",
        made: Mapping[Path, Value],
        lasts: Mapping[Path, TensorValue],
    ) -> None:
        """Let lists hold what turns have appended.

        Args:
            appended: in each turn.
            stacks: see `Appended.place`.
            turns: how many there were.
            made: what variables hold now.
            lasts: the tensors that were there after the turn that was captured.

        Raises:
            Differs: nobody can say which objects there are.
        """
        count = new_count(self._executor, self._recorder.new_tensor(turns), int)
        left = {last.identity: made[path] for path, last in lasts.items() if self._is_live(path[0])}
        try:
            appended.place_counted(count, known.limit, stacks, known.collected, left)
        except NotCollected:
            raise Differs from None

    def _differentiable(
        self,
        loop: Loop,
        limit: int,
        go: graph.Value,
        operands: Sequence[graph.Node],
        after: Sequence[graph.Node],
    ) -> list[graph.Value]:
        """The results of a loop that gradients pass through, and how many turns it had.

        Args:
            after: what is handed on, as it was recorded.

        Raises:
            Differs: it is in an arm or in a turn of another loop, the range may be over late, or
                the number of turns decides which tensors get a gradient.
        """
        builder = self._builder
        in_turn = any(turns is not self._turns for turns in self._recorder.turns)
        if in_turn or builder.arm is not None or self._ends_late:
            raise Differs
        needs = [*map(builder.node_needs_gradient, after)]
        if loop.collected:
            raise Differs
        fixed = map(builder.node_needs_gradient, operands[loop.carried :])
        loop = with_gradients(loop, (*needs, *fixed), after, needs)
        if not is_reach_of_one_turn(loop):
            raise Differs
        require(go)
        results = append(builder, loop, limit, go, [graph.Value(builder, n) for n in operands])
        return noted(builder, results, [*needs, False])

    def _leave_late(self, stayed: graph.Value, ends: Mapping[Path, int | float]) -> None:
        """Go on at the test, by which the loop has ended, or behind which the turns are over.

        Args:
            stayed: whether they are, as an int.
            ends: what numbers are then.

        Raises:
            Differs: what that leaves is not what the test leaves.
        """
        executor, frame = self._executor, self._frame
        if self._rest is not None:
            iterator = frame.stack[-1]
            assert isinstance(iterator, IteratorValue)
            state = settled_range(executor, iterator)
            over = replace(state, rest=state.rest[:0])
            self._recorder.heap.write(iterator.identity, over)
        if any(len(path) > 1 or path[0] in self._slots for path in ends):
            raise Differs  # only variables differ between the arms behind the loop
        truth = TABLE.ne(stayed, 0) if self._stays_if_true else TABLE.eq(stayed, 0)
        frame.index = self._place
        frame.push(self._recorder.new_tensor(truth))
        known = {path[0]: constant(end) for path, end in ends.items()}
        join_arms(executor, frame, (self._stay, known))

    def _truth(self, value: TensorValue) -> graph.Value:
        """Whether the loop goes on by a tensor of one element: of no dims."""
        found = value_in(self._recorder, value)
        if any(size != 1 for size in found.shape):
            raise Differs
        found = self._builder.without_gradient(found)
        found = TABLE.reshape(found, shape=()) if found.shape else found
        truth: graph.Value
        if self._stays_if_true:
            truth = found if found.dtype is bool_ else TABLE.ne(found, 0)
        else:
            truth = TABLE.logical_not(found) if found.dtype is bool_ else TABLE.eq(found, 0)
        return truth

    def _check_iterator(self) -> None:
        """Refuse a loop whose iterator somebody else may ask for its next item.

        Raises:
            Differs: it is one.
        """
        if self._rest is not None:
            iterator = self._start.stack[-1]
            if any(value is iterator for value in self._start.locals.values()):
                raise Differs

    def _are_known(self, seen: Sequence[TensorValue]) -> bool:
        """Whether somebody else knows tensors that variables hold in front of the loop, or their
        memory: where no turn runs Python leaves these very objects."""
        if not seen:
            return False
        locals_now = self._frame.locals
        names = {path[0] for path in self._tensors} | self._dropped
        self._frame.locals = {
            name: value for name, value in self._start.locals.items() if name not in names
        }
        others = reachable(self._executor)
        self._frame.locals = locals_now
        heap = self._recorder.heap
        memories = {
            heap[key].memory
            for key in others
            if isinstance(key, int) and heap.has(key) and isinstance(heap[key], TensorContents)
        } - {0}
        own: set[int] = set()
        for value in seen:
            contents: TensorContents = heap[value.identity]
            place = contents.memory or -value.identity
            if value.identity in others or place in memories or place in own:
                return True
            own.add(place)
            if not self._is_made_here(value):
                return True
        return False

    def _require_turns(self, turns: graph.Value, depth: int) -> None:
        """Let a launch refuse its values after which variables hold what they did before it.

        Args:
            turns: how many there were.
            depth: what was in front of the loop is gone after as many, and one more.

        Raises:
            Differs: that may well be, of an inner loop or in an arm.
        """
        in_turn = any(turns is not self._turns for turns in self._recorder.turns)
        if in_turn or self._builder.arm is not None:
            raise Differs
        require(TABLE.gt(turns, depth))

    def _seen_behind(self) -> tuple[list[TensorValue], int]:
        """The tensors in front of the loop that may be read behind it: those of variables that are,
        and those that turns hand on to these as they are (`a, b = b, a * 0.5`); and through how
        many variables they are handed on at most."""
        stands = {id(stand): path for path, (_, stand) in self._tensors.items()}
        live = [
            path
            for path in self._tensors
            if self._is_live(path[0]) and not issubclass(self._first(path).python_type, np.generic)
        ]
        seen, depth = dict.fromkeys(live), 0
        for path in live:
            before, steps = stands.get(id(self._elements_after(path))), 0
            while before is not None and steps < len(stands):
                seen[before], steps = None, steps + 1
                before = stands.get(id(self._elements_after(before)))
            depth = max(depth, steps)
        return [self._tensors[path][0] for path in seen], depth

    def _is_made_here(self, value: TensorValue) -> bool:
        """Whether the captured code has made a tensor and its memory."""
        recorder = self._recorder
        contents: TensorContents = recorder.heap[value.identity]
        base = recorder.heap[contents.memory].base if contents.memory else value
        node = value_in(recorder, base).node
        is_new = recorder.existing(value) is None and recorder.existing(base) is None
        return is_new and node.kind is graph.NodeKind.CALL

    def _known_of_turns(self, most: int, collected: Sequence[Scalar]) -> "_Known":
        """What is known of all turns ahead.

        Args:
            most: turns whose rows are kept.
            collected: numbers that turns append.
        """
        counter = range(ENDLESS) if self._rest is None else self._rest
        carried = {}
        for path, (first, _) in self._numbers.items():
            after = self._after(path)
            if isinstance(after, Scalar) and not is_of_a_turn(after):
                raise Differs
            carried[repr(path)] = first, after
        limit = turns_alike(counter, carried, self._asked)
        is_cut, limit = limit > most, min(limit, most)
        shown = [path for path in self._numbers if self._is_live(path[0])]
        given = [scalar for scalar, _ in self._turns.taken.values()]
        behind = [self._numbers[path][1] for path in shown]
        kept = [self._recorder.of_turns_only(scalar) for scalar in collected]
        wanted = [*given, *behind, *kept]
        numbers, ends = numbers_of(
            counter[:limit], carried, [*wanted, *self._turns.relied.values()]
        )
        found = iter(numbers)
        numbers = [next(found) for _ in given]
        before = [next(found) for _ in behind]
        series = {
            path: Series(each, ends[repr(path)]) for path, each in zip(shown, before, strict=True)
        }
        return _Known(limit, is_cut, numbers, [next(found) for _ in kept], series)


def _with_results(path: Path, value: Value, made: dict[Path, Value]) -> Value:
    """A value of a local with what the loop gives in the place of what is carried."""
    found = made.get(path)
    if found is not None:
        return found
    if isinstance(value, TupleValue) and any(other[: len(path)] == path for other in made):
        items = enumerate(value.items)
        return TupleValue(tuple(_with_results((*path, n), item, made) for n, item in items))
    return value


__all__ = ["at_test"]
