"""Arrays wherever they live: the few things that are done to arrays without a row.

Contract: an array is NumPy's, CuPy's (`core.arrays.gpu.runtime`), or one without elements
(`core.arrays.meta_arrays`), which refuses to give any; functions of two arrays take them from one
device. What is computed for an array of a GPU runs there, whichever device is the current one.
"""

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from dynajit.core.arrays import meta_arrays
from dynajit.core.arrays.gpu import arrays as gpu_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.meta_arrays import MetaArray, is_meta
from dynajit.core.types.device import CPU, META, Device

POOL_BYTES: Final = 512
"""What CuPy's pool rounds sizes up to. Source: cupy/cuda/memory.pyx, ALLOCATION_UNIT_SIZE."""


def module_of(array: Any) -> Any:
    """The array module to which an array (or scalar of NumPy) belongs."""
    return gpu_arrays.arrays() if gpu.is_gpu_array(array) else np


def device_of(array: Any) -> Device:
    """Where an array lives."""
    if isinstance(array, np.ndarray):
        return CPU
    return META if is_meta(array) else gpu.device_of(array)


def on_device_of(array: Any) -> contextlib.AbstractContextManager[Any]:
    """The array's device is the thread's current one within the block."""
    if isinstance(array, np.ndarray) or is_meta(array):
        return contextlib.nullcontext()
    return gpu.on(int(array.data.device_id))


def as_numpy(array: Any) -> Any:
    """The elements as an array of NumPy: itself, or a copy of what is on a GPU.

    Raises:
        UnsupportedError: there are none.
    """
    if isinstance(array, np.ndarray):
        return array
    if is_meta(array):
        meta_arrays.refuse()
    return gpu.to_host(array)


def placed(array: Any, place: Device) -> Any:
    """An array on a device: itself, or a copy.

    Raises:
        UnsupportedError: it has no elements.
    """
    if place is META:
        return meta_arrays.like(array)
    if place is CPU or is_meta(array):
        return as_numpy(array)
    if gpu.is_gpu_array(array) and gpu.device_of(array) is place:
        return array
    return gpu.to_device(array, place.index or 0)


def placed_like(array: Any, other: Any) -> Any:
    """An array on the device of another one: itself, or a copy."""
    return placed(array, device_of(other))


def address(array: Any) -> int:
    """Of the first element; without elements, where it would be in memory from 0 on."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    if is_meta(array):
        return int(array.offset)
    return int(array.data.ptr)


def byte_bounds(array: Any) -> tuple[int, int]:
    """The address of its first byte, and the one behind its last."""
    if isinstance(array, np.ndarray):
        low, high = np.lib.array_utils.byte_bounds(array)
        return int(low), int(high)
    if is_meta(array):
        return 0, 0
    first = last = address(array)
    for size, stride in zip(array.shape, array.strides, strict=True):
        first += min((size - 1) * stride, 0)
        last += max((size - 1) * stride, 0)
    return first, last + int(array.itemsize)


def owner(array: Any) -> Any:
    """The array that owns the memory: all of it, where the array is a part."""
    if is_meta(array):
        memory = array.data
        return MetaArray((memory.nbytes // array.itemsize,), array.dtype, memory=memory)
    while type(array.base) is type(array):
        array = array.base
    return array if isinstance(array, np.ndarray) else _owner_on_gpu(array)


def _owner_on_gpu(array: Any) -> Any:
    """`array`, or the bytes of its memory where it is a part: CuPy's `as_strided` tells no base.

    A pool rounds sizes up to `POOL_BYTES`; such bytes include those behind the last element.
    """
    memory = array.data.mem
    is_whole = array.data.ptr == memory.ptr and -(-array.nbytes // POOL_BYTES) == -(
        -memory.size // POOL_BYTES
    )
    if is_whole or not array.size:
        return array
    cupy = module_of(array)
    return cupy.ndarray((memory.size,), np.uint8, cupy.cuda.MemoryPointer(memory, 0))


def flat_memory(array: Any) -> Any:
    """All the memory that an array is a part of, as elements of its dtype without gaps, (n,).

    A copy where the array that owns the memory has gaps itself.
    """
    if is_meta(array):
        return owner(array)
    flat = owner(array).ravel(order="K")
    if flat.dtype != array.dtype:
        count = flat.nbytes // array.itemsize
        flat = flat.view(np.uint8)[: count * array.itemsize].view(array.dtype)
    return flat


def strided(flat: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    """A view of elements without gaps, (n,), from the first one on; strides count elements.

    The caller sees to it that it stays within them.
    """
    steps = tuple(step * flat.itemsize for step in strides)
    if is_meta(flat):
        return MetaArray(shape, flat.dtype, steps, flat.data, flat.offset)
    if isinstance(flat, np.ndarray):  # bytes, since ml_dtypes' arrays are no buffers
        return np.ndarray(tuple(shape), flat.dtype, flat.view(np.uint8), 0, steps)
    return module_of(flat).lib.stride_tricks.as_strided(flat, tuple(shape), steps)


def zeros(shape: tuple[int, ...], dtype: np.dtype, place: Device) -> Any:
    """A row-major array of zeros on a device."""
    if place is META:
        return MetaArray(shape, dtype)
    if place is CPU:
        return np.zeros(shape, dtype)
    with gpu.on(place.index or 0):
        return gpu.module().zeros(shape, dtype)


def empty(shape: Sequence[Any], dtype: np.dtype, place: Device) -> Any:
    """A row-major array on a device, of whatever its memory holds."""
    if place is META:
        return MetaArray(tuple(shape), dtype)
    if place is CPU:
        return np.empty(shape, dtype)
    with gpu.on(place.index or 0):
        return gpu.module().empty(shape, dtype)


def is_writable(array: Any) -> bool:
    """False for arrays of NumPy that forbid writes; memory of a GPU may always be written."""
    return not isinstance(array, np.ndarray) or bool(array.flags.writeable)


def copied(array: Any) -> Any:
    """A copy on the same device, in the layout that the array has."""
    if isinstance(array, np.ndarray):
        return np.array(array, order="K")
    if is_meta(array):
        return array.dense()
    return gpu.to_device(array, int(array.data.device_id))


def row_major(array: Any) -> Any:
    """A row-major copy on the same device."""
    if isinstance(array, np.ndarray):
        return np.array(array, order="C")
    if is_meta(array):
        return MetaArray(array.shape, array.dtype)
    with on_device_of(array):
        return array.copy(order="C")


def strides_of(array: Any) -> tuple[int, ...]:
    """Strides in elements."""
    itemsize = array.itemsize
    return tuple(step // itemsize for step in array.strides)


def laid_out(array: Any, strides: tuple[int, ...]) -> Any:
    """A copy on the same device with these strides, in elements, which leave no gaps."""
    if is_meta(array):
        steps = tuple(step * array.itemsize for step in strides)
        return MetaArray(array.shape, array.dtype, steps)
    outer, inner = _orders(array.shape, strides)
    return row_major(array.transpose(outer)).transpose(inner)


def reinterpreted(array: Any, strides: tuple[int, ...]) -> Any:
    """A new row-major array's memory under other strides, in elements, without gaps."""
    if is_meta(array):
        return MetaArray(array.shape, array.dtype, tuple(n * array.itemsize for n in strides))
    outer, inner = _orders(array.shape, strides)
    return array.reshape([array.shape[d] for d in outer]).transpose(inner)


