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
from dynajit.capture.tensors import layouts
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.eager.tape.node import backward_name
from dynajit.ir.graph import Graph, Node, Value
from dynajit.ir.saved import Saved, Use, find_saved
from dynajit.ir.written_derivative import WrittenDerivative


@record
class Memory:
    """The memory of one captured tensor that eager execution would save.

    Args:
        identity: of the tensor that everything in this memory starts at.
        counted: writes when the tensor was saved.
        total: writes at the end of the region.
        is_overwritten: a write through `.data`, which does not count, came after that.
    """

    identity: int
    counted: int
    total: int
    is_overwritten: bool = False


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
    tensors = _Tensors(recorder, graph)
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


class _Tensors:
    """Finds the tensor that a saved node belongs to.

    Args:
        recorder: of the capture.
        graph: as captured.
    """

    def __init__(self, recorder: Recorder, graph: Graph) -> None:
        self.recorder = recorder
        self.captured = {node.name: node for node in graph.nodes}

    def memory_of(self, use: Use) -> Memory | None:
        """The memory that eager execution would watch; None if nobody else can reach it."""
        recorder, writes = self.recorder, self.recorder.writes
        private = writes.private.get(use.origin)
        node: Node | None = use.value
        while node is not None:
            captured = self.captured.get(node.name)
            if captured is not None:
                if captured is private or (use.is_result and captured in writes.placed):
                    return None
                identity = recorder.owners.get(captured)
                if identity is not None and recorder.heap.has(identity):
                    return self._memory(identity, captured)
                if not self._is_alias(captured):
                    return None
            node = node.args[0] if node.is_view and isinstance(node.args[0], Node) else None
        return None

    def _memory(self, identity: int, node: Node) -> Memory:
        contents: TensorContents = self.recorder.heap[identity]
        writes = self.recorder.writes
        if not contents.memory:
            return Memory(identity, 0, 0)
        memory: MemoryContents = self.recorder.heap[contents.memory]
        return Memory(
            memory.base.identity,
            writes.counted.get(node, 0),
            memory.bumps,
            writes.hidden.get(node, 0) != memory.hidden,
        )

    def _is_alias(self, node: Node) -> bool:
        """True if a view row gives a view, not a copy."""
        if not node.is_view or node.op is None:
            return False
        base = node.args[0]
        assert isinstance(base, Node)
        assert isinstance(base.type, TensorType)
        assert isinstance(node.type, TensorType)
        if node.op.name != "reshape":
            return True
        builder = self.recorder.builder
        strides = builder.strides_of(Value(builder, base))
        return bool(layouts.aliases(node.op, base.type.shape, strides, node.type.shape))


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
