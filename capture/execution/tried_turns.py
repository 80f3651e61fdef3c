"""A turn of a loop that is tried: captured once, to stand for others or to be undone.

Contract: `Tried` captures from a loop's head to the head again, and knows what the turn has
changed; `body_of` makes the graph of a turn of what was recorded. Whether turns do the same, and
which are tried, is said by `loops` and `tested_loops`.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeGuard

from dynajit.capture.bytecode.instructions import Body
from dynajit.capture.execution.memories import is_read_again, is_viewed_first
from dynajit.capture.execution.row_writes import NO_CHANGES, Changes
from dynajit.capture.execution.slots import (
    WHOLE,
    Slot,
    changed,
    gained,
    is_alike,
    with_fields,
    with_values,
)
from dynajit.capture.execution.structures import (
    is_built_alike,
    objects_in,
    parts_of,
    with_structures,
)
from dynajit.capture.machine.frames import Frame, SavedFrame
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.recording import Mark
from dynajit.capture.python.tensors.counts import DTYPES
from dynajit.capture.tensors.backward import Tape
from dynajit.capture.tensors.intervals import ints_in
from dynajit.capture.tensors.memory import make_leaf
from dynajit.capture.tensors.turns import Turns
from dynajit.capture.values.containers import (
    HeapValue,
    IteratorValue,
)
from dynajit.capture.values.symbolic import UNBOUND, Constant, Value
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, META
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType, contiguous_strides
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ir.loop_derivatives import gradients
from dynajit.ir.loops import PART, Loop
from dynajit.ir.refusals import may_refuse
from dynajit.ir.sizes import node_sizes

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Instructions of a turn that is tried.
MOST_INSTRUCTIONS: Final = 50_000

#: Places outside of variables that turns hand on: each is an input of the body.
MOST_SLOTS: Final = 256


class Differs(Exception):
    """A turn stands for no other; the loop is unrolled."""


def may_try(executor: "Executor", frame: Frame) -> bool:
    """Whether what the frames do is recorded as it is done, and only once."""
    is_plain = executor.trial is None and executor.forced is None
    return (
        is_plain
        and not executor.recorder.watched
        and frame.generator is None
        and not any(entry.namespace.is_fixed for entry in executor.frames)
    )


def is_tested(body: Body, index: int) -> bool:
    """Whether an instruction lies in a loop that is no `for`, or in its first test, which has the
    line of the one that leads back."""
    location = body.instructions[index].location
    for instruction in body.instructions:
        target = instruction.argument if "JUMP" in instruction.operation else None
        if type(target) is not int or not target <= instruction.index:
            continue
        if body.instructions[target].operation == "FOR_ITER":
            continue
        is_in_test = instruction.location.line == location.line and index <= instruction.index
        if target <= index <= instruction.index or is_in_test:
            return True
    return False


class Reads(dict[str, Value]):
    """The locals of a frame, which remember what was read before it was written."""

    def __init__(self, given: Mapping[str, Value]) -> None:
        super().__init__(given)
        self.fresh: set[str] = set()
        self.read: set[str] = set()

    def after_inner(self, given: Mapping[str, Value], read: Iterable[str]) -> "Reads":
        """These locals after a loop within the turn, which has read some of them."""
        found = Reads(given)
        found.fresh, found.read = self.fresh, self.read
        found.read.update(name for name in read if name not in self.fresh)
        return found

    def split(self, heap: Heap, name: str, template: Value) -> None:
        """At the end of a turn: let the parts of a structure be there, read and set as it was."""
        value = dict.get(self, name)
        if value is None or not is_built_alike(heap, value, template):
            return
        parts = parts_of(heap, name, value)
        self.update(parts)
        self.read.update(parts if name in self.read else ())
        self.fresh.update(parts if name in self.fresh else ())
        self.fresh.discard(name)

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self.fresh:
            self.read.add(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self.fresh:
            self.read.add(name)
        return super().pop(name, *default)

    def __setitem__(self, name: str, value: Value) -> None:
        self.fresh.add(name)
        super().__setitem__(name, value)


def own_cells(executor: "Executor", frame: Frame) -> dict[str, Slot]:
    """The cells of variables of the frame's function of which it is known what they hold: variables
    that functions in it read, too (a lambda, a generator expression, before Python 3.12 a
    comprehension)."""
    found = {name: frame.cells.get(name) for name in frame.code.co_cellvars}
    return {
        name: Slot(cell.identity, WHOLE)
        for name, cell in found.items()
        if cell is not None and executor.heap[cell.identity] is not None
    }


def with_slots(saved: SavedFrame, held: Mapping[str, Value]) -> SavedFrame:
    """The state of a frame, with what slots hold among the locals."""
    bound = {name: value for name, value in held.items() if value is not UNBOUND}
    return replace(saved, locals={**saved.locals, **bound})


@record
class Head:
    """The state in front of a turn.

    Args:
        frame: with what its own cells hold among the locals.
        heap: a mark of the heap.
    """

    frame: SavedFrame
    heap: int

    @classmethod
    def of(cls, executor: "Executor", frame: Frame) -> "Head":
        """The state now."""
        cells = own_cells(executor, frame)
        held = {name: cell.read(executor.heap) for name, cell in cells.items()}
        return cls(with_slots(frame.save(), held), executor.heap.mark())


class StandIns:
    """Inputs that nothing will load, of a turn that is tried. Mutable: grows.

    Args:
        builder: of the graph.
    """

    def __init__(self, builder: graph.Builder) -> None:
        self._builder = builder
        self.nodes: list[graph.Node] = []

    def add(self, name: str, type: Any) -> graph.Value:
        """A further one."""
        value = self._builder.placeholder(name, type)
        self.nodes.append(value.node)
        return value


class Tried:
    """A turn that is tried. Mutable: it is captured, then becomes a loop, or is undone.

    Args:
        executor, frame: in front of the turn.
        number: of the loop.
    """

    #: Whether gradients may pass.
    differentiable: ClassVar[bool] = False
    #: Whether turns may run backward through what they have made.
    runs_backward: ClassVar[bool] = False
    #: Whether gradients end at what turns hand on, within the turn.
    hands_leaves_on: bool = False
    #: Whether slots may change: what they hold is among the locals here.
    follows_slots: ClassVar[bool] = False

    def __init__(self, executor: "Executor", frame: Frame, number: int) -> None:
        self.depth = len(executor.frames)
        self._executor, self._frame, self._number = executor, frame, number
        self._recorder, self._builder = executor.recorder, executor.recorder.builder
        self._saved = self._start = frame.save()
        #: A mark of the heap behind what the turn is given.
        self._entered = executor.heap.mark()
        #: Name among the locals -> a place elsewhere.
        self._slots: dict[str, Slot] = {}
        #: Variable -> what it holds in front of the turn, of which the parts are among the locals.
        self._structures: dict[str, Value] = {}
        #: Heap ids of the lists, dicts and objects among these.
        self._renewed: frozenset[int] = frozenset()
        #: Heap id -> attributes that only the turn writes.
        self._gained: dict[int, tuple[str, ...]] = {}
        #: Heap id -> contents in front of the turn, with those attributes.
        self._in_front: dict[int, Any] = {}
        if self.follows_slots:
            self._follow(own_cells(executor, frame))
        self._outer = frame.locals
        self._points = len(frame.points)
        self._mark: Mark = self._recorder.mark()
        self._watched = len(self._recorder.watched)
        self._stand_ins = StandIns(self._builder)
        self._turns = Turns(number, self._stand_ins.add, executor.heap.next_id)

    def begins_in(self, frame: Frame, span: range) -> bool:
        """Whether it begins at one of some instructions of a frame."""
        return frame is self._frame and self._start.index in span

    @property
    def _now(self) -> Reads:
        """The locals of the frame while the turn is tried."""
        assert isinstance(self._frame.locals, Reads)
        return self._frame.locals

    def next_item(self, frame: Frame, iterator: IteratorValue) -> bool:
        """Whether the turn has an item of an iterator of its own."""
        return False

    def _follow(self, slots: Mapping[str, Slot]) -> None:
        """Let some slots, as they are in front of the turn, be among the locals."""
        heap = self._executor.heap
        self._slots.update(slots)
        held = {
            name: slot.of(self._in_front.get(slot.identity, heap[slot.identity]))
            for name, slot in slots.items()
        }
        self._start = with_slots(self._start, held)

    def _know(self, structures: Mapping[str, Value]) -> None:
        """Let more variables hold structures of which the parts are among the locals."""
        self._structures.update(structures)
        heap = self._executor.heap
        own = (objects_in(heap, value) for value in self._structures.values())
        self._renewed = frozenset(identity for each in own for identity in each)

    def _changed_slots(self, mark: int) -> dict[Slot, Value]:
        """Slots that have changed since a mark and are no variables -> what they held then; none
        where they are too many to be handed on."""
        found: dict[Slot, Value] = {}
        heap, known = self._executor.heap, set(self._slots.values())
        for identity, before in heap.written_since(mark).items():
            if identity in self._renewed:
                continue
            before = self._in_front.get(identity, before)
            for key, (old, now) in changed(before, heap[identity]).items():
                slot = Slot(identity, key)
                if slot not in known and not is_same(old, now):
                    found[slot] = old
        return found if len(known) + len(found) <= MOST_SLOTS else {}

    def _has_gained(self) -> bool:
        """Whether the turn has written attributes for the first time; noted for the next try."""
        heap, is_new = self._executor.heap, False
        for identity, before in heap.written_since(self._mark.heap).items():
            names = gained(self._in_front.get(identity, before), heap[identity])
            if names and identity not in self._gained:
                self._gained[identity] = names
                is_new = True
        return is_new

    def _named(self, slots: Iterable[Slot]) -> dict[str, Slot]:
        """Names for more slots, which no variable has."""
        first = len(self._slots)
        return {f"slot {first + count}": slot for count, slot in enumerate(slots)}

    def _stand_in(self, name: str, value: TensorValue, needs_gradient: bool = False) -> TensorValue:
        """A tensor like one that there is in front of the turn.

        Args:
            needs_gradient: it does although the other one may not.
        """
        held = elements_in(self._recorder, value)
        kind = TensorType(held.shape, held.dtype, held.device)
        given = self._stand_ins.add(name, kind)
        needs = needs_gradient or self._builder.needs_gradient(held)
        self._builder.note_gradient(given, needs)
        made = self._recorder.new_tensor(given)
        self._builder.lay_out(value_in(self._recorder, made), contiguous_strides(held.shape))
        if is_leaf(self._recorder, value):
            make_leaf(self._recorder, made)
        return made

    def _stand_in_of_number(self, kind: type) -> TensorValue:
        """A tensor like those that hold numbers of Python's of a class."""
        given = self._stand_ins.add("carried", TensorType((), DTYPES[kind], CPU))
        self._builder.lay_out(given, ())
        return self._recorder.new_tensor(given)

    def _enter(self, found: Mapping[str, Value]) -> None:
        """Begin the turn, with these locals."""
        self._recorder.turns.append(self._turns)
        self._frame.locals = Reads(self._without_slots(found))
        self._entered = self._recorder.heap.mark()

    def _without_slots(self, found: Mapping[str, Value]) -> dict[str, Value]:
        """Some locals; what slots hold is put there."""
        heap = self._recorder.heap
        found = with_structures(heap, found, self._structures)
        wanted: dict[int, dict[Hashable, Value]] = {}
        for name, slot in self._slots.items():
            value = found.get(name, UNBOUND)
            if slot.read(heap) is not value:
                wanted.setdefault(slot.identity, {})[slot.key] = value
        for identity, values in wanted.items():
            heap.write(identity, with_values(heap[identity], values))
        return {name: value for name, value in found.items() if name not in self._slots}

    def _look_into_slots(self) -> None:
        """At the end of the turn: what slots hold, which anybody may have read."""
        for name, slot in self._slots.items():
            value = slot.read(self._executor.heap)
            if value is not UNBOUND:
                dict.__setitem__(self._now, name, value)
                self._now.read.add(name)
        for name, template in self._structures.items():
            self._now.split(self._executor.heap, name, template)

    def _again(self) -> None:
        """In front of the turn once more."""
        self._frame.restore(self._saved)
        self._in_front = {
            identity: with_fields(self._executor, identity, names)
            for identity, names in self._gained.items()
        }
        self._follow({n: s for n, s in self._slots.items() if s.identity in self._in_front})

    def undo(self) -> None:
        """As if the turn had not been tried."""
        self._recorder.restore(self._mark)
        self._executor.frames[:] = self._executor.frames[: self.depth]
        self._leave(self._start.locals)

    def _leave(self, found: Mapping[str, Value]) -> None:
        """The frame is in front of the turn again, with other locals."""
        read = self._frame.locals
        self._turns.decide = None  # which leads back here: a cycle would keep the machine alive
        self._frame.restore(self._saved)
        found = self._without_slots(found)
        self._frame.locals = dict(found)
        if isinstance(self._outer, Reads):
            seen = read.read if isinstance(read, Reads) else ()
            self._frame.locals = self._outer.after_inner(found, seen)
        del self._frame.points[self._points :]
        if self._recorder.turns and self._recorder.turns[-1] is self._turns:
            self._recorder.turns.pop()
        for outer in self._recorder.turns:
            outer.forget(self._builder.has_input)

    def _check_effects(self) -> None:
        """Refuse a turn that has changed more than its locals.

        Raises:
            Differs: it has.
        """
        recorder, frame, heap = self._recorder, self._frame, self._recorder.heap
        if len(frame.stack) != len(self._start.stack) or frame.cells != self._start.cells:
            raise Differs
        if any(a is not b for a, b in zip(frame.stack, self._start.stack, strict=True)):
            raise Differs
        has_drawn = recorder.random_blocks != self._mark.random_blocks
        if has_drawn and self._turns.reserved is None:
            raise Differs
        if len(recorder.watched) != self._watched:
            raise Differs
        known = self._followed()
        for identity, old in heap.written_since(self._mark.heap).items():
            now = heap[identity]
            if now is old or identity in known:
                continue
            if is_read_again(old, now) or is_viewed_first(heap, old, now):
                continue
            old = self._in_front.get(identity, old)
            if self._has_changed_slots_only(identity, old, now):
                continue
            if identity != recorder.tape_id or not self._has_run_own_backward(old, now):
                raise Differs

    def _has_changed_slots_only(self, identity: int, before: Any, now: Any) -> bool:
        """Whether an object differs in what slots hold, which is among the locals."""
        slots = self._slots.values()
        return is_alike(before, now) and all(
            Slot(identity, key) in slots or is_same(*pair)
            for key, pair in changed(before, now).items()
        )

    def _has_run_own_backward(self, before: Tape, now: Tape) -> bool:
        """Whether backward has run from nothing but what the turn has made, and hooks are on
        nothing else."""
        if not self.runs_backward:
            return False
        own = set(self._builder.nodes[self._mark.nodes[1] :])
        pairs = ((before.hooks, now.hooks), (before.retained, now.retained))
        is_same = all({n: v for n, v in new.items() if n not in own} == old for old, new in pairs)
        return is_same and now.spent - before.spent <= own

    def _followed(self) -> Collection[int]:
        """Heap ids of what the turn may have changed."""
        cells = {slot.identity for slot in self._slots.values() if slot.key is WHOLE}
        return cells | self._renewed

    def _held_after(
        self,
        pairs: Sequence[tuple[TensorValue, TensorValue]],
        all_stands: Iterable[TensorValue],
        fewest: int = 2,
        *,
        may_stay: bool = False,
    ) -> list[graph.Node]:
        """What carried tensors hold after the turn.

        Args:
            pairs: of each what stands for it in front of the turn, and what is there after it.
            all_stands: everything that stands for something.
            fewest: turns after which each is one that a turn has made (`a, b, c = b, c, new`).
            may_stay: some never are (`a, b = b, a`).

        Raises:
            Differs: they are of other types, or share memory with what others hold.
        """
        recorder, heap = self._recorder, self._recorder.heap
        stands = {value.identity for value in all_stands}
        for identity in stands:
            memory = heap[identity].memory
            if memory and heap[memory].version:
                raise Differs  # what the turn before has made may be known elsewhere
        followed = {stand.identity: after.identity for stand, after in pairs}
        found: list[graph.Node] = []
        seen: set[int] = set()
        for stand, after in pairs:
            _check_ends(stand.identity, followed, stands, fewest, may_stay=may_stay)
            if after.identity not in stands and not is_new(recorder, after, self._mark, stands):
                raise Differs
            place = heap[after.identity].memory or after.identity
            held, wanted = elements_in(recorder, after), elements_in(recorder, stand)
            if place in seen or not is_like(held.type, wanted.type):
                raise Differs
            if is_leaf(recorder, after) is not is_leaf(recorder, stand):
                raise Differs
            if not is_plain(recorder, after, self.differentiable):
                raise Differs
            if self._builder.needs_gradient(held) != self._builder.needs_gradient(wanted):
                raise Differs
            seen.add(place)
            found.append(held.node)
        return found

    def _prove(
        self, stands: Mapping[graph.Node, graph.Node], numbers: Sequence[Any], limit: int
    ) -> None:
        """Refuse ints of Python's that may not fit an int64 in some turn.

        Args:
            stands: of what is handed on, what stands for an int in the turn -> what the loop gives.
            numbers: those of the turn, in all turns.
            limit: how many there are at most.

        Raises:
            Differs: there is such an int.
        """
        intervals = self._recorder.intervals
        for (_, given), number in zip(self._turns.taken.values(), numbers, strict=True):
            ints = ints_in(number, limit)
            if ints:
                intervals.note(given.node, ints)
        is_tried = any(turns is not self._turns for turns in self._recorder.turns)
        if not intervals.prove(stands, self._mark.unproven, is_tried):
            raise Differs

    def _check_nodes(self, taken: list[graph.Node]) -> None:
        """Refuse what the body of a loop cannot do.

        Raises:
            Differs: a gradient passes (or passes through complex numbers), or sizes that vary are
                met.
        """
        outer = {a for node in taken for a in node.args if isinstance(a, graph.Node)}
        builder = self._builder
        passes = any(map(builder.node_needs_gradient, taken))
        if passes and not self.differentiable:
            raise Differs
        if any(node in builder.leaves for node in taken) and not self.hands_leaves_on:
            raise Differs
        for node in {*taken, *outer}:
            kind = node.type
            if any(node_sizes(node)):
                raise Differs
            if not isinstance(kind, TensorType):
                continue
            if passes and kind.dtype.is_complex:
                raise Differs

    def _take(self) -> list[graph.Node]:
        """What the turn has recorded, checked."""
        taken = list(self._builder.nodes[self._mark.nodes[1] :])
        self._check_nodes(taken)
        return taken

    def _operands(self, nodes: Iterable[graph.Node]) -> list[graph.Value]:
        builder = self._builder
        return [builder.without_gradient(graph.Value(builder, node)) for node in nodes]


