"""From the executor's final state to a `Region`: outputs, effects, guards, random blocks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.breaks import BreakRecord, SkipFrame
from dynajit.capture.bytecode.instruction_set import Use
from dynajit.capture.bytecode.instructions import Body, live_locals
from dynajit.capture.bytecode.resume import Home
from dynajit.capture.execution.ending_arguments import guard_ends
from dynajit.capture.execution.executor import Executor, Returned, Stopped, Thrown
from dynajit.capture.guards.facts import MemoryUse
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.library.table import stands_for_calls
from dynajit.capture.machine import effects
from dynajit.capture.machine.awaiting import Awaited
from dynajit.capture.machine.existing import NAMESPACE_MARK
from dynajit.capture.machine.frames import Frame
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.places import sources
from dynajit.capture.places.sources import InstanceDict, Source
from dynajit.capture.python import given_items
from dynajit.capture.python.builtins.written_derivatives import refuse_copies
from dynajit.capture.python.generators import is_guarded
from dynajit.capture.python.objects import kept_frames
from dynajit.capture.python.objects.fields import has_instance_dict, instance_dict
from dynajit.capture.python.objects.references import NotRebuildable, reach
from dynajit.capture.region import dead_locals
from dynajit.capture.region.rebuild import Held, Rebuilder
from dynajit.capture.region.region import Break, End, InnerFrame, Raise, Region, Return
from dynajit.capture.region.saved_tensors import saved_tensors
from dynajit.capture.region.spent_results import with_spent
from dynajit.capture.region.unread_lists import settle_unread
from dynajit.capture.region.unread_results import (
    is_known_to_hold,
    required,
    unread_checks,
    without_elements,
)
from dynajit.capture.tensors import layouts
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors.graph_building import Builder
from dynajit.capture.tensors.sizes import function_of
from dynajit.capture.values.containers import DictValue, ListValue, SequenceIterator
from dynajit.capture.values.functions import CellValue, GeneratorValue
from dynajit.capture.values.objects import HandledException, ObjectValue
from dynajit.capture.values.storage import STORAGE
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.capture.values.tensors import Step, TensorValue
from dynajit.core.arrays import any_arrays
from dynajit.core.types import symint
from dynajit.core.types.device import Device
from dynajit.core.types.value_types import TensorType, contiguous_strides
from dynajit.eager._tensor import _set_grad_enabled, _set_inference_enabled
from dynajit.eager.modes import autocast_mode
from dynajit.ir.graph import Graph, Node
from dynajit.ir.graph import Value as GraphValue
from dynajit.ir.node import mirrors_of
from dynajit.ir.outputs import made_from
from dynajit.ir.passes.copy_inputs import copy_inputs
from dynajit.ir.passes.keep_refusals import false_for
from dynajit.ops import TABLE
from dynajit.ops.calls import contents
from dynajit.ops.native._library_call import ask_no_class

#: Frames that go on by themselves after a break: the code for each is written inside the next.
MAX_CHAIN: Final = 100


def finish(executor: Executor, outcome: Returned | Thrown | Stopped) -> Region:
    """The region that ends where the executor stopped.

    Raises:
        SkipFrame: what is alive there cannot be rebuilt, and neither at any earlier point.
    """
    if isinstance(outcome, Returned):
        try:
            return _region(executor, Return(outcome.value), [outcome.value], ())
        except NotRebuildable as reason:
            raise SkipFrame(f"the result cannot be built: {reason}") from None
    if isinstance(outcome, Thrown):
        try:
            return _region(executor, Raise(outcome.value), [outcome.value], ())
        except NotRebuildable:
            outcome = outcome.stopped
    problem = "there is no instruction to break at"
    for point in outcome.trail.points:
        executor.go_back(outcome.trail, point)
        if executor.is_travelling(outcome):
            raise SkipFrame(kept_frames.MSG_KEPT)
        if executor.may_be_kept():
            problem = kept_frames.MSG_KEPT
            continue
        try:
            return _broken(executor, outcome.record, outcome.trail.awaited)
        except NotRebuildable as reason:
            problem = str(reason)
    raise SkipFrame(f"no point to break at: {problem}")


def _broken(executor: Executor, record: BreakRecord, awaited: Sequence[Awaited | None]) -> Region:
    """The region that ends in front of the innermost frame's instruction.

    Raises:
        NotRebuildable: what is alive there cannot be rebuilt, or a caller cannot go on by itself.
        SkipFrame: more frames would have to go on by themselves than can be written down.
    """
    if len(executor.frames) > MAX_CHAIN:
        reason = f"a break lies {len(executor.frames)} calls deep: {record.detail}"
        raise SkipFrame(reason, permanent=False)
    settle_unread(executor)
    waits = [*awaited[: len(executor.frames) - 1], None]
    ends = [
        _inner(frame, waiting, is_last=frame is executor.frames[-1])
        for frame, waiting in zip(executor.frames, waits, strict=True)
    ]
    ends = _with_kept(executor, ends)
    root = ends[0]
    end = Break(
        root.index,
        root.stack,
        root.locals,
        root.cells,
        record,
        root.awaits,
        tuple(ends[1:]),
        root.keeps,
    )
    roots = [value for frame in ends for value in _alive(frame)]
    return _region(executor, end, roots, (record,))


def _with_kept(executor: Executor, ends: Sequence[InnerFrame]) -> list[InnerFrame]:
    """The frames, with the locals that nothing reads and that keep an object alive, and with
    whether an exception must keep the frame itself alive."""
    alive = [value for frame in ends for value in _alive(frame)]
    found = []
    for frame, end in zip(executor.frames, ends, strict=True):
        dead = {
            name: value
            for name, value in frame.locals.items()
            if name not in end.locals and not isinstance(value, CellValue)
        }
        keeps = dead_locals.kept(dead, alive, executor.recorder)
        is_kept = kept_frames.is_noticed_later(executor, frame, end.index)
        found.append(replace(end, locals={**end.locals, **keeps}, keeps=is_kept))
    return found


def _alive(frame: InnerFrame) -> Iterator[Value]:
    """The values that exist in a frame."""
    for value in frame.stack:
        if value is not None:
            yield value.exception if isinstance(value, HandledException) else value
    yield from frame.locals.values()
    yield from frame.cells.values()
    for part in frame.awaits.then if frame.awaits is not None else ():
        yield from part.values


def _inner(frame: Frame, awaits: Awaited | None, is_last: bool) -> InnerFrame:
    """A frame at the end of a region."""
    body = frame.body
    if body.is_generator:
        raise NotRebuildable("a generator is running")
    if stands_for_calls(frame.namespace.globals.get("__name__")):
        raise NotRebuildable("code that stands for a library function is running")
    if not is_last and awaits is None:
        raise NotRebuildable("a caller waits for more than the result of a call")
    index = frame.index if is_last else frame.index - 1
    if not is_last:
        _check_depth(body, index, awaits, len(frame.stack))
    live = live_locals(body, index)
    plain = {
        name: value
        for name, value in frame.locals.items()
        if name in live and not (isinstance(value, CellValue) and name in frame.cells)
    }
    stack = _stack(frame, index)
    home = Home(frame.namespace.globals, frame.code.co_name)
    return InnerFrame(frame.code, home, index, stack, plain, dict(frame.cells), awaits)


def _stack(frame: Frame, index: int) -> tuple[Any, ...]:
    """The stack, with the exception being handled in each slot that holds the one before it."""
    handling = frame.body.handling[index]
    stack = list(frame.stack)
    for slot, value in enumerate(stack):
        if isinstance(value, HandledException) == (slot in handling):
            continue
        if frame.body[index].operation != "RERAISE" or slot in handling:
            raise NotRebuildable("an exception is being handled")
        stack[slot] = Constant(None)  # left by `COPY, POP_EXCEPT`; nothing reads it any more
    return tuple(stack)


def _check_depth(body: Body, index: int, awaits: Awaited | None, depth: int) -> None:
    """The waiting instruction has taken its operands and nothing else.

    Raises:
        NotRebuildable: it has not.
    """
    pushed = {Use.PUSH: 1, Use.PUSH_METHOD: 2, Use.NEXT: 1}
    assert awaits is not None
    if awaits.use is Use.OPERAND:
        fits = body.depths[index] == depth + 1
    else:
        fits = body.depths[body.after(index)] == depth + pushed.get(awaits.use, 0)
    if not fits:
        raise NotRebuildable("a caller is in the middle of an instruction")


def _region(
    executor: Executor, end: End, roots: list[Value], breaks: tuple[BreakRecord, ...]
) -> Region:
    recorder = executor.recorder
    settle_unread(executor)
    replayed: list[effects.Effect] = [
        effects.of_memory(recorder, memory) for memory in tensor_memory.written(recorder)
    ]
    replayed += _effects(executor)
    needed = roots + [value for effect in replayed for value in effect.values]
    made = reach(needed, recorder)
    reached = made.values
    given_items.refuse_kept(reached, recorder)
    _refuse_left_memory(recorder, reached)
    refuse_copies(recorder, reached)
    _refuse_open_generators(recorder, reached)
    _refuse_changed_prints(recorder)
    _guard_aliasing(recorder)
    _guard_memory(recorder)
    guard_ends(executor, executor.arguments)
    copied = {e.result.identity for e in replayed if isinstance(e, effects.TensorEffect)}
    held = with_spent(executor, _held(recorder, reached, copied), reached)
    outputs = _outputs(recorder, held)
    states = []
    for position, state, has_normals in recorder.drawn_states:
        states.append((position, len(outputs), has_normals))
        outputs.append(state.node)
    if recorder.builder.nodes:
        executor.uses_grad_mode()
    recorder.show_sizes(outputs)
    written = _written_inputs(recorder)
    graph = recorder.builder.finish(outputs)
    saved = saved_tensors(recorder, graph, {key: result.node for key, result in held.items()})
    within: dict[int, tuple[int, ...]] = {}
    requires_grad = _requires_grad(recorder, outputs)
    if any(requires_grad):
        within = dict(_seen_within(recorder, reached, held, graph))
        graph = copy_inputs(graph, written)
    rebuilder = Rebuilder(
        recorder,
        {node: position for position, node in enumerate(outputs)},
        held,
        within,
    )
    return Region(
        name=executor.root_function.__qualname__,
        graph=graph,
        inputs=_inputs(recorder),
        requires_grad=requires_grad,
        guards=recorder.guards,
        effects=tuple(replayed),
        end=end,
        rebuild=rebuilder.rebuild,
        has_history=_has_history(recorder, outputs),
        breaks=breaks,
        written=written,
        saved=saved,
        writes=tuple(_writes(recorder, outputs, held)),
        copied=dict(_copied(recorder, outputs, held, replayed)),
        lines=recorder.lines,
        heads=made.heads,
        asks_compiling=recorder.asks_compiling,
        draws=recorder.heap[recorder.draws_id],
        states=tuple(states),
        spent=frozenset(n.name for n in recorder.tape.spent) & {n.name for n in graph.nodes},
    )


def _seen_within(
    recorder: Recorder, reached: list[Value], held: Mapping[int, Held], graph: Graph
) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(heap id, outputs) of tensors that are made after the launch, which computed with them.

    Their gradients pass within the launch: `eager.backward.compiled.note_within`.
    """
    builder = recorder.builder
    values = {v.identity: v for v in reached if isinstance(v, TensorValue)}
    nodes = {
        identity: recorder.graph_value(value).node
        for identity, value in values.items()
        if not recorder.heap.is_adopted(identity)
    }
    nodes = {
        identity: node
        for identity, node in nodes.items()
        if builder.node_needs_gradient(node)
        and (identity not in held or held[identity].node is not node)
    }
    if not nodes:
        return
    trained = [
        p
        for p, o in enumerate(graph.outputs)
        if isinstance(o, Node) and builder.node_needs_gradient(o)
    ]
    # What is laid out for a tensor was not computed with it.
    values_of: dict[Any, Any] = {result.node: result.value for result in held.values()}
    made = [values_of.get(graph.outputs[p], graph.outputs[p]) for p in trained]
    found = made_from(graph.calls, made, list(nodes.values()))
    for place, identity in enumerate(nodes):
        positions = tuple(p for p, places in zip(trained, found, strict=True) if place in places)
        if positions:
            yield identity, positions


