"""Python data to arrays, with PyTorch's dtype rules.

Contract: every function returns a new native-endian array whose dtype is a tensor dtype, on the
device that was asked for, or raises.
"""

import functools
import math
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import MetaArray, is_meta
from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    DTypeError,
    DTypeTypeError,
    DTypeValueError,
    InvalidValueError,
    ShapeError,
    ShapeTypeError,
    ShapeValueError,
    UnsupportedError,
)
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, META, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.short_floats import converted, is_own
from dynajit.eager._tensor import TensorBase


def place_of(what: str, device: Any) -> Device:
    """The device that an argument names (None: the default one): the CPU, or a GPU with its number.

    Raises:
        DeviceError: there is no such device.
    """
    return gpu.resolve(devices.of_new_tensor(device), what)


def dtype_named(dtype: Any, what: str) -> DType:
    """The dtype that an argument means: a dtype, or Python's bool, int, float or complex.

    Raises:
        DTypeError: it means none.
    """
    found = dtypes.parse(dtype)
    if found is None:
        raise DTypeTypeError(f"{what}(dtype={dtype!r}): expected a dtype such as dynajit.float32.")
    return found


def array_of(data: Any, dtype: DType | None, device: Any = None) -> Any:
    """A new array with the elements of `data`.

    Args:
        data: number, nested sequence, array (of the host or a GPU) or tensor.
        dtype: None infers it: Python floats give the default dtype, integers int64; arrays keep
            theirs.
        device: None means the default device that was chosen, else the device of the data: the CPU
            for all that is on no GPU.

    Raises:
        ShapeError: a ragged sequence.
        DTypeError: elements that no tensor dtype holds.
        DeviceError: there is no such device.
    """
    device = devices.chosen() if device is None else device
    place = None if device is None else place_of("tensor", device)
    if dtype is not None:
        dtype = dtype_named(dtype, "tensor")
    if isinstance(data, TensorBase):
        data = data.array
    if is_meta(data):
        target = data.dtype if dtype is None else dtype.numpy
        return any_arrays.placed(MetaArray(data.shape, target), place or META)
    if isinstance(data, (np.ndarray, np.generic)):
        return any_arrays.placed(_from_numpy_array(np.asarray(data), dtype), place or CPU)
    if gpu.is_foreign(data):
        return _from_gpu_array(gpu.shared(data), dtype, place)
    array = _from_python(data)
    array = _converted(array, _inferred(array, data) if dtype is None else dtype, data)
    return any_arrays.placed(array, place or CPU)


def _from_gpu_array(array: Any, dtype: DType | None, place: Device | None) -> Any:
    """A new row-major array with the elements of a GPU array, on its device by default."""
    own = gpu.device_of(array)
    target = dtypes.from_numpy(array.dtype) if dtype is None else dtype
    gpu.check_dtype(target.numpy)
    with gpu.on(own.index or 0):
        copied = array.astype(target.numpy, order="C", copy=True)
    return any_arrays.placed(copied, place or own)


def _from_numpy_array(array: Any, dtype: DType | None) -> Any:
    native = array.dtype.newbyteorder("=")
    target = dtypes.from_numpy(native) if dtype is None else dtype
    if target in dtypes.SHORT:
        return converted(np.array(array, order="C"), target.numpy)
    return np.array(array, dtype=target.numpy, order="C")


def _from_python(data: Any) -> Any:
    if not isinstance(data, (bool, int, float, complex, list, tuple)) and not (
        hasattr(data, "__array__") or hasattr(data, "__len__")
    ):
        raise ArgumentRuntimeError(
            f"tensor(): could not make a tensor of {type(data).__name__}.  Expected a number, a "
            "nested sequence of numbers, an array or a tensor."
        )
    plain = _without_tensors(data)
    try:
        array = np.array(plain)
    except ValueError as error:
        raise (ShapeTypeError if _is_mixed(plain) else ShapeValueError)(
            "tensor(): expected sequences of equal length at every level; this one is ragged.  "
            f"({error})"
        ) from error
    if array.dtype.kind == "O" and all(isinstance(number, _PYTHONS) for number in array.flat):
        return array  # integers of more than 64 bits
    if array.dtype.kind in "OUSmM":
        raise (DTypeTypeError if _is_mixed(plain) else DTypeValueError)(
            f"tensor(): could not make numbers of the data ({array.dtype}).  Expected numbers "
            "that fit in int64, float64 or complex128."
        )
    return array