# ---------------------------------------------------------------------------------------------
# values


def _check_ends(
    identity: int,
    followed: Mapping[int, int],
    stands: Collection[int],
    fewest: int,
    *,
    may_stay: bool,
) -> None:
    """Refuse what turns hand on that was there in front of them.

    Args:
        identity: what stands for it in front of a turn.
        followed: what stands for something -> what a turn leaves in its place.
        stands: everything that stands for something.
        fewest: turns after which nothing is there that was there in front of them.
        may_stay: but for what turns hand on in a ring.

    Raises:
        Differs: it is there.
    """
    seen: set[int] = set()
    while identity in followed:
        if identity in seen:
            if may_stay:
                return
            raise Differs
        seen.add(identity)
        identity = followed[identity]
    if identity in stands or len(seen) > fewest:
        raise Differs


def nodes_of(values: Iterable[graph.Value]) -> list[graph.Node]:
    return [value.node for value in values]


def is_same(a: Any, b: Any) -> bool:
    """Whether two values of a local are one object, or the same number."""
    if a is b:
        return True
    if isinstance(a, Constant) and isinstance(b, Constant):
        return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)
    if isinstance(a, HeapValue) and isinstance(b, HeapValue):
        return a.identity == b.identity
    return False


def is_number(value: Any) -> TypeGuard[Constant]:
    return isinstance(value, Constant) and type(value.value) in (int, float)


