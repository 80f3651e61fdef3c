"""A small gradient driver over NumPy evaluation: the referee's view of the derivative formulas.

`Tracked` operands record the rows they pass through; `gradients` walks back with the rows'
formulas. Gradients are `Tracked`, so they can be differentiated again. It shares no code with the
eager tape or the graph autodiff beyond the formulas and `ops.table.derivatives`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import ScalarType, TensorType
from dynajit.ops import TABLE, Kind, Op
from dynajit.ops.evaluate import evaluate
from dynajit.ops.methods.methods import TensorMethods
from dynajit.ops.rows.pointwise import RefusedDerivative
from dynajit.ops.table import dispatch
from dynajit.ops.table.derivatives import Need, call_formula
from dynajit.ops.table.families import sum_to_type


@dataclass(frozen=True)
class Record:
    """How a value came about."""

    op: Op
    inputs: tuple[Any, ...]
    attributes: dict[str, Any]


class Tracked(TensorMethods):
    """An array that remembers how it was computed."""

    __dynajit_priority__ = 0

    def __init__(self, array: Any, record: Record | None = None) -> None:
        self.array = np.asarray(array)
        self.record = record

    @property
    def __dynajit_handler__(self) -> Any:
        return handle

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return dtypes.from_numpy(self.array.dtype)

    @property
    def device(self) -> Any:
        return CPU


def _operator(row: str, swap: bool) -> Any:
    if swap:
        return lambda self, other: TABLE[row](other, self)
    return lambda self, other: TABLE[row](self, other)


for _symbol, _row in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}.items():
    setattr(Tracked, f"__{_symbol}__", _operator(_row, swap=False))
    setattr(Tracked, f"__r{_symbol}__", _operator(_row, swap=True))
Tracked.__neg__ = lambda self: TABLE.neg(self)  # type: ignore[attr-defined]


def handle(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """The dispatch handler: run, and record."""
    if op.kind is Kind.COMPOSITE:
        with dispatch.recording(handle):
            result = op.rule.function(TABLE, *inputs, **attributes)
        return Tracked(result.array, Record(op, inputs, attributes)) if op.vjp else result
    arrays = [x.array if isinstance(x, Tracked) else x for x in inputs]
    return Tracked(evaluate(op, arrays, attributes), Record(op, inputs, attributes))


def run(op: Op, inputs: Sequence[Any], attributes: dict[str, Any]) -> Any:
    """The array that a row of any kind gives."""
    return handle(op, tuple(map(wrap, inputs)), attributes).array


def wrap(operand: Any) -> Any:
    """An array as a fresh leaf; numbers and None as they are."""
    return Tracked(operand) if isinstance(operand, np.ndarray) else operand


def type_of(operand: Any) -> Any:
    """The type that `Op.infer` takes."""
    if operand is None:
        return None
    if isinstance(operand, (Tracked, np.ndarray)):
        return TensorType(tuple(operand.shape), dtypes.from_numpy(np.dtype(
            operand.array.dtype if isinstance(operand, Tracked) else operand.dtype
        )))  # fmt: skip
    return ScalarType(dtypes.of_number(operand).category)


def refuses(op: Op, position: int) -> bool:
    """Whether nobody has the derivative by the input at this position."""
    return isinstance(op.vjp.get(op.inputs[0 if op.variadic else position]), RefusedDerivative)


def tracked(op: Op, operands: Sequence[Any]) -> list[Any]:
    """The operands, arrays `Tracked`, except those by which the row has no derivative."""
    return [
        Tracked(operand) if isinstance(operand, np.ndarray) and not refuses(op, i) else operand
        for i, operand in enumerate(operands)
    ]


def gradients(out: Tracked, g: Tracked, leaves: Sequence[Tracked]) -> list[Tracked | None]:
    """Gradients of `sum(out * g)` with respect to `leaves`; None where there is no path."""
    reached: dict[int, Any] = {id(out): g}
    with dispatch.recording(handle):
        for value in reversed(_ordered(out)):
            gradient = reached.get(id(value))
            if value.record is not None and gradient is not None:
                _spread(value, gradient, reached)
    return [reached.get(id(leaf)) for leaf in leaves]


def _ordered(out: Tracked) -> list[Tracked]:
    order: list[Tracked] = []
    seen: set[int] = set()

    def visit(value: Tracked) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if value.record is not None:
            for operand in value.record.inputs:
                if isinstance(operand, Tracked):
                    visit(operand)
        order.append(value)

    visit(out)
    return order


def _spread(value: Tracked, gradient: Tracked, reached: dict[int, Any]) -> None:
    record = value.record
    assert record is not None
    op, inputs = record.op, record.inputs

    def resolve(parameter: Any) -> Any:
        match parameter.need:
            case Need.GRADIENT:
                return gradient
            case Need.RESULT:
                return value
            case Need.RESULT_TYPE:
                return type_of(value)
            case Need.INPUT:
                return inputs[parameter.key]
            case Need.INPUT_TYPE:
                return type_of(inputs[parameter.key])
            case Need.INPUTS:
                return list(inputs)
            case Need.INPUT_TYPES:
                return [type_of(x) for x in inputs]
            case Need.ATTRIBUTE:
                return record.attributes[parameter.key]
        raise AssertionError(parameter)

    if op.variadic:
        found = call_formula(op, op.inputs[0], resolve) or [None] * len(inputs)
    else:
        found = [
            call_formula(op, name, resolve) if _differentiable(x) else None
            for name, x in zip(op.inputs, inputs, strict=True)
        ]
    for operand, part in zip(inputs, found, strict=True):
        if part is None or not _differentiable(operand):
            continue
        part = sum_to_type(TABLE, part, type_of(operand))
        before = reached.get(id(operand))
        reached[id(operand)] = part if before is None else TABLE.add(before, part)


def _differentiable(operand: Any) -> bool:
    return isinstance(operand, Tracked) and operand.dtype.is_floating_point
