"""The joint graph: a graph, and its reverse-mode derivative after it.

Contract: `differentiate` appends to the forward nodes one placeholder per differentiable output
(its gradient) and the nodes of the derivative formulas, walked from the outputs back. Formulas are
the rows' own (`Op.vjp`), as on the eager tape. Composites with a formula are used as one row;
others are expanded first. A gradient node has the location of the forward node it comes from.
`ir.partition` cuts the joint graph in two.

Source: reverse accumulation, Griewank and Walther, "Evaluating Derivatives", chapter 3.
"""

import functools
import operator
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.loops import LOOP, PART, Loop, part_of
from dynajit.ir.node import Argument, Node, NodeKind, named_arguments, type_of
from dynajit.ir.passes.expand_composites import expand_composites
from dynajit.ir.rebuild import as_operand
from dynajit.ops import TABLE, Kind
from dynajit.ops.table import dispatch
from dynajit.ops.table.derivatives import (
    Need,
    Parameter,
    call_formula,
    formula_parameters,
    is_variadic,
)
from dynajit.ops.table.families import sum_to_type


@record
class Joint:
    """Forward and backward in one graph.

    Args:
        graph: inputs are those of the forward graph, then one gradient per differentiable output;
            outputs are those of the forward graph, then one gradient per forward input with
            `requires_grad`, in order (None where no path leads to it).
        input_count: number of forward inputs.
        output_count: number of forward outputs.
        requires_grad: of each forward input.
        differentiable_outputs: positions of the forward outputs that have a gradient.
        reached: for each of them the positions of the inputs that get a gradient from it.
    """

    graph: Graph
    input_count: int
    output_count: int
    requires_grad: tuple[bool, ...]
    differentiable_outputs: tuple[int, ...]
    reached: tuple[frozenset[int], ...] = ()

    @property
    def output_gradients(self) -> tuple[Node, ...]:
        """The placeholders of the gradients of the differentiable outputs."""
        return self.graph.inputs[self.input_count :]

    @property
    def input_gradients(self) -> tuple[Argument, ...]:
        """The gradients of the inputs with `requires_grad`."""
        return self.graph.outputs[self.output_count :]


def differentiate(graph: Graph, requires_grad: Sequence[bool]) -> Joint:
    """The joint graph of `graph`.

    Args:
        graph: the forward graph.
        requires_grad: for each input whether its gradient is wanted; ignored where the input is
            not a floating or complex tensor.

    Raises:
        InternalError: the number of flags is wrong, or a formula gives no gradient value.
    """
    inputs = graph.inputs
    if len(requires_grad) != len(inputs):
        raise InternalError(f"{len(requires_grad)} requires_grad flags for {len(inputs)} inputs")
    graph = expand_composites(graph, kept=differentiable_composites())
    wanted = tuple(
        bool(flag) and is_continuous(node.type)
        for node, flag in zip(inputs, requires_grad, strict=True)
    )
    active = active_nodes(
        graph, {node for node, flag in zip(graph.inputs, wanted, strict=True) if flag}
    )
    differentiable = tuple(
        position for position, output in enumerate(graph.outputs) if output in active
    )

    builder = Builder(graph.name, reserved=(node.name for node in graph.nodes))
    for node in graph.nodes:
        builder.adopt(node)
    with dispatch.recording(builder.handle):
        seeds = _output_gradients(builder, graph, differentiable)
        gradients = accumulate_gradients(builder, graph.nodes, active, seeds)
    results = [
        gradients.get(node) for node, flag in zip(graph.inputs, requires_grad, strict=True) if flag
    ]
    joint = builder.finish([*graph.outputs, *results])
    reached = _reached_inputs(graph, active, differentiable)
    return Joint(
        joint, len(inputs), len(graph.outputs), tuple(requires_grad), differentiable, reached
    )


def differentiable_composites(on_tape: bool = False) -> frozenset[str]:
    """Names of the composites that bring their own derivative.

    Args:
        on_tape: only those that the eager tape uses it of.
    """
    own = (op for op in TABLE if op.kind is Kind.COMPOSITE and op.vjp)
    return frozenset(op.name for op in own if op.rule.on_tape or not on_tape)


def active_nodes(graph: Graph, sources: set[Node]) -> set[Argument]:
    """The nodes with a differentiable path from `sources`, which are included."""
    return active_among(graph.nodes, sources)


