"""Functions of arrays by CuPy's names and signatures, computed by NumPy."""

import numpy as np

from cupy import _array
from cupy._array import checked_dtype, device_array, host, ndarray, view_of
from cupy._core._routines_linalg import _rounded
from cupy.cuda.memory import MemoryPointer, UnownedMemory

# -- making ---------------------------------------------------------------------------------------


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, *, blocking=False):
    if isinstance(obj, ndarray):
        made = obj.astype(obj.dtype if dtype is None else dtype, order or "K", copy=bool(copy))
        return made
    if hasattr(obj, "__cuda_array_interface__"):
        return array(_from_interface(obj), dtype, copy, order, subok, ndmin)
    found = np.array(_nested(obj), dtype=dtype, copy=None, order=order, ndmin=ndmin)
    checked_dtype(found.dtype)
    return device_array(found)


def _nested(obj):
    if isinstance(obj, (list, tuple)):
        return [_nested(item) for item in obj]
    return host(obj) if isinstance(obj, ndarray) else obj


def _from_interface(obj):
    said = obj.__cuda_array_interface__
    dtype = np.dtype(said["typestr"])
    size = int(np.prod(said["shape"])) * dtype.itemsize
    mem = UnownedMemory(said["data"][0], size, obj)
    return ndarray(said["shape"], dtype, MemoryPointer(mem, 0), said.get("strides"))


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    return array(a, dtype, copy=False, order=order or "K")


def ascontiguousarray(a, dtype=None):
    if a.flags.c_contiguous and (dtype is None or a.dtype == dtype):
        return a if a.ndim else a.reshape(1)
    return device_array(np.ascontiguousarray(host(a), dtype))


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    if isinstance(a, ndarray):
        return a.get(stream, order, out, blocking)
    return np.asarray(a, order=order)


def empty(shape, dtype=float, order="C"):
    return ndarray(shape, dtype, order=order)


def empty_like(prototype, dtype=None, order="K", subok=None, shape=None):
    return _like(prototype, dtype, order, shape)


def zeros(shape, dtype=float, order="C"):
    made = ndarray(shape, dtype, order=order)
    made._host[...] = 0
    return made


def zeros_like(a, dtype=None, order="K", subok=None, shape=None):
    made = _like(a, dtype, order, shape)
    made._host[...] = 0
    return made


def _like(a, dtype, order, shape):
    made = np.empty_like(a._host, dtype, order, shape=shape)
    return device_array(made)


def ones(shape, dtype=float, order="C"):
    return full(shape, 1, dtype, order)


def ones_like(a, dtype=None, order="K", subok=None, shape=None):
    return full_like(a, 1, dtype, order, subok, shape)


def full(shape, fill_value, dtype=None, order="C"):
    value = host(fill_value)
    made = ndarray(shape, np.asarray(value).dtype if dtype is None else dtype, order=order)
    with np.errstate(all="ignore"):
        made._host[...] = value
    return made


def full_like(a, fill_value, dtype=None, order="K", subok=None, shape=None):
    made = _like(a, dtype, order, shape)
    made._host[...] = host(fill_value)
    return made


def arange(start, stop=None, step=1, dtype=None):
    bounds = (start,) if stop is None else (start, stop, step)
    return device_array(np.arange(*bounds, dtype=dtype))


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):
    return device_array(np.linspace(start, stop, num, endpoint, dtype=dtype, axis=axis))


def eye(N, M=None, k=0, dtype=float, order="C"):
    return device_array(np.eye(N, M, k, dtype))


def copyto(dst, src, casting="same_kind", where=None):
    src_dtype = src.dtype if hasattr(src, "dtype") else np.asarray(src).dtype
    if not np.can_cast(src_dtype, dst.dtype, casting):
        raise TypeError(f"Cannot cast {src_dtype} to {dst.dtype} in {casting} casting mode")
    value = np.asarray(host(src))
    if value.size == 0 and dst.size == 0:
        return
    while value.ndim > dst.ndim and value.shape[0] == 1:
        value = value[0]
    with np.errstate(all="ignore"):
        np.copyto(host(dst), value, casting, where=True if where is None else host(where))


def meshgrid(*xi, **kwargs):
    return [device_array(a) for a in np.meshgrid(*map(host, xi), **kwargs)]


class _Grid:
    """`ogrid[0:2, 0:3]`."""

    def __getitem__(self, key):
        found = np.ogrid[key]
        return [device_array(a) for a in found] if isinstance(key, tuple) else device_array(found)


ogrid = _Grid()


def indices(dimensions, dtype=int):
    return device_array(np.indices(dimensions, dtype))


