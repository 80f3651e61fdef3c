"""Tangents of rows: how the result of a row moves when its inputs move, from what the row says.

Contract: `tangent_of` computes the tangent of a result from those of inputs, with rows, so that the
same text runs on eager tensors and records into graphs. Which rule holds follows from the row:

- `Op.tangent` is a formula of its own;
- inputs that are `linear`: the row of their tangents; `factors`: a sum over them;
- a pointwise row: its derivative formulas, which multiply what they get by the slope, get tangents
  instead of the gradient;
- a reduction: its formula at a gradient of ones gives the slope of each element;
- any other: its formulas are linear in the gradient, and their transpose, at `any_gradient`, is
  applied to the tangents. Whoever asks knows how to transpose.

Tangents have the shape and dtype of what they belong to. Complex ones are what a complex number
moves by: formulas of `analytic` rows are those of real calculus and hold as they stand.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from dynajit.core.errors import InternalError
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.ops.table.derivatives import (
    Need,
    Parameter,
    call_formula,
    formula_parameters,
    is_variadic,
    meaning_of,
)
from dynajit.ops.table.op_table import TABLE, Kind, Op

Resolve: TypeAlias = Callable[[Parameter], Any]
# `transpose(positions)` -> the tangent of the result by the transposed formulas of these inputs, in
# the type of the result; None: they give no gradient.
Transpose: TypeAlias = Callable[[Sequence[int]], Any]

_SUFFIX: Final = "_tangent"


@record
class Moved:
    """One call of a row.

    Args:
        op: the row.
        inputs: its operands: values, numbers or None.
        tangents: of each operand the tangent, or None.
        attributes: complete.
        result: what the row gave.
        resolve: the value of a formula's parameter that is no gradient.
        transpose: see `Transpose`.
    """

    op: Op
    inputs: Sequence[Any]
    tangents: Sequence[Any]
    attributes: dict[str, Any]
    result: Any
    resolve: Resolve
    transpose: Transpose


def tangent_of(call: Moved) -> Any:
    """The tangent of the result, in its shape and dtype; None where it does not move."""
    op = call.op
    if not is_continuous(call.result):
        return None
    if op.tangent is not None:
        return fitted(_by_formula(call), call.result)
    linear, factors = linear_inputs(op), op.factors
    moving = [i for i, tangent in enumerate(call.tangents) if tangent is not None]
    terms = []
    added = [i for i in moving if name_at(op, i) in linear]
    multiplied = [i for i in moving if name_at(op, i) in factors]
    if added or multiplied:
        terms += _by_row(call, added, multiplied)
    others = [
        i
        for i in moving
        if i not in added and i not in multiplied and formula_parameters(op, name_at(op, i))
    ]
    if others:
        terms.append(_by_formulas(call, others))
    found = None
    for term in terms:
        if term is not None:
            term = fitted(term, call.result)
            found = term if found is None else TABLE.add(found, term)
    return found


def name_at(op: Op, position: int) -> str:
    """The name of the input at a position."""
    return op.inputs[min(position, len(op.inputs) - 1)] if op.variadic else op.inputs[position]


@functools.cache
def linear_inputs(op: Op) -> frozenset[str]:
    """Names of the inputs in which the row is linear together."""
    if op.linear is not None:
        return frozenset(op.linear)
    if op.kind in (Kind.MOVEMENT, Kind.SCATTER):
        return frozenset(name for name, formula in op.vjp.items() if formula is not None)
    return frozenset()


@functools.cache
def has_tangents(op: Op) -> bool:
    """Whether the result of the row can move."""
    return bool(op.tangent or linear_inputs(op) or op.factors or any(op.vjp.values()))


def is_followed_whole(op: Op) -> bool:
    """Whether the tangent of a composite comes from what the composite says, not from its parts."""
    return has_tangents(op) and (op.rule.on_tape or not op.vjp)


def gradients_of(op: Op, resolve: Resolve, positions: Sequence[int]) -> list[Any]:
    """What the formulas of these inputs give, as they leave it; None where there is none.

    Args:
        resolve: the value of any formula's parameter, the gradient included.
    """
    if not op.variadic:
        return [call_formula(op, name_at(op, i), resolve) for i in positions]
    found = call_formula(op, op.inputs[-1], resolve)
    return [None] * len(positions) if found is None else [found[i] for i in positions]


def is_continuous(value: Any) -> bool:
    """True for values that can move."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.category >= Category.FLOATING


def fitted(tangent: Any, result: Any) -> Any:
    """A tangent in the dtype and shape of the result; None stays None."""
    if tangent is None:
        return None
    if tangent.dtype is not result.dtype:
        tangent = TABLE.cast(tangent, dtype=result.dtype)
    shape = tuple(result.shape)
    return tangent if tuple(tangent.shape) == shape else TABLE.expand(tangent, shape=shape)