def active_among(nodes: Iterable[Node], sources: set[Node]) -> set[Argument]:
    """Those of some nodes, in order, with a differentiable path from `sources`; and these."""
    active: set[Argument] = set(sources)
    for node in nodes:
        if node.kind is not NodeKind.CALL or not is_continuous(node.type):
            continue
        if any(
            argument in active and formula_parameters(_op(node), name) is not None
            for name, argument in named_arguments(node)
        ):
            active.add(node)
    return active


def _reached_inputs(
    graph: Graph, active: set[Argument], positions: Sequence[int]
) -> tuple[frozenset[int], ...]:
    """For each output the inputs with a differentiable path to it; one walk over the nodes."""
    masks: dict[Argument, int] = {
        node: 1 << position for position, node in enumerate(graph.inputs) if node in active
    }
    _spread(graph.nodes, active, masks)
    inputs = range(len(graph.inputs))
    return tuple(
        frozenset(i for i in inputs if masks[graph.outputs[position]] >> i & 1)
        for position in positions
    )


def _spread(nodes: Iterable[Node], active: set[Argument], masks: dict[Argument, int]) -> None:
    """Note for active nodes, in order, the union of what is known of the arguments that their
    gradients go to."""
    for node in nodes:
        if node in active and node not in masks:
            mask = 0
            for name, argument in _sources(node):
                if argument in masks and formula_parameters(_op(node), name) is not None:
                    mask |= masks[argument]
            masks[node] = mask


def _sources(node: Node) -> Iterable[tuple[str, Argument]]:
    """(name, argument) of those that a node's gradient may go to; of a loop's result, operands."""
    looped = node.args[0] if node.op is PART else None
    if not isinstance(looped, Node) or looped.op is not LOOP:
        return named_arguments(node)
    loop, limit = looped.attributes["loop"], looped.attributes["limit"]
    results = range(loop.carried + loop.collected)
    found = [r for r in results if part_of(loop, limit, r) == node.attributes]
    mask = reached_operands(loop, limit, found)
    values = enumerate(looped.args[1:])
    return [("contents", argument) for place, argument in values if mask >> place & 1]


def reached_operands(loop: Loop, limit: int, results: Iterable[int]) -> int:
    """Bit set of the operands of a loop but `go` that gradients of some results go to.

    Args:
        limit: how many turns there are.
        results: numbers of results.
    """
    after = _reached_in_turn(loop)
    wanted = sum(1 << r for r in results if r < loop.carried)
    always = functools.reduce(operator.or_, (after[r] for r in results if r >= loop.carried), 0)
    handed_on, found = (1 << loop.carried) - 1, 0
    for _ in range(limit):
        step = always | _union(after, wanted, loop.carried)
        found |= step & ~handed_on
        before, wanted = wanted, step & handed_on
        if wanted == before:
            break
    return found | wanted


def is_reach_settled(loop: Loop, turns: int) -> bool:
    """Whether gradients of carried results go to the same operands in so many turns and in more."""
    after, handed_on = _reached_in_turn(loop), (1 << loop.carried) - 1

    def settles(wanted: int) -> bool:
        for _ in range(turns):
            before, wanted = wanted, _union(after, wanted, loop.carried) & handed_on
            if wanted == before:
                return True
        return False

    return all(settles(1 << result) for result in range(loop.carried) if loop.active[result])


def is_reach_of_one_turn(loop: Loop) -> bool:
    """Whether gradients of each carried result go to the same operands in one turn and in more."""
    after, handed_on = _reached_in_turn(loop), (1 << loop.carried) - 1

    def stays(result: int) -> bool:
        wanted, seen, reached = 1 << result, set(), set()
        found = 0
        while wanted not in seen:
            seen.add(wanted)
            step = _union(after, wanted, loop.carried)
            found, wanted = found | step & ~handed_on, step & handed_on
            reached.add(found | wanted)
        return len(reached) == 1

    return all(stays(result) for result in range(loop.carried) if loop.active[result])


def _union(after: Sequence[int], wanted: int, count: int) -> int:
    return functools.reduce(operator.or_, (after[r] for r in range(count) if wanted >> r & 1), 0)


