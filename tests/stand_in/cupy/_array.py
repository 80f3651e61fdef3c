"""`cupy.ndarray`: elements in (imaginary) device memory, seen by NumPy only in here.

What programs rely on is kept: NumPy cannot convert it (`TypeError`) and hands its functions over
(NEP 13 and 18), nothing gives a scalar (results of no dimensions are arrays), keys out of range
wrap, `flags` has no `writeable`, and an operand on another device than the current one is refused.
`host` and `device_array` are how the functions of this package go between both worlds.
"""

import math

import ml_dtypes
import numpy as np

from cupy.cuda import memory, runtime, stream
from cupy.cuda.device import Device

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_KINDS = "?bBhHiIlLqQefdFD"


def checked_dtype(dtype):
    """A dtype that CuPy has."""
    dtype = np.dtype(dtype)
    if dtype.char not in _KINDS and dtype != BFLOAT16:
        raise ValueError(f"Unsupported dtype {dtype}")
    return dtype.newbyteorder("=")


class Flags:
    """Layout facts; as in CuPy there is no `writeable`."""

    def __init__(self, array):
        self.c_contiguous = array._host.flags.c_contiguous
        self.f_contiguous = array._host.flags.f_contiguous
        self.owndata = array.base is None

    @property
    def fnc(self):
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self):
        return self.f_contiguous or self.c_contiguous

    def __getitem__(self, name):
        return {
            "C_CONTIGUOUS": self.c_contiguous, "F_CONTIGUOUS": self.f_contiguous,
            "OWNDATA": self.owndata,
        }[name]  # fmt: skip


