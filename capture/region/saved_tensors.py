"""Which tensors backward must find unchanged, as in eager execution.

The eager tape notes the version of every tensor that it saves, and backward fails where one was
written since. Here the same is found out for a captured graph: for each value that eager execution
would save (`ir.saved`) whose memory the user can reach, the number of writes that backward expects.
A value that the region itself wrote to afterwards is spoiled: its backward fails always. One that
it wrote to through `.data` is no error: eager backward computes with what it reads by then, which
the graph of the region does not say.

The other way round, compiled code may keep a reference to memory that the user can reach only where
eager execution would notice a write to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dynajit.capture.breaks import SkipFrame
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.region.region import Place, SavedCheck, SavedTensors
from dynajit.capture.tensors.saved_memory import SavedMemory
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.eager.tape.node import backward_name
from dynajit.ir.graph import Graph, Node
from dynajit.ir.saved import Saved, find_saved
from dynajit.ir.written_derivative import WrittenDerivative


def saved_tensors(
    recorder: Recorder, graph: Graph, held: Mapping[int, Node]
) -> SavedTensors | None:
    """What backward of a region has to check; None if nothing in it has a gradient.

    Args:
        graph: as captured, in terms of the recorder's nodes.
        held: heap id of a fresh tensor -> the output of the graph that it becomes.

    Raises:
        SkipFrame: backward shall compute with what the region writes through `.data`.
    """
    outputs = [o for o in graph.outputs if isinstance(o, Node)]
    if not any(map(recorder.builder.node_needs_gradient, outputs)):
        return None
    saved = find_saved(graph, recorder.inputs_require_grad)
    places = _places(recorder, graph, held)
    tensors = SavedMemory(recorder, graph)
    checks: dict[tuple[Any, ...], SavedCheck] = {}
    for use in reversed(saved.uses):
        memory = tensors.memory_of(use)
        if memory is None:
            continue
        if memory.is_overwritten:
            raise SkipFrame("a tensor that backward needs is overwritten through `.data`")
        place = places.get(memory.identity)
        if memory.counted != memory.total:
            place = None
        elif place is None:
            continue
        key = (place, memory, use.outputs, _name_of_backward(use.user))
        known = checks.get(key)
        inputs = use.inputs if known is None else use.inputs | known.inputs
        checks[key] = SavedCheck(
            place, memory.counted, memory.total, use.outputs, inputs, key[-1], use.value.type
        )
    found = tuple(checks.values())
    return SavedTensors(found, _shareable(saved, found, tuple(places.values())))


def _name_of_backward(node: Node) -> str:
    """What eager execution calls the derivative of a node."""
    assert node.op is not None
    written = node.attributes.get("derivative")
    if isinstance(written, WrittenDerivative):
        return written.graph.name
    return backward_name(node.op.name)


def _places(recorder: Recorder, graph: Graph, held: Mapping[int, Node]) -> dict[int, Place]:
    """Heap id of a tensor -> the input that it is, or the output that it becomes."""
    places = {
        value.identity: Place(False, position)
        for position, value in enumerate(recorder.inputs)
        if isinstance(value, TensorValue)
    }
    outputs = {node: position for position, node in enumerate(graph.outputs)}
    for identity, node in held.items():
        contents: TensorContents = recorder.heap[identity]
        base = recorder.heap[contents.memory].base.identity if contents.memory else identity
        places[base] = Place(True, outputs[node])
    return places


def _shareable(
    saved: Saved, checks: Sequence[SavedCheck], places: Sequence[Place]
) -> frozenset[Place]:
    """The places of which backward may keep the memory itself.

    Whatever backward computes from a place, the same gradients must need a check of that place.
    """
    checked: dict[Place, int] = {}
    for check in checks:
        if check.place is not None:
            checked[check.place] = checked.get(check.place, 0) | check.outputs
    graph = saved.graph
    masks: dict[Any, int] = {}
    for number, place in enumerate(places):
        node = (graph.outputs if place.is_output else graph.inputs)[place.position]
        masks[node] = masks.get(node, 0) | 1 << number
    for node in graph.calls:
        for argument in node.args:
            if argument in masks:
                masks[node] = masks.get(node, 0) | masks[argument]
    needed = [0] * len(places)
    for use in saved.uses:
        mask = masks.get(use.value, 0)
        for number in range(len(places)):
            if mask >> number & 1:
                needed[number] |= use.outputs
    return frozenset(
        place
        for place, outputs in zip(places, needed, strict=True)
        if not outputs & ~checked.get(place, 0)
    )
