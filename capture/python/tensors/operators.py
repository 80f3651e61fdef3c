"""Calls of operators of `torch.ops` in captured code.

Contract: an operator says itself what nodes it is (`GraphCallable.recorded`); capture guards what
that depends on. What it writes to arguments becomes writes like those of `copy_`, after the call.
Where the kernel could see its own writes in another operand, the call is a break.
"""

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind as GuardKind
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.tensors.facts import needs_gradient
from dynajit.capture.python.tensors.mutation import in_place_method
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.errors import OperatorError
from dynajit.ops.calls.namespaces import GraphCallable


def call_operator(
    machine: Machine, target: GraphCallable, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`target(*args, **keywords)`.

    Raises:
        GraphBreak: it cannot be part of a graph; the real call runs the kernel, or raises.
    """
    for owner, name in target.facts():
        place = sources.Attribute(sources.Constant(owner), name)
        machine.recorder.guard(
            place, GuardKind.IDENTITY, getattr(owner, name), "what was registered"
        )
    try:
        written = target.written()
    except OperatorError as error:
        raise GraphBreak(breaks.CUSTOM_OPERATOR, str(error)) from None
    receivers = [
        tensor
        for position, name in written
        for tensor in _tensors(
            machine, args[position] if position < len(args) else keywords.get(name)
        )
    ]
    _check(machine, receivers, [*args, *keywords.values()])
    try:
        result: Value = native_call(machine, target.recorded, args, keywords)
    except GraphBreak as broken:
        if broken.reason is breaks.TENSOR_FAILURE:
            raise GraphBreak(breaks.CUSTOM_OPERATOR, broken.detail) from broken.__cause__
        raise
    if not receivers:
        return result
    assert isinstance(result, TupleValue)
    returned, contents = result.items
    assert isinstance(contents, TupleValue)
    for receiver, value in zip(receivers, contents.items, strict=True):
        in_place_method(machine, receiver, "copy_", [value], {})
    return returned


def _tensors(machine: Machine, value: Value | None) -> list[TensorValue]:
    """The tensors in an argument, in order."""
    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, TupleValue):
        items = value.items
    elif isinstance(value, ListValue):
        items = list_items(machine, value)
    else:
        return []
    return [tensor for item in items for tensor in _tensors(machine, item)]


def _check(machine: Machine, receivers: list[TensorValue], operands: list[Value]) -> None:
    """Written tensors have no gradient, and no memory in common with other operands.

    Raises:
        GraphBreak: they may have.
    """
    memories = [
        tensor_memory.memory_of(machine.recorder, tensor)
        for operand in operands
        for tensor in (_tensors(machine, operand) if receivers else [])
    ]
    for receiver in receivers:
        if memories.count(tensor_memory.memory_of(machine.recorder, receiver)) > 1:
            raise GraphBreak(breaks.CUSTOM_OPERATOR, "it writes to an operand that is there twice")
        if machine.recorder.grad_enabled and needs_gradient(machine, receiver):
            raise GraphBreak(breaks.CUSTOM_OPERATOR, "it writes to what requires a gradient")


__all__ = ["call_operator"]