def _reached_in_turn(loop: Loop) -> list[int]:
    """Bit set of the operands but `go` that gradients of each result of one turn go to."""
    body = expand_composites(loop.body, kept=differentiable_composites())
    inputs = body.inputs[len(loop.numbers) :]
    masks: dict[Argument, int] = {
        node: 1 << place
        for place, (node, flag) in enumerate(zip(inputs, loop.active, strict=True))
        if flag
    }
    _spread(body.nodes, active_among(body.nodes, {node for node in inputs if node in masks}), masks)
    return [masks.get(output, 0) for output in body.outputs[: loop.carried + loop.collected]]


def accumulate_gradients(
    builder: Builder,
    nodes: Sequence[Node],
    active: set[Argument],
    seeds: Mapping[Node, Value],
) -> dict[Node, Value]:
    """Gradients of all active nodes, recorded in `builder` by walking `nodes` backwards.

    Args:
        builder: holds `nodes` already.
        nodes: the forward nodes, in order.
        active: see `active_nodes`.
        seeds: gradients that come from outside: those of the outputs.
    """
    gradients = dict(seeds)
    location = builder.location
    for node in reversed(nodes):
        gradient = gradients.get(node)
        if gradient is None or node.kind is not NodeKind.CALL:
            continue
        builder.location = node.location
        for argument, part in argument_gradients(builder, node, gradient, active):
            known = gradients.get(argument)
            gradients[argument] = part if known is None else TABLE.add(known, part)
    builder.location = location
    return gradients


def _output_gradients(
    builder: Builder, graph: Graph, differentiable: tuple[int, ...]
) -> dict[Node, Value]:
    """A placeholder for the gradient of each differentiable output; summed for repeated ones."""
    seeds: dict[Node, Value] = {}
    for position in differentiable:
        output = graph.outputs[position]
        assert isinstance(output, Node)
        assert isinstance(output.type, TensorType)
        type = TensorType(output.type.shape, output.type.dtype, output.type.device)
        seed = builder.placeholder(f"grad_{output.name}", type)
        seeds[output] = TABLE.add(seeds[output], seed) if output in seeds else seed
    return seeds


def argument_gradients(
    builder: Builder, node: Node, gradient: Value, active: Container[Argument]
) -> Iterator[tuple[Node, Value]]:
    """(argument, its gradient) for every active argument of `node` with a gradient; the formulas
    are recorded in `builder`."""
    op = _op(node)

    def resolve(parameter: Parameter) -> Any:
        return _resolve(builder, node, gradient, parameter)

    for position, name in enumerate(op.inputs):
        group = node.args[position:] if is_variadic(op, name) else (node.args[position],)
        if not any(argument in active for argument in group):
            continue
        found = call_formula(op, name, resolve)
        parts = found if is_variadic(op, name) else [found]
        if parts is None:
            continue
        for argument, part in zip(group, parts, strict=True):
            if part is not None and isinstance(argument, Node) and argument in active:
                yield argument, _reduced(node, argument, part)


def value_of_parameter(builder: Builder, node: Node, parameter: Parameter) -> Any:
    """The value of a formula's parameter for `node`, but of the gradient."""
    return _resolve(builder, node, None, parameter)


def _resolve(builder: Builder, node: Node, gradient: Any, parameter: Parameter) -> Any:
    """The value of a formula's parameter for `node`."""
    key = parameter.key
    match parameter.need:
        case Need.GRADIENT:
            return gradient
        case Need.RESULT:
            return Value(builder, node)
        case Need.RESULT_TYPE:
            return node.type
        case Need.INPUT:
            return as_operand(builder, node.args[key])
        case Need.INPUT_TYPE:
            return type_of(node.args[key])
        case Need.INPUTS:
            return tuple(as_operand(builder, argument) for argument in node.args[key:])
        case Need.INPUT_TYPES:
            return tuple(type_of(argument) for argument in node.args[key:])
        case Need.ATTRIBUTE:
            return node.attributes[key]
    raise InternalError(f"{node!r}: nothing is known about the parameter {parameter}")


def _reduced(node: Node, argument: Node, part: Any) -> Value:
    """A formula's result in the type of the argument."""
    if not isinstance(part, Value):
        raise InternalError(f"{node!r}: the gradient of {argument.name} is {part!r}, not a value")
    reduced: Value = sum_to_type(TABLE, part, argument.type)
    return reduced


def _op(node: Node) -> Any:
    assert node.op is not None
    return node.op


def is_continuous(type: ValueType) -> bool:
    """True for the types of values that can have a gradient."""
    return isinstance(type, TensorType) and type.dtype.category >= Category.FLOATING