def _is_mixed(data: Any) -> bool:
    """Whether what is no tensor mixes numbers with what is none, or is a text: where PyTorch raises
    TypeError instead of ValueError."""
    if not isinstance(data, (list, tuple)):
        return not isinstance(data, (int, float, complex))
    if not data:
        return False
    inner = [isinstance(item, (list, tuple, str, bytes)) for item in data]
    if all(inner):
        return any(_is_mixed(item) for item in data if isinstance(item, (list, tuple)))
    return any(inner) or not all(isinstance(item, (int, float, complex)) for item in data)


def _without_tensors(data: Any) -> Any:
    """Nested lists with tensors in them as nested lists of numbers.

    Raises:
        InvalidValueError: a tensor has more than one element, or none.
    """
    if isinstance(data, TensorBase):
        array = any_arrays.as_numpy(data.array)
        if array.size != 1:
            raise InvalidValueError(
                f"tensor(): only one element tensors can be converted to Python scalars; one in "
                f"the data has shape {list(array.shape)}.  Join tensors by stack or cat."
            )
        number = array.reshape(())[()]
        return float(number) if is_own(array.dtype) else number
    if isinstance(data, (list, tuple)) and any(
        isinstance(item, (TensorBase, list, tuple)) for item in data
    ):
        return [_without_tensors(item) for item in data]
    return data


def _converted(array: Any, dtype: DType, data: Any) -> Any:
    """Python's numbers in a dtype, which has to hold them: integers lose no digits, floats only
    their fraction; a float is no element of uint64, a complex number none of a real dtype.

    Raises:
        DTypeError: a number that the dtype does not hold.
    """
    if array.dtype == dtype.numpy:
        return array
    kind = array.dtype.kind
    if dtype is dtypes.bool_:
        return np.asarray(array != 0)
    if dtype.is_complex or (kind != "c" and dtype.is_floating_point):
        return _rounded(array, dtype)
    if kind == "c":
        raise DTypeTypeError(
            f"tensor(dtype={dtype.name}): the data has complex numbers.  Expected real ones, or a "
            "complex dtype."
        )
    if kind in "fO" and array.size:
        array = _whole(array, data, dtype)
    if array.dtype.kind in "iuf" and array.size:
        _check_range(array, dtype)
    return _rounded(array, dtype)


def _rounded(array: Any, dtype: DType) -> Any:
    if array.dtype.kind == "O":
        array = array.astype(np.complex128 if dtype.is_complex else np.float64)
    with np.errstate(all="ignore"):
        return converted(array, dtype.numpy)


def _whole(array: Any, data: Any, dtype: DType) -> Any:
    """What NumPy made floats or objects of, since no dtype of its own holds all: as integers, if
    all are some.

    Raises:
        DTypeValueError: one has more than 64 bits.
        DTypeTypeError: floats for uint64.
    """
    exact = np.array(_without_tensors(data), object)
    if not all(isinstance(number, (int, np.integer)) for number in exact.flat):
        if dtype is dtypes.uint64:
            raise DTypeTypeError("tensor(dtype=uint64): the data has floats.  Expected integers.")
        return array
    low, high = min(exact.flat), max(exact.flat)
    if low < -(1 << 63) or high >= 1 << (63 if low < 0 else 64):
        raise DTypeValueError(
            f"tensor(): an integer of the data has more than 64 bits, and {dtype.name} is asked "
            "for.  Give a floating dtype."
        )
    return exact.astype(np.int64 if low < 0 else np.uint64)


def _check_range(array: Any, dtype: DType) -> None:
    """Negative integers are those of the unsigned dtype modulo its range, as in PyTorch.

    Raises:
        DTypeError: a number lies beyond the dtype's range.
    """
    low, high = _bounds(dtype)
    lowest = -high if low == 0 and array.dtype.kind != "f" and dtype is not dtypes.uint64 else low
    least, largest = array.min().item(), array.max().item()
    if lowest <= least and largest <= high:  # neither is true of NaN
        return
    if dtype is dtypes.int64 and array.dtype.kind == "u":
        raise DTypeValueError(
            f"tensor(): {largest} of the data does not fit in int64.  Give dtype=dynajit.uint64."
        )
    raise DTypeError(
        f"tensor(): a value of the data does not fit in {dtype.name}.  Expected numbers in "
        f"[{low}, {high}]."
    )