def _written_inputs(recorder: Recorder) -> tuple[int, ...]:
    """Positions of the graph's inputs that are written back."""
    written = {memory.base.identity for memory in tensor_memory.written(recorder)}
    return tuple(
        position
        for position, value in enumerate(recorder.inputs)
        if isinstance(value, TensorValue) and value.identity in written
    )


def _writes(recorder: Recorder, outputs: Sequence[Any], held: Mapping[int, Held]) -> Iterator[int]:
    """Per output, how many writes count in the version of the tensor that it becomes."""
    counts = {result.node: result.writes for result in held.values()}
    return (counts.get(output, 0) for output in outputs)


def _copied(
    recorder: Recorder,
    outputs: Sequence[Any],
    held: Mapping[int, Held],
    replayed: Sequence[effects.Effect],
) -> Iterator[tuple[int, int]]:
    """(output, input) where the elements of one are all that the other gets."""
    positions = {
        value.identity: position
        for position, value in enumerate(recorder.inputs)
        if isinstance(value, TensorValue)
    }
    nodes = [result.node for result in held.values()]
    for effect in replayed:
        if not isinstance(effect, effects.TensorEffect) or effect.has_history:
            continue
        result, target = held.get(effect.result.identity), effect.target.identity
        if result is not None and nodes.count(result.node) == 1 and target in positions:
            yield outputs.index(result.node), positions[target]


