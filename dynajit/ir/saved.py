"""What eager execution of a graph would save for backward, and for which gradients it is needed.

The eager tape keeps the values that the derivative formulas of each row name, and complains at
backward if one of them was written in place since. Compiled code saves other values: `uses` tells
which values count, so that it can complain about the same ones, and save no other value that
somebody might write to. A row of the tape that backward has passed through lets go of what it
saved: `rows_that_save` tells which gradients, of and for what, need a row that does.
"""

import functools
import operator
from collections.abc import Collection, Container, Iterable, Iterator, Sequence

from dynajit.core.records import record
from dynajit.core.types.value_types import TensorType
from dynajit.ir.autodiff import active_nodes, differentiable_composites, is_continuous
from dynajit.ir.graph import Graph
from dynajit.ir.loops import LOOP, Loop
from dynajit.ir.node import Argument, Node, NodeKind, named_arguments, type_of
from dynajit.ir.passes.expand_composites import expand_with_origins
from dynajit.ops import TABLE
from dynajit.ops.table.derivatives import Need, formula_parameters, is_variadic


@record
class Use:
    """One value that a derivative formula needs.

    Args:
        value: the node that is saved, of the expanded graph.
        user: the node whose formula needs it, of the expanded graph.
        origin: the node of the given graph that `user` was made for.
        outputs: bit set of the graph's outputs from whose gradients the formula is reached.
        inputs: bit set of the graph's inputs whose gradients need the formula.
    """

    value: Node
    user: Node
    origin: Node
    outputs: int
    inputs: int

    @property
    def is_result(self) -> bool:
        """True if the formula needs the result of its own row."""
        return self.value is self.user


@record
class Saved:
    """Everything that is saved, in the order of the rows, and the graph that it is about.

    Args:
        graph: the given graph without composites that have no derivative of their own; nodes of
            the given graph keep their names.
        uses: see Use.
    """

    graph: Graph
    uses: tuple[Use, ...]


def find_saved(graph: Graph, requires_grad: Sequence[bool], leaves: Iterable[Node] = ()) -> Saved:
    """What the eager tape would save if the graph ran op by op.

    Args:
        requires_grad: of each input.
        leaves: nodes that gradients end at, beside inputs.
    """
    names = {node.name for node in leaves}
    graph, origins = expand_with_origins(graph, kept=differentiable_composites(on_tape=True))
    active = _active(graph, requires_grad, [node for node in graph.nodes if node.name in names])
    inputs = _reaching_inputs(graph, active)
    outputs = _reached_outputs(graph, active)
    found: list[Use] = []
    for node in graph.calls:
        if node in active and outputs.get(node):
            for value, mask in _needed(node, active, inputs):
                found.append(Use(value, node, origins[node], outputs[node], mask))
    return Saved(graph, tuple(dict.fromkeys(found)))


@record
class SavingRow:
    """A row that saves anything, as backward meets it: rows that are met alike are one.

    Args:
        outputs: bit set of the graph's outputs whose gradients pass through it.
        targets: bit set of what the gradients that pass through it reach: bit i is input i of
            the graph; output k of it is bit (number of inputs) + k.
        is_spent: a run within the graph has let go of what it saved.
    """

    outputs: int
    targets: int
    is_spent: bool = False


def rows_that_save(
    graph: Graph,
    requires_grad: Sequence[bool],
    spent: Collection[str] = (),
    leaves: Iterable[Node] = (),
) -> tuple[SavingRow, ...]:
    """The rows that save anything, of the eager tape if the graph ran op by op, in the order in
    which backward meets them.

    Numbers count: `x * 2` keeps the 2, and backward passes through it once, as in PyTorch.

    Args:
        requires_grad: of each input.
        spent: names of the nodes that a run within the graph has passed.
        leaves: nodes that gradients end at, beside inputs.
    """
    names = {node.name for node in leaves}
    graph, origins = expand_with_origins(graph, kept=differentiable_composites(on_tape=True))
    active = _active(graph, requires_grad, [node for node in graph.nodes if node.name in names])
    targets = _reaching_targets(graph, active)
    outputs = _reached_outputs(graph, active)
    found = (
        SavingRow(outputs[node], targets.get(node, 0), origins[node].name in spent)
        for node in reversed(graph.calls)
        if node in active and outputs.get(node) and saves_anything(node, active)
    )
    return tuple(dict.fromkeys(found))


def reached_targets(
    graph: Graph, requires_grad: Sequence[bool], leaves: Iterable[Node] = ()
) -> tuple[int, ...]:
    """Per output of the graph, what its gradient reaches, as in `SavingRow.targets`.

    Args: as of `rows_that_save`.
    """
    graph, _ = expand_with_origins(graph, kept=differentiable_composites(on_tape=True))
    names = {node.name for node in leaves}
    active = _active(graph, requires_grad, [node for node in graph.nodes if node.name in names])
    targets = _reaching_targets(graph, active)
    return tuple(targets.get(output, 0) for output in graph.outputs)