def _bounds(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype.numpy)
    return int(info.min), int(info.max)


def _inferred(array: Any, data: Any) -> DType:
    """The dtype that holds all leaves: Python's floats are of the default dtype, integers int64,
    arrays, their scalars and tensors keep theirs (PyTorch's rule for `tensor`)."""
    found = _leaf_dtypes(data) if isinstance(data, (list, tuple)) else {_of_leaf(data)}
    if not found or (array.size == 0 and not isinstance(data, np.ndarray)):
        return dtypes.default_floating()
    return functools.reduce(dtypes.promote, found)


def _leaf_dtypes(data: Any) -> set[DType]:
    """The dtypes of what stands in nested sequences."""
    kinds = set(map(type, data))
    if all(kind in _NUMBERS or issubclass(kind, (np.number, np.bool_)) for kind in kinds):
        return {_of_leaf(kind()) for kind in kinds}
    found: set[DType] = set()
    for item in data:
        found |= _leaf_dtypes(item) if isinstance(item, (list, tuple)) else {_of_leaf(item)}
    return found


def _of_leaf(item: Any) -> DType:
    if isinstance(item, TensorBase):
        return dtypes.from_numpy(item.array.dtype)
    if isinstance(item, (np.generic, np.ndarray)) or hasattr(item, "__array__"):
        return dtypes.from_numpy(np.asarray(item).dtype.newbyteorder("="))
    if isinstance(item, complex):
        return _default_complex()
    if isinstance(item, float):
        return dtypes.default_floating()
    if isinstance(item, int):
        return dtypes.bool_ if isinstance(item, bool) else dtypes.int64
    return dtypes.from_numpy(np.asarray(item).dtype)


_PYTHONS: Final = (int, float, complex)
_NUMBERS: Final = frozenset({bool, int, float, complex})


def _default_complex() -> DType:
    """The dtype of Python's complex numbers.

    Raises:
        UnsupportedError: no complex dtype has 16-bit parts.
    """
    if dtypes.default_floating().itemsize < 4:
        raise UnsupportedError(
            f"tensor(): of complex numbers, while the default dtype is "
            f"{dtypes.default_floating().name}: there is no complex dtype with such parts.  Give "
            "dtype=dynajit.complex64."
        )
    return dtypes.default_complex()


def filled(size: tuple[Any, ...], value: Any, dtype: DType, device: Any = None) -> Any:
    """An array of one number (None: undefined elements).

    Args:
        size: sizes, or one sequence of sizes.
    """
    place = place_of("empty" if value is None else "full", device)
    dtype = dtype_named(dtype, "empty" if value is None else "full")
    given = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    try:
        shape = tuple(item.__index__() for item in given)
    except AttributeError:
        raise ArgumentError(f"size {given!r}: expected integers.") from None
    if any(item < 0 for item in shape):
        raise ShapeError(f"size {list(shape)}: a size is negative.  Expected 0 or more.")
    if math.prod(shape) * dtype.itemsize >= 1 << 63:
        raise ShapeError(f"storage size calculation overflowed with sizes={list(shape)}.")
    if place is META:
        return MetaArray(shape, dtype.numpy)
    if place is not CPU:
        made = gpu.empty(shape, dtype.numpy, place.index or 0)
        if value is not None:
            made.fill(value)
        return made
    if value is None:
        return np.empty(shape, dtype.numpy)
    return np.full(shape, value, dtype.numpy)


def pinned_copy(array: Any) -> Any:
    """A copy of an array of NumPy in memory that a GPU copies from by itself.

    Raises:
        DeviceError: there is no GPU.
    """
    gpu.resolve(Device("cuda"), "pin_memory")
    made = gpu.pinned_empty(array.shape, array.dtype)
    made[...] = array
    return made


def plain_number(array: Any) -> Any:
    """The Python number in an array with one element."""
    array = any_arrays.as_numpy(array)
    return float(array.reshape(())[()]) if is_own(array.dtype) else array.item()