class ndarray:
    """An array in device memory."""

    __slots__ = ("__weakref__", "_host", "base", "data")
    __array_priority__ = 100
    __hash__ = None

    def __new__(cls, shape, dtype=float, memptr=None, strides=None, order="C"):
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(map(int, shape))
        if any(size < 0 for size in shape):
            raise ValueError("Negative dimensions are not allowed")
        dtype = checked_dtype(dtype)
        if memptr is None:
            memptr = memory.alloc(math.prod(shape) * dtype.itemsize)
        offset = memptr.ptr - memptr.mem.ptr
        made = np.ndarray(
            shape, dtype, memptr.mem.buffer, offset, strides, order=order if order in "CF" else "C"
        )
        return _made(made, memptr, None)

    # -- facts -------------------------------------------------------------------------------

    @property
    def shape(self):
        return self._host.shape

    @shape.setter
    def shape(self, shape):
        self._host = self._host.reshape(shape, copy=False)

    strides = property(lambda self: self._host.strides)
    dtype = property(lambda self: self._host.dtype)
    size = property(lambda self: self._host.size)
    ndim = property(lambda self: self._host.ndim)
    itemsize = property(lambda self: self._host.itemsize)
    nbytes = property(lambda self: self._host.nbytes)
    flags = property(Flags)
    device = property(lambda self: Device(self.data.device_id))
    T = property(lambda self: view_of(self, self._host.T))
    mT = property(lambda self: view_of(self, self._host.mT))

    @property
    def real(self):
        return view_of(self, self._host.real) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value):
        self._host.real = host(value)

    @property
    def imag(self):
        if self.dtype.kind == "c":
            return view_of(self, self._host.imag)
        return device_array(np.zeros(self.shape, self.dtype))

    @imag.setter
    def imag(self, value):
        self._host.imag = host(value)

    @property
    def __cuda_array_interface__(self):
        contiguous = self.flags.c_contiguous
        current = stream.get_current_stream().ptr
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": [("", self.dtype.str)],
            "stream": current or runtime.streamLegacy,
            "version": 3,
            "strides": None if contiguous else self.strides,
            "data": (self.data.ptr if self.size else 0, False),
        }

    # -- the host ----------------------------------------------------------------------------

    def __array__(self, dtype=None):
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct "
            "a NumPy array explicitly."
        )

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        """NumPy's ufuncs on device arrays are CuPy's of the name, of `cupy` or `cupyx`."""
        import cupyx.scipy.special

        import cupy

        name = ufunc.__name__
        function = getattr(cupy, name, None) or getattr(cupyx.scipy.special, name, None)
        if function is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return (function if method == "__call__" else getattr(function, method))(*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        """NumPy's functions on device arrays are CuPy's of the name."""
        import cupy

        found = cupy
        for part in (*func.__module__.split(".")[1:], func.__name__):
            found = getattr(found, part, None)
        if found is None or not all(issubclass(t, (ndarray, np.ndarray)) for t in types):
            return NotImplemented
        return found(*args, **kwargs)

    def get(self, stream=None, order="C", out=None, blocking=True):
        runtime._answer()
        if out is None:
            return np.array(self._host, order=order)
        if out.dtype != self.dtype:
            raise TypeError(f"{out.dtype} array cannot be obtained from {self.dtype} array")
        if out.shape != self.shape:
            raise ValueError(f"Shape mismatch. Expected shape: {self.shape}, actual: {out.shape}")
        if not out.flags.c_contiguous and not out.flags.f_contiguous:
            raise RuntimeError("`out` cannot be specified when copying to non-contiguous ndarray")
        out[...] = self._host
        return out

    def set(self, arr, stream=None):
        runtime._answer()
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.dtype != self.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if arr.shape != self.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        if not self.flags.forc:
            raise RuntimeError("Cannot set to non-contiguous array")
        self._host[...] = arr

    def item(self):
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self._host.item()

    def tolist(self):
        return self._host.tolist()

    def tobytes(self, order="C"):
        return self._host.tobytes(order)

    def __bool__(self):
        return bool(self._host)

    def __int__(self):
        return int(self._host)

    def __float__(self):
        return float(self._host)

    def __complex__(self):
        return complex(self._host)

    def __index__(self):
        return self._host.__index__()

    def __len__(self):
        return len(self._host)

    def __iter__(self):
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return repr(self._host)

    def __str__(self):
        return str(self._host)

    def __format__(self, format_spec):
        return format(self._host, format_spec)

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        with Device(self.data.device_id):
            return self.copy()

    def __reduce__(self):
        return _unpickled, (self._host.copy(),)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("unsupported device requested.")
        return self._host.__dlpack__()

    def __dlpack_device__(self):
        return 2, self.data.device_id

    # -- views and copies --------------------------------------------------------------------

    def view(self, dtype=None, type=None):
        if dtype is None:
            return view_of(self, self._host.view())
        return view_of(self, self._host.view(checked_dtype(dtype)))

    def reshape(self, *shape, order="C", copy=None):
        shape = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        return view_of(self, self._host.reshape(shape, order=order))

    def transpose(self, *axes):
        axes = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        return view_of(self, self._host.transpose(axes or None))

    def swapaxes(self, axis1, axis2):
        return view_of(self, self._host.swapaxes(axis1, axis2))

    def squeeze(self, axis=None):
        return view_of(self, self._host.squeeze(axis))

    def diagonal(self, offset=0, axis1=0, axis2=1):
        return view_of(self, self._host.diagonal(offset, axis1, axis2))

    def ravel(self, order="C"):
        return view_of(self, self._host.ravel(order))

    def flatten(self, order="C"):
        return device_array(self._host.flatten(order))

    def copy(self, order="C"):
        return device_array(self._host.copy(order))

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        dtype = checked_dtype(dtype)
        if dtype == self.dtype and not copy:
            return self
        with np.errstate(all="ignore"):
            return device_array(self._host.astype(dtype, order=order))

    def fill(self, value):
        self._host.fill(host(value) if isinstance(value, ndarray) else value)

    # -- keys --------------------------------------------------------------------------------

    def __getitem__(self, slices):
        key, is_basic = _host_key(self._host.shape, slices)
        found = self._host[key]
        return view_of(self, np.asarray(found)) if is_basic else device_array(np.asarray(found))

    def __setitem__(self, slices, value):
        if isinstance(value, np.ndarray) and value.ndim:
            raise TypeError("an array of NumPy is not assigned; move it with cupy.asarray first")
        key, is_basic = _host_key(self._host.shape, slices)
        with np.errstate(all="ignore"):
            if is_basic:
                self._host[key] = host(value)
            else:
                self._assign_backwards(key, host(value))

    def _assign_backwards(self, key, value):
        """A GPU writes in any order: here, of repeated indices the first wins."""
        positions = np.arange(self.size).reshape(self.shape)[key]
        values = np.broadcast_to(np.asarray(value, self.dtype), positions.shape)
        place = np.unravel_index(positions.reshape(-1)[::-1], self.shape)
        self._host[place] = values.reshape(-1)[::-1]

    def take(self, indices, axis=None, out=None):
        return device_array(np.take(self._host, host(indices), axis, mode="wrap"))

    def scatter_add(self, slices, value):
        add_at(self, slices, value)


def _made(array, memptr, base):
    self = object.__new__(ndarray)
    self._host, self.data, self.base = array, memptr, base
    return self


def _unpickled(array):
    return device_array(array)


def host(value):
    """What NumPy computes with in place of `value`; device arrays must be on the current device."""
    if isinstance(value, ndarray):
        if value.data.device_id != runtime.getDevice():
            raise ValueError(
                "Array device must be same as the current device: array device = "
                f"{value.data.device_id} while current = {runtime.getDevice()}"
            )
        return value._host
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(host(item) for item in value)
    return value


def device_array(array):
    """A new array in device memory, in the layout that `array` has."""
    runtime._answer()
    array = np.asarray(array)
    if array.dtype.char not in _KINDS and array.dtype != BFLOAT16:
        raise ValueError(f"Unsupported dtype {array.dtype}")
    memptr = memory.alloc(array.nbytes)
    copied = np.empty_like(array, order="K", subok=False)
    order = sorted(range(array.ndim), key=lambda d: (-copied.strides[d], d))
    plain = np.ndarray([array.shape[d] for d in order], array.dtype, memptr.mem.buffer)
    made = plain.transpose([order.index(d) for d in range(array.ndim)])
    made[...] = array
    return _made(made, memptr, None)


def view_of(source, array):
    """`array`, a view into the memory of `source`, as a device array; a copy where it is none."""
    address, first = array.ctypes.data, source.data.mem.ptr
    if array.size and not first <= address < first + max(source.data.mem.size, 1):
        return device_array(array)
    memptr = memory.MemoryPointer(source.data.mem, address - first if array.size else 0)
    if not array.flags.writeable and array.size:  # a diagonal, or broadcast: CuPy's are writable
        whole, dtype = memptr.mem.buffer, array.dtype
        array = np.ndarray(array.shape, dtype, whole, address - first, array.strides)
    return _made(array, memptr, source if source.base is None else source.base)


def _host_key(shape, key):
    """(key for NumPy, whether the result is a view); integers in arrays wrap."""
    entries = list(key) if isinstance(key, tuple) else [key]
    is_basic = True
    consumed = sum(
        1 if not _is_mask(e) else e.ndim
        for e in entries
        if e is not None and e is not Ellipsis
    )  # fmt: skip
    dim, found = 0, []
    for entry in entries:
        if entry is None:
            found.append(None)
            continue
        if entry is Ellipsis:
            found.append(Ellipsis)
            dim += len(shape) - consumed
            continue
        if isinstance(entry, (ndarray, np.ndarray, list, bool, np.bool_)):
            is_basic = False
            array = host(entry) if isinstance(entry, ndarray) else np.asarray(entry)
            if array.dtype.kind == "b":
                found.append(array)
                dim += array.ndim
                continue
            if array.dtype.kind not in "iu" and array.size:
                raise IndexError("arrays used as indices must be of integer or boolean type")
            size = shape[dim] if dim < len(shape) else 1
            found.append(array.astype(np.int64) % max(size, 1))
        else:
            found.append(entry)
        dim += 1
    return tuple(found), is_basic


def _is_mask(entry):
    return isinstance(entry, (ndarray, np.ndarray)) and entry.dtype.kind == "b"


_ADDS = ("int32", "int64", "float16", "float32", "float64", "uint32", "uint64")


def add_at(array, slices, value):
    """`cupy.add.at`: atomic additions, of few dtypes."""
    if array.dtype.name not in _ADDS:
        raise TypeError(
            "cupy.add.at only supports int32, int64, float16, float32, float64, uint32, uint64 as "
            "data type"
        )
    key, _ = _host_key(array._host.shape, slices)
    np.add.at(array._host, key, np.asarray(host(value)).astype(array.dtype))
