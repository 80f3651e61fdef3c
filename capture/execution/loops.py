"""Loops that do the same in every turn: two turns are captured as they come, one stands for the rest.

`for` over a range is watched at its head. After two turns of a loop that has many more, a turn is
captured in which the counter is a run-time number (`capture.tensors.turns`), and tensors that the
turns before it changed are inputs. If that turn changes nothing else, ends at the head again, and
leaves what it found, up to the values of those tensors and numbers, then so does every turn: what
it recorded is taken out of the graph and becomes the body of a loop (`ir.loops`). The last turn is
captured as it comes, so that what it leaves behind (its own variables, views, the counter) is what
Python has there.

A turn that decides by something that differs between turns, writes to what existed before it,
meets an exception, leaves the loop, or breaks the graph stands for no other: everything is as if it
had not been tried, and the loop is unrolled. So is a loop through which gradients pass.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from dynajit.capture.breaks import GraphBreak, SkipFrame
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.frames import Frame, SavedFrame
from dynajit.capture.machine.recording import Mark
from dynajit.capture.places import sources
from dynajit.capture.tensors.turns import Turns, Varies, is_of_a_turn, numbers_of
from dynajit.capture.values.containers import IteratorValue, RangeIterator
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType, contiguous_strides
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ir.loops import Loop, append
from dynajit.ir.refusals import may_refuse
from dynajit.ir.sizes import node_sizes

if TYPE_CHECKING:
    from dynajit.capture.execution.executor import Executor

#: Loops of fewer turns are unrolled: kernels see more than one turn at a time.
FEWEST_TURNS: Final = 17

#: Turns that are captured as they come before one stands for all others.
PEELED: Final = 2

#: How often a turn of one loop is tried: the first turns of some loops differ from all others.
MOST_TRIED: Final = 2

#: Instructions of a turn that is tried.
MOST_INSTRUCTIONS: Final = 50_000


class Differs(Exception):
    """A turn stands for no other; the loop is unrolled."""


@record
class Watched:
    """A loop at its head.

    Args:
        frame: in which it runs.
        iterator: what it goes over.
        states: the frame in front of its last turns, the latest last.
        turns: how many turns began.
        tried: how many turns were tried.
    """

    frame: Frame
    iterator: IteratorValue
    states: tuple[SavedFrame, ...]
    turns: int
    tried: int


class Watcher:
    """The loops of one capture. Mutable.

    Attributes:
        depth: of the frame whose loop's turn is being tried; 0: none is.
    """

    def __init__(self) -> None:
        self._watched: dict[tuple[int, int], Watched] = {}
        self._count = 0
        self.depth = 0

    def at_head(self, executor: "Executor", frame: Frame) -> None:
        """The executor is in front of a `FOR_ITER`: perhaps most turns become a loop."""
        iterator = frame.stack[-1]
        if not isinstance(iterator, IteratorValue):
            return
        state = executor.heap[iterator.identity]
        key = id(frame), frame.index
        if not isinstance(state, RangeIterator) or not state.rest:
            self._watched.pop(key, None)
            return
        found = self._watched.get(key)
        if found is None or found.frame is not frame or found.iterator is not iterator:
            if len(state.rest) < FEWEST_TURNS:
                return
            found = Watched(frame, iterator, (), 0, 0)
        states = (*found.states, frame.save())[-PEELED:]
        tried = found.tried
        if found.turns >= PEELED and tried < MOST_TRIED and len(state.rest) >= FEWEST_TURNS - PEELED:
            tried += 1
            if self._may_try(executor, frame):
                self._try(executor, frame, found.states[-1], state.rest)
        self._watched[key] = Watched(frame, iterator, states, found.turns + 1, tried)

    def _may_try(self, executor: "Executor", frame: Frame) -> bool:
        """Whether what the frames do is recorded as it is done, and only once."""
        recorder = executor.recorder
        is_plain = executor.trial is None and executor.forced is None and not recorder.watched
        return (
            is_plain
            and frame.generator is None
            and not any(entry.namespace.is_fixed for entry in executor.frames)
        )

    def _try(
        self, executor: "Executor", frame: Frame, before: SavedFrame, rest: range
    ) -> None:
        """Capture a turn that stands for all but the last, and make a loop of it; or do nothing."""
        self._count += 1
        outer, self.depth = self.depth, len(executor.frames)
        turn = _Turn(executor, frame, before, rest, self._count)
        try:
            turn.capture()
            turn.finish()
        except (Differs, GraphBreak, NotKnown, SkipFrame, Varies, RecursionError):
            turn.undo()
        finally:
            self.depth = outer


class _Reads(dict[str, Value]):
    """The locals of a frame, which remember what was read before it was written."""

    def __init__(self, given: Mapping[str, Value]) -> None:
        super().__init__(given)
        self.fresh: set[str] = set()
        self.read: set[str] = set()

    def after_inner(self, given: Mapping[str, Value], read: Iterable[str]) -> "_Reads":
        """These locals after a loop within the turn, which has read some of them."""
        found = _Reads(given)
        found.fresh, found.read = self.fresh, self.read
        found.read.update(name for name in read if name not in self.fresh)
        return found

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


class _Turn:
    """A turn that stands for others. Mutable: it is captured, then becomes a loop, or is undone.

    Args:
        executor, frame: at the head of the loop.
        before: the frame in front of the turn before.
        rest: the counter in the turns that are left.
        number: of the loop.
    """

    def __init__(
        self, executor: "Executor", frame: Frame, before: SavedFrame, rest: range, number: int
    ) -> None:
        self._executor, self._frame, self._number = executor, frame, number
        self._recorder, self._builder = executor.recorder, executor.recorder.builder
        self._before, self._rest = before, rest
        self._start = frame.save()
        self._outer = frame.locals
        self._points = len(frame.points)
        self._depth = len(executor.frames)
        self._mark: Mark = self._recorder.mark()
        self._watched = len(self._recorder.watched)
        self._turns = Turns(number, self._input)
        #: Local -> what it holds in front of the turn, what stands for that.
        self._tensors: dict[str, tuple[TensorValue, TensorValue]] = {}
        self._numbers: dict[str, tuple[int | float, Scalar]] = {}
        self._changed: set[str] = set()
        self._stand_ins: list[graph.Node] = []
        self._is_open = False

    @property
    def _now(self) -> _Reads:
        """The locals of the frame while the turn is tried."""
        assert isinstance(self._frame.locals, _Reads)
        return self._frame.locals

    # -- before ------------------------------------------------------------------------------

    def _input(self, name: str, type: Any) -> graph.Value:
        """An input that nothing will load."""
        value = self._builder.placeholder(name, type)
        self._stand_ins.append(value.node)
        return value

    def _stand_in(self, name: str, value: TensorValue) -> TensorValue:
        """A tensor like the one that a local holds in front of the turn."""
        held = _held(self._recorder, value)
        made = self._recorder.new_tensor(self._input(name, held.type))
        self._builder.lay_out(self._recorder.graph_value(made), contiguous_strides(held.shape))
        return made

    def _begin(self) -> dict[str, Value]:
        """The locals in front of a turn that stands for all."""
        found: dict[str, Value] = {}
        for name, value in self._start.locals.items():
            old = self._before.locals.get(name)
            if old is None:
                raise Differs
            if _is_same(old, value):
                found[name] = value
                continue
            self._changed.add(name)
            if isinstance(value, TensorValue) and _is_plain(self._recorder, value):
                self._tensors[name] = value, self._stand_in(name, value)
                found[name] = self._tensors[name][1]
            elif _is_number(old) and _is_number(value) and type(old.value) is type(value.value):
                scalar = Scalar(value.value, sources.Turn(self._number, name))
                self._numbers[name] = value.value, scalar
                found[name] = scalar
        identities = [value.identity for value, _ in self._tensors.values()]
        if len(set(identities)) < len(identities) or self._before.locals.keys() - self._start.locals:
            raise Differs
        return found

    # -- the turn ----------------------------------------------------------------------------

    def capture(self) -> None:
        """Run the turn.

        Raises:
            Differs, GraphBreak, ...: it stands for no other.
        """
        executor, frame = self._executor, self._frame
        same = all(a is b for a, b in zip(self._before.stack, self._start.stack, strict=False))
        if not same or len(self._before.stack) != len(self._start.stack):
            raise Differs
        if self._before.cells != self._start.cells:
            raise Differs
        self._recorder.turns.append(self._turns)
        self._is_open = True
        frame.locals = _Reads(self._begin())
        frame.push(Scalar(self._rest[0], sources.Turn(self._number, "")))
        frame.index += 1
        for _ in range(MOST_INSTRUCTIONS):
            executor.run_one()
            if len(executor.frames) == self._depth and frame.index == self._start.index:
                return
        raise Differs

    # -- after -------------------------------------------------------------------------------

    def undo(self) -> None:
        """As if the turn had not been tried."""
        self._recorder.restore(self._mark)
        self._executor.frames[:] = self._executor.frames[: self._depth]
        self._leave(self._start.locals)

    def _leave(self, found: Mapping[str, Value]) -> None:
        """The frame is at the head again, with other locals."""
        read = self._frame.locals
        self._frame.restore(self._start)
        self._frame.locals = dict(found)
        if isinstance(self._outer, _Reads):
            seen = read.read if isinstance(read, _Reads) else ()
            self._frame.locals = self._outer.after_inner(found, seen)
        del self._frame.points[self._points :]
        if self._is_open:
            self._recorder.turns.pop()
        for outer in self._recorder.turns:
            outer.forget(self._builder.has_input)

    def finish(self) -> None:
        """Put a loop in the place of the turn and of all that follow it but the last.

        Raises:
            Differs, Varies: it stands for no other.
        """
        self._check_state()
        kept = [name for name in self._tensors if name in self._now.read]
        after = self._carried_after(kept)
        counter = self._rest[:-1]
        scalars = [scalar for scalar, _ in self._turns.taken.values()]
        numbers, ends = numbers_of(counter, self._numbers_after(), scalars)
        taken = list(self._builder.nodes[self._mark.nodes[1] :])
        self._check_nodes(taken)
        stands = [self._recorder.graph_value(self._tensors[name][1]).node for name in kept]
        inputs = [value.node for _, value in self._turns.taken.values()]
        body, fixed = _body(self._builder.name, taken, inputs, stands, after)
        recorder, builder = self._recorder, self._builder
        builder.take(self._mark.nodes, self._stand_ins)
        recorder.heap.restore(self._mark.heap)
        results: Iterable[graph.Value] = ()
        if kept or any(map(may_refuse, taken)):
            given = [recorder.graph_value(self._tensors[name][0]) for name in kept]
            operands = [
                builder.without_gradient(graph.Value(builder, node)) for node in (*_of(given), *fixed)
            ]
            loop = Loop(body, tuple(numbers), len(kept))
            results = append(
                builder, loop, len(counter), True, operands[: len(kept)], operands[len(kept) :]
            )
        found = dict(self._start.locals)
        for name in self._changed:
            found.pop(name, None)
        found |= {name: constant(value) for name, value in ends.items()}
        for name, result in zip(kept, results, strict=False):
            found[name] = recorder.new_tensor(result)
        self._leave(found)
        iterator = self._frame.stack[-1]
        recorder.heap.write(iterator.identity, RangeIterator(self._rest[-1:]))

    def _check_state(self) -> None:
        """Refuse a turn that has changed more than the locals that are carried."""
        recorder, frame, heap = self._recorder, self._frame, self._recorder.heap
        if len(frame.stack) != len(self._start.stack) or frame.cells != self._start.cells:
            raise Differs
        if any(a is not b for a, b in zip(frame.stack, self._start.stack, strict=True)):
            raise Differs
        if recorder.random_blocks != self._mark.random_blocks:
            raise Differs
        if len(recorder.watched) != self._watched:
            raise Differs
        for identity, old in heap.written_since(self._mark.heap).items():
            if heap[identity] is not old:
                raise Differs
        now = self._now
        for name, value in self._start.locals.items():
            is_kept = name in now and _is_same(dict.get(now, name), value)
            if name not in self._changed and not is_kept:
                raise Differs
        known = {*self._tensors, *self._numbers}
        for name in self._changed - known:
            if name in now.read or name not in now.fresh:
                raise Differs  # it is not known in turns that follow
        if now.fresh - self._start.locals.keys():
            raise Differs  # a turn before had no such variable
        for name in known - now.read:
            if name not in now.fresh:
                raise Differs

    def _carried_after(self, kept: list[str]) -> list[graph.Node]:
        """What carried tensors hold after the turn.

        Raises:
            Differs: they are of other types, or share memory with what others hold.
        """
        recorder, heap = self._recorder, self._recorder.heap
        stands = {stand_in.identity: name for name, (_, stand_in) in self._tensors.items()}
        for identity in stands:
            memory = heap[identity].memory
            if memory and heap[memory].version:
                raise Differs  # what the turn before has made may be known elsewhere
        found: list[graph.Node] = []
        seen: set[int] = set()
        new = {name for name in kept if self._after(name).identity not in stands}
        for name in kept:
            value, stand_in = self._after(name), self._tensors[name][1]
            given = stands.get(value.identity)
            if given is not None and given not in new:
                raise Differs
            if given is None and not _is_new(recorder, value, self._mark, stands):
                raise Differs
            place = heap[value.identity].memory or value.identity
            held = recorder.graph_value(value)
            wanted: Any = _held(recorder, stand_in).type
            has: Any = held.type
            is_like = (has.shape, has.dtype, has.device) == (wanted.shape, wanted.dtype, wanted.device)
            if place in seen or not is_like or not _is_plain(recorder, value):
                raise Differs
            seen.add(place)
            found.append(held.node)
        return found

    def _after(self, name: str) -> TensorValue:
        value = dict.get(self._now, name)
        if not isinstance(value, TensorValue):
            raise Differs
        return value

    def _numbers_after(self) -> dict[str, tuple[int | float, Any]]:
        """For each variable that holds a number: in front of the turn, and after it."""
        found: dict[str, tuple[int | float, Any]] = {}
        for name, (first, scalar) in self._numbers.items():
            if name not in self._now.read:
                continue
            after = dict.get(self._now, name)
            if not isinstance(after, (Scalar, Constant)) or after.python_type is not type(first):
                raise Differs
            if isinstance(after, Scalar) and not is_of_a_turn(after):
                raise Differs
            found[name] = first, after
        return found

    def _check_nodes(self, taken: list[graph.Node]) -> None:
        """Refuse what the body of a loop cannot do.

        Raises:
            Differs: a gradient passes, or sizes, complex numbers or GPUs are met.
        """
        outer = {a for node in taken for a in node.args if isinstance(a, graph.Node)}
        for node in taken:
            if self._builder.node_needs_gradient(node) or any(node_sizes(node)):
                raise Differs
        for node in {*taken, *outer}:
            kind = node.type
            if not isinstance(kind, TensorType):
                continue
            if kind.device != CPU or kind.dtype.is_complex or any(node_sizes(node)):
                raise Differs


# ---------------------------------------------------------------------------------------------
# values


def _of(values: Iterable[graph.Value]) -> list[graph.Node]:
    return [value.node for value in values]


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values of a local are one object, or the same number."""
    if a is b:
        return True
    if isinstance(a, Constant) and isinstance(b, Constant):
        return type(a.value) is type(b.value) and repr(a.value) == repr(b.value)
    if isinstance(a, TensorValue) and isinstance(b, TensorValue):
        return a.identity == b.identity
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, Constant) and type(value.value) in (int, float)


