"""Operators of ints that the launch computes: handlers of the markers of `capture.library.counts`.

Contract: the result is the int, or the truth, that Python gives. What may not fit an int64, and
operands of other classes, end the graph.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import counts as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, at_once
from dynajit.capture.python.builtins.arrays import call_of_arrays
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.tensors.arrays import is_array
from dynajit.capture.python.tensors.counts import (
    as_float_of,
    fits,
    held_number_of_calls,
    is_count,
    is_of_calls,
    new_count,
)
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.tensors.intervals import EXACT
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.symbolic import Constant, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.operators import COMPARISONS
from dynajit.core.types.dtypes import float64
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.contents import require
from dynajit.ops.methods.methods import number_divided

_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "add": TABLE.add, "sub": TABLE.sub, "mul": TABLE.mul, "neg": TABLE.neg, "abs": TABLE.abs,
    "pos": lambda x: x,
}  # fmt: skip
_OF_INTS: Final[dict[str, Callable[..., Any]]] = {
    **_ARITHMETIC, "and": TABLE.bitwise_and, "or": TABLE.bitwise_or, "xor": TABLE.bitwise_xor,
    "invert": TABLE.bitwise_not,
}  # fmt: skip
#: Operators by which Python divides, which refuses zero. The divisor is a literal, or that of a
#: quotient of floats: then the launch refuses its values where it is zero.
_DIVISIONS: Final[dict[str, Callable[..., Any]]] = {
    "truediv": TABLE.div, "floordiv": TABLE.floor_divide, "mod": TABLE.remainder
}  # fmt: skip
_COMPARISONS: Final[dict[str, Callable[..., Any]]] = {
    name: getattr(TABLE, name) for name in COMPARISONS
}


def _refused(name: str) -> GraphBreak:
    detail = f"{name} of a number that a loop has counted"
    return GraphBreak(breaks.DATA_DEPENDENT_VALUE, detail)


@special(forms.ask)
@at_once
def _ask(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    raise _refused(as_python(machine, args[0]).strip("_"))


@special(forms.compute)
@at_once
def _compute(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    name, operands = as_python(machine, args[0]), args[1:]
    if any(isinstance(value, TensorValue) or is_array(value) for value in operands):
        return _beside_elements(machine, name, operands)
    operands = [_as_literal(machine, value) for value in operands]
    kind = _class_of(name, operands)
    given = [held_number_of_calls(machine, value) for value in operands]
    held = [value for value in given if value is not None]
    if kind is None or len(held) < len(given):
        raise _refused(name)
    if kind is float and any(value.python_type is int for value in operands):
        of_ints = all(value.python_type is int for value in operands)
        held = [_as_float(machine, value, of_ints) for value in held]
    if not all(fits(machine, value) for value in held):
        raise _refused(name)
    if name == "truediv" and not isinstance(operands[1], Constant):
        require(TABLE.ne(held[1], 0))
    functions = _OF_INTS if kind is int else _ARITHMETIC
    function = functions.get(name) or _COMPARISONS.get(name) or _DIVISIONS[name]
    found = function(*held)
    if not fits(machine, found):
        raise _refused(name)
    tensor = machine.recorder.new_tensor(found)
    return new_count(machine, tensor, bool if name in _COMPARISONS else kind)


def _as_literal(machine: Machine, value: Value) -> Value:
    """An int that is known when the code runs, and that has differed in no call yet, as a literal;
    other values as they are."""
    recorder = machine.recorder
    if not is_of_calls(value) or value.python_type is not int or is_of_a_turn(value):
        return value
    return value if recorder.sizes.varies(value) else Constant(recorder.specialise(value))


def _class_of(name: str, operands: list[Value]) -> Any:
    """The class in which an operator computes; None: the graph cannot."""
    kinds = {value.python_type for value in operands}
    if not kinds <= {int, float}:
        return None
    is_of_ints = kinds == {int}
    if name in _DIVISIONS:
        divisor = operands[1]
        if name == "truediv":
            return None if isinstance(divisor, Constant) and not divisor.value else float
        is_known = isinstance(divisor, Constant) and bool(divisor.value)
        return int if is_known and is_of_ints else None
    if name in (_OF_INTS if is_of_ints else _ARITHMETIC):
        return int if is_of_ints else float
    if name not in _COMPARISONS:
        return None
    if len(kinds) == 1:
        return kinds.pop()
    # Python compares an int with a float exactly: as floats where the int is known to be one.
    ints = [value for value in operands if value.python_type is int]
    is_float = all(isinstance(v, Constant) and abs(v.value) <= EXACT for v in ints)
    return float if is_float else None


def _as_float(machine: Machine, value: graph.Value, is_divided: bool) -> graph.Value:
    """A number as Python makes a float of it: rounded once, to the nearest.

    Args:
        is_divided: it is an int that is divided by an int, which Python rounds once.

    Raises:
        GraphBreak: it may not be the number that Python has.
    """
    if is_divided and not machine.recorder.intervals.is_exact(value.node):
        raise _refused("truediv")
    if not fits(machine, value):
        raise _refused("float")
    found: graph.Value = cast(value, float64)
    return found


def _beside_elements(machine: Machine, name: str, operands: list[Value]) -> Value:
    """An operator of a number, and a tensor or an array of floats: the number is one of theirs."""
    own = next(place for place, value in enumerate(operands) if is_count(value))
    other = operands[1 - own]
    is_power = name == "pow" and not own and isinstance(other, TensorValue)
    if name not in _OF_ARRAYS and not is_power:
        raise _refused(name)
    if not isinstance(other, TensorValue):
        return call_of_arrays(machine, _OF_ARRAYS[name], operands)
    number = as_float_of(machine, operands[own], tensor_type(machine, other).dtype)
    if number is None:
        raise _refused(name)
    if name == "truediv" and not own:
        return native_call(machine, number_divided, [number, other], {})
    given: list[Value] = [number, other] if not own else [other, number]
    return native_call(machine, getattr(operator, name), given, {})


_OF_ARRAYS: Final = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide
}  # fmt: skip
