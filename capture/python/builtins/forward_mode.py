"""Calls of `func.jvp`: tangents of the nodes that a function has recorded.

`capture.library.forward_mode` inlines the function; here are the functions that it calls around it.
A primal is stood for by a node of its own, since it moves in this call alone. What the function
computes from it gets tangents afterwards (`ir.transforms.tangents`), whose nodes are ordinary
nodes, so that calls may be nested, and gradients within the function moved. Where eager execution
would give tensors that share memory with the primals, or other histories, the graph breaks at the
call.
"""

from collections.abc import Sequence
from typing import Any, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import forward_mode
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import at_once
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.symbolic import Known, Value
from dynajit.capture.values.tensors import MemoryContents, TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.dtypes import Category
from dynajit.ir import graph
from dynajit.ir.node import Node
from dynajit.ir.transforms.tangents import append_tangents
from dynajit.ops import TABLE
from dynajit.ops.table.tangents import zeros_like


@record
class Begun:
    """A call between its begin and its end.

    Args:
        primals: what stands for them.
        seeds: their nodes -> their tangents.
        mark: in front of what the function records.
        grad_enabled: whether gradients are recorded around the call.
    """

    primals: tuple[TensorValue, ...]
    seeds: dict[Any, graph.Value]
    mark: tuple[int, int]
    grad_enabled: bool


def _refusal(what: str) -> GraphBreak:
    return GraphBreak(breaks.TRANSFORM, f"func.jvp: {what}")


@special(forward_mode.leave_to_eager)
@at_once
def _leave_to_eager(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> NoReturn:
    raise _refusal("arguments that it refuses, or strict=True")


@special(forward_mode.without_history)
@at_once
def _without_history(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    (tensor,) = args
    assert isinstance(tensor, TensorValue)
    cut: Value = native_call(machine, TABLE.detach, [tensor], {})
    assert isinstance(cut, TensorValue)
    machine.recorder.builder.passes_tangents.add(machine.recorder.graph_value(cut).node)
    return cut


@special(forward_mode.tangents_begin)
@at_once
def _tangents_begin(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    primals, tangents = args
    assert isinstance(primals, TupleValue) and isinstance(tangents, TupleValue)
    machine.uses_autocast()
    if machine.recorder.autocast_word:
        raise _refusal("under autocast")
    recorder, stand_ins, seeds = machine.recorder, [], {}
    for x, v in zip(primals.items, tangents.items, strict=True):
        assert isinstance(x, TensorValue) and isinstance(v, TensorValue)
        one, other = tensor_type(machine, x), tensor_type(machine, v)
        if (one.shape, one.dtype, one.device) != (other.shape, other.dtype, other.device):
            raise _refusal("tangents of other types than their primals")
        if one.dtype.category < Category.FLOATING:
            raise _refusal("integers")
        given = recorder.graph_value(x)
        moved = TABLE.reshape(given, shape=tuple(given.shape))
        recorder.builder.lay_out(moved, recorder.builder.strides_of(given))
        seeds[moved.node] = recorder.graph_value(v)
        stand_ins.append(recorder.new_tensor(moved))
    mark, enabled = recorder.builder.snapshot(), bool(recorder.grad_enabled)
    begun = Begun(tuple(stand_ins), seeds, mark, enabled)
    return TupleValue((TupleValue(tuple(stand_ins)), Known(begun)))


@special(forward_mode.tangents_end)
@at_once
def _tangents_end(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    begun: Begun = args[0].object  # type: ignore[attr-defined]
    outputs = args[1]
    assert isinstance(outputs, TupleValue)
    recorder, builder = machine.recorder, machine.recorder.builder
    if bool(recorder.grad_enabled) is not begun.grad_enabled:
        raise _refusal("the function turns gradients on or off")
    _check_memory(machine, begun, outputs.items)
    values = [
        recorder.graph_value(output)
        for output in outputs.items
        if isinstance(output, TensorValue)  # all are: see the form
    ]
    nodes = builder.nodes_since(begun.mark)
    for node in nodes:
        _check_node(node)
    is_cut = any(node in builder.automatic for node in nodes)
    if is_cut:
        _check_histories(builder, begun, nodes, values)
    tangents = append_tangents(builder, nodes, begun.seeds, builder.passes_tangents)
    return TupleValue(tuple(_result(machine, begun, value, tangents, is_cut) for value in values))


def _result(
    machine: Machine,
    begun: Begun,
    value: graph.Value,
    tangents: dict[Any, graph.Value],
    is_cut: bool,
) -> Value:
    """The tangent of an output, as a tensor; with `is_cut` one without a history."""
    builder = machine.recorder.builder
    found = tangents.get(value.node)
    if found is None:
        found = zeros_like(value)
    elif any(found.node is seed.node for seed in begun.seeds.values()):
        found = TABLE.clone(found)
    if builder.strides_of(found) != builder.strides_of(value):
        raise _refusal("a tangent that lies in memory in another way than its output")
    if is_cut:
        found = builder.without_gradient(found)
    made: Value = machine.recorder.new_tensor(found)
    return made


def _check_memory(machine: Machine, begun: Begun, outputs: tuple[Value, ...]) -> None:
    """Refuse writes to the primals, and outputs that share memory with them.

    Raises:
        GraphBreak: there are some.
    """
    primals = {value.identity for value in begun.primals}
    for primal in begun.primals:
        contents: TensorContents = machine.heap[primal.identity]
        memory: MemoryContents | None = machine.heap[contents.memory] if contents.memory else None
        if memory is not None and memory.version:
            raise _refusal("the function writes to what it is given")
    for output in outputs:
        assert isinstance(output, TensorValue)
        told: TensorContents = machine.heap[output.identity]
        base = machine.heap[told.memory].base.identity if told.memory else output.identity
        if base in primals:
            raise _refusal("the function gives back what it is given")


def _check_histories(
    builder: Any, begun: Begun, nodes: Sequence[Node], outputs: Sequence[graph.Value]
) -> None:
    """Refuse a function that computes a part without gradients, if that may be seen in tangents.

    Those that eager execution computes there have no history; none of the others has one either if
    only leaves that the function has made require gradients, and no output.

    Raises:
        GraphBreak: it is not so.
    """
    own = {*nodes, *begun.seeds}
    outside = {x for node in nodes for x in node.args if isinstance(x, Node) and x not in own}
    outside |= {value.node for value in (*outputs, *begun.seeds.values())}
    outside |= set(begun.seeds)
    if any(map(builder.node_needs_gradient, outside)):
        raise _refusal("the function computes without gradients of what requires them")


def _check_node(node: Node) -> None:
    """Refuse what eager execution follows in another way.

    Raises:
        GraphBreak: a row that the program wrote.
    """
    op: Any = node.op
    if op is None:
        return
    if op.opaque or op in (TABLE.with_derivative, TABLE.with_derivative_of_result):
        raise _refusal("the function calls operations with derivatives of the program's own")