def _held(recorder: Any, value: TensorValue) -> graph.Value:
    found: graph.Value = recorder.graph_value(value)
    return found


def _is_plain(recorder: Any, value: TensorValue) -> bool:
    """Whether a tensor is its elements, and nothing else: row-major, without a gradient."""
    contents: TensorContents = recorder.heap[value.identity]
    is_special = contents.attributes or contents.has_new_data
    if value.cls is not Tensor or is_special or contents.is_new_leaf or contents.is_frozen:
        return False
    held = _held(recorder, value)
    builder = recorder.builder
    if not isinstance(held.type, TensorType) or builder.needs_gradient(held):
        return False
    if any(node_sizes(held.node)) or held.type.device != CPU:
        return False
    if contents.memory and recorder.heap[contents.memory].is_uncertain:
        return False
    return builder.strides_of(held) == contiguous_strides(held.shape)


def _is_new(recorder: Any, value: TensorValue, mark: Mark, stands: Mapping[int, str]) -> bool:
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


def _body(
    name: str,
    taken: list[graph.Node],
    numbers: list[graph.Node],
    carried: list[graph.Node],
    after: list[graph.Node],
) -> tuple[graph.Graph, list[graph.Node]]:
    """The graph of a turn, and the nodes from outside that it reads."""
    own = {*taken, *numbers, *carried}
    operands = (a for node in taken for a in node.args if isinstance(a, graph.Node))
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
        args = tuple(known[a] if isinstance(a, graph.Node) else a for a in node.args)
        known[node] = builder.copy(node, args).node
    refusing = [known[node] for node in taken if may_refuse(node) and node not in after]
    return builder.finish([*(known[node] for node in after), *refusing]), fixed


__all__ = ["FEWEST_TURNS", "Differs", "Watcher"]
