"""Tensors from data: `tensor`, `as_tensor`, `from_numpy`, `empty`.

Contract: `tensor` always copies; `as_tensor` shares memory where dtype allows; `from_numpy` always
shares. Filled and random tensors are rows (`ops.functions`).
"""

from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import (
    ArgumentError,
    DeviceError,
    DTypeTypeError,
    ShapeValueError,
)
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.memory_format import contiguous_format, order_in
from dynajit.core.types.tensor_layouts import require_strided, require_strided_like
from dynajit.eager import _tensor
from dynajit.eager.tensor.convert import array_of, dtype_named, filled, pinned_copy, place_of
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.overriding import publish_overridable
from dynajit.ops.table.result_layouts import dense_strides, lies_by_rows, preserved_order


def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with the elements of `data`.

    Args:
        data: number, nested sequence, NumPy array or tensor; copied.
        dtype: None infers it: Python floats give the default dtype, integers int64; arrays keep
            theirs.
        device: where it lives; None means the default device that was chosen, else that of the
            data, else the CPU.
        requires_grad: record operations for backward.
        pin_memory: in host memory that a GPU copies from by itself; for the CPU only.

    Raises:
        ShapeError: a ragged sequence.
        DTypeError: elements that no tensor dtype holds.
        DeviceError: the device does not exist here.
    """
    return _leaf(_pinned_if(pin_memory, array_of(data, dtype, device)), requires_grad)


def _pinned_if(pin_memory: bool, array: Any) -> Any:
    """The array, or a copy in pinned memory.

    Raises:
        DeviceError: it is on a GPU, or there is no GPU.
    """
    if not pin_memory:
        return array
    if not isinstance(array, np.ndarray):
        raise DeviceError(
            "pin_memory: only tensors of the CPU can be pinned.  Leave out pin_memory."
        )
    return pinned_copy(array)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor: itself, or sharing the array's memory, where the dtype allows."""
    device = devices.chosen() if device is None else device
    place = None if device is None else place_of("as_tensor", device)
    if isinstance(data, Tensor):
        made = data
    elif isinstance(data, np.ndarray) and _why_not_shareable(data) is None:
        made = from_numpy(data)
    elif gpu.is_foreign(data) and _why_not_shareable(gpu.shared(data)) is None:
        made = _tensor.wrap(gpu.shared(data))
    else:
        return _leaf(array_of(data, dtype, device), False)
    wanted = made.dtype if dtype is None else dtype_named(dtype, "as_tensor")
    if wanted is not made.dtype:
        made = TABLE.cast(made, dtype=wanted)
    return made if place is None or place is made.device else TABLE.to_device(made, device=place)


def from_numpy(array: Any) -> Tensor:
    """A tensor that shares the memory of a NumPy array.

    Raises:
        ArgumentError: not an array.
        DTypeError: a dtype without a tensor dtype, or foreign byte order.
        ShapeError: negative strides.
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"from_numpy: expected np.ndarray (got {type(array).__name__})")
    reason = _why_not_shareable(array)
    if reason is not None:
        raise (DTypeTypeError if "dtype" in reason else ShapeValueError)(
            f"from_numpy: {reason}.  Use tensor(array), which copies."
        )
    return _tensor.wrap(np.asarray(array))


tensor_over: Final = _tensor.wrap
"""A tensor over the memory of an array that `is_shareable`, or a copy of a NumPy number."""


def is_shareable(array: Any) -> bool:
    """True for exactly an array, or a number of NumPy's, whose elements compiled code can use."""
    if isinstance(array, np.generic):
        return array.dtype in _NUMPY_DTYPES and array.dtype.isnative
    return type(array) is np.ndarray and array.flags.aligned and _why_not_shareable(array) is None


def _why_not_shareable(array: Any) -> str | None:
    """Why a tensor cannot use this array's memory, or None."""
    if not array.dtype.isnative or array.dtype not in _NUMPY_DTYPES:
        return f"NumPy dtype {array.dtype} has no tensor dtype of the same layout"
    if any(step < 0 for step in array.strides):
        return "a stride of the array is negative"
    if any(step % array.itemsize for step in array.strides):
        return "a stride of the array is no multiple of its element size"
    return None


_NUMPY_DTYPES = frozenset(d.numpy for d in dtypes.KNOWN)


def empty(
    *size: Any,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with undefined elements; `size` is integers or one sequence.

    Raises:
        UnsupportedError: another layout than `strided`.
    """
    require_strided(layout)
    array = filled(size, None, dtype or dtypes.default_floating(), device)
    order = order_in(memory_format, array.ndim)
    if order is not None and memory_format is not contiguous_format:
        array = any_arrays.reinterpreted(array, dense_strides(tuple(array.shape), order))
    return _leaf(_pinned_if(pin_memory, array), requires_grad)


def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """`empty` with the shape, dtype and device of `input`.

    Raises:
        UnsupportedError: another layout than `strided`.
    """
    require_strided_like(input, {"layout": layout})
    place = input.device if device is None else device
    in_parts = getattr(input, "_made_alike", None)
    if in_parts is not None:
        part: Tensor = in_parts(
            lambda shape: empty(*shape, dtype=dtype or input.dtype, device=place)
        )
        return part.requires_grad_(requires_grad)
    array = filled(tuple(input.shape) or ((),), None, dtype or input.dtype, place)
    if layout is None and memory_format is None and lies_by_rows(input):
        return _leaf(array, requires_grad)
    order = order_in(memory_format, array.ndim)
    if order is None and not input.is_sparse:
        order = preserved_order(input)
    if order is not None:
        array = any_arrays.reinterpreted(array, dense_strides(tuple(array.shape), order))
    return _leaf(array, requires_grad)


def _leaf(array: Any, requires_grad: bool) -> Tensor:
    made: Tensor = _tensor.wrap(array)
    if requires_grad:
        made.requires_grad = True
    return made


publish_overridable(globals(), ("as_tensor", "from_numpy", "tensor"), take_any_data=True)
