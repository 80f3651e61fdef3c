"""Arithmetic and comparison of run-time ints of which one is a size.

The results stay symbolic, so that they may become sizes again; see `capture.tensors.sizes`.
Functions of the machine (`capture.machine.machine`).
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.symbolic import Constant, Scalar, Value
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

_ALGEBRA: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": symint.floordiv,
    "%": symint.mod,
}
#: Powers are written out as products.
_LARGEST_POWER: Final = 4


def is_size(value: Value) -> bool:
    """True for a run-time int that is a size, or an expression of sizes."""
    return isinstance(value, Scalar) and value.symbolic is not None


def size_arithmetic(machine: Machine, symbol: str, a: Value, b: Value) -> Value | None:
    """`a symbol b` where an operand is a size; None where the general rules are right.

    They are for an int of the program that is no size: what they give becomes a size only where
    that int may be one (`Sizes.shape_int`).
    """
    if not (is_size(a) or is_size(b)):
        return None
    sizes = machine.recorder.sizes
    left, right = _known_when_run(sizes, a), _known_when_run(sizes, b)
    if symbol == "**" and _is_float(b) and left is not None and sizes.decide("<", 0, left):
        return _float_power(machine, a, b)
    if left is None or right is None:
        return None
    if symbol in ("//", "%", "/") and sizes.decide("==", right, 0):
        return None
    if symbol == "**":
        return _power(machine, left, a, b)
    for operand in (a, b):
        _use(machine, operand)
    if symbol == "/":
        assert isinstance(a, (Scalar, Constant)) and isinstance(b, (Scalar, Constant))
        return Scalar(a.value / b.value, None, (symbol, (a, b)))
    algebra = _ALGEBRA.get(symbol)
    if algebra is None:
        return None
    found: Value = machine.size_value(algebra(left, right))
    return found


def _known_when_run(sizes: Any, value: Value) -> "Number | None":
    """An expression that a graph may have for its sizes: of literals and of sizes."""
    found: Number | None = sizes.expression_of(value)
    return None if found is None or sizes.has_plain_ints(found) else found


def _is_float(value: Value) -> bool:
    """True for a float literal so small that no power of a size overflows."""
    return isinstance(value, Constant) and type(value.value) is float and abs(value.value) <= 4


def _float_power(machine: Machine, a: Any, b: Any) -> Value:
    """A power of a positive size: a run-time float."""
    _use(machine, a)
    machine.recorder.use(b)
    return Scalar(a.value**b.value, None, ("**", (a, b)))


def _power(machine: Machine, base: Number, a: Value, exponent: Value) -> Value | None:
    if not isinstance(exponent, Constant) or exponent.value not in range(_LARGEST_POWER + 1):
        return None
    _use(machine, a)
    machine.recorder.use(exponent)
    result: Number = 1
    for _ in range(exponent.value):
        result = result * base
    found: Value = machine.size_value(result)
    return found


def size_comparison(machine: Machine, symbol: str, a: Value, b: Value) -> bool | None:
    """The outcome, guarded, of comparing ints of which one is not a literal; None: not ints."""
    if not isinstance(a, Scalar) and not isinstance(b, Scalar):
        return None
    if isinstance(a, Constant) and a.source is not None:
        return None
    if isinstance(b, Constant) and b.source is not None:
        return None
    sizes = machine.recorder.sizes
    left, right = sizes.expression_of(a), sizes.expression_of(b)
    if left is None or right is None:
        return None
    for operand in (a, b):
        _use(machine, operand)
    return bool(sizes.decide(symbol, left, right))


def _use(machine: Machine, operand: Value) -> None:
    if isinstance(operand, Scalar):
        machine.recorder.use_scalar_type(operand)
    else:
        machine.recorder.use(operand)
