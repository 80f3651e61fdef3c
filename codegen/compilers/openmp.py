"""The OpenMP runtime that kernels share with this process.

Contract: `load()` gives it, loaded once with workers that sleep soon, and shared with the loops of
eager execution (`core/arrays/team.h`); what the user set about sleeping wins. Called before kernels
are loaded, by `codegen.compilers.compilation`, `codegen.compilers.toolchain` and, while a compiler
works, by `codegen.pipeline`.
"""

import ctypes
import functools
import os
from typing import Final

from dynajit.core.arrays import _products

NAME: Final = "libgomp.so.1"
SPIN_COUNT: Final = "2000"
"""Turns for which idle OpenMP workers spin before they sleep: 10 us, or 120 where the CPU takes
long for each (Zen 5). More would take the cores from NumPy's BLAS threads, which compute between
compiled calls."""

_SPINS: Final = "GOMP_SPINCOUNT"
_POLICY: Final = "OMP_WAIT_POLICY"


@functools.lru_cache(maxsize=1)
def load() -> ctypes.CDLL | None:
    """GCC's runtime; None where there is none, as with a Clang that has its own."""
    is_set = _SPINS in os.environ or _POLICY in os.environ
    # It reads the variable once, when it is loaded. Not by os.environ: other threads read that.
    if not is_set:
        os.putenv(_SPINS, SPIN_COUNT)
    try:
        found = ctypes.CDLL(NAME)
    except OSError:
        return None
    finally:
        if not is_set:
            os.unsetenv(_SPINS)
    _products.share_team(ctypes.cast(found.GOMP_parallel, ctypes.c_void_p).value or 0)
    return found