def value_in(recorder: Any, value: TensorValue) -> graph.Value:
    found: graph.Value = recorder.graph_value(value)
    return found


def is_leaf(recorder: Any, value: TensorValue) -> bool:
    """Whether the captured code has made a leaf of a tensor, which requires a gradient."""
    contents: TensorContents = recorder.heap[value.identity]
    return contents.is_new_leaf


def elements_in(recorder: Any, value: TensorValue) -> graph.Value:
    """What a tensor holds, a leaf without the gradient that ends there.

    Raises:
        Differs: a leaf was written to.
    """
    held = value_in(recorder, value)
    if not is_leaf(recorder, value):
        return held
    made_of = held.node.args[0] if held.node in recorder.builder.leaves else None
    if not isinstance(made_of, graph.Node):
        raise Differs
    return graph.Value(recorder.builder, made_of)


def is_plain(recorder: Any, value: TensorValue, may_need_gradient: bool = False) -> bool:
    """Whether a tensor is its elements, and nothing else: row-major, perhaps with a gradient, which
    may end there."""
    contents: TensorContents = recorder.heap[value.identity]
    is_special = contents.attributes or contents.has_new_data
    if value.cls is not Tensor or is_special or contents.is_frozen:
        return False
    if contents.is_new_leaf and not may_need_gradient:
        return False
    held = value_in(recorder, value)
    builder = recorder.builder
    if not isinstance(held.type, TensorType):
        return False
    if builder.needs_gradient(held) and not may_need_gradient:
        return False
    if any(node_sizes(held.node)):
        return False
    if contents.memory and recorder.heap[contents.memory].is_uncertain:
        return False
    return bool(builder.strides_of(held) == contiguous_strides(held.shape))


