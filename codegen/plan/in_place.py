"""Outputs that take the array of what they are computed from.

`share` decides for each output that the caller would copy into an input whether its kernel may
write there: the input's elements are read in no later kernel, and in this one only where the
element is written, right before. `hosts` lets a value that is no output live in the array of the
output that overwrites it, under the same conditions: a gradient that is scaled is one array.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from dynajit.codegen.loops.loop_ir import (
    Buffer,
    Expression,
    Kernel,
    Load,
    NestKernel,
    RowKernel,
    ScatterKernel,
    Select,
    walk,
)
from dynajit.codegen.plan.fusion import Plan
from dynajit.codegen.plan.narrowing import narrowed, never_meet
from dynajit.core.types.value_types import TensorType, contiguous_strides
from dynajit.ir.node import Node, NodeKind


def share(
    plan: Plan,
    kernels: Sequence[Kernel],
    used: Sequence[Sequence[Buffer]],
    written: Mapping[int, int],
    after: int = -1,
    takes_scatters: bool = False,
) -> tuple[list[Kernel], dict[Node, Node]]:
    """The kernels, some changed, and output -> input for those that share an array.

    Args:
        used: the buffers of each kernel.
        written: positions: output -> the input that it is copied to.
        after: position of the last kernel that can fail: a failure must leave no trace.
        takes_scatters: the code of scatter kernels knows `in_place`.
    """
    inputs, outputs, buffers = plan.graph.inputs, plan.graph.outputs, plan.storage.buffers
    users = _users(used)
    shown = Counter(buffers.get(node) for node in outputs if isinstance(node, Node))
    shared: dict[Node, Node] = {}
    taken: set[Node] = set()
    pairs: dict[int, list[tuple[Buffer, Buffer]]] = {}
    for output, position in written.items():
        node, source = outputs[output], inputs[position]
        if not isinstance(node, Node) or source in taken or not _may_share(node, source):
            continue
        if shown[buffers.get(node)] != 1:  # somebody else gets the output
            continue
        place = _kernel(kernels, users, buffers[node], buffers.get(source), takes_scatters)
        if place is not None and place + isinstance(kernels[place], ScatterKernel) > after:
            shared[node] = source
            taken.add(source)
            pairs.setdefault(place, []).append((buffers[source], buffers[node]))
    return [_with_pairs(kernel, pairs.get(place)) for place, kernel in enumerate(kernels)], shared


SMALLEST_HOST: Final = 1 << 14
"""Bytes: below, an array of its own costs nothing."""


def hosts(
    plan: Plan,
    kernels: Sequence[Kernel],
    used: Sequence[Sequence[Buffer]],
    shared: Mapping[Node, Node],
    after: int = -1,
) -> tuple[list[Kernel], dict[Buffer, Node]]:
    """The kernels, some changed, and buffer -> output whose array it lives in.

    Args:
        used: the buffers of each kernel.
        shared: output -> the input whose array it has (`share`): what the input holds must have
            been read before another value lives there.
        after: position of the last kernel that can fail: until then inputs hold what they held.
    """
    buffers, users = plan.storage.buffers, _users(used)
    shown = Counter(buffers.get(node) for node in plan.graph.outputs if isinstance(node, Node))
    known = {buffers[node] for node in buffers if node.kind is not NodeKind.CALL}
    found: dict[Buffer, Node] = {}
    pairs: dict[int, list[tuple[Buffer, Buffer]]] = {}
    for node in plan.graph.outputs:
        if not isinstance(node, Node) or node.kind is not NodeKind.CALL or node not in buffers:
            continue
        output = buffers[node]
        place = users.get(output, [None])[0]
        if shown[output] != 1 or place is None:
            continue
        earliest = 0
        if node in shared:
            earliest = 1 + max(after, *users.get(buffers[shared[node]], (-1,)))
        for source in used[place]:
            is_free = source not in known and source not in found and not shown[source]
            if not is_free or not _is_as_large(source, output):
                continue
            if (
                earliest <= users[source][0] < place
                and _kernel(kernels, users, output, source) == place
            ):
                found[source] = node
                pairs.setdefault(place, []).append((source, output))
                break
    return [_with_pairs(kernel, pairs.get(place)) for place, kernel in enumerate(kernels)], found


def _is_as_large(source: Buffer, output: Buffer) -> bool:
    size = output.size
    if not isinstance(size, int) or size * output.dtype.itemsize < SMALLEST_HOST:
        return False
    return source.size == size and source.dtype is output.dtype


def _users(used: Sequence[Sequence[Buffer]]) -> dict[Buffer, list[int]]:
    """Buffer -> positions of the kernels that use it, in order."""
    users: dict[Buffer, list[int]] = {}
    for place, buffers in enumerate(used):
        for buffer in dict.fromkeys(buffers):
            users.setdefault(buffer, []).append(place)
    return users


def _with_pairs(kernel: Kernel, pairs: list[tuple[Buffer, Buffer]] | None) -> Kernel:
    """The kernel, another one where some of its outputs are written into inputs."""
    if pairs is None:
        return kernel
    assert isinstance(kernel, (NestKernel, RowKernel, ScatterKernel))
    if isinstance(kernel, RowKernel):
        for source, _ in pairs:
            kernel = narrowed(kernel, source)
    return replace(kernel, in_place=(*kernel.in_place, *pairs))


def _may_share(node: Node, source: Node) -> bool:
    """True if the arrays look alike."""
    a, b = node.type, source.type
    return (
        node.kind is NodeKind.CALL
        and isinstance(a, TensorType)
        and isinstance(b, TensorType)
        and (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
        and b.is_contiguous
    )


def _kernel(
    kernels: Sequence[Kernel],
    users: Mapping[Buffer, Sequence[int]],
    output: Buffer,
    source: Buffer | None,
    takes_scatters: bool = False,
) -> int | None:
    """Position of the kernel that writes the output, if it may write to the source."""
    using = users.get(output)
    if not using or source is None:
        return None
    first = using[0]
    if users.get(source, using)[-1] > first:
        return None
    kernel = kernels[first]
    if isinstance(kernel, ScatterKernel):
        return first if takes_scatters and _only_fills(kernel, source) else None
    if isinstance(kernel, NestKernel):
        return first if _is_copied(kernel, output, source) else None
    return first if isinstance(kernel, RowKernel) and _is_safe(kernel, output, source) else None


def _only_fills(kernel: ScatterKernel, source: Buffer) -> bool:
    """True for a scatter kernel that reads of the source only what it fills the target with."""
    initial = kernel.initial
    if kernel.accumulator is not initial.buffer.dtype:  # it adds in an array of its own
        return False
    values = (kernel.write.value, *(index.value for index in kernel.indices))
    is_read = any(True for _ in _loads(walk(values), source))
    return initial.value == Load(source, initial.offset) and not is_read


def _is_copied(kernel: NestKernel, output: Buffer, source: Buffer) -> bool:
    """True for a nest that reads the source for nothing but to begin its result with."""
    results = dict(zip(kernel.nest.results, kernel.writes, strict=True))
    users = [slot for slot, operand in enumerate(kernel.operands) if operand.buffer == source]
    if len(users) != 1 or results.get(users[0]) != output:
        return False
    operand = kernel.operands[users[0]]
    return operand.offset == 0 and operand.strides == contiguous_strides(operand.shape)


def _is_safe(kernel: RowKernel, output: Buffer, source: Buffer) -> bool:
    """True for a pointwise kernel that reads of the source only what it overwrites, or what no
    turn overwrites."""
    others = kernel.row_stores or kernel.totals or kernel.element_totals or kernel.finals
    others = others or kernel.column_totals
    if others or len(kernel.phases) != 1 or kernel.indices:
        return False
    kernel = narrowed(kernel, source)
    (phase,) = kernel.phases
    if phase.accumulates or phase.keeps:
        return False
    places = [place for place, store in enumerate(phase.stores) if store.buffer == output]
    if len(places) != 1:
        return False
    (place,) = places
    values = tuple(store.value for store in phase.stores)
    offset = phase.stores[place].offset
    axes = (*kernel.rows, *kernel.elements)
    if any(
        load.offset != offset and not (len(values) == 1 and never_meet(load.offset, offset, axes))
        for load in _loads(walk(values), source)
    ):
        return False
    # What is computed for certain is computed once; behind the store, the rest is read again.
    before = set(_loads(_certain(values[: place + 1]), source))
    return all(load in before for load in _loads(walk(values[place + 1 :]), source))


def _loads(expressions: Iterable[Expression], source: Buffer) -> Iterator[Load]:
    return (e for e in expressions if isinstance(e, Load) and e.buffer == source)


def _certain(roots: Sequence[Expression]) -> set[Expression]:
    """The expressions that are computed whatever the conditions are."""
    found: set[Expression] = set()
    pending = list(roots)
    while pending:
        expression = pending.pop()
        if expression not in found:
            found.add(expression)
            is_select = isinstance(expression, Select)
            pending += expression.operands[:1] if is_select else expression.operands
    return found
