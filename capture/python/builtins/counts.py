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
    held_number,
    is_count,
    new_count,
)
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.operators import COMPARISONS
from dynajit.ops import TABLE

_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "add": TABLE.add, "sub": TABLE.sub, "mul": TABLE.mul, "neg": TABLE.neg, "abs": TABLE.abs,
    "pos": lambda x: x,
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
    function = _ARITHMETIC.get(name) or _COMPARISONS.get(name)
    kinds = {value.python_type for value in operands}
    if function is None or len(kinds) > 1 or not kinds <= {int, float}:
        raise _refused(name)
    (kind,) = kinds
    given = [held_number(machine, value) for value in operands]
    held = [value for value in given if value is not None]
    if len(held) < len(given) or not all(fits(machine, value) for value in held):
        raise _refused(name)
    found = function(*held)
    if not fits(machine, found):
        raise _refused(name)
    tensor = machine.recorder.new_tensor(found)
    return new_count(machine, tensor, bool if name in _COMPARISONS else kind)


def _beside_elements(machine: Machine, name: str, operands: list[Value]) -> Value:
    """An operator of a number, and a tensor or an array of floats: the number is one of theirs."""
    own = next(place for place, value in enumerate(operands) if is_count(value))
    other = operands[1 - own]
    if name not in _OF_ARRAYS or (name == "truediv" and not own):
        raise _refused(name)
    if not isinstance(other, TensorValue):
        return call_of_arrays(machine, _OF_ARRAYS[name], operands)
    number = as_float_of(machine, operands[own], tensor_type(machine, other).dtype)
    if number is None:
        raise _refused(name)
    given: list[Value] = [number, other] if not own else [other, number]
    return native_call(machine, getattr(operator, name), given, {})


_OF_ARRAYS: Final = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide
}  # fmt: skip