def _requires_grad(recorder: Recorder, outputs: Sequence[Any]) -> tuple[bool, ...]:
    """Of each input whether gradients flow to it from an output."""
    flags = recorder.inputs_require_grad
    if any(recorder.builder.node_needs_gradient(node) for node in outputs):
        return flags
    return (False,) * len(flags)


def _has_history(recorder: Recorder, outputs: list[Any]) -> bool:
    """True if grad mode is off at entry and an output requires a gradient all the same."""
    if recorder.heap.entry(recorder.grad_mode_id):
        return False
    return any(recorder.builder.node_needs_gradient(node) for node in outputs)


def _inputs(recorder: Recorder) -> tuple[Value, ...]:
    """The values that load the inputs; the random offset learns how many blocks are reserved."""
    found = []
    for value in recorder.inputs:
        if isinstance(value, Scalar) and isinstance(value.source, sources.RandomOffset):
            value = replace(value, source=_random_offset(recorder, value.source.device))
        found.append(value)
    return tuple(found)


def _random_offset(recorder: Recorder, device: Device) -> sources.RandomOffset:
    """The source that reserves as many random blocks of a device as the region uses."""
    blocks = recorder.random_blocks[device]
    if isinstance(blocks, int):
        return sources.RandomOffset(blocks, device=device)
    names = tuple(sorted(symint.symbols(blocks)))
    places = tuple(recorder.sizes.scalar(name).source for name in names)
    return sources.RandomOffset(function_of(blocks, names), places, device)


