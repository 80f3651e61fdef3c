"""Where every buffer lives: inputs, outputs, constants, or a place in the workspace.

Contract: two buffers share workspace only if no kernel needs both; places are aligned to
`ALIGNMENT` bytes. The workspace is one block that the runtime keeps between calls. Buffers whose
size is known when the program runs follow those of known size; they share a place if their sizes
are the same expression, or one is certainly large enough. With `Config.sanitize` no place is shared
and there is a gap behind each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from dynajit.codegen.loops.loop_ir import ALIGNMENT, Buffer
from dynajit.codegen.plan.fusion import Plan
from dynajit.core.process import config
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import TensorType
from dynajit.ir.node import Node, NodeKind

NOTHING: Final[Mapping[Node, Node]] = MappingProxyType({})
NO_HOSTS: Final[Mapping[Buffer, Node]] = MappingProxyType({})


@record
class Layout:
    """Places of all buffers.

    Args:
        places: buffer -> (`inputs`, `outputs` or `constants`, position) or (`workspace`, byte).
        workspace_bytes: size of the workspace.
        outputs: nodes that get an output array each, by position.
        constants: arrays of constant nodes, by position.
        guarded: (first byte, bytes) of all that kernels may touch of the workspace, to be told to
            AddressSanitizer; empty without it.
    """

    places: dict[Buffer, tuple[str, Number]]
    workspace_bytes: Number
    outputs: tuple[Node, ...]
    constants: tuple[Any, ...]
    guarded: tuple[tuple[Number, Number], ...] = ()


def arrange(
    plan: Plan,
    used: Sequence[Sequence[Buffer]],
    in_place: Mapping[Node, Node] = NOTHING,
    keeps_all: bool = False,
    hosts: Mapping[Buffer, Node] = NO_HOSTS,
) -> Layout:
    """Places for all buffers of a plan.

    Args:
        plan: what is computed.
        used: buffers of each kernel, in running order.
        in_place: outputs that are written into the array of an input.
        hosts: buffers that live in the array of an output.
        keeps_all: every stored value gets an output array, also those that are no results.
    """
    places: dict[Buffer, tuple[str, Number]] = {}
    buffers = plan.storage.buffers
    tensors = [node for node in plan.graph.inputs if isinstance(node.type, TensorType)]
    for position, node in enumerate(tensors):
        places[buffers[node]] = ("inputs", position)
    outputs = tuple(
        o for o in dict.fromkeys(plan.graph.outputs)
        if isinstance(o, Node) and o.kind is not NodeKind.PLACEHOLDER and o in buffers
        and o not in in_place
    )  # fmt: skip
    for node, source in in_place.items():
        places[buffers[node]] = places[buffers[source]]
    constants: list[Any] = []
    for node, buffer in buffers.items():
        if node.kind is NodeKind.CONSTANT and buffer not in places:
            places[buffer] = ("constants", len(constants))
            constants.append(node.value)
    made = tuple(node for node in outputs if node.kind is NodeKind.CALL)
    if keeps_all:
        touched = {buffer for kernel_buffers in used for buffer in kernel_buffers}
        results = {buffers[node] for node in made}
        # Values that are reshaped only share a buffer: the first one stands for all.
        first = {buffer: node for node, buffer in reversed(buffers.items())}
        made += tuple(
            node for buffer, node in first.items()
            if buffer in touched and buffer not in places and buffer not in results
        )  # fmt: skip
    for position, node in enumerate(made):
        places[buffers[node]] = ("outputs", position)
    for buffer, node in hosts.items():
        places[buffer] = places[buffers[node]]
    if config.current().sanitize:
        size, guarded = _separate_workspace(places, used)
        return Layout(places, size, made, tuple(constants), guarded)
    size = _workspace(places, used)
    return Layout(places, size, made, tuple(constants))


def _separate_workspace(
    places: dict[Buffer, tuple[str, Number]], used: Sequence[Sequence[Buffer]]
) -> tuple[Number, tuple[tuple[Number, Number], ...]]:
    """A place of its own for every other buffer, and the bytes of each."""
    end: Number = 0
    guarded: list[tuple[Number, Number]] = []
    for buffer in dict.fromkeys(buffer for buffers in used for buffer in buffers):
        if buffer not in places:
            places[buffer] = ("workspace", end)
            guarded.append((end, buffer.size * buffer.dtype.itemsize))
            end = end + _aligned(buffer) + ALIGNMENT
    return end, tuple(guarded)


def _workspace(
    places: dict[Buffer, tuple[str, Number]], used: Sequence[Sequence[Buffer]]
) -> Number:
    """Give every other buffer a place that is free during its life; returns the size."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for step, kernel_buffers in enumerate(used):
        for buffer in kernel_buffers:
            if buffer not in places:
                first.setdefault(buffer, step)
                last[buffer] = step
    sized = {buffer: _aligned(buffer) for buffer in first}
    total = 0
    taken: list[tuple[int, int, Buffer]] = []
    known = [(buffer, size) for buffer, size in sized.items() if isinstance(size, int)]
    for buffer, size in sorted(known, key=lambda pair: (first[pair[0]], -pair[0].size)):
        overlapping = sorted(
            (start, end) for start, end, other in taken
            if first[other] <= last[buffer] and first[buffer] <= last[other]
        )  # fmt: skip
        place = 0
        for start, end in overlapping:
            if place + size <= start:
                break
            place = max(place, end)
        taken.append((place, place + size, buffer))
        places[buffer] = ("workspace", place)
        total = max(total, place + size)
    unknown = [buffer for buffer, size in sized.items() if not isinstance(size, int)]
    return _symbolic_workspace(places, unknown, sized, last, first, total)


def _symbolic_workspace(
    places: dict[Buffer, tuple[str, Number]],
    buffers: Sequence[Buffer],
    sized: dict[Buffer, Number],
    last: dict[Buffer, int],
    first: dict[Buffer, int],
    end: Number,
) -> Number:
    """Places behind `end` for buffers (in order of first use) of symbolic size; the new end."""
    slots: list[_Slot] = []
    for buffer in buffers:
        size = sized[buffer]
        free = [slot for slot in slots if slot.busy_until < first[buffer]]
        chosen = next((slot for slot in free if slot.size == size), None) or next(
            (slot for slot in free if symint.is_at_least(slot.size, size)), None
        )
        if chosen is None:
            chosen = _Slot(end, size, 0)
            slots.append(chosen)
            end = end + size
        chosen.busy_until = last[buffer]
        places[buffer] = ("workspace", chosen.start)
    return end


@dataclass(slots=True)
class _Slot:
    """Workspace of one symbolic size. Mutable: it is used by one buffer after the other."""

    start: Number
    size: Number
    busy_until: int


def _aligned(buffer: Buffer) -> Number:
    """Bytes of a buffer's place."""
    size = buffer.size
    if isinstance(size, int):
        return -(-max(size * buffer.dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
    return symint.floordiv(size * buffer.dtype.itemsize + ALIGNMENT - 1, ALIGNMENT) * ALIGNMENT
