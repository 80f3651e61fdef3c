"""Calls of library functions as programs see them: NumPy's names of arguments, and `out=`.

Contract: arguments get the names that the function itself knows, then the function is called as if
it stood there. A result goes into `out` by a write that is followed like that of `copy_`, where
eager execution would write it as it is: of out's shape, dtype and device, with no gradient. All
else is a break, and the real call does it, or raises.
"""

from collections.abc import Iterator

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import is_none
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.python.tensors.mutation import in_place_method
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import ListValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Known, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.errors import ArgumentError
from dynajit.ops.calls import autocast_words
from dynajit.ops.calls.library_calls import is_older_form, renamed
from dynajit.ops.native._library_call import LibraryFunction


def call_library(
    machine: Machine, target: LibraryFunction, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`target(*args, **keywords)`."""
    try:
        named = renamed(target, keywords)
    except ArgumentError as error:
        raise GraphBreak(breaks.TENSOR_FAILURE, str(error)) from None
    out = named.pop("out", NONE) if "out" in target.foreign else NONE
    if is_older_form(target, len(args)):
        if not is_none(machine, out):
            raise _break(target, "an older overload")
        return native_call(machine, target, args, named)
    function = Known(target.__wrapped__)
    if is_none(machine, out):
        return (yield from machine.call(function, args, named))
    if "requires_grad" in named or _is_autocast(machine):
        raise _break(target, "requires_grad or autocast")
    result = yield from machine.call(function, args, named)
    for place in _items(machine, target, out) if isinstance(result, TupleValue) else (out,):
        for operand in _tensors(machine, [*args, *named.values()]):
            if isinstance(place, TensorValue):
                tensor_memory.refuse_partial_overlap(machine.recorder, place, operand)
    return _written(machine, target, result, out)


def _tensors(machine: Machine, operands: list[Value]) -> Iterator[TensorValue]:
    """Tensors among operands, and in lists and tuples of them."""
    for operand in operands:
        if isinstance(operand, TensorValue):
            yield operand
        elif isinstance(operand, TupleValue):
            yield from _tensors(machine, list(operand.items))
        elif isinstance(operand, ListValue):
            yield from _tensors(machine, list(list_items(machine, operand)))


def _break(target: LibraryFunction, why: str) -> GraphBreak:
    return GraphBreak(breaks.UNKNOWN_CALL, f"{target.__name__}(out=...) with {why}")


def _is_autocast(machine: Machine) -> bool:
    machine.uses_autocast()
    word = machine.recorder.autocast_word
    return any(autocast_words.is_enabled(word, kind) for kind in ("cpu", "cuda"))


def _written(machine: Machine, target: LibraryFunction, result: Value, out: Value) -> Value:
    """`out`, with the results in it."""
    if isinstance(result, TupleValue):
        results, outs = result.items, _items(machine, target, out)
        if len(results) != len(outs):
            raise _break(target, f"{len(outs)} tensors for {len(results)} results")
    else:
        results, outs = (result,), (out,)
    pairs = list(zip(results, outs, strict=True))
    for value, place in pairs:
        _check(machine, target, value, place)
    for value, place in pairs:
        assert isinstance(place, TensorValue)  # checked
        in_place_method(machine, place, "copy_", [value], {})
    return TupleValue(tuple(outs), result.cls) if isinstance(result, TupleValue) else out


def _items(machine: Machine, target: LibraryFunction, out: Value) -> tuple[Value, ...]:
    if isinstance(out, TupleValue):
        return out.items
    if isinstance(out, ListValue):
        return tuple(list_items(machine, out))
    raise _break(target, "what is no tuple")


def _check(machine: Machine, target: LibraryFunction, value: Value, out: Value) -> None:
    """Only what eager execution writes as it is.

    Raises:
        GraphBreak: it would resize, cast or refuse.
    """
    if not isinstance(value, TensorValue) or not isinstance(out, TensorValue):
        raise _break(target, "what is no tensor")
    here, there = tensor_type(machine, value), tensor_type(machine, out)
    if here.shape != there.shape:
        raise _break(target, "a tensor of another shape")
    if here.dtype is not there.dtype or here.device is not there.device:
        raise _break(target, "a tensor of another dtype or device")
    if needs_gradient(machine, value) or needs_gradient(machine, out):
        raise _break(target, "gradients")
