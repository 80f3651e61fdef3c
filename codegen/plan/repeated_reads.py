"""Values that a kernel would compute at many places: they are stored before kernels are planned.

Contract: `worth_storing(nodes, inputs, stored)` names values that are read at shifted places (by
slices, rolls, pads, concatenations) and cost more to compute at each such place than to store once.
Without it the work of a chain of such steps is a power of its length: a step of a three-point
stencil reads the step before at three places, that one at nine.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dynajit.codegen.loops.elements import Elements, Storage, linear
from dynajit.codegen.loops.loop_ir import Axis, Expression, Slot, cost, typical, walk
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import Shape, TensorType, numel
from dynajit.ir.node import Node, NodeKind
from dynajit.ops.table.op_table import Kind

WORTH_STORING: Final = 12
"""Additions per element that are computed again, from which a value is stored instead."""

MOST_WORK: Final = 1 << 20
"""What the work behind a value counts as at most."""

_COMPUTING: Final = frozenset((Kind.POINTWISE, Kind.RANDOM))

Place: TypeAlias = tuple[Any, ...]
"""Where a user reads an operand: at its own element (`HERE`), at (the user's shape, position), or
there where only a run tells whether it does: (the user, `HERE`)."""

HERE: Final[Place] = ()


@dataclass(slots=True)
class _Reads:
    """What one element of a value takes. Mutable while it is found out.

    Args:
        work: cost in additions, without what the values behind it cost.
        places: (value, place) -> part of the value's elements that is read there, 0 to 1.
    """

    work: int = 0
    places: dict[tuple[Node, Place], float] = field(default_factory=dict)

    def read_in_arms(self, node: Node, values: Iterable[Node]) -> None:
        """What `node` reads if an index that is not known says so is computed for it alone.

        Its text stands in the arms of a jump, which share nothing.
        """
        for value in values:
            share = self.places.pop((value, HERE), 1.0)
            self.places[value, (node, HERE)] = share


def worth_storing(
    nodes: Sequence[Node], inputs: Sequence[Node], stored: Set[Node]
) -> frozenset[Node]:
    """The values among `nodes` to store, besides those in `stored`.

    Args:
        nodes: all that is computed, in order.
        inputs: the graph's placeholders.
        stored: what has memory anyway.
    """
    if not any(_is_of(node, {Kind.MOVEMENT}) for node in nodes):
        return frozenset()
    storage = Storage(inputs)
    reads = {
        node: _reads(node, storage, stored)
        for node in nodes
        if node.kind is NodeKind.CALL and not _is_of(node, {Kind.MOVEMENT, Kind.COMPOSITE})
    }
    times = _times(reads)
    chosen: set[Node] = set()
    work: dict[Node, int] = {}
    for node, read in reads.items():
        if node in stored or not _is_of(node, _COMPUTING):
            continue
        total = min(read.work + sum(work.get(value, 0) for value, _ in read.places), MOST_WORK)
        if (times.get(node, 0) - 1) * total >= WORTH_STORING:
            chosen.add(node)
        else:
            work[node] = total
    return frozenset(chosen)


def _is_of(node: Node, kinds: Set[Kind]) -> bool:
    return node.op is not None and node.op.kind in kinds


def _times(reads: Mapping[Node, _Reads]) -> dict[Node, float]:
    """How often each element of a value would be computed, on the average."""
    places: dict[tuple[Node, Place], float] = {}
    for read in reads.values():
        for place, share in read.places.items():
            places[place] = max(share, places.get(place, 0))
    times: dict[Node, float] = {}
    for (value, _), share in places.items():
        times[value] = times.get(value, 0) + share
    return times


def _reads(node: Node, storage: Storage, stored: Set[Node]) -> _Reads:
    """What a value's element reads: it is computed from values of which nothing is known."""
    found = _Reads()
    if _is_of(node, _COMPUTING):
        assert isinstance(node.type, TensorType)
        if 0 not in node.type.shape:
            elements, index = _elements(node, node.type.shape, found, storage, stored)
            expression = elements.compute(node, index)
            found.work = sum(map(cost, walk((expression,))))
        return found
    for operand in node.args:
        if isinstance(operand, Node) and isinstance(operand.type, TensorType):
            elements, index = _elements(node, operand.type.shape, found, storage, stored)
            elements.at(operand, index)
    return found


def _elements(
    node: Node, shape: Shape, found: _Reads, storage: Storage, stored: Set[Node]
) -> tuple[Elements, tuple[Number, ...]]:
    """Elements that write down what is read over a domain of `shape`, and the domain's index."""
    own: list[Node] = []  # values that were read here, in turn
    index = tuple(Axis(f"i{d}", size).symbol for d, size in enumerate(shape))
    here, within = linear(index, shape), [numel(shape)]

    def read(value: Node, at: tuple[Number, ...]) -> Expression:
        assert isinstance(value.type, TensorType)
        size = numel(value.type.shape)
        if _is_of(value, {Kind.MOVEMENT}) and value not in stored:
            within.append(size)
            before = len(own)
            expression = elements.compute(value, at)
            within.pop()
            if size != numel(shape) and not isinstance(expression, Slot):
                found.read_in_arms(node, own[before:])
            return expression
        position = linear(at, value.type.shape)
        place = HERE if position == here and size == numel(shape) else (shape, position)
        share = min(map(typical, within)) / max(typical(size), 1)
        found.places[value, place] = max(min(1.0, share), found.places.get((value, place), 0))
        if place is HERE:
            own.append(value)
        return Slot("a", 0, value.type.dtype)

    elements = Elements(storage, read)
    return elements, index
