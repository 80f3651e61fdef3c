"""How tensors on the device `meta` run an op: only the type of the result is found.

Contract: `run` gives an array without elements of the type that the row infers, as graphs do. Views
get the strides and the memory that views of arrays have; what is computed element by element lies
in the order of its operands, all else row by row. A row whose shape depends on elements refuses.
Called by `eager.on_gpu`.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.device import META
from dynajit.core.meta_arrays import MetaArray, dense_strides, is_meta, refuse
from dynajit.core.types import TensorType, ValueType
from dynajit.eager._tensor import TensorBase
from dynajit.ops.evaluate import type_of_operand
from dynajit.ops.table import TABLE, Kind, Op

#: Rows that keep the order of dims, beside the pointwise ones.
_KEEP_ORDER: Final = (TABLE.to_device, TABLE.cast)


def run(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> MetaArray:
    """The array that a row gives on the device `meta`.

    Raises:
        ShapeError, DTypeError, ...: the row refuses the operands.
    """
    if op.kind is Kind.MOVEMENT and op.rule.view and _holds_meta(inputs[0]):
        op.infer(*map(type_on_meta, inputs), **attributes)  # refuses, in words
        view = inputs[0].array.seen_by(lambda array: _view(op, array, attributes))
        if view is not None:
            return view
    result = op.infer(*map(type_on_meta, inputs), **attributes)
    return made(op, inputs, result)


def made(op: Op, inputs: tuple[Any, ...], result: Any) -> MetaArray:
    """A new array of a type, in the order of the dims of operands where the row keeps it."""
    shape, dtype = tuple(result.shape), result.dtype.numpy
    strides = None
    if op.kind is Kind.POINTWISE or op in _KEEP_ORDER:
        orders = {
            dense_strides(operand.array, shape, dtype.itemsize)
            for operand in inputs
            if _holds_meta(operand) and tuple(operand.shape) == shape
        }
        strides = orders.pop() if len(orders) == 1 else None
    return MetaArray(shape, dtype, strides)


def _holds_meta(operand: Any) -> bool:
    return isinstance(operand, TensorBase) and is_meta(operand.array)


def _view(op: Op, array: Any, attributes: dict[str, Any]) -> Any:
    if op is not TABLE.reshape:
        return op.rule.array(np, array, **attributes)
    try:
        return np.reshape(array, attributes["shape"], copy=False)
    except ValueError:
        return None


def type_on_meta(operand: Any) -> ValueType | None:
    """The type of an operand; a number in a tensor of the CPU goes along."""
    if isinstance(operand, TensorBase):
        return TensorType(tuple(operand.shape), operand.dtype, META)
    if isinstance(operand, np.ndarray):
        return TensorType(tuple(operand.shape), type_of_operand(operand).dtype, META)  # type: ignore[union-attr]
    return type_of_operand(operand)


def require_none(operands: Any) -> None:
    """Refuse to bring elements to another device.

    Raises:
        UnsupportedError: a tensor among the operands has none.
    """
    if any(map(_holds_meta, operands)):
        refuse()
