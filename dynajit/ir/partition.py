"""Cut a joint graph into a forward and a backward graph, saving as few bytes as possible.

A value that backward needs is either saved by forward or recomputed in backward from other saved
values. What is saved is the minimum cut of a flow network: every value that does not depend on
output gradients is an edge whose capacity is its size in bytes. Inputs of the forward graph are
free to save. Matrix products and other library calls are never recomputed; the others have the
cost that `recompute_cost` says. With a memory budget below 1 they may be, and bytes count for more
and more until what is saved fits the budget: the cut for each price of a byte is the cheapest way
to save as little as it does (Lagrange multipliers).

The compile driver and reports read the `Partition`.

Source: Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), for recomputation;
the max-flow min-cut theorem of Ford and Fulkerson for the choice.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final, TypeAlias

from dynajit.core.records import record
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import ScalarType, TensorType, ValueType
from dynajit.ir.autodiff import Joint
from dynajit.ir.graph import Builder, Graph
from dynajit.ir.loops import is_repeated
from dynajit.ir.min_cut import UNLIMITED, minimum_cut
from dynajit.ir.node import Argument, Node, NodeKind, storage_root
from dynajit.ir.passes.copy_inputs import copy_inputs
from dynajit.ir.sizes import Place, symbol_places, symbols
from dynajit.ops.table.effort import is_transcendental
from dynajit.ops.table.op_table import TABLE, Kind

# Assumed for a symbolic size: large enough that a batch dimension counts.
ASSUMED_SIZE: Final = 64

# What recomputing costs, in bytes that one would rather save, per element: estimates for arithmetic
# that vectorises, where an exponential takes about as long as moving a byte, a random number two.
TRANSCENDENTAL_BYTES: Final = 1
RANDOM_BYTES: Final = 2


# Of a library call: a product does so many operations in the time in which a byte is moved (100
# GFLOP/s and 25 GB/s on one core); of others a product over 16 elements is assumed.
OPERATIONS_PER_BYTE: Final = 4
ASSUMED_DEPTH: Final = 16

# Factors on saved bytes that are tried for a memory budget, up to one beyond every cost.
_PRICES: Final = tuple(1 << step for step in range(0, 48, 2))

_Choice: TypeAlias = tuple[tuple[Node, ...], tuple[Node, ...]]
"""What is saved, what is computed again."""

# Saving a copy reads the value once more than saving the value itself, which is written anyway.
COPYING_FACTOR: Final = 2


@record
class Partition:
    """A forward graph, a backward graph, and what passes between them.

    Args:
        forward: inputs of the original graph; outputs of the original graph, then `saved`.
        backward: inputs are the saved values, then one gradient per differentiable output (same
            type, contiguous), then `sizes`; outputs are one gradient per input with
            `requires_grad`, in order, None where no path leads to it.
        saved: the nodes of `forward` that are saved.
        saved_bytes: their size without those that are inputs anyway.
        recomputed: number of forward calls that run again in backward.
        saved_inputs: for each saved value the position of the input that it is, or None.
        saved_copies: for each saved value the position of the input that it is a copy of, or None.
        saved_outputs: for each saved value the position of the first original output that shares
            its memory, or None: writing to that output in place spoils the saved value.
        differentiable_outputs: positions of the original outputs that have a gradient.
        sizes: where forward finds the symbols that no other input of backward shows; each is an
            INTEGER input of backward, named like the symbol.
    """

    forward: Graph
    backward: Graph
    saved: tuple[Node, ...]
    saved_bytes: int
    recomputed: int
    saved_inputs: tuple[int | None, ...]
    saved_outputs: tuple[int | None, ...]
    saved_copies: tuple[int | None, ...]
    differentiable_outputs: tuple[int, ...]
    sizes: Mapping[str, Place] = field(default_factory=dict)


def partition(
    joint: Joint,
    written: Collection[int] = (),
    shown: Collection[int] = (),
    budget: float = 1.0,
    left_out: int = 0,
) -> Partition:
    """Forward and backward graph of a joint graph (optimised or not).

    Args:
        written: positions of inputs whose memory may be overwritten between forward and backward:
            a copy is saved, never the input.
        shown: the same of outputs.
        budget: from 0 to 1: below 1 so much of the bytes that would be saved may be; 0 saves as few
            as possible. What cannot be computed again is saved in any case.
        left_out: bytes that would be saved, and that the joint graph computes again already.
    """
    joint = replace(joint, graph=copy_inputs(joint.graph, written))
    volatile = {joint.graph.inputs[position] for position in written}
    public = _roots(joint.graph.outputs[position] for position in shown)
    needed = _ancestors(joint.input_gradients)
    dependent = _dependent_on_gradients(joint)
    candidates = [node for node in joint.graph.nodes if node in needed and node not in dependent]
    used = _used_by_backward(joint, needed, dependent)
    saved, recomputed = choose(candidates, used, volatile, public)
    if budget < 1:
        choice = functools.partial(choose, candidates, used, volatile, public)
        allowed = budget * (stored_bytes(saved) + left_out)
        saved, recomputed = within(allowed, choice, len(candidates))
    forward = _forward_graph(joint, saved, public)
    backward = _backward_graph(joint, saved, needed)
    hidden = sorted(symbols(backward) - symbol_places(backward).keys())
    places = symbol_places(forward)
    return Partition(
        forward=forward,
        backward=_with_sizes(backward, hidden),
        saved=saved,
        saved_bytes=stored_bytes(saved),
        recomputed=sum(node.kind is NodeKind.CALL for node in recomputed),
        saved_inputs=_positions(saved, joint.graph.inputs[: joint.input_count]),
        saved_outputs=_output_positions(
            forward.outputs[joint.output_count :], joint.graph.outputs[: joint.output_count]
        ),
        saved_copies=_positions(
            tuple(node.args[0] if node.op is TABLE.clone else None for node in saved),
            joint.graph.inputs[: joint.input_count],
        ),
        differentiable_outputs=joint.differentiable_outputs,
        sizes={name: places[name] for name in hidden},
    )


def _with_sizes(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph with a further INTEGER input for each of these symbols."""
    kind = ScalarType(Category.INTEGER)
    added = tuple(Node(NodeKind.PLACEHOLDER, name, kind) for name in names)
    inputs = graph.inputs
    return Graph(graph.name, (*inputs, *added, *graph.nodes[len(inputs) :]), graph.outputs)


