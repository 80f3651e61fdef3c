"""Python data to arrays, with PyTorch's dtype rules.

Contract: every function returns a new native-endian array whose dtype is a tensor dtype, or
raises. Called by the constructors in `tensor` and `creation`.
"""

from typing import Any

import numpy as np

from dynajit.core import device as devices
from dynajit.core import dtypes
from dynajit.core.device import CPU
from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from dynajit.eager._tensor import TensorBase
from dynajit.eager.execute import missing_device


def require_cpu(what: str, device: Any) -> None:
    """Refuse every device but the CPU.

    Raises:
        DeviceError: another device.
    """
    parsed = devices.parse(device)
    if parsed != CPU:
        raise DeviceError(missing_device(what, parsed))


def array_of(data: Any, dtype: DType | None, device: Any = None) -> Any:
    """A new array with the elements of `data`.

    Args:
        data: number, nested sequence, array or tensor.
        dtype: None infers it: Python floats give float32, integers int64; arrays keep theirs.

    Raises:
        ShapeError: a ragged sequence.
        DTypeError: elements that no tensor dtype holds.
    """
    require_cpu("tensor", device)
    if dtype is not None and not isinstance(dtype, DType):
        raise DTypeError(f"tensor(dtype={dtype!r}): expected a dtype such as dynajit.float32.")
    if isinstance(data, TensorBase):
        data = data.array
    if isinstance(data, (np.ndarray, np.generic)):
        return _from_numpy_array(np.asarray(data), dtype)
    array = _from_python(data)
    if dtype is not None:
        return _converted(array, dtype, data)
    return array.astype(_inferred(array, data).numpy, copy=False)


def _from_numpy_array(array: Any, dtype: DType | None) -> Any:
    native = array.dtype.newbyteorder("=")
    target = dtypes.from_numpy(native) if dtype is None else dtype
    return np.array(array, dtype=target.numpy, order="C")


def _from_python(data: Any) -> Any:
    if not isinstance(data, (bool, int, float, complex, list, tuple)) and not (
        hasattr(data, "__array__") or hasattr(data, "__len__")
    ):
        raise ArgumentError(
            f"tensor(): could not make a tensor of {type(data).__name__}.  Expected a number, a "
            "nested sequence of numbers, an array or a tensor."
        )
    try:
        array = np.array(_without_tensors(data))
    except ValueError as error:
        raise ShapeError(
            "tensor(): expected sequences of equal length at every level; this one is ragged.  "
            f"({error})"
        ) from error
    if array.dtype.kind in "OUSmM":
        raise DTypeError(
            f"tensor(): could not make numbers of the data ({array.dtype}).  Expected numbers "
            "that fit in int64, float64 or complex128."
        )
    return array


def _without_tensors(data: Any) -> Any:
    """Nested lists with tensors in them as nested lists of arrays."""
    if isinstance(data, TensorBase):
        return data.array
    if isinstance(data, (list, tuple)) and any(
        isinstance(item, (TensorBase, list, tuple)) for item in data
    ):
        return [_without_tensors(item) for item in data]
    return data


def _converted(array: Any, dtype: DType, data: Any) -> Any:
    if dtype.category <= dtypes.Category.INTEGER and array.dtype.kind in "iu" and array.size:
        low, high = _bounds(dtype)
        if int(array.max()) > high or int(array.min()) < low:
            raise DTypeError(
                f"tensor(): a value of the data does not fit in {dtype.name}.  Expected integers "
                f"in [{low}, {high}]."
            )
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _bounds(dtype: DType) -> tuple[int, int]:
    if dtype is dtypes.bool_:
        return -(1 << 63), (1 << 64) - 1
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def _inferred(array: Any, data: Any) -> DType:
    """float64 from Python floats means the default dtype; from NumPy scalars it is meant."""
    if array.size == 0 and not isinstance(data, np.ndarray):
        return dtypes.float32
    if array.dtype.kind not in "fc" or _has_numpy_leaf(data):
        return dtypes.from_numpy(array.dtype)
    return dtypes.float32 if array.dtype.kind == "f" else dtypes.complex64


def _has_numpy_leaf(data: Any) -> bool:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return isinstance(data, (np.generic, np.ndarray, TensorBase))


def filled(size: tuple[Any, ...], value: Any, dtype: DType, device: Any = None) -> Any:
    """An array of one number (None: undefined elements).

    Args:
        size: sizes, or one sequence of sizes.
    """
    require_cpu("empty" if value is None else "full", device)
    if not isinstance(dtype, DType):
        raise DTypeError(f"dtype={dtype!r}: expected a dtype such as dynajit.float32.")
    given = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    try:
        shape = tuple(item.__index__() for item in given)
    except AttributeError:
        raise ArgumentError(f"size {given!r}: expected integers.") from None
    if any(item < 0 for item in shape):
        raise ShapeError(f"size {list(shape)}: a size is negative.  Expected 0 or more.")
    if value is None:
        return np.empty(shape, dtype.numpy)
    return np.full(shape, value, dtype.numpy)


def plain_number(array: Any) -> Any:
    """The Python number in an array with one element."""
    return float(array.reshape(())[()]) if array.dtype.kind == "V" else array.item()
