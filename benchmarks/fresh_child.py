"""A fresh process: import one library, build one program, call it twice; print JSON.

`python -m benchmarks.fresh_child LIBRARY PROGRAM`, started by `benchmarks.fresh_processes` with an
empty or a kept cache folder in the environment. Only the measured library is imported.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Make = Callable[[Any], Callable[[int], Any]]


def resident_bytes() -> int:
    """Memory of this process that is in RAM now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main(library_name: str, program: str) -> dict[str, Any]:
    """Measure; see `benchmarks.fresh_processes.Fresh`."""
    start = time.perf_counter()
    __import__({"jax": "jax.numpy"}.get(_MODULES[library_name], _MODULES[library_name]))
    imported = time.perf_counter()
    found: dict[str, Any] = {"import_s": imported - start, "resident_bytes": resident_bytes()}
    if program == "import":
        return found
    return found | measured_program(library_name, program)


_MODULES: Final = {
    "dynajit": "dynajit",
    "dynajit-async": "dynajit",
    "torch-compile": "torch",
    "torch-eager": "torch",
    "jax": "jax",
    "numpy": "numpy",
    "numba": "numba",
}


def measured_program(library_name: str, program: str) -> dict[str, Any]:
    """Times of building, of the first call or calls, and of one more."""
    # After the measured import: this module loads NumPy.
    programs = __import__("benchmarks.fresh_programs", fromlist=["PROGRAMS"])
    library = programs.library(library_name)
    start = time.perf_counter()
    call, sizes = programs.PROGRAMS[program](library)
    built = time.perf_counter()
    for size in sizes:
        call(size)
    first = time.perf_counter()
    graphs = library.graphs()
    call(sizes[-1])
    return {
        "build_s": built - start,
        "first_s": first - built,
        "second_s": time.perf_counter() - first,
        "graphs": graphs,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
