"""Forward mode in graphs: the tangents of recorded nodes, appended as further nodes.

Contract: `append_tangents` walks nodes forward and appends for each that moves the nodes of its
tangent, by the rules of `ops.table.tangents`, as eager execution does (`eager.backward.forward`).
What it appends are ordinary nodes, which may be walked, or differentiated, again. Formulas that are
to be transposed are recorded at a gradient that nothing reads in the end, and walked backwards.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from dynajit.ir.autodiff import (
    accumulate_gradients,
    active_among,
    is_continuous,
    value_of_parameter,
)
from dynajit.ir.graph import Builder, Value
from dynajit.ir.node import Argument, Node, NodeKind, type_of
from dynajit.ir.rebuild import as_operand
from dynajit.ops import TABLE, Kind
from dynajit.ops.table import dispatch
from dynajit.ops.table.derivatives import Need, Parameter
from dynajit.ops.table.families import sum_to_type
from dynajit.ops.table.tangents import (
    Moved,
    any_gradient,
    gradients_of,
    has_tangents,
    is_followed_whole,
    tangent_of,
)


def append_tangents(
    builder: Builder,
    nodes: Iterable[Node],
    seeds: Mapping[Argument, Value],
    passed: Container[Node] = (),
) -> dict[Argument, Value]:
    """The tangents of all nodes that move.

    Args:
        builder: holds `nodes` already.
        nodes: in order.
        seeds: tangents that come from outside, in the types of their nodes.
        passed: nodes that cut gradients off, and have the tangents of what they are given.
    """
    tangents = dict(seeds)
    location = builder.location
    with dispatch.recording(builder.handle):
        for node in nodes:
            if node.kind is not NodeKind.CALL or node in tangents:
                continue
            builder.location = node.location
            found = (
                tangents.get(node.args[0])
                if node in passed
                else _tangent(builder, node, tangents, passed)
            )
            if found is not None:
                tangents[node] = found
    builder.location = location
    return tangents


def _tangent(
    builder: Builder, node: Node, tangents: Mapping[Argument, Value], passed: Container[Node]
) -> Value | None:
    op: Any = node.op
    given = [tangents.get(x) if isinstance(x, Node) else None for x in node.args]
    if not is_continuous(node.type) or all(tangent is None for tangent in given):
        return None
    if op.kind is Kind.COMPOSITE and not is_followed_whole(op):
        return _by_parts(builder, node, tangents, passed)
    if not has_tangents(op):
        return None

    def resolve(parameter: Parameter) -> Any:
        return value_of_parameter(builder, node, parameter)

    def transpose(positions: Sequence[int]) -> Value | None:
        return _transposed(builder, node, given, positions)

    inputs = [as_operand(builder, x) for x in node.args]
    call = Moved(op, inputs, given, dict(node.attributes), Value(builder, node), resolve, transpose)
    found: Value | None = tangent_of(call)
    return found


def _by_parts(
    builder: Builder, node: Node, tangents: Mapping[Argument, Value], passed: Container[Node]
) -> Value | None:
    """The tangent of a composite as the rows that it is made of, which are recorded once more."""
    mark = builder.snapshot()
    op: Any = node.op
    inputs = [as_operand(builder, x) for x in node.args]
    result = op.rule.function(TABLE, *inputs, **node.attributes)
    known = append_tangents(builder, builder.nodes_since(mark), tangents, passed)
    return known.get(result.node) if isinstance(result, Value) else None


def _transposed(
    builder: Builder, node: Node, tangents: Sequence[Value | None], positions: Sequence[int]
) -> Value | None:
    """The transpose of the formulas of these inputs, which are linear in the gradient."""
    gradient: Value = any_gradient(Value(builder, node))

    def resolve(parameter: Parameter) -> Any:
        if parameter.need is Need.GRADIENT:
            return gradient
        return value_of_parameter(builder, node, parameter)

    mark = builder.snapshot()
    op: Any = node.op
    pairs: list[tuple[Value, Value]] = []
    for i, part in zip(positions, gradients_of(op, resolve, positions), strict=True):
        tangent = tangents[i]
        if part is not None and tangent is not None:
            type = type_of(node.args[i])
            assert type is not None  # a number or a value
            pairs.append((sum_to_type(TABLE, part, type), tangent))
    nodes, moved = _in_parts(builder, builder.nodes_since(mark))
    active = active_among(nodes, {gradient.node})
    seeds: dict[Node, Value] = {}
    for part, tangent in pairs:
        place = moved.get(part.node, part).node
        if place in active:
            seeds[place] = TABLE.add(seeds[place], tangent) if place in seeds else tangent
    return accumulate_gradients(builder, nodes, active, seeds).get(gradient.node)


def _in_parts(builder: Builder, nodes: Sequence[Node]) -> tuple[list[Node], dict[Argument, Value]]:
    """The nodes with composites that have no derivative as the rows that they are made of; and what
    stands for those nodes that had to be recorded again."""
    moved: dict[Argument, Value] = {}
    found: list[Node] = []
    for node in nodes:
        op: Any = node.op
        if node.kind is not NodeKind.CALL:
            continue
        is_split = op.kind is Kind.COMPOSITE and not op.vjp
        if not is_split and not any(x in moved for x in node.args if isinstance(x, Node)):
            found.append(node)
            continue
        mark = builder.snapshot()
        inputs = [
            moved[x] if isinstance(x, Node) and x in moved else as_operand(builder, x)
            for x in node.args
        ]
        if is_split:
            result = op.rule.function(TABLE, *inputs, **node.attributes)
        else:
            result = op(*inputs, **node.attributes)
        within, deeper = _in_parts(builder, builder.nodes_since(mark))
        found += within
        if isinstance(result, Value):
            moved[node] = deeper.get(result.node, result)
    return found, moved