def _held(recorder: Recorder, reached: list[Value], copied: set[int]) -> dict[int, Held]:
    """Heap id of a tensor -> what the launch returns for it.

    A view of an input, or of memory that another tensor looks at afterwards, is not among them:
    it is made eagerly from its base, so that they share memory as in the original program. Nor
    is a view that leaves gaps in the memory: it has its strides from its base.

    Args:
        copied: tensors whose elements are copied elsewhere: their layout does not matter.
    """
    fresh: dict[int, TensorValue] = {}
    looking: dict[int, list[TensorValue]] = {}
    for value in reached:
        if isinstance(value, TensorValue) and not recorder.heap.is_adopted(value.identity):
            fresh[value.identity] = value
    for value in fresh.values():
        memory = recorder.heap[value.identity].memory
        looking.setdefault(memory or -value.identity, []).append(value)
    held: dict[int, Held] = {}
    for memory, values in looking.items():
        base = values[0] if memory < 0 else recorder.heap[memory].base
        if recorder.heap.is_adopted(base.identity):
            continue
        kept = values[0] if len(values) == 1 and _is_dense(recorder, values[0]) else base
        held[kept.identity] = _in_layout(recorder, kept, kept.identity in copied)
    return held


def _is_dense(recorder: Recorder, value: TensorValue) -> bool:
    """False if eager execution would leave gaps between the elements, or see them conjugated or
    negated; True if it is not known."""
    if any(mirrors_of(recorder.graph_value(value).node)):
        return False
    shape = tuple(recorder.graph_value(value).shape)
    strides = tensor_memory.strides_of(recorder, value)
    if strides is None or 0 in shape or not all(isinstance(n, int) for n in (*shape, *strides)):
        return True
    order = layouts.storage_order(shape, strides) or tuple(range(len(shape)))
    dense = contiguous_strides(tuple(shape[dim] for dim in order))
    return all(
        strides[dim] == stride for dim, stride in zip(order, dense, strict=True) if shape[dim] != 1
    )