def is_like(a: Any, b: Any) -> bool:
    return bool((a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device))


def is_new(recorder: Any, value: TensorValue, mark: Mark, stands: Collection[int]) -> bool:
    """Whether a turn has made a tensor, with memory that nothing older has."""
    heap = recorder.heap
    if not heap.is_made_since(mark.heap, value.identity):
        return False
    contents: TensorContents = heap[value.identity]
    if not contents.memory:
        return contents.value.node.kind is graph.NodeKind.CALL
    memory: MemoryContents = heap[contents.memory]
    base = memory.base.identity
    return heap.is_made_since(mark.heap, base) and base not in stands


def body_of(
    name: str,
    taken: list[graph.Node],
    numbers: list[graph.Node],
    carried: list[graph.Node],
    after: list[graph.Node],
    changes: Changes = NO_CHANGES,
) -> tuple[graph.Graph, list[graph.Node]]:
    """The graph of a turn, and the nodes from outside that it reads.

    Raises:
        Differs: tensors are on several devices, or have no elements.
    """
    taken = [node for node in taken if node not in changes.gone]
    after = [changes.applied(node) for node in after]
    own = {*taken, *numbers, *carried}
    operands = (
        changes.applied(a) for node in taken for a in node.args if isinstance(a, graph.Node)
    )
    fixed = [node for node in dict.fromkeys((*operands, *after)) if node not in own]
    builder = graph.Builder(name, reserved=(node.name for node in taken))
    known: dict[Any, graph.Node] = {}
    for node in (*numbers, *carried, *fixed):
        kind = node.type
        if isinstance(kind, TensorType):
            kind = TensorType(kind.shape, kind.dtype, kind.device)
        known[node] = builder.placeholder(node.name, kind).node
    for node in taken:
        if node.kind is not graph.NodeKind.CALL:
            known[node] = builder.adopt(node).node
            continue
        args = tuple(
            known[changes.applied(a)] if isinstance(a, graph.Node) else a for a in node.args
        )
        known[node] = builder.copy(node, args).node
    certain = {*after, *changes.certain}
    refusing = [known[node] for node in taken if may_refuse(node) and node not in certain]
    body = builder.finish([*(known[node] for node in after), *refusing])
    kinds = (node.type for node in body.nodes if node.op is not PART)  # numbers of turns are here
    devices = {kind.device for kind in kinds if isinstance(kind, TensorType)}
    if len(devices) > 1 or META in devices:
        raise Differs
    return body, fixed


