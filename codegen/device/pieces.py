"""A graph cut into pieces that run one after the other: on a GPU, on the CPU, or by a library.

Contract: `cut(graph, has_kernel)` gives pieces that compute together what the graph computes, and
each of which is on one device. Nodes of a device join one piece as long as nothing in between has
to run first. A row without a kernel is a piece of its own, and so are a transfer, and a loop with
what is read of it. A zero-dim value of the CPU that a GPU computes with goes there by value: the
piece takes it as a run-time number.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final, TypeAlias

from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.loops import LOOP, PART
from dynajit.ir.node import Argument, Node, NodeKind
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ir.reruns import RERUN
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE


class Kind(Enum):
    """Who runs a piece."""

    HOST = "host"
    KERNELS = "kernels"
    ROW = "row"
    TURNS = "turns"


@record
class Piece:
    """A part of a graph.

    Args:
        kind: who runs it.
        device: where its results are.
        graph: its placeholders stand for `reads`, in order.
        reads: values of the whole graph that it needs.
        writes: values of the whole graph that it computes for others, in the order of the outputs
            of `graph`.
    """

    kind: Kind
    device: Device
    graph: Graph
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]


Key: TypeAlias = tuple[Kind, Device]


def device_of(node: Node) -> Device:
    """Where the value of a node is; numbers are on the CPU."""
    return node.type.device if isinstance(node.type, TensorType) else CPU


def loop_of(node: Node) -> Node | None:
    """The loop, or loop that is run again, that a node is or reads a result of; None: another."""
    looped = node.args[0] if node.op is PART else node
    return looped if isinstance(looped, Node) and looped.op in (LOOP, RERUN) else None


def devices_of(graph: Graph) -> tuple[Device, ...]:
    """The devices of a graph's inputs and calls, numbers and constants left out."""
    nodes = [node for node in graph.nodes if node.kind is not NodeKind.CONSTANT]
    return tuple(dict.fromkeys(device_of(n) for n in nodes if isinstance(n.type, TensorType)))


def cut(graph: Graph, has_kernel: Callable[[Node], bool]) -> tuple[Piece, ...]:
    """The pieces of a graph, in running order.

    Args:
        graph: without symbolic sizes.
        has_kernel: whether a call on a GPU has a kernel.
    """
    groups = _groups(graph, has_kernel)
    needed = set(graph.outputs)
    pieces: list[Piece] = []
    for (kind, device), nodes in reversed(groups):
        piece = _piece(graph, kind, device, nodes, needed)
        needed.update(piece.reads)
        pieces.append(piece)
    return tuple(reversed(pieces))


def _key_of(node: Node, has_kernel: Callable[[Node], bool]) -> Key:
    device = device_of(node)
    if node.op is TABLE.to_device:
        return Kind.ROW, device
    looped = loop_of(node)
    if looped is not None and device_of(looped) is not CPU:
        return Kind.TURNS, device_of(looped)
    if device is CPU:
        return Kind.HOST, device
    return (Kind.KERNELS if has_kernel(node) else Kind.ROW), device


def _groups(graph: Graph, has_kernel: Callable[[Node], bool]) -> list[tuple[Key, tuple[Node, ...]]]:
    """Calls that run together.

    Kernels come last of what can run, so that as much as possible is in each of their pieces; what
    the CPU computes, which waits for nobody, comes first.
    """
    keys = {node: _key_of(node, has_kernel) for node in graph.calls}
    waiting = list(graph.calls)
    done: set[Node] = {node for node in graph.nodes if node.kind is not NodeKind.CALL}
    groups: list[tuple[Key, tuple[Node, ...]]] = []
    while waiting:
        ready = dict.fromkeys(keys[node] for node in waiting if _is_ready(node, done))
        key = min(ready, key=lambda key: _ORDER.index(key[0]))
        taken = _closure(key, waiting, keys, done)
        if key[0] is Kind.ROW:
            taken = taken[:1]
        if key[0] is Kind.TURNS:
            taken = [node for node in taken if loop_of(node) is loop_of(taken[0])]
        done.update(taken)
        waiting = [node for node in waiting if node not in done]
        groups.append((key, tuple(taken)))
    return groups


_ORDER: Final = (Kind.HOST, Kind.ROW, Kind.KERNELS, Kind.TURNS)