def zeros_like(value: Any) -> Any:
    """Zeros of a value's shape, dtype and device."""
    return TABLE.full(0, shape=tuple(value.shape), dtype=value.dtype, device=value.device)


def any_gradient(result: Any) -> Any:
    """A gradient to transpose formulas at, of a result's type: the transpose is the same at all,
    but formulas leave out what a gradient of 0 makes 0."""
    shape, device = tuple(result.shape), result.device
    drawn = TABLE.rand(0, 0, shape=shape, dtype=dtypes.float32, device=device, shift=0)
    return TABLE.cast(TABLE.add(drawn, 0.5), dtype=result.dtype)


# -- the row itself --------------------------------------------------------------------------------


def _by_row(call: Moved, added: list[int], multiplied: list[int]) -> list[Any]:
    """The row of tangents: once for each factor that moves; the others are at their places, what is
    added moves with the first."""
    op, linear = call.op, linear_inputs(call.op)

    def run(factor: int | None) -> Any:
        operands = list(call.inputs)
        for i, operand in enumerate(operands):
            name = name_at(op, i)
            if i == factor:
                operands[i] = call.tangents[i]
            elif name in linear:
                operands[i] = call.tangents[i] if i in added else _nothing(operand)
            elif factor is None and name in op.factors:
                operands[i] = _nothing(operand)
        return op(*operands, **call.attributes)

    factors: list[int | None] = [*multiplied] or [None]
    terms = []
    for factor in factors:
        terms.append(run(factor))
        added = []
    return terms


def _nothing(operand: Any) -> Any:
    """What is added where an operand does not move."""
    if operand is None:
        return None
    return zeros_like(operand) if hasattr(operand, "dtype") else 0


# -- formulas --------------------------------------------------------------------------------------


def _by_formula(call: Moved) -> Any:
    """What the row's own formula gives."""
    op = call.op
    formula = op.tangent
    assert formula is not None
    values = {}
    for name in _parameters(formula):
        if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) in op.inputs:
            values[name] = call.tangents[op.inputs.index(name.removesuffix(_SUFFIX))]
            continue
        parameter = meaning_of(op, name)
        if parameter is None:
            raise InternalError(f"{op.name}: the tangent's formula has a parameter {name!r}")
        values[name] = TABLE if parameter.need is Need.TABLE else call.resolve(parameter)
    return formula(**values)


@functools.cache
def _parameters(formula: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(formula).parameters)


def _by_formulas(call: Moved, moving: list[int]) -> Any:
    """By the derivative formulas of inputs that move."""
    op = call.op
    if op.kind is Kind.POINTWISE and _holds_as_it_stands(call):
        return _by_slopes(call, moving)
    if op.kind is Kind.REDUCTION and _holds_as_it_stands(call):
        return _by_sums(call)
    return call.transpose(moving)


def _holds_as_it_stands(call: Moved) -> bool:
    """Whether formulas multiply by the slope, and by no conjugate of it."""
    values = (*call.inputs, call.result)
    return call.op.analytic or not any(
        getattr(value, "dtype", None) is not None and value.dtype.is_complex for value in values
    )


def _formula_at(call: Moved, position: int, gradient: Any) -> Any:
    """What the formula of an input gives for a gradient, without any conjugation."""
    op, name = call.op, name_at(call.op, position)
    assert not is_variadic(op, name)
    values = {}
    for parameter in formula_parameters(op, name) or ():
        match parameter.need:
            case Need.TABLE:
                values[parameter.name] = TABLE
            case Need.GRADIENT:
                values[parameter.name] = gradient
            case _:
                values[parameter.name] = call.resolve(parameter)
    return op.vjp[name](**values)  # type: ignore[misc]  # there is one: see the caller


def _by_slopes(call: Moved, moving: list[int]) -> Any:
    """The sum of slopes times tangents, element by element."""
    found = None
    for position in moving:
        term = _formula_at(call, position, fitted(call.tangents[position], call.result))
        if term is not None:
            term = fitted(term, call.result)
            found = term if found is None else TABLE.add(found, term)
    return found


def _by_sums(call: Moved) -> Any:
    """Each element of a reduction's input moves one element of the result, by its slope."""
    (tangent,), result = call.tangents, call.result
    ones = TABLE.full(1, shape=tuple(result.shape), dtype=result.dtype, device=result.device)
    slopes = _formula_at(call, 0, ones)
    if slopes is None:
        return None
    return TABLE.sum(TABLE.mul(slopes, tangent), **call.attributes)