def with_gradients(
    loop: Loop, active: Iterable[bool], after: Sequence[graph.Node], needs: Sequence[bool]
) -> Loop:
    """A loop that has a derivative.

    Args:
        active: of each operand whether gradients pass to it.
        after: its results of a turn, as they were recorded.
        needs: which of them need a gradient; one does.

    Raises:
        Differs: gradients would be handed on in several dtypes.
    """
    found = {node.type.dtype for node, need in zip(after, needs, strict=True) if need}  # type: ignore[union-attr]
    if len(found) > 1 or not found <= {dtypes.float32, dtypes.float64}:
        raise Differs
    return replace(loop, active=tuple(active), gradients=gradients, unit=found.pop())


def noted(builder: Any, results: Sequence[graph.Value], needs: Sequence[bool]) -> list[graph.Value]:
    """The results of a loop that has a derivative, those without a gradient behind a detach."""
    for result in results:
        assert isinstance(result.node.args[0], graph.Node)
        is_float = result.dtype.category >= Category.FLOATING
        builder.note_gradient(graph.Value(builder, result.node.args[0]), True)
        builder.note_gradient(result, is_float)
    return [
        result if need else builder.without_gradient(result)
        for result, need in zip(results, needs, strict=True)
    ]


__all__ = [
    "MOST_INSTRUCTIONS",
    "Differs",
    "Head",
    "Reads",
    "Tried",
    "body_of",
    "is_like",
    "is_new",
    "is_number",
    "is_plain",
    "is_same",
    "may_try",
    "nodes_of",
    "noted",
    "value_in",
    "with_gradients",
    "with_slots",
]