def _in_layout(recorder: Recorder, value: TensorValue, any_layout: bool) -> Held:
    """A result with its dims in the order in which they lie in memory in eager execution."""
    found = recorder.graph_value(value)
    if recorder.heap[value.identity].is_new_leaf:
        found = recorder.builder.without_gradient(found)  # it becomes a leaf after the launch
    if any_layout:
        return Held(found.node, found.node)
    memory = recorder.heap[value.identity].memory
    writes = recorder.heap[memory].bumps if memory else 0
    strides = tensor_memory.strides_of(recorder, value)
    order = layouts.storage_order(tuple(found.shape), strides)
    if order is None:
        if _is_turned(recorder, found.node):
            return Held(recorder.builder.copy_of(found), found.node, writes=writes)
        return Held(found.node, found.node, writes=writes)
    step = Step(TABLE.permute, {"dims": order}, is_recorded=True)
    turned = recorder.builder.view(step, found)
    return Held(recorder.builder.copy_of(turned), found.node, order, writes)


def _is_turned(recorder: Recorder, node: Node) -> bool:
    """True for a view of a value that eager execution would not lay out row by row: the launch
    gives that value row by row, and takes the view afterwards."""
    root = node
    while root.is_view:
        viewed = root.args[0]
        assert isinstance(viewed, Node)
        root = viewed
    if root is node or not isinstance(root.type, TensorType):
        return False
    strides = recorder.builder.strides_of(GraphValue(recorder.builder, root))
    return layouts.storage_order(root.type.shape, strides) is not None


def _outputs(recorder: Recorder, held: Mapping[int, Held]) -> list[Any]:
    """Graph nodes that the launch must return, each once."""
    found = list(dict.fromkeys(result.node for result in held.values()))
    builder = recorder.builder
    for node in without_elements(builder.nodes):
        contents.require(TABLE.logical_not(false_for(builder, node, node.args)))
    truths: dict[Device, dict[Any, None]] = {}
    for node in unread_checks(builder.nodes, found):
        truth = required(node)
        if truth is None:
            found.append(builder.without_gradient(GraphValue(builder, node)).node)
        elif not is_known_to_hold(builder.nodes, truth):
            kind = truth.type
            assert isinstance(kind, TensorType)
            truths.setdefault(kind.device, {})[truth] = None
    found += [_required_together(builder, list(each)) for each in truths.values()]
    if recorder.random_blocks and not found:
        return recorder.builder.nodes[-1:]  # the launch must draw, though nothing is kept
    return found


def _required_together(builder: Builder, truths: Sequence[Any]) -> Any:
    """A node that refuses where one of several truths does not hold."""
    all_of_them = GraphValue(builder, truths[0])
    for truth in truths[1:]:
        all_of_them = TABLE.logical_and(all_of_them, GraphValue(builder, truth))
    return contents.require(all_of_them).node


def _refuse_changed_prints(recorder: Recorder) -> None:
    """An existing tensor is shown after the launch, which must not have written it.

    Raises:
        NotRebuildable: it has.
    """
    written = {memory.base.identity for memory in tensor_memory.written(recorder)}
    for tensor in recorder.printed:
        memory = recorder.heap[tensor.identity].memory
        base = recorder.heap[memory].base.identity if memory else tensor.identity
        if base in written or tensor.identity in written:
            raise NotRebuildable("a printed tensor is changed in place afterwards")


