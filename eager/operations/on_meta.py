"""How tensors on the device `meta` run an op: only the type of the result is found.

Contract: `run` gives an array without elements of the type that the row infers, as graphs do. Views
get the strides and the memory that views of arrays have; results whose row says how they lie, lie
so; others lie row by row, until `eager.operations.execute` lays them out as those of arrays. A row
whose shape depends on elements refuses.
"""

from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.meta_arrays import MetaArray, is_meta, refuse
from dynajit.core.types.device import META
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.eager._tensor import TensorBase
from dynajit.ops.evaluate import type_of_operand
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.result_layouts import ALWAYS, strides_of_result


def run(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> MetaArray:
    """The array that a row gives on the device `meta`.

    Raises:
        ShapeError, DTypeError, ...: the row refuses the operands.
    """
    if op.kind is Kind.MOVEMENT and op.rule.view and _holds_meta(inputs[0]):
        op.infer(*map(type_on_meta, inputs), **attributes)  # refuses, in words
        view: MetaArray | None = inputs[0].array.seen_by(lambda array: _view(op, array, attributes))
        if view is not None:
            return view
    result: Any = op.type_of_result([type_on_meta(x) for x in inputs], attributes)
    array = MetaArray(tuple(result.shape), result.dtype.numpy)
    if op.name not in ALWAYS:
        return array
    laid: MetaArray = any_arrays.laid_out(array, strides_of_result(op, (), attributes, array.shape))
    return laid


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
