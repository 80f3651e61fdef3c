"""Addresses of what multiplies matrices: generated C calls it through function pointers.

Contract: `own_products()` gives our own products for the CPU at hand, 0 where there are none;
`addresses()` SciPy's BLAS, for the other CPUs and for vectors: sgemm, dgemm, sgemv, dgemv (32-bit
integers, Fortran order) and the functions that read and set the number of BLAS threads, 0 where the
library has none. The OpenBLAS that lies beside SciPy in its wheels is opened directly: importing
`scipy.linalg` for its pointers takes thirty times as long.
"""

import ctypes
import functools
from typing import Any, Final

from dynajit.core.arrays import _products
from dynajit.core.errors import CodegenError
from dynajit.core.process.openblas import libraries, thread_functions
from dynajit.core.process.optional import load

#: Of names in the OpenBLAS of SciPy's wheels: from 1.13 on, and before.
_PREFIXES: Final = ("scipy_", "")
_PRODUCTS: Final = ("sgemm", "dgemm", "sgemv", "dgemv")

NOWHERE: Final = (0, 0, 0, 0, 0, 0)
"""What stands for `addresses()` where nothing is multiplied."""


@functools.lru_cache(maxsize=1)
def own_products() -> tuple[int, int]:
    """The products of `_products.c`, float32 and float64, for the best instruction set there is."""
    return next(iter(_products.addresses().values()), (0, 0))


@functools.lru_cache(maxsize=1)
def addresses() -> tuple[int, int, int, int, int, int]:
    """(sgemm, dgemm, sgemv, dgemv, get_num_threads, set_num_threads) as integers.

    Raises:
        UnsupportedError: SciPy is not installed.
        CodegenError: SciPy's BLAS does not have the expected functions.
    """
    sgemm, dgemm, sgemv, dgemv = _library_products() or _scipy_products()
    threads = thread_functions("scipy")
    get_threads, set_threads = map(_address, threads) if threads else (0, 0)
    return sgemm, dgemm, sgemv, dgemv, get_threads, set_threads


def _library_products() -> tuple[int, int, int, int] | None:
    """The products of the OpenBLAS beside SciPy, or None where there is none.

    Names with a suffix take 64-bit integers and are left alone.
    """
    for library in libraries("scipy"):
        for prefix in _PREFIXES:
            names = [f"{prefix}{name}_" for name in _PRODUCTS]
            if all(hasattr(library, name) for name in names):
                sgemm, dgemm, sgemv, dgemv = (_address(library[name]) for name in names)
                return sgemm, dgemm, sgemv, dgemv
    return None


def _scipy_products() -> tuple[int, int, int, int]:
    """The products as SciPy publishes them, whatever BLAS it was built with."""
    module = load("scipy.linalg.cython_blas", needed_for="matrix products", install="scipy")
    sgemm, dgemm, sgemv, dgemv = (_capsule_pointer(module, name) for name in _PRODUCTS)
    return sgemm, dgemm, sgemv, dgemv


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _capsule_pointer(module: Any, name: str) -> int:
    capsule = module.__pyx_capi__.get(name)
    if capsule is None:
        raise CodegenError(f"scipy.linalg.cython_blas has no {name}: install SciPy 1.11 or newer.")
    ctypes.pythonapi.PyCapsule_GetName.restype = ctypes.c_char_p
    ctypes.pythonapi.PyCapsule_GetName.argtypes = [ctypes.py_object]
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    title = ctypes.pythonapi.PyCapsule_GetName(capsule)
    return int(ctypes.pythonapi.PyCapsule_GetPointer(capsule, title))
