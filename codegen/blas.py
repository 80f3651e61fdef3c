"""Addresses of SciPy's BLAS: products call it through function pointers.

Contract: `addresses()` gives sgemm, dgemm, sgemv, dgemv (32-bit integers, Fortran order) and the
functions that read and set the number of BLAS threads, 0 where the library has none. The OpenBLAS
that lies beside SciPy in its wheels is opened directly: importing `scipy.linalg` for its pointers
takes thirty times as long. Called by `codegen.pipeline` for graphs with products only.
"""

import ctypes
import functools
import glob
import importlib.util
import os
from collections.abc import Iterator
from typing import Any, Final

from dynajit.core.errors import CodegenError
from dynajit.core.optional import load

#: Of names in the OpenBLAS of SciPy's wheels: from 1.13 on, and before.
_PREFIXES: Final = ("scipy_", "")
_THREAD_PREFIXES: Final = ("scipy_openblas", "openblas")
_SUFFIXES: Final = ("", "64_", "_64")
_PRODUCTS: Final = ("sgemm", "dgemm", "sgemv", "dgemv")

NOWHERE: Final = (0, 0, 0, 0, 0, 0)
"""What stands for `addresses()` where nothing is multiplied."""


@functools.lru_cache(maxsize=1)
def addresses() -> tuple[int, int, int, int, int, int]:
    """(sgemm, dgemm, sgemv, dgemv, get_num_threads, set_num_threads) as integers.

    Raises:
        UnsupportedError: SciPy is not installed.
        CodegenError: SciPy's BLAS does not have the expected functions.
    """
    sgemm, dgemm, sgemv, dgemv = _library_products() or _scipy_products()
    get_threads, set_threads = _thread_functions()
    return sgemm, dgemm, sgemv, dgemv, get_threads, set_threads


def _library_products() -> tuple[int, int, int, int] | None:
    """The products of the OpenBLAS beside SciPy, or None where there is none.

    Names with a suffix take 64-bit integers and are left alone.
    """
    for library in _libraries():
        for prefix in _PREFIXES:
            names = [f"{prefix}{name}_" for name in _PRODUCTS]
            if all(hasattr(library, name) for name in names):
                sgemm, dgemm, sgemv, dgemv = (_address(library, name) for name in names)
                return sgemm, dgemm, sgemv, dgemv
    return None


def _scipy_products() -> tuple[int, int, int, int]:
    """The products as SciPy publishes them, whatever BLAS it was built with."""
    module = load("scipy.linalg.cython_blas", needed_for="matrix products", install="scipy")
    sgemm, dgemm, sgemv, dgemv = (_capsule_pointer(module, name) for name in _PRODUCTS)
    return sgemm, dgemm, sgemv, dgemv


def _address(library: ctypes.CDLL, name: str) -> int:
    return int(ctypes.cast(library[name], ctypes.c_void_p).value or 0)


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


def _thread_functions() -> tuple[int, int]:
    """Addresses of get/set_num_threads in the OpenBLAS that SciPy brought along, or zeros."""
    for library in _libraries():
        for prefix in _THREAD_PREFIXES:
            for suffix in _SUFFIXES:
                names = [f"{prefix}_{verb}_num_threads{suffix}" for verb in ("get", "set")]
                if all(hasattr(library, name) for name in names):
                    return _address(library, names[0]), _address(library, names[1])
    return 0, 0


def _libraries() -> Iterator[ctypes.CDLL]:
    """Shared objects of OpenBLAS that came with SciPy, opened.

    SciPy gets the same ones when it is imported later: the loader knows them by their files.
    """
    spec = importlib.util.find_spec("scipy")
    if spec is None or spec.origin is None:
        return
    package = os.path.dirname(spec.origin)
    for folder in (os.path.join(os.path.dirname(package), "scipy.libs"), package):
        for path in sorted(glob.glob(f"{glob.escape(folder)}/*openblas*.so*")):
            try:
                yield ctypes.CDLL(path)
            except OSError:  # of another architecture, or damaged
                continue
