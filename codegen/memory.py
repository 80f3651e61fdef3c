"""Where every buffer lives: inputs, outputs, constants, or a place in the workspace.

Contract: two buffers share workspace only if no kernel needs both; places are aligned to
`ALIGNMENT` bytes. The workspace is one block that the runtime keeps between calls. Called by
`codegen.pipeline`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dynajit.codegen.fusion import Plan
from dynajit.codegen.loops import Buffer
from dynajit.core.types import TensorType
from dynajit.ir.node import Node, NodeKind

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of all buffers.

    Args:
        places: buffer -> (`inputs`, `outputs` or `constants`, position) or (`workspace`, byte).
        workspace_bytes: size of the workspace.
        outputs: nodes that get an output array each, by position.
        constants: arrays of constant nodes, by position.
    """

    places: dict[Buffer, tuple[str, int]]
    workspace_bytes: int
    outputs: tuple[Node, ...]
    constants: tuple[Any, ...]


def arrange(plan: Plan, used: Sequence[Sequence[Buffer]]) -> Layout:
    """Places for all buffers of a plan.

    Args:
        plan: what is computed.
        used: buffers of each kernel, in running order.
    """
    places: dict[Buffer, tuple[str, int]] = {}
    buffers = plan.storage.buffers
    tensors = [node for node in plan.graph.inputs if isinstance(node.type, TensorType)]
    for position, node in enumerate(tensors):
        places[buffers[node]] = ("inputs", position)
    outputs = tuple(
        o for o in dict.fromkeys(plan.graph.outputs)
        if isinstance(o, Node) and o.kind is not NodeKind.PLACEHOLDER and o in buffers
    )  # fmt: skip
    constants: list[Any] = []
    for node, buffer in buffers.items():
        if node.kind is NodeKind.CONSTANT and buffer not in places:
            places[buffer] = ("constants", len(constants))
            constants.append(node.value)
    made = tuple(node for node in outputs if node.kind is NodeKind.CALL)
    for position, node in enumerate(made):
        places[buffers[node]] = ("outputs", position)
    size = _workspace(places, used)
    return Layout(places, size, made, tuple(constants))


def _workspace(places: dict[Buffer, tuple[str, int]], used: Sequence[Sequence[Buffer]]) -> int:
    """Give every other buffer the lowest gap that is free during its life; returns the size."""
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for step, kernel_buffers in enumerate(used):
        for buffer in kernel_buffers:
            if buffer not in places:
                first.setdefault(buffer, step)
                last[buffer] = step
    total = 0
    taken: list[tuple[int, int, Buffer]] = []
    for buffer in sorted(first, key=lambda b: (first[b], -b.size)):
        size = -(-max(buffer.size * buffer.dtype.itemsize, 1) // ALIGNMENT) * ALIGNMENT
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
    return total
