"""Operands that know only their type: how the type of a composite is found.

Contract: running a composite's function on `Typed` operands calls each row's `infer` and nothing
else. They have `shape`, `dtype`, `device` and the Python operators, no methods and no contents.
"""

from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InternalError
from dynajit.core.operators import BINARY
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import ScalarType, Shape, ValueType
from dynajit.ops.table import dispatch
from dynajit.ops.table.op_table import TABLE, Op
from dynajit.ops.table.type_rules import as_tensor_type


class Typed:
    """An operand that knows only its type; rows called with it infer. Immutable."""

    __slots__ = ("type",)
    __dynajit_priority__ = 5

    def __init__(self, type: ValueType) -> None:
        self.type = type

    @property
    def __dynajit_handler__(self) -> dispatch.Handler:
        return _infer_handler

    @property
    def shape(self) -> Shape:
        """Shape of the value."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type; a number has the dtype that it would get standing alone."""
        return as_tensor_type(self.type).dtype

    @property
    def device(self) -> Device:
        """Device of the value."""
        return as_tensor_type(self.type).device

    def __bool__(self) -> bool:
        raise InternalError("the truth of an operand that knows only its type was asked for")


def _infer_handler(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Typed:
    return Typed(op.infer(*(_type_of(operand) for operand in inputs), **attributes))


def _type_of(operand: Any) -> ValueType | None:
    if operand is None:
        return None
    if isinstance(operand, Typed):
        return operand.type
    return ScalarType(dtypes.category_of(operand))


def traced_infer(function: Callable[..., Any]) -> Callable[..., ValueType]:
    """The type rule of a composite: its function, run on operands that know only their types."""

    def infer(*types: ValueType | None, **attributes: Any) -> ValueType:
        operands = [None if type is None else Typed(type) for type in types]
        with dispatch.recording(_infer_handler):
            result = function(TABLE, *operands, **attributes)
        found = _type_of(result)
        if found is None:
            raise InternalError(f"the composite {function.__name__} gave no result")
        return as_tensor_type(found)

    return infer


def install_operators() -> None:
    """Called once, when all rows are in the table: give `Typed` the operators of rows."""
    for row in TABLE:
        if row.operator is not None:
            setattr(Typed, f"__{row.operator}__", _forward(row))
        if row.operator in BINARY:
            setattr(Typed, f"__r{row.operator}__", _reflected(row))


def _forward(row: Op) -> Callable[..., Any]:
    return lambda *operands: row(*operands)


def _reflected(row: Op) -> Callable[[Any, Any], Any]:
    return lambda self, other: row(other, self)
