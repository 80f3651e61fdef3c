"""Have recurrent layers keep the gates that their derivatives read.

The derivative of a layer (`ops.rows.networks.recurrent`) computes all gates again from the states,
a fifth of the products of a training step. Where forward and derivative are in one graph, the
forward row gives the gates beside the states. What lies in memory from one to the other is as much:
the sums that the gates are made of are not read any more.
"""

from typing import Any

from dynajit.ir.graph import Builder, Graph
from dynajit.ir.node import Argument, Node, type_of
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.rows.networks.recurrent import columns
from dynajit.ops.table.op_table import TABLE

#: Operands of the forward row, by mode, of layers that have gates to keep: no projected LSTM.
_OPERANDS = {"LSTM": 4, "GRU": 4}


def keep_gates(graph: Graph) -> Graph:
    """The graph in which derivatives of recurrent layers compute no gates again.

    Requires: composites are not expanded yet.
    Ensures: no `recurrent_slopes` of a layer of the graph that could read its gates computes them.
        Layers that are unrolled share their gates already.
    """
    layers = {states for node in graph.calls if (states := _layer_of(node)) is not None}
    if not layers:
        return graph
    kept: dict[Node, Argument] = {}

    def visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        if node in layers:
            operands = [as_operand(builder, argument) for argument in args]
            found = TABLE.recurrent_states(*operands, **{**node.attributes, "keeps": True})
            kept[node] = found.node
            return columns(TABLE, found, 0, node.type.shape[-1])
        layer = _layer_of(node)
        if layer is None:
            return keep(builder, node, args)
        operands = [as_operand(builder, a) for a in (args[0], kept[layer], *args[3:])]
        return TABLE.recurrent_slopes(*operands, **{**node.attributes, "keeps": True})

    return rebuild(graph, visit)


def _layer_of(node: Node) -> Node | None:
    """The forward row of a derivative that computes gates again; else None."""
    if node.op is not TABLE.recurrent_slopes or node.attributes["keeps"]:
        return None
    _, states, *operands = map(_value_of, node.args)
    if not isinstance(states, Node) or states.op is not TABLE.recurrent_states:
        return None
    types = [type_of(argument) for argument in states.args]
    if not states.op.rule.stays(*types, **states.attributes):
        return None
    is_same = [*map(_value_of, states.args)] == operands and states.attributes == node.attributes
    return states if is_same and _OPERANDS.get(node.attributes["mode"]) == len(operands) else None


def _value_of(argument: Argument) -> Argument:
    """What has the elements of an argument: captured derivatives read values without history."""
    while isinstance(argument, Node) and argument.op is TABLE.detach:
        argument = argument.args[0]
    return argument