def _guard_memory(recorder: Recorder) -> None:
    """Written tensors may be written, and overlap with no other one that was used.

    Raises:
        NotRebuildable: one shares its storage with another that backward may need: the writes,
            which come after the launch, would count as later ones.
    """
    memories = tensor_memory.written(recorder)
    if memories and any(isinstance(t.source, sources.LeafOf) for t in recorder.lifted_tensors):
        raise NotRebuildable("a tensor is written beside a parameter that is made here")
    moved = _guard_moved(recorder)
    if not memories and not moved:
        return
    is_alone = _records(recorder)
    tensors = recorder.lifted_tensors
    owners: dict[int, set[int]] = {}  # ids of the tensors, by that of their storage
    for existing in map(recorder.existing, tensors):
        owners.setdefault(id(existing._storage), set()).add(id(existing))
    uses = {target.identity: MemoryUse.WRITTEN for target in moved}
    for memory in memories:
        use = MemoryUse.WRITTEN
        if memory.is_recorded:
            use |= MemoryUse.RECORDED
        if memory.has_history or is_alone:
            use |= MemoryUse.ALONE
            written = recorder.existing(memory.base)
            if owners.get(id(written._storage), set()) - {id(written)}:
                raise NotRebuildable("a tensor is written whose storage backward may need")
        uses[memory.base.identity] = use
    expected = tuple((t.source, uses.get(t.identity, MemoryUse.READ)) for t in tensors)
    recorder.guard(tensors[0].source, Kind.SEPARATE_MEMORY, expected, "written tensors")


#: Pairs of tensors that are guarded one by one.
_MOST_PAIRS: Final = 256


def _guard_moved(recorder: Recorder) -> list[TensorValue]:
    """Tensors whose `data` was replaced are no other tensors that were used; those of many are
    returned: guards keep them apart by their memory.

    Raises:
        NotRebuildable: their memory is that of others.
    """
    moved = [target for target, _, _ in _moved(recorder)]
    tensors = recorder.lifted_tensors
    if len(moved) * len(tensors) <= _MOST_PAIRS:
        for target in moved:
            for other in tensors:
                if other.identity != target.identity:
                    reason = "a tensor that gets new data"
                    recorder.guard(target.source, Kind.NOT_ALIASED, other.source, reason)
        return []
    for target in moved:
        existing = recorder.existing(target)
        near = map(recorder.existing_at, recorder.input_spans.near(existing))
        is_limited = existing._storage.is_inference or not any_arrays.is_writable(existing.array)
        if is_limited or any(other is not existing for other in near):
            raise NotRebuildable("a tensor gets new data whose memory is that of others")
    return moved


def _records(recorder: Recorder) -> bool:
    """True if something computed has a gradient."""
    builder = recorder.builder
    return any(node.op is not None and builder.node_needs_gradient(node) for node in builder.nodes)


def _effects(executor: Executor) -> Iterator[effects.Effect]:
    heap = executor.heap
    handles = {handle.identity: handle for handle in executor.recorder.handles()}
    namespaces = dict(executor.global_ids.values())
    modes: dict[int, Callable[[Any], Any]] = {
        executor.recorder.grad_mode_id: _set_grad_enabled,
        executor.recorder.autocast_id: autocast_mode._set_autocast_word,
        executor.recorder.inference_id: _set_inference_enabled,
        executor.recorder.unasked_id: _set_unasked,
    }
    not_replayed = (
        *executor.recorder.output_ids, executor.recorder.draws_id, executor.recorder.states_id,
        executor.recorder.tape_id,
    )  # fmt: skip
    yield from executor.recorder.output
    for identity in heap.changed():
        if identity in not_replayed:
            continue
        if identity in modes:
            yield effects.ModeEffect(modes[identity], heap[identity])
        elif identity in namespaces:
            yield _global_effect(executor, namespaces[identity], heap[identity])
        else:
            _refuse_lost_place(heap, heap.entry(identity))
            slot = executor.removals.get(identity)
            removed = heap[slot] if slot is not None and heap.has(slot) else ()
            handle = handles[identity]
            yield from effects.of_object(handle, heap.entry(identity), heap[identity], removed)
    moved = tuple(_moved(executor.recorder))
    if moved:
        yield effects.DataEffect(moved)


def _set_unasked(blocks: int) -> None:
    ask_no_class(blocks - ask_no_class(0))


def _moved(recorder: Recorder) -> Iterator[tuple[TensorValue, Value, int]]:
    """The existing tensors whose `data` was replaced, what they look at now, and how often they
    were written since."""
    for handle in recorder.handles():
        if isinstance(handle, TensorValue):
            contents = recorder.heap[handle.identity]
            if contents.has_new_data:
                yield handle, contents.attributes["data"], contents.writes_since


