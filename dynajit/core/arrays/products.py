"""Products of arrays in eager execution: our own where the CPU has them, else NumPy's.

Contract: `matmul` is `numpy.matmul` for two arrays of at least two dims. The bits of an element
depend on its row and its column alone, and are those of compiled functions; products with vectors,
of other dtypes and on other CPUs are NumPy's.
"""

from dynajit.core.arrays._products import install, matmul, matmul_onto
from dynajit.core.process import config
from dynajit.core.process.openblas import thread_functions


def thread_count() -> int:
    """Of products and convolutions: what was set, else as many as NumPy's BLAS uses, where that can
    be asked, since environments have variables of its own."""
    asked = config.current()
    blas = None if asked.num_threads else thread_functions("numpy")
    return asked.thread_count if blas is None else int(blas.get())


install(thread_count)

__all__ = ["matmul", "matmul_onto", "thread_count"]
