"""Calls of operators of `torch.ops` in captured code.

Contract: an operator says itself what nodes it is (`GraphCallable.recorded`); capture guards what
that depends on. What it writes to arguments becomes writes like those of `copy_`, after the call.
Where the kernel could see its own writes in another operand, the call is a break.
"""

from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.guards import Kind as GuardKind
from dynajit.capture.places import sources
from dynajit.capture.python.tensors.tensors import needs_gradient
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.errors import OperatorError
from dynajit.ops.calls.namespaces import GraphCallable


def call_operator(
    x: Any, target: GraphCallable, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`target(*args, **keywords)`.

    Raises:
        GraphBreak: it cannot be part of a graph; the real call runs the kernel, or raises.
    """
    for owner, name in target.facts():
        place = sources.Attribute(sources.Constant(owner), name)
        x.recorder.guard(place, GuardKind.IDENTITY, getattr(owner, name), "what was registered")
    try:
        written = target.written()
    except OperatorError as error:
        raise GraphBreak(breaks.CUSTOM_OPERATOR, str(error)) from None
    receivers = [
        tensor
        for position, name in written
        for tensor in _tensors(x, args[position] if position < len(args) else keywords.get(name))
    ]
    _check(x, receivers, [*args, *keywords.values()])
    try:
        result: Value = x.native_call(target.recorded, args, keywords)
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
        x.in_place_method(receiver, "copy_", [value], {})
    return returned


def _tensors(x: Any, value: Value | None) -> list[TensorValue]:
    """The tensors in an argument, in order."""
    if isinstance(value, TensorValue):
        return [value]
    if isinstance(value, TupleValue):
        items = value.items
    elif isinstance(value, ListValue):
        items = x.list_items(value)
    else:
        return []
    return [tensor for item in items for tensor in _tensors(x, item)]


def _check(x: Any, receivers: list[TensorValue], operands: list[Value]) -> None:
    """Written tensors have no gradient, and no memory in common with other operands.

    Raises:
        GraphBreak: they may have.
    """
    memories = [
        tensor_memory.memory_of(x.recorder, tensor)
        for operand in operands
        for tensor in (_tensors(x, operand) if receivers else [])
    ]
    for receiver in receivers:
        if memories.count(tensor_memory.memory_of(x.recorder, receiver)) > 1:
            raise GraphBreak(breaks.CUSTOM_OPERATOR, "it writes to an operand that is there twice")
        if x.recorder.grad_enabled and needs_gradient(x, receiver):
            raise GraphBreak(breaks.CUSTOM_OPERATOR, "it writes to what requires a gradient")


__all__ = ["call_operator"]
