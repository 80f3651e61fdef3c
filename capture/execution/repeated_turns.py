"""A turn of a `for` that stands for all that follow it but the last.

The turn is captured with stand-ins for what turns change: tensors that they hand on, numbers that
follow the counter (found for all turns ahead, `capture.tensors.turns`) or that the launch computes,
places outside of variables (`slots`), parts of what turns make anew (`structures`), memory
(`memories`). Where decisions by counters come again after some turns, so many turns are captured as
one. What it appends (`collected`) and writes out (`shown`) is kept for every turn.
Contract: `make` puts a loop in the place of the turns, or raises and stands for none; when `loops`
tries one is told there.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.execution.collected import Appended
from dynajit.capture.execution.deciding_turns import DecidingTurn, Trial
from dynajit.capture.execution.memories import (
    Memories,
    is_second_view,
    view_like,
)
from dynajit.capture.execution.shown import ShownOfTurn
from dynajit.capture.execution.slots import Slot
from dynajit.capture.execution.structures import (
    is_built_alike,
    is_structure,
    objects_in,
    parts_of,
    root_of,
    with_parts,
)
from dynajit.capture.execution.tried_turns import (
    MOST_INSTRUCTIONS,
    Differs,
    body_of,
    elements_in,
    is_leaf,
    is_like,
    is_number,
    is_plain,
    is_same,
    nodes_of,
    noted,
    value_in,
    with_gradients,
    with_slots,
)
from dynajit.capture.machine.frames import Frame
from dynajit.capture.places import sources
from dynajit.capture.python.objects.watching import reached
from dynajit.capture.python.tensors.counts import (
    handed_on,
    held_number,
    held_number_of_calls,
    is_count,
    is_literal,
    is_of_calls,
    like,
    new_count,
)
from dynajit.capture.tensors.memory import make_leaf
from dynajit.capture.tensors.turns import (
    blocks_after,
    numbers_of,
)
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types.symint import Number
from dynajit.ir import graph
from dynajit.ir.autodiff import is_reach_settled
from dynajit.ir.loops import Loop, append
from dynajit.ir.refusals import may_refuse
from dynajit.ops import TABLE

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Turns after which gradients of a loop with any number of turns reach whatever they may reach;
#: fewer than such a loop ever has.
SETTLED: Final = 8

#: How often a turn is captured, until what it changes is known.
MOST_ROUNDS: Final = 4


def _is_truth(value: Value | None) -> bool:
    """Whether it is True or False in all calls."""
    return isinstance(value, Constant) and type(value.value) is bool


class RepeatedTurn(DecidingTurn):
    """A turn that stands for others. Mutable: it is captured, then becomes a loop, or is undone.

    Args:
        executor, frame: at the head of the loop.
        trial: what it is tried with.

    Attributes:
        is_made: it has become a loop.
    """

    differentiable = True
    runs_backward = True
    follows_slots = True
    #: Numbers of Python's that are computed of arguments may be handed on, as the launch computes
    #: them from the turn on.
    hands_numbers_on = True

    def __init__(self, executor: "Executor", frame: Frame, trial: Trial) -> None:
        super().__init__(executor, frame, trial)
        self.is_made = False
        #: Local -> what it holds in front of the turn, what stands for that.
        self._tensors: dict[str, tuple[TensorValue, TensorValue]] = {}
        #: Locals with numbers of Python's that the launch computes from this turn on.
        self._computed: set[str] = set()
        #: Locals with numbers that do not follow the counter, as the turn has shown.
        self._launched: set[str] = set()
        #: Local -> another one, that holds the same object in front of the turn, and behind it.
        self._twins: dict[str, str] = {}
        #: Local -> what it holds, what stands for that, where each turn makes another view of the
        #: same memory.
        self._views: dict[str, tuple[TensorValue, TensorValue]] = {}
        #: Locals whose histories end in each turn: `h = cell(x, h.detach())`.
        self._ended: set[str] = set()
        self._changed: set[str] = set()
        #: Locals that the turns in front of this one have left alone, and this one changes.
        self._late: set[str] = set()
        self._memories = Memories(self._recorder, self._stand_ins.add)
        self._tape = self._recorder.tape
        self._follow_changed(self._changed_slots(trial.before.heap))
        self._split_structures()

    @property
    def wanted(self) -> Mapping[Any, Sequence[Value]]:
        """Numbers of the caller's for which there is no table (`Turns.wanted`)."""
        return self._turns.wanted

    def make(self) -> None:
        """Capture the turn and make a loop of it.

        Raises:
            Differs, GraphBreak, ...: it stands for no other.
        """
        for _ in range(MOST_ROUNDS):
            self._capture()
            written, late = self._memories.further(self._mark.heap), self._changed_late()
            slots = self._changed_slots(self._mark.heap)
            is_more = self._has_gained() | self._has_launched()
            if not written and not late and not slots and not is_more:
                break
            self.undo()
            self._again()
            self._clear()
            self._memories.carry(written)
            self._late |= late | self._follow_changed(slots)
            self._split_structures()
        else:
            raise Differs
        self._finish()

    def _follow_changed(self, slots: Mapping[Slot, Value]) -> set[str]:
        """Let more slots be among the locals.

        Args:
            slots: each, and what it held in front of the turn before.

        Returns:
            Their names.
        """
        own = [slot for slot in slots if slot.identity not in self._items.each.lists]
        named = self._named(own)
        self._follow(named)
        old = {name: slots[slot] for name, slot in named.items()}
        self._before = with_slots(self._before, old)
        return {*named}

    def _split_structures(self) -> None:
        """Let what tuples, lists, dicts and objects hold that turns make anew be among the locals
        in their place, where nobody else knows these."""
        old, now, heap = self._before.locals, self._start.locals, self._executor.heap
        renewed = {
            name: value
            for name, value in now.items()
            if (name in self._late or not is_same(old.get(name), value))
            if name in self._slots or self._is_live(name)
            if is_structure(heap, value) and is_built_alike(heap, old.get(name), value)
        }
        known = self._known_elsewhere(renewed)
        found = {
            name: value
            for name, value in renewed.items()
            if known.isdisjoint(objects_in(heap, value))
        }
        self._before = replace(self._before, locals=with_parts(heap, old, found))
        self._start = replace(self._start, locals=with_parts(heap, now, found))
        self._late |= {
            part for name in found if name in self._late for part in parts_of(heap, name, old[name])
        }
        self._know(found)

    def _is_live(self, name: str) -> bool:
        """Whether a turn may read a variable before it sets it."""
        return root_of(name) in self._frame.body.live[self._saved.index + 1]

    def _known_elsewhere(self, values: Mapping[str, Value]) -> set[int]:
        """Heap ids of lists, dicts and objects that variables hold, and that somebody else knows:
        another variable, another object, or the caller."""
        heap, frame = self._executor.heap, self._frame
        count = Counter(
            identity for value in values.values() for identity in objects_in(heap, value)
        )
        if not count:
            return set()
        held = {slot: slot.read(heap) for name, slot in self._slots.items() if name in values}
        locals_now = frame.locals
        frame.locals = {
            name: value
            for name, value in dict.items(locals_now)
            if name not in values and self._is_live(name)
        }
        for slot in held:
            slot.write(heap, Constant(None))
        try:
            others = reached(self._executor, count.keys()).found
        finally:
            frame.locals = locals_now
            for slot, value in held.items():
                slot.write(heap, value)
        twice = {identity for identity, times in count.items() if times > 1}
        return twice | {key for key in others if isinstance(key, int)}

    def _check_structures(self) -> None:
        """Refuse a turn that does not make anew what a variable holds, or lets somebody else know
        it.

        Raises:
            Differs: it does so.
        """
        heap = self._executor.heap
        held = {
            name: value
            for name in self._structures
            if name in self._now.read and (value := dict.get(self._now, name)) is not None
        }
        known = self._known_elsewhere(held)
        for value in held.values():
            for identity in objects_in(heap, value):
                if identity in known or not heap.is_made_since(self._mark.heap, identity):
                    raise Differs

    def _has_launched(self) -> bool:
        """Whether the turn leaves numbers that the launch computes where there are others in front
        of it; noted for the next try."""
        found = {
            name
            for name in self._numbers
            if name in self._now.read and is_count(dict.get(self._now, name, Constant(None)))
        }
        is_new = not found <= self._launched
        self._launched |= found
        return is_new

    def _changed_late(self) -> set[str]:
        """Locals that the turn has changed, and that are not known to change."""
        return {
            name
            for name, value in self._start.locals.items()
            if name not in self._changed and not is_same(dict.get(self._now, name, value), value)
        }

    def _clear(self) -> None:
        self._tensors.clear()
        self._twins.clear()
        self._is_last_other = False
        self._computed.clear()
        self._numbers.clear()
        self._views.clear()
        self._ended.clear()
        self._assumed.clear()
        self._alike.clear()
        self._changed.clear()
        self.hands_leaves_on = False
        self._stand_ins.nodes.clear()
        self._turns.clear()

    # -- before ------------------------------------------------------------------------------

    def _begin(self) -> dict[str, Value]:
        """The locals in front of a turn that stands for all."""
        found: dict[str, Value] = {}
        for name, value in self._start.locals.items():
            old = self._before.locals.get(name)
            if old is None:
                raise Differs
            if is_same(old, value) and name not in self._late:
                found[name] = value
                continue
            self._changed.add(name)
            old, value = self._fixed(old), self._fixed(value)
            if name in self._late and is_literal(value):
                found[name] = self._counted(name, value.python_type)
                continue
            held = handed_on(self._executor, value)
            is_slot = root_of(name) in self._slots
            if held is not None and not is_slot and self._is_spent_name(name, held):
                continue
            twin = self._twin_of(value) if held is not None else None
            if twin is not None:
                self._twins[name], found[name] = twin, found[twin]
            elif isinstance(value, TensorValue) and is_second_view(self._recorder, value, old):
                self._views[name] = value, view_like(self._recorder, value)
                found[name] = self._views[name][1]
            elif held is not None and is_plain(self._recorder, held, True):
                self._tensors[name] = held, self._stand_in(name, held)
                self.hands_leaves_on = self.hands_leaves_on or is_leaf(self._recorder, held)
                found[name] = like(self._executor, value, self._tensors[name][1])
            elif name in self._launched and is_literal(value):
                found[name] = self._counted(name, value.python_type)
            elif is_number(old) and is_number(value) and type(old.value) is type(value.value):
                scalar = Scalar(value.value, sources.Turn(self._number, name))
                self._numbers[name] = value.value, scalar
                found[name] = scalar
            elif self.hands_numbers_on and is_of_calls(old) and is_of_calls(value):
                found[name] = self._counted(name, value.python_type)
            elif _is_truth(old) and _is_truth(value):
                found[name] = self._counted(name, bool)
            elif is_slot:
                raise Differs
        pairs = (*self._tensors.values(), *self._views.values())
        identities = [value.identity for value, _ in pairs]
        if (
            len(set(identities)) < len(identities)
            or self._before.locals.keys() - self._start.locals
        ):
            raise Differs
        return found

    def _is_spent_name(self, name: str, held: TensorValue) -> bool:
        """Whether a variable that a turn sets before it reads it holds what another one holds: it
        has handed that on (`x, y = y, new`)."""
        if self._is_live(name):
            return False
        others = [value for other, value in self._start.locals.items() if other != name]
        found = [handed_on(self._executor, value) for value in others]
        return any(value is not None and value.identity == held.identity for value in found)

    def _twin_of(self, value: Value) -> str | None:
        """A variable that turns hand on, and that holds the same object."""
        held = self._start.locals
        return next((name for name in self._tensors if is_same(held[name], value)), None)

    def _kept(self) -> list[str]:
        """Variables whose tensors turns hand on: those that a turn reads, by any of their names."""
        own = self._now.read
        read = own | {twin for name, twin in self._twins.items() if name in own}
        for name, twin in self._twins.items():
            if name in own and not is_same(self._now_in(name), self._now_in(twin)):
                raise Differs
        return [name for name in self._tensors if name in read and not self._is_unread(name)]

    def _counted(self, name: str, kind: type) -> Value:
        """What stands for a number of Python's that the launch computes from this turn on."""
        stand = self._stand_in_of_number(kind)
        self._tensors[name] = stand, stand
        self._computed.add(name)
        return new_count(self._executor, stand, kind)

    def _given(self, name: str) -> graph.Value:
        """What a variable holds in front of the turn.

        Raises:
            Differs: a number that the graph does not hold.
        """
        first = self._start.locals[name]
        if name not in self._computed:
            return elements_in(self._recorder, self._tensors[name][0])
        found = held_number_of_calls(self._executor, first)
        if found is None:
            raise Differs
        return found

    # -- the turn ----------------------------------------------------------------------------

    def _capture(self) -> None:
        """Run the turn."""
        same = all(a is b for a, b in zip(self._before.stack, self._start.stack, strict=False))
        if not same or len(self._before.stack) != len(self._start.stack):
            raise Differs
        if self._before.cells != self._start.cells:
            raise Differs
        self._enter(self._begin())
        self._begin_draws()
        self._memories.begin()
        self.hands_leaves_on = self.hands_leaves_on or self._memories.are_of_leaves
        counter = Scalar(self._items.counter[0], sources.Turn(self._number, ""))
        self._turns.asked.update(self._items.each.lists)
        self._turns.decide = self._decide if self.decides else None
        self._turns.settles_truths = self._items.each.stop is None
        left = MOST_INSTRUCTIONS
        for place in range(self._items.length):
            self._check_stack()
            self._begin_turn(counter, place)
            left = self._run_to_head(left)
        self._look_into_slots()
        if self._is_last_other or self._items.each.is_last_other:
            self._is_last_other = True
            self._now.read.update(filter(self._may_be_read, self._start.locals))

    def _begin_turn(self, counter: Scalar, place: int) -> None:
        """The frame goes from the head into a turn.

        Args:
            counter: of the first turn of a period.
            place: of the turn in the period.
        """
        self._frame.push(self._items.item(counter, place))
        self._frame.index += 1

    def _may_be_read(self, name: str) -> bool:
        """Whether some turn may ask what something among the locals held in front of it."""
        return root_of(name) in self._slots or self._is_live(name)

    def _run_to_head(self, left: int) -> int:
        """Run until the frame is at the loop's head again.

        Args:
            left: instructions that there may be.

        Returns:
            How many are left.

        Raises:
            Differs: there are more.
        """
        while left:
            left -= 1
            self._executor.run_one()
            if self._is_at_head():
                return left
        raise Differs

    def _is_at_head(self) -> bool:
        """Whether the turn is over."""
        return len(self._executor.frames) == self.depth and self._frame.index == self._start.index

    def _check_stack(self) -> None:
        """Refuse a turn that leaves something else on the stack than it found there.

        Raises:
            Differs: it does.
        """
        now, before = self._frame.stack, self._start.stack
        if len(now) != len(before) or any(a is not b for a, b in zip(now, before, strict=True)):
            raise Differs

    def _begin_draws(self) -> None:
        """The turn counts the blocks of random numbers that it reserves from 0 on."""
        recorder = self._recorder
        self._turns.reserved, recorder.random_blocks = recorder.random_blocks, {}

    # -- after -------------------------------------------------------------------------------

    def _end_draws(self, count: Number) -> None:
        """All turns have reserved the blocks that each of them does."""
        recorder, before = self._recorder, self._mark.random_blocks
        used = {
            device: before.get(device, 0) + blocks * count
            for device, blocks in recorder.random_blocks.items()
        }
        recorder.random_blocks = {**before, **used} if used else before

    def _refuse_views(self, kept: Sequence[str]) -> None:
        """What is handed on stands for its elements alone: a turn that writes it would not write
        the tensor of which it is a view.

        Raises:
            Differs: it is a view of the caller's, or of what a local holds in all turns.
        """
        recorder, heap = self._recorder, self._recorder.heap
        held = self._start.locals
        same = [handed_on(self._executor, held[name]) for name in held.keys() - self._changed]
        stay = {value.identity for value in same if value is not None}
        for name in kept:
            contents = heap[self._tensors[name][0].identity]
            base = heap[contents.memory].base if contents.memory else None
            if base is not None and (recorder.existing(base) is not None or base.identity in stay):
                raise Differs

    def _is_unread(self, name: str) -> bool:
        """Whether no turn asks what a slot holds, and each leaves a tensor of the same type there:
        gradients that are dropped in front of the next backward run, variables of closures."""
        is_handed_on = name not in self._slots or name in self._twins.values()
        if is_handed_on or self._is_last_other:
            return False
        stand, value = self._tensors[name][1], dict.get(self._now, name)
        recorder, builder = self._recorder, self._builder
        if not isinstance(self._start.locals[name], TensorValue) or is_leaf(recorder, stand):
            return False
        if not isinstance(value, TensorValue) or not is_plain(recorder, value):
            return False
        mine, other = value_in(recorder, stand), value_in(recorder, value)
        if not is_like(mine.type, other.type) or builder.needs_gradient(mine):
            return False
        if reached(self._executor, {stand.identity}).found:
            return False
        taken = builder.nodes[self._mark.nodes[1] :]
        return not any(argument is mine.node for node in taken for argument in node.args)

    def _finish(self) -> None:
        """Put a loop in the place of the turn and of all that follow it but the last."""
        self._check_effects()
        self._check_locals()
        self._check_structures()
        if self._memories.carried and self._builder.arm is not None:
            raise Differs  # what it leaves would be there whichever arm Python runs
        kept = self._kept()
        self._refuse_views(kept)
        if any(self._memories.has(self._tensors[name][0].identity) for name in kept):
            raise Differs
        pairs = self._pairs(kept)
        count_of_turns = len(self._items.counter) - 1
        all_stands = [stand for _, stand in self._tensors.values()]
        after = self._held_after(pairs, all_stands, count_of_turns, may_stay=True)
        after = self._without_ended(kept, after)
        self._memories.look()
        shown = self._shown()
        appended = self._appended_by(kept, shown)
        collected = self._held_in(appended.made.values(), [last for _, last in pairs])
        counter = self._items.counter[:-1]
        scalars = [scalar for scalar, _ in self._turns.taken.values()]
        count = len(scalars)
        drawn = blocks_after(self._turns, self._recorder.random_blocks)
        numbers_after = self._numbers_after()
        self._check_assumed(numbers_after)
        numbers, ends = numbers_of(
            counter,
            {**numbers_after, **drawn},
            [
                *scalars,
                *map(self._of_turns_only, appended.numbers),
                *self._turns.relied.values(),
                *self._asked_alike(numbers_after),
            ],
        )
        self._check_alike(numbers)
        self._end_draws(len(counter))
        collected_numbers = numbers[count : count + len(appended.numbers)]
        taken = self._take()
        inputs = [value.node for _, value in self._turns.taken.values()]
        known = dict(zip(inputs, numbers, strict=False))
        memories = self._memories
        memories.split(taken, known, len(counter), [*after, *collected.values()])
        memories.check_costs(taken)
        after += memories.after()
        rows = [*collected.values(), *memories.rows()]
        self._check_gradients_end((*after, *rows))
        stands = [elements_in(self._recorder, self._tensors[name][1]).node for name in kept]
        stands += memories.stands()
        body, fixed = body_of(
            self._builder.name, taken, inputs, stands, [*after, *rows], memories.changes()
        )
        recorder, builder = self._recorder, self._builder
        builder.take(self._mark.nodes, self._stand_ins.nodes)
        recorder.heap.restore(self._mark.heap)
        results: Sequence[graph.Value] = ()
        if after or rows or any(map(may_refuse, taken)):
            given = [self._given(name) for name in kept]
            operands = (*nodes_of(given), *memories.given(), *map(memories.in_front, fixed))
            results = self._record(body, numbers[:count], len(counter), operands, after, rows)
        self._prove(self._ints(kept, stands, results), numbers[:count], len(counter))
        found = dict(self._start.locals)
        for name in self._changed:
            found.pop(name, None)
        found |= {name: constant(ends[name]) for name in ends.keys() - drawn.keys()}
        staying = self._staying(kept, pairs, len(counter))
        left: dict[int, Value] = {}
        for name, result, (_, last) in zip(kept, results, pairs, strict=False):
            found[name] = staying[name] if name in staying else self._result(name, result)
            left[last.identity] = found[name]
        for name, (first, _) in self._views.items():
            found[name] = view_like(self._recorder, first)
        self._fill_unread(found, kept)
        self._name_twins(found)
        self._leave(found)
        stacks = dict(zip(collected, results[len(after) :], strict=False))
        written = results[len(after) + len(collected) :]
        memories.end(results[len(kept) : len(after)], written, len(counter))
        appended.place(len(counter), stacks, collected_numbers, left)
        if shown is not None:
            recorder.add_output(shown.effect(self._rows))
        self._items.skip(len(counter))

    def _check_gradients_end(self, results: Iterable[graph.Node]) -> None:
        """Refuse a turn whose results have a history that ends in the turn, was used up, or is
        watched.

        Raises:
            Differs: a gradient would pass to leaves of all turns, pass a second time, or be seen.
        """
        if any(map(self._is_ended, results)):
            raise Differs

    def _without_ended(self, kept: Sequence[str], after: Sequence[graph.Node]) -> list[graph.Node]:
        """What turns hand on, without histories that end in each turn, where no turn lets a
        gradient pass on to what the turn before has left, and none keeps that."""
        builder, found = self._builder, list(after)
        passing = [
            n for n in builder.nodes[self._mark.nodes[1] :] if builder.node_needs_gradient(n)
        ]
        read = {argument for node in passing for argument in node.args}
        for place, (name, node) in enumerate(zip(kept, after, strict=True)):
            value = self._tensors[name][1]
            is_passed_on = elements_in(self._recorder, value).node in read
            if is_passed_on or self._is_last_other or not self._is_ended(node):
                continue
            if not reached(self._executor, {value.identity}).found:
                self._ended.add(name)
                found[place] = builder.without_gradient(graph.Value(builder, node)).node
        return found

    def _is_ended(self, result: graph.Node) -> bool:
        """Whether a result has a history that ends in the turn, was used up, or is watched."""
        needs = self._builder.node_needs_gradient(result)
        return needs and (self.hands_leaves_on or self._are_spent([result]))

    def _are_spent(self, results: Iterable[graph.Node]) -> bool:
        """Whether a gradient of some results would pass what a backward run in the turn has, or
        what the turn has put hooks on."""
        before, now = self._tape, self._recorder.tape
        spent = {*now.spent, *now.hooks, *now.retained}
        spent -= {*before.spent, *before.hooks, *before.retained}
        found = list(results) if spent else []
        seen = set(found)
        while found:
            node = found.pop()
            if node in spent:
                return True
            further = {a for a in node.args if isinstance(a, graph.Node)} - seen
            seen |= further
            found += filter(self._builder.node_needs_gradient, further)
        return False

    def _name_twins(self, found: dict[str, Value]) -> None:
        """Give what turns have handed on its other names."""
        for name, twin in self._twins.items():
            if name in self._now.read:
                found[name] = found[twin]

    def _result(self, name: str, result: graph.Value) -> Value:
        """What a variable holds behind the loop."""
        first = self._start.locals[name]
        if name in self._ended:  # it needs a gradient, as it did, and nobody lets one pass
            held = value_in(self._recorder, self._tensors[name][0])
            result = self._builder.with_history_of(held, result)
        made = self._recorder.new_tensor(result)
        if isinstance(first, TensorValue) and is_leaf(self._recorder, first):
            make_leaf(self._recorder, made)
        return like(self._executor, first, made)

    def _staying(
        self,
        kept: Sequence[str],
        pairs: Sequence[tuple[TensorValue, TensorValue]],
        turns: int,
    ) -> dict[str, Value]:
        """Variables whose objects turns hand on in a ring (`a, b = b, a`), with what each of them
        holds behind so many turns: an object that was there in front of them."""
        names = {stand.identity: name for name, (stand, _) in zip(kept, pairs, strict=True)}
        sources_of = {
            name: names.get(after.identity) for name, (_, after) in zip(kept, pairs, strict=True)
        }
        found: dict[str, Value] = {}
        for name in kept:
            path, further = [name], sources_of[name]
            while further is not None and further not in path:
                path.append(further)
                further = sources_of[further]
            if further is None:
                continue  # a turn has made it
            first = path.index(further)
            is_on_path = turns < len(path)
            place = turns if is_on_path else first + (turns - first) % (len(path) - first)
            found[name] = self._start.locals[path[place]]
        return found

    def _fill_unread(self, found: dict[str, Value], kept: Collection[str]) -> None:
        """Let slots that are not handed on hold something in front of the last turn, which does not
        ask what it is."""
        for name in self._slots:
            if name in self._tensors and name not in kept:
                kind: Any = value_in(self._recorder, self._tensors[name][0]).type
                zeros = TABLE.full(0, shape=kind.shape, dtype=kind.dtype, device=kind.device)
                found[name] = self._recorder.new_tensor(zeros)

    def _ints(
        self, kept: Sequence[str], stands: Sequence[graph.Node], results: Sequence[graph.Value]
    ) -> dict[graph.Node, graph.Node]:
        """What stands for ints of Python's that are handed on -> what the loop gives."""
        return {
            stand: result.node
            for name, stand, result in zip(kept, stands, results, strict=False)
            if self._start.locals[name].python_type is int
        }

    def _followed(self) -> Collection[int]:
        return {*super()._followed(), *self._memories.carried}

    def _appended_by(self, kept: Iterable[str], shown: ShownOfTurn | None) -> Appended:
        """What the turn appends to lists.

        Args:
            kept: variables that turns hand on.
            shown: what it writes out.

        Raises:
            Differs: it cannot be told for each turn.
        """
        stands = {
            self._tensors[name][1].identity: (self._start.locals[name], self._now_in(name))
            for name in kept
        }
        return self._appended(stands, shown)

    def _all_stands(self) -> Collection[int]:
        return {stand.identity for _, stand in self._tensors.values()}

    def _record(
        self,
        body: graph.Graph,
        numbers: Sequence[Any],
        limit: int,
        operands: Sequence[graph.Node],
        after: Sequence[graph.Node],
        collected: Sequence[graph.Node],
    ) -> list[graph.Value]:
        """The loop in the graph: what it hands on in the end, and what it collects.

        Raises:
            Differs: gradients would be handed on in several dtypes.
        """
        loop = Loop(body, tuple(numbers), len(after), len(collected))
        return self._appended_loop(loop, limit, operands, [*after, *collected])

    def _appended_loop(
        self,
        loop: Loop,
        limit: int,
        operands: Sequence[graph.Node],
        kept: Sequence[graph.Node],
    ) -> list[graph.Value]:
        """The loop in the graph, with a derivative if gradients pass: its results.

        Args:
            loop: without a derivative.
            kept: what its results are of a turn, as it was recorded.

        Raises:
            Differs: gradients would be handed on in several dtypes.
        """
        builder, count = self._builder, len(kept)
        needs = [builder.node_needs_gradient(node) for node in kept]
        if not any(needs):
            return [*append(builder, loop, limit, True, self._operands(operands))][:count]
        loop = with_gradients(loop, map(builder.node_needs_gradient, operands), kept, needs)
        if loop.tests:
            self._check_count_is_free(loop)
        values = [graph.Value(builder, node) for node in operands]
        return noted(builder, append(builder, loop, limit, True, values)[:count], needs)

    def _check_count_is_free(self, loop: Loop) -> None:
        """Refuse gradients of a loop with any number of turns that are others for some numbers.

        Raises:
            Differs: which tensors get a gradient depends on how many turns there are; or the loop
                is in a turn of another one, whose second derivatives would ask for that.
        """
        in_turn = any(turns is not self._turns for turns in self._recorder.turns)
        if in_turn or not is_reach_settled(loop, SETTLED):
            raise Differs

    def _check_locals(self) -> None:
        """Refuse a turn after which other locals differ than those that did before."""
        now = self._now
        for name, value in self._start.locals.items():
            is_kept = name in now and is_same(dict.get(now, name), value)
            if name not in self._changed and not is_kept:
                raise Differs
        known = {*self._tensors, *self._numbers, *self._views, *self._twins}
        self._check_views()
        for name in self._changed - known:
            if name in now.read or name not in now.fresh:
                raise Differs  # it is not known in turns that follow
        bound = {name for name in now.fresh if dict.__contains__(now, name)}
        if bound - self._start.locals.keys():
            raise Differs  # a turn before had no such variable
        for name in known - now.read:
            if name not in now.fresh:
                raise Differs

    def _check_views(self) -> None:
        """Refuse a turn that does not make of each view another one of the same elements.

        Raises:
            Differs: it does not.
        """
        heap, seen = self._recorder.heap, {stand.identity for _, stand in self._views.values()}
        for name, (_, stand) in self._views.items():
            value = self._now_in(name)
            if not isinstance(value, TensorValue) or value.identity in seen:
                raise Differs
            is_new = heap.is_made_since(self._mark.heap, value.identity)
            if not is_new or not is_second_view(self._recorder, value, stand):
                raise Differs
            seen.add(value.identity)

    def _now_in(self, name: str) -> Value:
        value = dict.get(self._now, name)
        if value is None:
            raise Differs
        return value

    def _after(self, name: str) -> TensorValue:
        value, first = self._now_in(name), self._start.locals[name]
        if value.python_type is not first.python_type:
            raise Differs
        held = handed_on(self._executor, value)
        if held is None and self._is_launched(name):
            number = held_number(self._executor, value)
            held = None if number is None else self._recorder.new_tensor(number)
        if held is None:
            raise Differs
        return held

    def _is_launched(self, name: str) -> bool:
        """Whether a variable holds a number of Python's that the launch computes."""
        return is_count(self._start.locals[name]) or name in self._computed

    def _pairs(self, kept: Sequence[str]) -> list[tuple[TensorValue, TensorValue]]:
        """Of what turns hand on: what stands for it, and what is there after the turn.

        A number may be in several variables, and each hands on one of its own.
        """
        found: list[tuple[TensorValue, TensorValue]] = []
        seen: set[int] = set()
        recorder = self._recorder
        for name in kept:
            after = self._after(name)
            if after.identity in seen and self._is_launched(name):
                after = recorder.new_tensor(TABLE.clone(recorder.graph_value(after)))
            seen.add(after.identity)
            found.append((self._tensors[name][1], after))
        return found


__all__ = ["RepeatedTurn"]
