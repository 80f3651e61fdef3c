"""Tensors from data: `tensor`, `as_tensor`, `from_numpy`, `asarray`, `empty`.

Contract: `tensor` always copies; `as_tensor` and `asarray` share memory where dtype allows;
`from_numpy` always shares. Filled and random tensors are rows (`ops.functions`). Called by users,
`nn`, `optim` and `utils`.
"""

from typing import Any

import numpy as np

from dynajit.core import dtypes
from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, DTypeError, ShapeError
from dynajit.eager import _tensor
from dynajit.eager.convert import array_of, filled, require_cpu
from dynajit.eager.tensor import Tensor
from dynajit.ops.table import TABLE


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
        dtype: None infers it: Python floats give float32, integers int64; arrays keep theirs.
        device: only the CPU.
        requires_grad: record operations for backward.

    Raises:
        ShapeError: a ragged sequence.
        DTypeError: elements that no tensor dtype holds.
        DeviceError: the device does not exist here.
    """
    return _leaf(array_of(data, dtype, device), requires_grad)


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor: itself, or sharing the array's memory, where the dtype allows."""
    require_cpu("as_tensor", device)
    if isinstance(data, Tensor):
        return data if dtype is None or dtype is data.dtype else TABLE.cast(data, dtype=dtype)
    if isinstance(data, np.ndarray) and _why_not_shareable(data) is None:
        shared = from_numpy(data)
        return shared if dtype is None or dtype is shared.dtype else TABLE.cast(shared, dtype=dtype)
    return _leaf(array_of(data, dtype, device), False)


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
        raise (DTypeError if "dtype" in reason else ShapeError)(
            f"from_numpy: {reason}.  Use tensor(array), which copies."
        )
    return _tensor.wrap(np.asarray(array))  # type: ignore[no-any-return]


def _why_not_shareable(array: Any) -> str | None:
    """Why a tensor cannot use this array's memory, or None."""
    if not array.dtype.isnative or array.dtype not in _NUMPY_DTYPES:
        return f"NumPy dtype {array.dtype} has no tensor dtype of the same layout"
    if any(step < 0 for step in array.strides):
        return "a stride of the array is negative"
    if any(step % array.itemsize for step in array.strides):
        return "a stride of the array is no multiple of its element size"
    return None


_NUMPY_DTYPES = frozenset(d.numpy for d in dtypes.ALL)


def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """`obj` as a tensor; `copy=True` always copies, `copy=False` never (or raises).

    Raises:
        ShapeError: `copy=False` and a copy is needed.
    """
    if copy:
        return tensor(obj, dtype=dtype, device=device, requires_grad=requires_grad)
    made = as_tensor(obj, dtype, device)
    source = obj.array if isinstance(obj, Tensor) else obj
    if copy is False and not (
        isinstance(source, np.ndarray) and _tensor.shares_memory(made.array, source)
    ):
        raise ShapeError("asarray(copy=False): this data cannot be shared without a copy.")
    if requires_grad and made is not obj:
        made.requires_grad = True
    return made


def from_dlpack(external: Any) -> Tensor:
    """A tensor that shares the memory of an object with `__dlpack__`."""
    return from_numpy(np.from_dlpack(external))


def empty(
    *size: Any,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with undefined elements; `size` is integers or one sequence."""
    return _leaf(filled(size, None, dtype or dtypes.float32, device), requires_grad)


def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    memory_format: Any = None,
) -> Tensor:
    """`empty` with the shape and dtype of `input`."""
    return _leaf(filled(tuple(input.shape) or ((),), None, dtype or input.dtype, device),
                 requires_grad)  # fmt: skip


def _leaf(array: Any, requires_grad: bool) -> Tensor:
    made: Tensor = _tensor.wrap(array)
    if requires_grad:
        made.requires_grad = True
    return made
