"""The OpenBLAS that wheels of NumPy and SciPy bring along, opened without importing anything.

Contract: only libraries that lie beside the package are found. A package that was built with
another BLAS, as distributions of Linux do, has none, and callers then leave threads to it. Called
by `core.process.threads` for NumPy's and by `codegen.run.blas` for SciPy's.
"""

import ctypes
import functools
import glob
import os
from collections.abc import Iterator
from importlib.machinery import PathFinder
from typing import Any, Final, NamedTuple

#: Of the names of functions: in SciPy's builds of OpenBLAS, and in its own.
_PREFIXES: Final = ("scipy_openblas", "openblas")
#: Of names in builds with 64-bit integers.
_SUFFIXES: Final = ("", "64_", "_64")


class ThreadFunctions(NamedTuple):
    """Functions of one OpenBLAS that read and set its number of threads."""

    get: Any
    set: Any


def libraries(package: str) -> Iterator[ctypes.CDLL]:
    """Shared objects of OpenBLAS that came with `package`, opened.

    The package has the same ones, or gets them when it is imported later: the loader knows them by
    their files.
    """
    spec = PathFinder.find_spec(package)  # whatever stands for the package in this process
    if spec is None or spec.origin is None:
        return
    folder = os.path.dirname(spec.origin)
    for place in (os.path.join(os.path.dirname(folder), f"{package}.libs"), folder):
        for path in sorted(glob.glob(f"{glob.escape(place)}/*openblas*.so*")):
            try:
                yield ctypes.CDLL(path)
            except OSError:  # of another architecture, or damaged
                continue


@functools.cache
def thread_functions(package: str) -> ThreadFunctions | None:
    """What reads and sets the threads of the OpenBLAS of `package`, or None where there is none."""
    for library in libraries(package):
        for prefix in _PREFIXES:
            for suffix in _SUFFIXES:
                names = [f"{prefix}_{verb}_num_threads{suffix}" for verb in ("get", "set")]
                if all(hasattr(library, name) for name in names):
                    return ThreadFunctions(*(library[name] for name in names))
    return None