def size_bytes(type: ValueType) -> int:
    """Bytes of a stored value; symbolic sizes count as `ASSUMED_SIZE`."""
    if isinstance(type, ScalarType):
        return 8
    size = type.dtype.itemsize
    for length in type.shape:
        size *= length if isinstance(length, int) else ASSUMED_SIZE
    return size


def stored_bytes(saved: Iterable[Node]) -> int:
    """Bytes of saved values that are no inputs."""
    return sum(size_bytes(node.type) for node in saved if node.kind is not NodeKind.PLACEHOLDER)


def library_cost(node: Node) -> int | None:
    """What a library call would cost if it ran again, as `recompute_cost`.

    None for a number, and for an opaque row, which might give something else.
    """
    if node.op is None or node.op.opaque or not isinstance(node.type, TensorType):
        return None
    elements = size_bytes(node.type) // node.type.dtype.itemsize
    depth: Number = ASSUMED_DEPTH
    if node.op is TABLE.matmul:
        depth = node.args[0].type.shape[-1]  # type: ignore[union-attr]
    known = depth if isinstance(depth, int) else ASSUMED_SIZE
    return max(2 * elements * known // OPERATIONS_PER_BYTE, 1)


def recompute_cost(node: Node) -> int | None:
    """What computing `node` again costs, in bytes one would rather save; None for never.

    A reduction costs reading its input again. Arithmetic and movement are free: they are fused
    into the kernel that uses them.
    """
    if node.kind is NodeKind.CONSTANT:
        return 0
    if node.op is None or not isinstance(node.type, TensorType):
        return None
    elements = size_bytes(node.type) // node.type.dtype.itemsize
    match node.op.kind:
        case Kind.MOVEMENT:
            return 0
        case Kind.POINTWISE:
            dear = is_transcendental(node.op, node.attributes)
            return TRANSCENDENTAL_BYTES * elements if dear else 0
        case Kind.RANDOM:
            return RANDOM_BYTES * elements
        case Kind.REDUCTION:
            return sum(size_bytes(a.type) for a in node.args if isinstance(a, Node))
    return None


def choose(
    candidates: list[Node],
    used: set[Node],
    volatile: set[Node],
    public: set[Node],
    price: int = 1,
    unpriced: int | None = None,
    *,
    may_call: bool = True,
) -> _Choice:
    """(saved, recomputed) among the candidates, by minimum cut.

    Volatile ones are not saved. Of public ones a copy is: they have to be in memory anyway. With a
    price a saved byte counts so many times, and library calls may run again, if `may_call`.

    Vertices: 0 is the source, 1 the sink; candidate i enters at 2 + 2 i and leaves at 3 + 2 i.
    Cutting the edge in between saves the value; cutting source -> entry recomputes it.
    """
    position = {node: i for i, node in enumerate(candidates)}
    edges: dict[tuple[int, int], int] = {}
    for node, i in position.items():
        enter, leave = 2 + 2 * i, 3 + 2 * i
        saving = UNLIMITED if node in volatile else _saving_cost(node)
        is_priced = unpriced is not None and i >= unpriced
        factor = COPYING_FACTOR if storage_root(node) in public else 1
        factor *= price if is_priced else 1
        edges[enter, leave] = saving if saving == UNLIMITED else saving * factor
        cost = 0 if may_call and is_repeated(node) else recompute_cost(node)
        if cost is None and is_priced and may_call:
            cost = library_cost(node)
        edges[0, enter] = UNLIMITED if cost is None else cost
        for argument in node.args:
            if isinstance(argument, Node):
                edges[3 + 2 * position[argument], enter] = UNLIMITED
        if node in used:
            edges[leave, 1] = UNLIMITED
    backward_side = minimum_cut(edges, 2 + 2 * len(candidates))
    recomputed = tuple(n for n, i in position.items() if 2 + 2 * i in backward_side)
    saved = tuple(
        n
        for n, i in position.items()
        if 3 + 2 * i in backward_side and 2 + 2 * i not in backward_side
    )
    return saved, recomputed


def within(allowed: float, choose: Callable[[int, int], _Choice], count: int) -> _Choice:
    """The choice that saves as many bytes as are allowed, or as few as can be.

    Equal layers have one price, at which all of them are computed again or none. So many nodes from
    the front as still fit are then chosen as without a price.
    """
    for price in _PRICES:
        choice = choose(price, 0)
        if stored_bytes(choice[0]) <= allowed:
            break
    else:
        return choice
    fits, too_many = 0, count + 1
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        other = choose(price, middle)
        if stored_bytes(other[0]) <= allowed:
            fits, choice = middle, other
        else:
            too_many = middle
    return choice


def _saving_cost(node: Node) -> int:
    if node.kind is NodeKind.PLACEHOLDER:
        return 0
    if node.kind is NodeKind.CONSTANT:
        return UNLIMITED
    # Between a value and a view of it, the value: its memory is the one that exists.
    return max(size_bytes(node.type), 1) + (1 if node.is_view else 0)


def _ancestors(results: tuple[Argument, ...]) -> set[Node]:
    """The nodes that `results` are computed from, and themselves."""
    found: set[Node] = set()
    pending = [result for result in results if isinstance(result, Node)]
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            pending.extend(argument for argument in node.args if isinstance(argument, Node))
    return found


def _dependent_on_gradients(joint: Joint) -> set[Argument]:
    """The nodes that can only run in backward."""
    found: set[Argument] = set(joint.output_gradients)
    for node in joint.graph.nodes:
        if any(argument in found for argument in node.args):
            found.add(node)
    return found


def _used_by_backward(joint: Joint, needed: set[Node], dependent: set[Argument]) -> set[Node]:
    """The forward values that nodes of backward, or its outputs, use directly."""
    used = {n for n in joint.input_gradients if isinstance(n, Node) and n not in dependent}
    for node in needed:
        if node in dependent:
            used.update(a for a in node.args if isinstance(a, Node) and a not in dependent)
    return used


def _roots(nodes: Iterable[Argument]) -> set[Node]:
    """The nodes that are in memory for these."""
    return {storage_root(node) for node in nodes if isinstance(node, Node)}


def _forward_graph(joint: Joint, saved: tuple[Node, ...], public: set[Node]) -> Graph:
    """The nodes that lead to the outputs and to what is saved: copies of public ones."""
    graph = joint.graph
    outputs = graph.outputs[: joint.output_count]
    needed = _ancestors((*outputs, *saved)) | set(graph.inputs[: joint.input_count])
    builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
    for node in graph.nodes:
        if node in needed:
            builder.adopt(node)
    kept = [
        builder.call(TABLE.clone, [node], {}) if storage_root(node) in public else node
        for node in saved
    ]
    return builder.finish((*outputs, *kept))


def _backward_graph(joint: Joint, saved: tuple[Node, ...], needed: set[Node]) -> Graph:
    graph = joint.graph
    builder = Builder(f"{graph.name}_backward", reserved=(node.name for node in graph.nodes))
    new: dict[Node, Argument] = {}
    for node in saved:
        placeholder = Node(NodeKind.PLACEHOLDER, node.name, node.type, location=node.location)
        new[node] = builder.adopt(placeholder).node
    for node in joint.output_gradients:
        new[node] = builder.adopt(node).node
    wanted = _needed_after(joint.input_gradients, set(saved)) & needed
    for node in graph.nodes:
        if node in wanted and node not in new:
            args = tuple(new[a] if isinstance(a, Node) else a for a in node.args)
            new[node] = builder.copy(node, args).node
    return builder.finish(new[o] if isinstance(o, Node) else o for o in joint.input_gradients)


def _needed_after(results: tuple[Argument, ...], given: set[Node]) -> set[Node]:
    """The nodes to compute for `results` when the values in `given` are there."""
    found: set[Node] = set()
    pending = [result for result in results if isinstance(result, Node)]
    while pending:
        node = pending.pop()
        if node not in found and node not in given:
            found.add(node)
            pending.extend(argument for argument in node.args if isinstance(argument, Node))
    return found


def _positions(nodes: tuple[Argument, ...], among: tuple[Argument, ...]) -> tuple[int | None, ...]:
    places: dict[Argument, int] = {node: position for position, node in enumerate(among)}
    return tuple(places.get(node) for node in nodes)


def _output_positions(
    nodes: tuple[Argument, ...], outputs: tuple[Argument, ...]
) -> tuple[int | None, ...]:
    places: dict[Node, int] = {}
    for position, output in enumerate(outputs):
        if isinstance(output, Node):
            places.setdefault(storage_root(output), position)
    return tuple(
        places.get(storage_root(node)) if isinstance(node, Node) else None for node in nodes
    )
