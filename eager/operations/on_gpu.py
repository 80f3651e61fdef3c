"""How eager tensors run an op on a GPU, or on `meta` (`eager.operations.on_meta`).

Contract: `run` evaluates a row with CuPy on the device of its tensor operands, or on the one that a
creation row names. All tensors are on one device; a zero-dim tensor of the CPU goes along with
pointwise rows, as in PyTorch, and is passed by value.
"""

import contextlib
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import arrays as gpu_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.gpu.faults import in_words
from dynajit.core.errors import DeviceError
from dynajit.core.process import config
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, META, Device
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.eager._tensor import TensorBase
from dynajit.eager.operations import on_meta
from dynajit.ops.evaluate import array_form, evaluate, type_of_operand
from dynajit.ops.table.op_table import TABLE, Kind, Op
from dynajit.ops.table.type_rules import MSG_TWO_DEVICES, describe

_AS_THEY_ARE: Final = contextlib.nullcontext()


_MISSING: Final = frozenset((dtypes.bfloat16, *dtypes.SHORT))  # where CuPy is old, or always


def run(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """The array that a row gives, of whose operands one is on a GPU, or that names another device
    than the CPU.

    Raises:
        DeviceError: tensors on different devices, or there is no such device; an earlier kernel of
            anybody's has failed.
        DTypeError: the installed CuPy has no bfloat16.
        OutOfMemoryError: the result, or what it is computed through, does not fit.
    """
    place = place_of(op, inputs, attributes)
    if place is META:
        return on_meta.run(op, inputs, attributes)
    if op is TABLE.to_device:
        on_meta.require_none(inputs)
    operands = [_operand(op, operand) for operand in inputs]
    if place is CPU:  # from a GPU: a transfer, or a number for a new tensor
        if op is not TABLE.to_device:
            operands = [any_arrays.as_numpy(x) if gpu.is_gpu_array(x) else x for x in operands]
        return evaluate(op, operands, attributes)
    if attributes.get("dtype") in _MISSING:
        gpu.check_dtype(attributes["dtype"].numpy)
    with in_words, gpu.on(place.index or 0), _products():
        return evaluate(op, operands, attributes, gpu_arrays.arrays())


def form(op: Op, inputs: tuple[Any, ...], arrays: list[Any], attributes: dict[str, Any]) -> Any:
    """The result of a composite by its array function, or NotImplemented; one of the operands is on
    a GPU.

    Args:
        arrays: the arrays of the operands.
    """
    places = {operand.device for operand in inputs if isinstance(operand, TensorBase)}
    if len(places) != 1 or META in places:
        return NotImplemented  # its rows refuse what they do not take
    with in_words, gpu.on(next(iter(places)).index or 0), _products():
        return array_form(op, arrays, attributes, gpu_arrays.arrays())


def _products() -> contextlib.AbstractContextManager[Any]:
    """How exact products within the block are: asked here, since rows run in a context of their
    own."""
    return gpu.tf32_products() if config.current().allow_tf32 else _AS_THEY_ARE


def place_of(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Device:
    """The device on which a row runs.

    Raises:
        DeviceError: tensors on different devices, or there is no such device.
    """
    wanted = attributes.get("device")
    if wanted is not None:
        return gpu.resolve(wanted, op.name)
    found = None
    for operand in inputs:
        if isinstance(operand, (TensorBase, np.ndarray)) and not _goes_along(op, operand):
            device = CPU if isinstance(operand, np.ndarray) else operand.device
            if found is not None and device is not found:
                raise _two_devices(op, inputs, found, device)
            found = device
    return CPU if found is None else found


def _goes_along(op: Op, operand: Any) -> bool:
    """Whether a tensor or array is one of the CPU that may meet those of a GPU."""
    if op.kind is not Kind.POINTWISE or operand.ndim:
        return False
    return isinstance(operand, np.ndarray) or operand.device is CPU


def _operand(op: Op, operand: Any) -> Any:
    """The array of a tensor; one that goes along goes by value, as a scalar of NumPy."""
    if isinstance(operand, TensorBase):
        array = operand.array
    elif isinstance(operand, np.ndarray):
        array = operand
    else:
        return operand
    return array[()] if _goes_along(op, operand) else array


def _two_devices(op: Op, inputs: tuple[Any, ...], first: Device, second: Device) -> DeviceError:
    call = describe(op.name, op.inputs, [_type_of(operand) for operand in inputs])
    return DeviceError(MSG_TWO_DEVICES.format(call=call, first=first, second=second))


def _type_of(operand: Any) -> ValueType | None:
    if isinstance(operand, TensorBase):
        return TensorType(tuple(operand.shape), operand.dtype, operand.device)
    return type_of_operand(operand)
