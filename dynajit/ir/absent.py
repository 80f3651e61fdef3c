"""A backward graph of which some gradients did not come.

A backward program gets zeros for an output without a gradient. Where a derivative is infinite, zero
times it is NaN, while eager execution computes nothing for such an output. `without` leaves those
parts out of the graph.
"""

from collections.abc import Collection
from typing import Any

from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Builder, Graph, Value
from dynajit.ir.node import Argument, Node
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.rebuild import keep, rebuild
from dynajit.ops.table.op_table import TABLE


def without(graph: Graph, gradients: Collection[int], absent: Collection[int]) -> Graph:
    """`graph` where nothing is computed from some of its inputs alone.

    Derivatives are linear in the gradients that come in: a value is zero if all of the gradients
    that it is computed from are. In a sum with others such a value counts as zeros.

    Args:
        graph: a backward graph.
        gradients: positions of its inputs that are gradients of outputs.
        absent: those among them that did not come.

    Returns:
        a graph with the same inputs; None for the outputs that have no gradient.
    """
    inputs = graph.inputs
    linear: set[Argument] = {inputs[position] for position in gradients}
    gone: set[Argument] = {inputs[position] for position in absent}
    for node in graph.nodes:
        carriers = [argument for argument in node.args if argument in linear]
        if carriers:
            linear.add(node)
            if gone.issuperset(carriers):
                gone.add(node)

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        if node in gone:
            return keep(builder, node, args)  # dead, but for the inputs
        parts = [
            _zeros(old) if old in gone else new for old, new in zip(node.args, args, strict=True)
        ]
        return keep(builder, node, tuple(parts))

    made = rebuild(graph, visit)
    outputs = tuple(
        None if old in gone else new for old, new in zip(graph.outputs, made.outputs, strict=True)
    )
    return eliminate_dead_code(Graph(made.name, made.nodes, outputs))


def _zeros(node: Argument) -> Node:
    """Zeros of a node's type, recorded in the graph that is being made."""
    assert isinstance(node, Node)
    type = node.type
    assert isinstance(type, TensorType)
    made: Value = TABLE.full(0, shape=type.shape, dtype=type.dtype, device=type.device)
    return made.node
