"""Operators of ints that the launch computes: handlers of the markers of `capture.library.counts`.

Contract: the result is the int, or the truth, that Python gives. What may not fit an int64, and
operands of other classes, end the graph.
"""

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import counts as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, at_once
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.tensors.counts import (
    LARGEST_COUNT,
    bounds_of,
    counted_in,
    new_count,
    new_truth,
)
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.operators import COMPARISONS

_ARITHMETIC: Final[dict[str, Callable[..., int]]] = {
    name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "pos", "abs")
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
    bounds = [bounds_of(machine, value) for value in operands]
    known = [pair for pair in bounds if pair is not None]
    is_modelled = name in _ARITHMETIC or name in COMPARISONS
    if not is_modelled or len(known) < len(bounds):
        raise _refused(name)
    _check(name, [number for pair in known for number in pair])
    given = [_operand(machine, value) for value in operands]
    if name in COMPARISONS:
        return new_truth(machine, _called(machine, getattr(operator, name), given))
    low, high = _bounds_after(name, known)
    _check(name, (low, high))
    return new_count(machine, _called(machine, _ARITHMETIC[name], given), low, high)


def _operand(machine: Machine, value: Value) -> Value:
    """A tensor, or a constant, which is relied on."""
    found = counted_in(machine, value)
    if found is None:
        machine.recorder.use(value)
        return value
    return found


def _called(machine: Machine, function: Any, given: list[Value]) -> TensorValue:
    found = native_call(machine, function, given, {})
    assert isinstance(found, TensorValue)
    return found


def _bounds_after(name: str, bounds: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The least and the largest result: those of operands at their ends, or, of `abs`, zero."""
    function = _ARITHMETIC[name]
    if len(bounds) == 1:
        found = [function(number) for number in bounds[0]]
        is_folded = name == "abs" and bounds[0][0] < 0 < bounds[0][1]
        return (0 if is_folded else min(found)), max(found)
    found = [function(a, b) for a in bounds[0] for b in bounds[1]]
    return min(found), max(found)


def _check(name: str, numbers: Sequence[int]) -> None:
    """
    Raises:
        GraphBreak: a number may not fit an int64.
    """
    if any(abs(number) > LARGEST_COUNT for number in numbers):
        raise _refused(name)
