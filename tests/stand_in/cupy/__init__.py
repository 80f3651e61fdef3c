"""A stand-in for CuPy on a machine without a GPU: its names over NumPy, its refusals, its devices.

Only what dynajit uses is here, with CuPy's signatures (`tests/gpu/test_stand_in.py` compares them
with an installed CuPy). Device memory is host memory: `array.data.ptr` is an address that kernels
run by an emulator may use. Nothing here is asynchronous, and numbers are NumPy's, not a GPU's.
`cupy.stand_in.describe` changes the imaginary machine.
"""

from numpy import (
    bool_,
    complex64,
    complex128,
    dtype,
    e,
    euler_gamma,
    finfo,
    float16,
    float32,
    float64,
    generic,
    iinfo,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)  # fmt: skip

from cupy import _core, _functions, _ufunc, cuda, fft, lib, linalg, stand_in
from cupy._array import ndarray
from cupy._functions import *  # noqa: F403
from cupy._ufunc import ufunc
from cupy.cuda import MemoryPool as _MemoryPool
from cupy.cuda import PinnedMemoryPool as _PinnedMemoryPool

__version__ = "14.2.0"
globals().update(_ufunc.UFUNCS)

_default_memory_pool = _MemoryPool()
_default_pinned_memory_pool = _PinnedMemoryPool()
cuda.set_allocator(_default_memory_pool.malloc)
cuda.set_pinned_memory_allocator(_default_pinned_memory_pool.malloc)


def get_default_memory_pool():
    return _default_memory_pool


def get_default_pinned_memory_pool():
    return _default_pinned_memory_pool


def show_config(*, _full=False):
    print("stand-in for CuPy", __version__)


__all__ = [
    *_functions.__all__, *_ufunc.UFUNCS, "_core", "bool_", "complex64", "complex128",
    "cuda", "dtype", "e", "euler_gamma", "fft", "finfo", "float16", "float32", "float64", "generic",
    "get_default_memory_pool", "get_default_pinned_memory_pool", "iinfo", "inf", "int8", "int16",
    "int32", "int64", "lib", "linalg", "nan", "ndarray", "newaxis", "pi", "show_config", "stand_in",
    "ufunc", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
