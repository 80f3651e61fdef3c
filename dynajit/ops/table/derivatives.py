"""How a derivative formula of a row is called: what it needs, by parameter name.

The formulas in `Op.vjp` say what they need by the names of their parameters. This file reads those
names once per formula (cached) and is the only place that knows what a name means.

Both follow the same rule afterwards: a result of None means no gradient, anything else goes through
`families.sum_to_type`, which undoes broadcasting and casts.

Gradients of complex values are PyTorch's: for a real loss L and z = x + iy the gradient is
dL/dx + i dL/dy, twice the conjugate Wirtinger derivative. For an analytic f it is g * conj(f'(z)),
which is conj(conj(g) * f'(z)): the formula of real calculus between two conjugations.
"""

import enum
import functools
import inspect
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.ops.table.op_table import TABLE, Op


class Need(enum.Enum):
    """What a formula's parameter stands for."""

    TABLE = "ops"  # the op table
    GRADIENT = "g"  # gradient of the result
    RESULT = "out"  # the result
    RESULT_TYPE = "out_type"  # its TensorType
    INPUT = "input"  # the input at position `Parameter.key`
    INPUT_TYPE = "input_type"  # its type
    INPUTS = "inputs"  # the inputs of a variadic op from position `Parameter.key` on, a sequence
    INPUT_TYPES = "inputs_types"  # their types, a sequence
    ATTRIBUTE = "attribute"  # the attribute named `Parameter.key`


@record
class Parameter:
    """One parameter of a formula.

    Args:
        name: as written in the formula.
        need: what it stands for.
        key: position of the (first) input, or name of the attribute; None for the other needs.
    """

    name: str
    need: Need
    key: Any = None


@functools.cache
def formula_parameters(op: Op, input_name: str) -> tuple[Parameter, ...] | None:
    """What the formula for the gradient of `input_name` needs; None if not differentiable.

    Args:
        op: the row.
        input_name: one of `op.inputs`.

    Raises:
        InternalError: the formula has a parameter that means nothing.
    """
    formula = op.vjp.get(input_name)
    if formula is None:
        return None
    parameters = []
    for name, declared in inspect.signature(formula).parameters.items():
        found = meaning_of(op, name)
        if found is not None:
            parameters.append(found)
        elif declared.default is inspect.Parameter.empty:
            raise InternalError(
                f"{op.name}: the derivative of {input_name!r} has a parameter {name!r}, which is "
                f"no input ({', '.join(op.inputs)}), no attribute, and none of "
                "ops, g, out, out_type."
            )
    return tuple(parameters)


def call_formula(op: Op, input_name: str, resolve: Callable[[Parameter], Any]) -> Any:
    """The gradient of `input_name`, unreduced; None where there is none.

    Args:
        op: the row.
        input_name: one of `op.inputs`. If `is_variadic`, the result is a list with one gradient
            for each input from that position on.
        resolve: the value of a parameter of any need but TABLE.
    """
    parameters = formula_parameters(op, input_name)
    if parameters is None:
        return None
    values = {
        parameter.name: TABLE if parameter.need is Need.TABLE else resolve(parameter)
        for parameter in parameters
    }
    gradient = values.get(Need.GRADIENT.value)
    between = gradient is not None and conjugates(op, gradient)
    if between:
        values[Need.GRADIENT.value] = TABLE.conj(gradient)
    found = op.vjp[input_name](**values)  # type: ignore[misc]  # None was handled above
    return conjugated(found) if between else found


def conjugates(op: Op, gradient: Any) -> bool:
    """True if the formulas of `op` are called between two conjugations for this gradient."""
    return op.analytic and bool(gradient.dtype.is_complex)


def conjugated(found: Any) -> Any:
    """What a formula gave (a value, a list of values, None), with complex values conjugated."""
    if isinstance(found, (list, tuple)):
        return [conjugated(item) for item in found]
    if found is None or not found.dtype.is_complex:
        return found
    return TABLE.conj(found)


def is_variadic(op: Op, input_name: str) -> bool:
    """True if `input_name` stands for all remaining inputs: the last name of a variadic row."""
    return op.variadic and input_name == op.inputs[-1]


def meaning_of(op: Op, name: str) -> Parameter | None:
    """What a formula's parameter of this name stands for; None: nothing."""
    for need in (Need.TABLE, Need.GRADIENT, Need.RESULT, Need.RESULT_TYPE):
        if name == need.value:
            return Parameter(name, need)
    if op.variadic and name in (Need.INPUTS.value, Need.INPUT_TYPES.value):
        return Parameter(name, Need(name), 0)
    for position, label in enumerate(op.inputs):
        several = is_variadic(op, label)
        if name == label:
            return Parameter(name, Need.INPUTS if several else Need.INPUT, position)
        if several and name in (f"{label}_types", f"{label}_type"):
            return Parameter(name, Need.INPUT_TYPES, position)
        if name == f"{label}_type":
            return Parameter(name, Need.INPUT_TYPE, position)
    if name in op.attributes:
        return Parameter(name, Need.ATTRIBUTE, name)
    return None
