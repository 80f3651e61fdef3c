"""The OpenMP runtime that kernels share with this process.

Contract: `load()` gives it, loaded once with workers that sleep soon; what the user set about that
wins. Called before kernels are loaded, by `codegen.compilers.compilation`,
`codegen.compilers.toolchain` and, while a compiler works, by `codegen.pipeline`.
"""

import ctypes
import functools
import os
from typing import Final

NAME: Final = "libgomp.so.1"
SPIN_COUNT: Final = "2000"
"""Turns for which idle OpenMP workers spin (about 10 us) before they sleep: more would take the
cores from NumPy's BLAS threads, which compute between compiled calls."""

_SPINS: Final = "GOMP_SPINCOUNT"
_POLICY: Final = "OMP_WAIT_POLICY"


@functools.lru_cache(maxsize=1)
def load() -> ctypes.CDLL | None:
    """GCC's runtime; None where there is none, as with a Clang that has its own."""
    if _SPINS in os.environ or _POLICY in os.environ:
        return _loaded()
    # It reads the variable once, when it is loaded. Not by os.environ: other threads read that.
    os.putenv(_SPINS, SPIN_COUNT)
    try:
        return _loaded()
    finally:
        os.unsetenv(_SPINS)


def _loaded() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(NAME)
    except OSError:
        return None