def from_dlpack(array, *, device=None, copy=None):
    if isinstance(array, ndarray):
        return view_of(array, host(array).view())
    kind, number = array.__dlpack_device__()
    if kind != 2:
        raise BufferError("cupy.from_dlpack takes memory of a device")
    shown = np.from_dlpack(_OnTheHost(array))
    owner = UnownedMemory(shown.ctypes.data, shown.nbytes, shown, number)
    return ndarray(shown.shape, shown.dtype, MemoryPointer(owner, 0), shown.strides)


class _OnTheHost:
    """What the stand-in's DLPack capsules say, for NumPy: that their memory is the host's."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return 1, 0


# -- rearranging ----------------------------------------------------------------------------------


def concatenate(tup, axis=0, out=None, *, dtype=None, casting="same_kind"):
    _all_arrays(tup)
    return device_array(np.concatenate(host(list(tup)), axis, dtype=dtype, casting=casting))


def stack(tup, axis=0, out=None, *, dtype=None, casting="same_kind"):
    _all_arrays(tup)
    return device_array(np.stack(host(list(tup)), axis, dtype=dtype, casting=casting))


def _all_arrays(arrays):
    for item in arrays:
        if not isinstance(item, ndarray):
            raise TypeError("Only cupy arrays can be concatenated")


def broadcast_to(array, shape):
    return view_of(array, np.broadcast_to(host(array), shape))


def broadcast_arrays(*args):
    arrays = [*map(host, args)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return [view_of(a, np.broadcast_to(b, shape)) for a, b in zip(args, arrays, strict=True)]


def moveaxis(a, source, destination):
    return view_of(a, np.moveaxis(host(a), source, destination))


def swapaxes(a, axis1, axis2):
    return a.swapaxes(axis1, axis2)


def transpose(a, axes=None):
    return a.transpose(axes) if axes is not None else a.transpose()


def flip(a, axis=None):
    return view_of(a, np.flip(host(a), axis))


def roll(a, shift, axis=None):
    return device_array(np.roll(host(a), shift, axis))


def expand_dims(a, axis):
    return view_of(a, np.expand_dims(host(a), axis))


def squeeze(a, axis=None):
    return a.squeeze(axis)


def ravel(a, order="C"):
    return a.ravel(order)


def reshape(a, newshape, order="C", *, copy=None):
    return a.reshape(newshape, order=order)


def diagonal(a, offset=0, axis1=0, axis2=1):
    return a.diagonal(offset, axis1, axis2)


def pad(array, pad_width, mode="constant", **kwargs):
    return device_array(np.pad(host(array), pad_width, mode, **kwargs))


def tile(A, reps):
    return device_array(np.tile(host(A), reps))


def repeat(a, repeats, axis=None):
    if isinstance(repeats, ndarray):
        raise ValueError("cupy.repeat() does not accept cupy.ndarray for repeats")
    return device_array(np.repeat(host(a), repeats, axis))


def tril(m, k=0):
    return device_array(np.tril(host(m), k))


def triu(m, k=0):
    return device_array(np.triu(host(m), k))


# -- choosing -------------------------------------------------------------------------------------


def where(condition, x=None, y=None):
    if x is None and y is None:
        return nonzero(condition)
    for value in (condition, x, y):
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
    return device_array(np.where(host(condition), host(x), host(y)))


def take(a, indices, axis=None, out=None):
    return a.take(indices, axis, out)


def take_along_axis(a, indices, axis):
    size = a.size if axis is None else a.shape[axis]
    return device_array(np.take_along_axis(host(a), host(indices) % max(size, 1), axis))


def nonzero(a):
    return tuple(device_array(found) for found in np.nonzero(host(a)))


ndarray.nonzero = nonzero


def flatnonzero(a):
    return device_array(np.flatnonzero(host(a)))


def clip(a, a_min, a_max, out=None):
    return device_array(np.clip(host(a), host(a_min), host(a_max)))


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    return device_array(np.nan_to_num(host(x), copy, nan, posinf, neginf))


# -- ordering -------------------------------------------------------------------------------------


def sort(a, axis=-1, kind=None):
    return device_array(np.sort(host(a), axis, kind=_stable(kind)))


def argsort(a, axis=-1, kind=None):
    return device_array(np.argsort(host(a), axis, kind=_stable(kind)))


def _stable(kind):
    if kind not in (None, "stable"):
        raise ValueError("kind can only be None or 'stable'")
    return "stable"


def partition(a, kth, axis=-1):
    return device_array(np.sort(host(a), axis))


def lexsort(keys):
    if not isinstance(keys, ndarray):
        raise TypeError("Keys must be a cupy.ndarray")
    return device_array(np.lexsort(host(keys)))


def searchsorted(a, v, side="left", sorter=None):
    if not isinstance(a, ndarray) or not isinstance(v, ndarray):
        raise NotImplementedError("Only int or ndarray are supported for v")
    return device_array(np.searchsorted(host(a), host(v), side))


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True
):
    found = np.unique(host(ar), return_index, return_inverse, return_counts, axis=axis)
    return tuple(map(device_array, found)) if isinstance(found, tuple) else device_array(found)


def bincount(x, weights=None, minlength=None):
    return device_array(np.bincount(host(x), host(weights), minlength or 0))


# -- combining ------------------------------------------------------------------------------------


def _reduction(name, *more):
    """Functions `name(a, axis, ..., out, keepdims)`, and the methods of arrays."""

    def reduce(a, axis, dtype, out, keepdims):
        given = {"dtype": dtype} if dtype is not None else {}
        with np.errstate(all="ignore"):
            return device_array(
                np.asarray(getattr(np, name)(host(a), axis, keepdims=keepdims, **given))
            )

    if more:

        def function(a, axis=None, dtype=None, out=None, keepdims=False):
            return reduce(a, axis, dtype, out, keepdims)
    else:

        def function(a, axis=None, out=None, keepdims=False):
            return reduce(a, axis, None, out, keepdims)

    function.__name__ = name
    setattr(ndarray, name, function)
    return function


sum = _reduction("sum", "dtype")
prod = _reduction("prod", "dtype")
ndarray.prod = lambda self, axis=None, dtype=None, out=None, keepdims=None: prod(
    self, axis, dtype, out, bool(keepdims)
)
mean = _reduction("mean", "dtype")
max = _reduction("max")
min = _reduction("min")
all = _reduction("all")
any = _reduction("any")
amax, amin = max, min


def argmax(a, axis=None, dtype=None, out=None, keepdims=False):
    return device_array(np.asarray(np.argmax(host(a), axis, keepdims=keepdims)))


def argmin(a, axis=None, dtype=None, out=None, keepdims=False):
    return device_array(np.asarray(np.argmin(host(a), axis, keepdims=keepdims)))


def cumsum(a, axis=None, dtype=None, out=None):
    with np.errstate(all="ignore"):
        return device_array(np.cumsum(host(a), axis, dtype))


def cumprod(a, axis=None, dtype=None, out=None):
    with np.errstate(all="ignore"):
        return device_array(np.cumprod(host(a), axis, dtype))


def _position(name):
    function = argmax if name == "argmax" else argmin

    def method(self, axis=None, out=None, dtype=None, keepdims=False):
        return function(self, axis, dtype, out, keepdims)

    return method


ndarray.argmax, ndarray.argmin = _position("argmax"), _position("argmin")
ndarray.cumsum, ndarray.cumprod = cumsum, cumprod


def count_nonzero(a, axis=None):
    return device_array(np.asarray(np.count_nonzero(host(a), axis)))


def diff(a, n=1, axis=-1, prepend=None, append=None):
    return device_array(np.diff(host(a), n, axis))


def histogram(x, bins=10, range=None, density=False, weights=None):
    counts, edges = np.histogram(host(x), host(bins), range, density, host(weights))
    return device_array(counts), device_array(edges)


def array_equal(a1, a2, equal_nan=False):
    return device_array(np.asarray(np.array_equal(host(a1), host(a2), equal_nan)))


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return device_array(np.asarray(np.allclose(host(a), host(b), rtol, atol, equal_nan)))


# -- products -------------------------------------------------------------------------------------


def matmul(
    *args, axes=None, axis=None, keepdims=False, casting="same_kind", dtype=None, signature=None,
    order="K", out=None,
):  # fmt: skip
    a, b = args
    with np.errstate(all="ignore"):
        found = np.asarray(np.matmul(_rounded(host(a)), _rounded(host(b))))
    if out is None:
        return device_array(found)
    out._host[...] = found
    return out


ndarray.__matmul__ = lambda self, other: matmul(self, other)


def tensordot(a, b, axes=2):
    return device_array(np.tensordot(host(a), host(b), axes))


def einsum(*operands, **kwargs):
    return device_array(np.asarray(np.einsum(*map(host, operands), **kwargs)))


# -- questions ------------------------------------------------------------------------------------


def may_share_memory(a, b, max_work=None):
    return bool(np.may_share_memory(a._host, b._host))


def shares_memory(a, b, max_work=None):
    return bool(np.shares_memory(a._host, b._host))


def result_type(*arrays_and_dtypes):
    return np.result_type(*(getattr(item, "dtype", item) for item in arrays_and_dtypes))


def get_array_module(*args):
    import cupy

    return cupy if ndarray in map(type, args) else np


def real(val):
    return val.real


def imag(val):
    return val.imag


__all__ = [
    name for name, value in vars().items()
    if name[0] != "_" and getattr(value, "__module__", "").startswith("cupy._functions")
]  # fmt: skip
_ = _array