def _orders(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[list[int], list[int]]:
    """Dims from the outermost in memory to the innermost, and the place of each among them."""
    outer = sorted(range(len(shape)), key=lambda d: (-strides[d], -shape[d]))
    return outer, [outer.index(d) for d in range(len(shape))]


def filled_like(array: Any, value: Any) -> Any:
    """A row-major array of one number, of the shape and dtype and on the device of `array`."""
    if isinstance(array, np.ndarray):
        return np.full(array.shape, value, array.dtype)
    if is_meta(array):
        return MetaArray(array.shape, array.dtype)
    with on_device_of(array):
        made = gpu.module().empty(array.shape, array.dtype)
        made.fill(value)
        return made


def added(a: Any, b: Any) -> Any:
    """a + b, elements of two arrays of one dtype and shape."""
    if isinstance(a, np.ndarray):
        return a + b
    if is_meta(a):
        return a.dense()
    with on_device_of(a):
        return a + b


def add_into(target: Any, source: Any) -> None:
    """target += source, elements of two arrays of one dtype and shape."""
    if isinstance(target, np.ndarray):
        np.add(target, source, out=target)
        return
    if is_meta(target):
        return
    with on_device_of(target):
        gpu.module().add(target, source, out=target)


def copy_into(target: Any, source: Any) -> None:
    """target[...] = source, of one shape; from another device the elements are moved first."""
    if isinstance(target, np.ndarray):
        np.copyto(target, as_numpy(source), casting="unsafe")
        return
    if is_meta(target):
        return
    with on_device_of(target):
        target[...] = placed_like(source, target)


def is_finite(array: Any) -> bool:
    """True if every element is."""
    with on_device_of(array):
        return bool(module_of(array).isfinite(array).all())


def has_nan(array: Any) -> bool:
    """True if an element is NaN."""
    with on_device_of(array):
        return bool(module_of(array).isnan(array).any())


def _is_dense(array: Any) -> bool:
    """Whether the elements lie in memory without gaps, each at a place of its own."""
    if array.flags.c_contiguous:
        return True
    expected = array.itemsize
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def overlap_partly(a: Any, b: Any, moved: Iterable[int] = (0,)) -> bool:
    """True if two arrays without gaps share memory, but not element by element: a write to one of
    them, element by element, may change what is still to be read of the other. Of arrays with gaps
    it is not asked, as in PyTorch.

    Args:
        moved: by how many bytes b may lie further on than it does; one of them is enough.
    """
    if a is b or not a.size or not b.size or not (_is_dense(a) and _is_dense(b)):
        return False
    (start, end), (first, last) = byte_bounds(a), byte_bounds(b)
    is_same = end - start == last - first and _steps(a) == _steps(b)
    return any(
        start < last + by and first + by < end and not (is_same and first + by == start)
        for by in moved
    )


def _steps(array: Any) -> list[tuple[int, int]]:
    """Sizes and strides of the dims in which elements differ."""
    pairs = zip(array.shape, array.strides, strict=True)
    return [(size, stride) for size, stride in pairs if size != 1]


def shares_memory(a: Any, b: Any) -> bool:
    """True if two arrays may show the same bytes."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return bool(gpu.module().may_share_memory(a, b))
