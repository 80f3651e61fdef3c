"""Products of arrays in eager execution: our own where the CPU has them, else NumPy's.

Contract: `matmul` is `numpy.matmul` for two arrays of at least two dims. The bits of an element
depend on its row and its column alone, and are those of compiled functions; products with vectors,
of other dtypes and on other CPUs are NumPy's. Called by rows of `ops`.
"""

from dynajit.core import config
from dynajit.core._products import install, matmul
from dynajit.core.openblas import thread_functions


def _threads() -> int:
    """As many as NumPy's BLAS uses, where that can be asked: environments set its number."""
    blas = thread_functions("numpy")
    return config.current().thread_count if blas is None else int(blas.get())


install(_threads)

__all__ = ["matmul"]
