"""Library functions called with graph values: their operations become nodes of the graph."""

from collections.abc import Callable
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import plain_number
from dynajit.capture.python.conversion import from_python, to_native
from dynajit.capture.values.symbolic import Value
from dynajit.ops.calls.autocast import word_set


def native_method(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """A method that eager tensors and graph values share."""

    def method(tensor: Any, *rest: Any, **named: Any) -> Any:
        return getattr(tensor, name)(*rest, **named)

    method.__qualname__ = f"Tensor.{name}"
    return native_call(machine, method, [receiver, *args], keywords)


def native_call(
    machine: Machine,
    function: Callable[..., Any],
    args: list[Value],
    keywords: dict[str, Value],
    lift_numbers: bool = False,
) -> Value:
    """Call a library function with graph values; its ops become nodes.

    Args:
        lift_numbers: run-time numbers are passed as graph inputs; where the function cannot
            take them, and otherwise, they are specialised.

    Raises:
        GraphBreak: the function refuses; the real call will raise the error.
    """
    if lift_numbers:
        mark = machine.recorder.mark()
        try:
            return _native_call(machine, function, args, keywords, specialise=False)
        except GraphBreak:
            machine.recorder.restore(mark)
    return _native_call(machine, function, args, keywords, specialise=True)


def _native_call(
    machine: Machine,
    function: Callable[..., Any],
    args: list[Value],
    keywords: dict[str, Value],
    specialise: bool,
) -> Value:
    name = getattr(function, "__qualname__", None) or getattr(function, "name", repr(function))
    try:
        positional = [to_native(machine, plain_number(value), specialise) for value in args]
        named = {
            key: to_native(machine, plain_number(value), specialise)
            for key, value in keywords.items()
        }
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} with {error}") from None
    machine.uses_autocast()
    try:
        with word_set(machine.recorder.autocast_word):
            result = function(*positional, **named)
    except GraphBreak:
        raise
    except Exception as error:
        detail = f"{name}: {type(error).__name__}: {error}"
        raise GraphBreak(breaks.TENSOR_FAILURE, detail) from error
    if result is NotImplemented:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"{name} does not accept its operands")
    try:
        value: Value = from_python(machine, result, (*args, *keywords.values()))
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} returned a {error}") from None
    return value
