"""Library functions called with graph values: their operations become nodes of the graph."""

import inspect
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeGuard

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.guards import GRAD_MODE_SOURCE
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.library import counts as forms
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import plain_number
from dynajit.capture.python.conversion import (
    NUMBERS,
    SPECIALISED,
    Lifted,
    from_python,
    to_native,
)
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.unread_lists import joined
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.symbolic import Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, lookup
from dynajit.core.types.dtypes import DType, float32, float64, int64
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.autocast import word_set
from dynajit.ops.table import overriding


def overrides(value: Value) -> bool:
    """True for an instance of a class that overrides functions (`__torch_function__`)."""
    if not isinstance(value, (TensorValue, ObjectValue)) or value.cls is Tensor:
        return False
    found = lookup(value.cls, overriding.PROTOCOL)
    return found is not MISSING and found is not overriding.disabled_torch_function


def are_classes_asked(machine: Machine) -> bool:
    """Whether such classes are asked at this point; that they are at entry, or not, is guarded."""
    recorder = machine.recorder
    at_entry = int(machine.heap.entry(recorder.unasked_id)) == 0
    recorder.guard(
        GRAD_MODE_SOURCE, Kind.CLASSES_ASKED, at_entry, "classes that override functions"
    )
    return machine.unasked_blocks == 0 and int(machine.heap[recorder.unasked_id]) == 0


def native_method(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """A method that eager tensors and graph values share."""

    def method(tensor: Any, *rest: Any, **named: Any) -> Any:
        return getattr(tensor, name)(*rest, **named)

    method.__qualname__ = f"Tensor.{name}"
    method.__module__ = getattr(getattr(graph.Value, name, None), "__module__", method.__module__)
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
        lift_numbers: run-time numbers are passed as graph inputs. Otherwise those that vary are, as
            far as the function takes numbers. Where it cannot take them, they are specialised.

    Raises:
        GraphBreak: the function refuses; the real call will raise the error.
    """
    given = (*args, *keywords.values())
    lifted = NUMBERS if lift_numbers else _varying_numbers(machine, function, given)
    if lifted:
        mark = machine.recorder.mark()
        try:
            return _native_call(machine, function, args, keywords, lifted)
        except GraphBreak:
            machine.recorder.restore(mark)
    return _native_call(machine, function, args, keywords, SPECIALISED)


def _varying_numbers(
    machine: Machine, function: Callable[..., Any], given: Sequence[Value]
) -> Lifted:
    """Classes of numbers among the arguments that differ between calls.

    A float is a number wherever it is given; an int may be a size or a dimension, but not for
    functions of single elements and of floats.
    """
    numbers = [value for value in given if isinstance(value, Scalar)]
    varying = {value.python_type for value in numbers if machine.recorder.sizes.varies(value)}
    if int in varying and not _takes_ints_as_numbers(function):
        varying.discard(int)
    return tuple(kind for kind in NUMBERS if kind in varying)


def _takes_ints_as_numbers(function: Callable[..., Any]) -> bool:
    """True for functions of elements, and for those that say so of all but their first argument."""
    if (function.__module__ or "").startswith(_OF_ELEMENTS):
        return True
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return bool(parameters) and all(parameter.annotation is float for parameter in parameters)


#: Modules of functions that take an int for a number.
_OF_ELEMENTS: Final = "dynajit.ops.functions.elements."


def in_words(text: str) -> str:
    """The text of an error with graph values as what they stand for, and without addresses."""
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = _VALUE.sub(lambda found: f"a tensor {found.group(1)}", text)
    return text.replace(repr(graph.Value), "a tensor").replace("dynajit.ir.graph.Value", "Tensor")


_VALUE: Final = re.compile(r"\bValue\(\w+: ([^()]*)\)")


def _native_call(
    machine: Machine,
    function: Callable[..., Any],
    args: list[Value],
    keywords: dict[str, Value],
    lifted: Lifted,
) -> Value:
    name: str = getattr(function, "__qualname__", "") or getattr(function, "name", "a function")
    for value in (*args, *keywords.values()):
        if overrides(value) and are_classes_asked(machine):
            what = f"{name} with {value.python_type.__qualname__}, which overrides functions"
            raise GraphBreak(breaks.UNKNOWN_CALL, what)
    whole = joined(machine, function, args, keywords, _is_tensor, _as_tensor)
    if whole is not None:
        return whole
    dtype = _dtype_of_numbers(machine, name, (*args, *keywords.values()))

    def native(value: Value) -> Any:
        number = None if dtype is None else _computed_number(machine, value, dtype)
        if number is not None:
            return number
        return to_native(machine, plain_number(machine, value), lifted)

    try:
        positional = [native(value) for value in args]
        named = {key: native(value) for key, value in keywords.items()}
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} with {error}") from None
    machine.uses_autocast()
    try:
        with word_set(machine.recorder.autocast_word):
            result = function(*positional, **named)
    except GraphBreak:
        raise
    except Exception as error:
        detail = f"{name}: {type(error).__name__}: {in_words(str(error))}"
        raise GraphBreak(breaks.TENSOR_FAILURE, detail) from error
    if result is NotImplemented:
        raise GraphBreak(breaks.TENSOR_FAILURE, f"{name} does not accept its operands")
    try:
        made: Value = from_python(machine, result, (*args, *keywords.values()))
    except NotKnown as error:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{name} returned a {error}") from None
    return made


def _dtype_of_numbers(machine: Machine, name: str, given: Sequence[Value]) -> DType | None:
    """The dtype in which a function takes numbers that the launch computes: that of all of its
    tensors. None: it is given no such number, or takes them not as it takes tensors."""
    if not any(_is_computed(value) for value in given):
        return None
    if name.rpartition(".")[2].rstrip("_") not in _TAKE_NUMBERS:
        return None
    dtypes = {tensor_type(machine, value).dtype for value in given if _is_tensor(value)}
    return dtypes.pop() if dtypes in ({float32}, {float64}) else None


#: Functions by elements that give the same of a number and of a tensor of no dims.
_TAKE_NUMBERS: Final = frozenset((
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "addcmul",
    "addcdiv", "lerp",
))  # fmt: skip


def _is_computed(value: Value) -> TypeGuard[ObjectValue]:
    return isinstance(value, ObjectValue) and value.cls in (forms.FLOAT, forms.COUNT)


def _computed_number(machine: Machine, value: Value, dtype: DType) -> graph.Value | None:
    """A number that the launch computes, as one that functions take; None: it is another value, or
    may not be what Python has."""
    if not _is_computed(value):
        return None
    recorder = machine.recorder
    recorder.use(value)
    held = recorder.graph_value(machine.heap[value.identity].written["tensor"])
    is_int = held.dtype is int64
    if is_int and not recorder.intervals.fits(held.node, bool(recorder.turns)):
        return None
    number = cast(cast(held, float64), dtype)
    return graph.ComputedNumber(number.builder, number.node)


def _is_tensor(value: Value) -> TypeGuard[TensorValue]:
    return isinstance(value, TensorValue)


def _as_tensor(value: Value) -> TensorValue | None:
    return value if isinstance(value, TensorValue) else None