def _is_ready(node: Node, done: set[Node]) -> bool:
    return all(not isinstance(a, Node) or a in done for a in node.args)


def _closure(
    key: Key, waiting: Sequence[Node], keys: dict[Node, Key], done: set[Node]
) -> list[Node]:
    """What can run of a kind, one after the other, in the graph's order."""
    own = set(done)
    taken = []
    for node in waiting:
        if keys[node] == key and _is_ready(node, own):
            own.add(node)
            taken.append(node)
    return taken


# ---------------------------------------------------------------------------------------------
# one piece as a graph


def _piece(
    graph: Graph, kind: Kind, device: Device, nodes: Sequence[Node], needed: Iterable[Argument]
) -> Piece:
    wanted = set(needed)
    own = set(nodes)
    writes = tuple(node for node in nodes if node in wanted)
    arguments = dict.fromkeys(a for node in nodes for a in node.args if isinstance(a, Node))
    reads = tuple(a for a in arguments if a not in own and a.kind is not NodeKind.CONSTANT)
    builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
    new: dict[Node, Argument] = {}
    for node in reads:
        goes_by_value = kind is Kind.KERNELS and is_by_value(node)
        new[node] = builder.placeholder(node.name, _input_type(node, goes_by_value)).node
    with dispatch.recording(builder.handle):
        for node in reads:
            if kind is Kind.KERNELS and is_by_value(node):
                new[node] = _as_tensor(builder, new[node], node, device)
        for node in arguments:
            if node.kind is NodeKind.CONSTANT:
                new[node] = builder.adopt(node).node
    for node in nodes:
        args = tuple(new[a] if isinstance(a, Node) else a for a in node.args)
        builder.location = node.location
        new[node] = builder.copy(node, args).node
    return Piece(kind, device, builder.finish(new[node] for node in writes), reads, writes)


def with_numbers(graph: Graph, nodes: Iterable[Node]) -> Graph:
    """The graph that takes some zero-dim inputs of the CPU as run-time numbers.

    Args:
        graph: on one GPU but for these inputs.
        nodes: inputs for which `is_by_value` is true.
    """
    (device,) = (device for device in devices_of(graph) if device is not CPU)
    chosen = set(nodes)

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Argument:
        if node not in chosen:
            return keep(builder, node, args)
        number = builder.placeholder(f"{node.name}_number", _input_type(node, True)).node
        return _as_tensor(builder, number, node, device)

    return rebuild(graph, visit)


def with_constants(graph: Graph) -> Graph:
    """The graph with constants that are moved to a GPU as constants of that GPU."""
    if not any(_moved_constant(node) for node in graph.calls):
        return graph
    leaving = set(graph.outputs)

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        found = _moved_constant(node)
        if found is None:
            return keep(builder, node, args)
        made = builder.adopt(replace(found, name=node.name, type=node.type))
        return TABLE.clone(made) if node in leaving else made

    return rebuild(graph, visit)


def _moved_constant(node: Node) -> Node | None:
    """The constant that a node moves to a GPU, or None."""
    if node.op is not TABLE.to_device or device_of(node) is CPU:
        return None
    (source,) = node.args
    return source if isinstance(source, Node) and source.kind is NodeKind.CONSTANT else None


def is_by_value(node: Node) -> bool:
    """True for a zero-dim tensor on the CPU, which goes to a GPU as a number."""
    return isinstance(node.type, TensorType) and node.type.device is CPU and not node.type.shape


def _input_type(node: Node, goes_by_value: bool) -> Any:
    if not goes_by_value:
        return node.type
    return ScalarType(dtype_of(node).category)


def _as_tensor(builder: Builder, number: Argument, node: Node, device: Device) -> Node:
    """A run-time number as the zero-dim tensor that it stands for."""
    if not isinstance(number, Node):
        raise InternalError(f"{node.name} became the literal {number!r} in a piece of a graph")
    dtype = dtype_of(node)
    return TABLE.full(Value(builder, number), shape=(), dtype=dtype, device=device).node  # type: ignore[no-any-return]


def dtype_of(node: Node) -> DType:
    """Element type of a tensor value."""
    assert isinstance(node.type, TensorType)
    return node.type.dtype
