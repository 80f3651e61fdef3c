"""From the executor's final state to a `Region`: outputs, effects, guards, random blocks.

Called by `capture.session` when the executor has stopped.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from dynajit.capture import effects, sources
from dynajit.capture.breaks import BreakRecord, SkipFrame
from dynajit.capture.executor import Executor, Returned, Stopped
from dynajit.capture.guards import Kind
from dynajit.capture.instructions import live_locals
from dynajit.capture.rebuild import NotRebuildable, Rebuilder, reach, view_base
from dynajit.capture.recording import Recorder
from dynajit.capture.region import Break, End, Region, Return
from dynajit.capture.values import UNBOUND, Scalar, Value
from dynajit.capture.values_functions import CellValue, GeneratorState
from dynajit.capture.values_tensors import TensorContents, TensorValue


def finish(executor: Executor, outcome: Returned | Stopped) -> Region:
    """The region that ends where the executor stopped.

    Raises:
        SkipFrame: what is alive there cannot be rebuilt, and neither at any earlier point.
    """
    if isinstance(outcome, Returned):
        try:
            return _region(executor, Return(outcome.value), [outcome.value], ())
        except NotRebuildable as reason:
            raise SkipFrame(f"the result cannot be built: {reason}") from None
    problem = "there is no instruction to break at"
    for point in outcome.points:
        executor.go_back(point)
        try:
            return _broken(executor, outcome.record)
        except NotRebuildable as reason:
            problem = str(reason)
    raise SkipFrame(f"no point to break at: {problem}")


def _broken(executor: Executor, record: BreakRecord) -> Region:
    frame = executor.root
    index = frame.index
    handling = frame.body.handling[index]
    if handling:
        raise NotRebuildable("an exception is being handled")
    live = live_locals(frame.body, index)
    own = executor.own_cells()
    plain = {
        name: value
        for name, value in frame.locals.items()
        if name in live and not isinstance(value, CellValue)
    }
    end = Break(index, tuple(frame.stack), plain, own, record)
    roots = [value for value in frame.stack if value is not None] + list(plain.values())
    return _region(executor, end, roots, (record,))


def _region(
    executor: Executor, end: End, roots: list[Value], breaks: tuple[BreakRecord, ...]
) -> Region:
    recorder = executor.recorder
    own = executor.own_cells()
    replayed = list(_effects(executor, own, everything=isinstance(end, Break)))
    needed = roots + [value for effect in replayed for value in effect.values]
    reached = reach(needed, recorder)
    if isinstance(end, Return):
        replayed += _needed_cells(executor, own, reached)
        needed += [value for effect in replayed for value in effect.values]
        reached = reach(needed, recorder)
    _refuse_open_generators(recorder)
    _guard_aliasing(recorder)
    outputs = _outputs(recorder, reached)
    if recorder.builder.nodes:
        executor.uses_grad_mode()
    graph = recorder.builder.finish(outputs)
    rebuilder = Rebuilder(
        recorder,
        {node: position for position, node in enumerate(outputs)},
        recorder.input_nodes,
        {cell.identity: name for name, cell in own.items()},
    )
    return Region(
        name=executor.root_function.__qualname__,
        graph=graph,
        inputs=_inputs(recorder),
        requires_grad=recorder.inputs_require_grad,
        guards=recorder.guards,
        effects=tuple(replayed),
        end=end,
        rebuild=rebuilder.rebuild,
        has_history=_has_history(recorder, outputs),
        breaks=breaks,
        lines=recorder.lines,
    )


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
            value = replace(value, source=sources.RandomOffset(recorder.random_blocks))
        found.append(value)
    return tuple(found)


def _outputs(recorder: Recorder, reached: list[Value]) -> list[Any]:
    """Graph nodes that the launch must return, each once.

    A view of an input, or of another tensor that exists afterwards, is not among them: it is
    made eagerly from its base, so that they share memory as in the original program.
    """
    nodes: dict[Any, None] = {}
    inputs = recorder.input_nodes
    for value in reached:
        if isinstance(value, TensorValue):
            contents: TensorContents = recorder.heap[value.identity]
            if contents.value is not None and contents.value.node not in inputs:
                nodes[contents.value.node] = None
    found = [node for node in nodes if not _is_view_of(node, nodes, inputs)]
    if recorder.random_blocks and not found:
        return recorder.builder.nodes[-1:]  # the launch must draw, though nothing is kept
    return found


def _is_view_of(node: Any, nodes: Mapping[Any, Any], inputs: Mapping[Any, Any]) -> bool:
    base = view_base(node)
    return base is not node and (base in inputs or base in nodes)


def _effects(
    executor: Executor, own: dict[str, CellValue], everything: bool
) -> Iterator[effects.Effect]:
    heap = executor.heap
    handles = {handle.identity: handle for handle in executor.recorder.handles()}
    namespaces = dict(executor.global_ids.values())
    for identity in heap.changed():
        if identity == executor.recorder.grad_mode_id:
            yield effects.GradModeEffect(bool(heap[identity]))
        elif identity in namespaces:
            yield _global_effect(executor, namespaces[identity], heap[identity])
        else:
            yield from effects.of_object(handles[identity], heap.entry(identity), heap[identity])
    if everything:
        parameters = executor.root.body.parameters
        for name, cell in own.items():
            yield effects.OwnCellEffect(name, heap[cell.identity], name in parameters)


def _global_effect(
    executor: Executor, namespace: dict[str, Any], stored: dict[str, Value]
) -> effects.GlobalEffect:
    is_own = namespace is executor.root_function.__globals__
    return effects.GlobalEffect(None if is_own else namespace, tuple(stored.items()))


def _needed_cells(
    executor: Executor, own: dict[str, CellValue], reached: list[Value]
) -> list[effects.Effect]:
    """Contents of the root's own cells that a returned function refers to."""
    used = {value.object_id for value in reached if isinstance(value, CellValue)}
    return [
        effects.OwnCellEffect(
            name, executor.heap[cell.identity], name in executor.root.body.parameters
        )
        for name, cell in own.items()
        if cell.identity in used and executor.heap[cell.identity] is not UNBOUND
    ]


def _refuse_open_generators(recorder: Recorder) -> None:
    """A generator left inside `try` or `with` would run its `finally` when it dies.

    Raises:
        NotRebuildable: there is one.
    """
    for state in recorder.heap.contents():
        if not isinstance(state, GeneratorState) or state.frame.index == 0:
            continue
        handler = state.body.instructions[state.frame.index - 1].handler
        while handler is not None:
            landing = state.body.instructions[handler.target]
            if landing.operation != "CALL_INTRINSIC_1":
                raise NotRebuildable("a generator is suspended inside try or with")
            handler = landing.handler


def _guard_aliasing(recorder: Recorder) -> None:
    """Objects that were written must differ from all others of their class that were used."""
    changed = {
        identity for identity in recorder.heap.changed() if identity != recorder.grad_mode_id
    }
    if not changed:
        return
    handles = [h for h in recorder.handles() if recorder.is_relied_on(h.source)]
    for written in handles:
        if written.identity not in changed:
            continue
        for other in handles:
            if other.cls is written.cls and other.identity != written.identity:
                recorder.guard(written.source, Kind.NOT_ALIASED, other.source, "written object")
