"""Addresses of SciPy's BLAS: products call it through function pointers.

Contract: `addresses()` gives sgemm, dgemm (32-bit integers, Fortran order) and the functions that
read and set the number of BLAS threads, 0 where the library has none. Called by `codegen.pipeline`
for graphs with products only, so that SciPy is not imported otherwise.
"""

import ctypes
import functools
import glob
import os
from typing import Any, Final

from dynajit.core.errors import CodegenError
from dynajit.core.optional import load

_PREFIXES: Final = ("scipy_openblas", "openblas")
_SUFFIXES: Final = ("", "64_", "_64")


@functools.lru_cache(maxsize=1)
def addresses() -> tuple[int, int, int, int]:
    """(sgemm, dgemm, get_num_threads, set_num_threads) as integers.

    Raises:
        CodegenError: SciPy's BLAS does not have the expected functions.
    """
    module = load("scipy.linalg.cython_blas", needed_for="matrix products", install="scipy")
    sgemm, dgemm = (_capsule_pointer(module, name) for name in ("sgemm", "dgemm"))
    get_threads, set_threads = _thread_functions()
    return sgemm, dgemm, get_threads, set_threads


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
    for path in _libraries():
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                names = [f"{prefix}_{verb}_num_threads{suffix}" for verb in ("get", "set")]
                if all(hasattr(library, name) for name in names):
                    get, set_ = (ctypes.cast(library[name], ctypes.c_void_p) for name in names)
                    return int(get.value or 0), int(set_.value or 0)
    return 0, 0


def _libraries() -> list[str]:
    """Shared objects of OpenBLAS that came with SciPy."""
    scipy = load("scipy", needed_for="matrix products", install="scipy")
    package = os.path.dirname(str(scipy.__file__))
    folders = (os.path.join(os.path.dirname(package), "scipy.libs"), package)
    return [path for folder in folders for path in glob.glob(f"{folder}/*openblas*.so*")]