def _refuse_left_memory(recorder: Recorder, reached: list[Value]) -> None:
    """Views are made of the tensor that their memory started with.

    Raises:
        NotRebuildable: it looks at other memory by then.
    """
    early = {view.object_id for _, view, _ in _moved(recorder)}  # made before any of them moves
    for value in reached:
        if not isinstance(value, TensorValue) or recorder.heap.is_adopted(value.identity):
            continue
        memory = recorder.heap[value.identity].memory
        base = recorder.heap[memory].base if memory else value
        if base.identity == value.identity or not memory:
            continue
        is_early = value.identity in early and recorder.heap.is_adopted(base.identity)
        if tensor_memory.has_moved(recorder, base, memory) and not is_early:
            raise NotRebuildable("a view of memory that its first tensor has left")


def _refuse_lost_place(heap: Heap, before: Any) -> None:
    """An iterator over a list that is changed as well would be moved in another list.

    Raises:
        NotRebuildable: it is one.
    """
    over = before.sequence if isinstance(before, SequenceIterator) else None
    if isinstance(over, ListValue) and heap.is_changed(over.identity):
        raise NotRebuildable("an iterator over a list that is changed")


def _global_effect(
    executor: Executor, namespace: dict[str, Any], stored: dict[str, Value]
) -> effects.GlobalEffect:
    is_own = namespace is executor.root_function.__globals__
    return effects.GlobalEffect(None if is_own else namespace, tuple(stored.items()))


def _refuse_open_generators(recorder: Recorder, reached: list[Value]) -> None:
    """A generator left inside `try` or `with` runs its `finally` when it dies: make it real.

    Raises:
        NotRebuildable: there is one.
    """
    made = {value.identity for value in reached if isinstance(value, GeneratorValue)}
    for identity, state in recorder.heap.objects():
        if is_guarded(state) and identity not in made:
            raise NotRebuildable("a generator is suspended inside try or with")


def _places_of_contents(recorder: Recorder, written: Any, other: Any) -> tuple[Source, Source]:
    """Where two objects of a class keep what is written: instances may share their dict."""
    if isinstance(written, ObjectValue) and has_instance_dict(recorder.existing(written)):
        fields = (instance_dict(recorder.existing(value)) for value in (written, other))
        if next(fields) is not next(fields):
            return InstanceDict(written.source), InstanceDict(other.source)
    return written.source, other.source


def _refuse_fields_as_dict(recorder: Recorder, changed: set[int]) -> None:
    """An object and the dict of its attributes are two values: neither sees the other's writes.

    Raises:
        NotRebuildable: both were met, and one was written.
    """
    dicts = {
        id(recorder.existing(value)): value.identity
        for value in recorder.handles()
        if isinstance(value, DictValue)
    }
    for value in recorder.handles() if dicts else ():
        existing = recorder.existing(value)
        if isinstance(value, ObjectValue) and has_instance_dict(existing):
            twin = dicts.get(id(object.__getattribute__(existing, "__dict__")))
            if twin is not None and not changed.isdisjoint((twin, value.identity)):
                raise NotRebuildable("an object and the dict of its attributes are both used")


def _guard_aliasing(recorder: Recorder) -> None:
    """Objects that were written must differ from all others of their class that were used.

    So must the lists that written texts are recorded in.
    """
    own = {recorder.draws_id, recorder.states_id, recorder.tape_id}
    changed = set(recorder.heap.changed()) - recorder.mode_ids - own
    if not changed:
        return
    _refuse_fields_as_dict(recorder, changed)
    handles = [
        handle
        for handle in recorder.handles()
        if isinstance(handle, STORAGE)
        or (recorder.is_relied_on(handle.source) and not isinstance(handle, TensorValue))
    ]
    changed |= {
        h.owner.identity for h in handles if isinstance(h, STORAGE) and h.identity in changed
    }
    handles = [handle for handle in handles if not isinstance(handle, STORAGE)]
    for touched in {touched for effect in recorder.output for touched in effect.touched}:
        for other in handles:
            if other.cls is list:
                recorder.guard(touched.source, Kind.NOT_ALIASED, other.source, "recorded texts")
    for written in handles:
        if written.identity not in changed:
            continue
        if isinstance(written, DictValue) and written.cls is dict:
            recorder.guard(written.source, Kind.HAS_NO_KEY, NAMESPACE_MARK, "written dict")
        for other in handles:
            if other.cls is written.cls and other.identity != written.identity:
                ours, others = _places_of_contents(recorder, written, other)
                recorder.guard(ours, Kind.NOT_ALIASED, others, "written object")
