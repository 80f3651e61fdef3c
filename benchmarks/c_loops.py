"""Loops over one array in C, compiled by gcc so that it calls glibc's libmvec: the bar for maths.

The flags allow gcc to reorder arithmetic and to drop NaN and infinities, which libmvec's
vectorisation needs and dynajit's kernels do not do.
"""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.case import Arrays, Build, Run
from benchmarks.libraries import Library

_FLAGS: Final = (
    "-O3", "-ffast-math", "-march=native", "-fopenmp", "-shared", "-fPIC",
    "-nostartfiles",  # one of which would make all subnormal numbers of the process 0
)  # fmt: skip
_TEXT: Final = """#include <math.h>
#include <stddef.h>
void loop(const float *restrict x, float *restrict y, size_t count) {{
    #pragma omp parallel for simd schedule(static) if (parallel : count > 32768)
    for (size_t i = 0; i < count; ++i) {{ float v = x[i]; y[i] = {body}; }}
}}
"""


@functools.lru_cache
def compiled_loop(body: str) -> Any:
    """`loop(x, y, count)` for an expression in `v`.

    Raises:
        RuntimeError: there is no gcc, or it refuses.
    """
    gcc = shutil.which("gcc")
    if gcc is None:
        raise RuntimeError("no gcc")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, library = folder / "loop.c", folder / "loop.so"
        source.write_text(_TEXT.format(body=body))
        command = [gcc, *_FLAGS, str(source), "-o", str(library), "-lmvec", "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        loop = ctypes.CDLL(str(library)).loop
    loop.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    loop.restype = None
    return loop


def loop_over(body: str) -> Build:
    """The loop with `body`, into an array that is kept: no page is fresh."""

    def build(library: Library, arrays: Arrays) -> Run:
        (x,) = arrays
        out = np.zeros_like(x)
        loop = compiled_loop(body)

        def run() -> Any:
            loop(x.ctypes.data, out.ctypes.data, x.size)
            return out

        return run

    return build