def _active(
    graph: Graph, requires_grad: Sequence[bool], leaves: Iterable[Node] = ()
) -> set[Argument]:
    """The nodes that gradients pass through."""
    sources = [
        node
        for node, flag in zip(graph.inputs, requires_grad, strict=True)
        if flag and is_continuous(node.type)
    ]
    return active_nodes(graph, {*sources, *leaves})


def saves_anything(node: Node, active: Container[Argument]) -> bool:
    """True if a formula of a node needs an operand or its result."""
    assert node.op is not None
    return any(
        parameter.need in (Need.RESULT, Need.INPUT, Need.INPUTS)
        for name, _ in _differentiable_arguments(node, active)
        for parameter in formula_parameters(node.op, name) or ()
    )


def _differentiable_arguments(
    node: Node, active: Container[Argument]
) -> Iterator[tuple[str, Node]]:
    """(name, argument) for the arguments that a gradient goes to."""
    assert node.op is not None
    for name, argument in named_arguments(node):
        if argument in active and formula_parameters(node.op, name) is not None:
            assert isinstance(argument, Node)
            yield name, argument


def _reaching_inputs(graph: Graph, active: set[Argument]) -> dict[Argument, int]:
    """For each active node the inputs with a differentiable path to it."""
    masks: dict[Argument, int] = {
        node: 1 << position for position, node in enumerate(graph.inputs) if node in active
    }
    for node in graph.calls:
        if node in active:
            for _, argument in _differentiable_arguments(node, active):
                masks[node] = masks.get(node, 0) | masks.get(argument, 0)
    return masks


def _reaching_targets(graph: Graph, active: set[Argument]) -> dict[Argument, int]:
    """For each active node what lies behind it: inputs, and outputs other than itself."""
    own: dict[Argument, int] = {}
    for position, node in enumerate((*graph.inputs, *graph.outputs)):
        own[node] = own.get(node, 0) | 1 << position
    masks: dict[Argument, int] = {}
    for node in graph.calls:
        if node in active:
            for _, argument in _differentiable_arguments(node, active):
                behind = masks.get(argument, 0) | own.get(argument, 0)
                masks[node] = masks.get(node, 0) | behind
    return masks


def _reached_outputs(graph: Graph, active: set[Argument]) -> dict[Argument, int]:
    """For each active node the outputs with a differentiable path from it."""
    masks: dict[Argument, int] = {}
    for position, output in enumerate(graph.outputs):
        if output in active:
            masks[output] = masks.get(output, 0) | 1 << position
    for node in reversed(graph.nodes):
        if node.kind is NodeKind.CALL and node in active and node in masks:
            for _, argument in _differentiable_arguments(node, active):
                masks[argument] = masks.get(argument, 0) | masks[node]
    return masks


def _needed(
    node: Node, active: set[Argument], inputs: dict[Argument, int]
) -> Iterator[tuple[Node, int]]:
    """(value, inputs) for each value that the formulas of a node need; inputs as in Use."""
    op = node.op
    assert op is not None
    if op is LOOP:
        mask = functools.reduce(operator.or_, (inputs.get(a, 0) for a in node.args))
        yield from ((value, mask) for value in _needed_by_turns(node))
        return
    for name, argument in _differentiable_arguments(node, active):
        mask = inputs.get(argument, 0)
        if is_variadic(op, name):  # one formula for all of them
            mask = functools.reduce(operator.or_, (inputs.get(a, 0) for a in node.args))
        for parameter in formula_parameters(op, name) or ():
            match parameter.need:
                case Need.RESULT:
                    yield node, mask
                case Need.INPUT if isinstance(node.args[parameter.key], Node):
                    yield node.args[parameter.key], mask
                case Need.INPUTS:
                    for other in node.args[parameter.key :]:
                        if isinstance(other, Node):
                            yield other, mask


def _needed_by_turns(node: Node) -> Iterator[Node]:
    """The operands of a loop that formulas of its turns need."""
    loop: Loop = node.attributes["loop"]
    body, count = loop.body, len(loop.numbers)
    outputs = body.outputs[: loop.carried + loop.collected]
    flags = [*[False] * count, *loop.active]
    uses = find_saved(Graph(body.name, body.nodes, outputs), flags).uses
    values = {_memory_of(use.value).name for use in uses}
    for inner, operand in zip(body.inputs[count:], node.args[1:], strict=True):
        if inner.name in values and isinstance(operand, Node):
            yield operand


def _memory_of(node: Node) -> Node:
    """The node whose memory a value shares in eager execution; `x[i]` is a view, too."""
    while isinstance(given := node.args[0] if node.args else None, Node):
        index = type_of(node.args[1]) if node.op is TABLE.index else None
        if not node.is_view and not (isinstance(index, TensorType) and len(index.shape) == 1):
            break
        node = given
    return node
