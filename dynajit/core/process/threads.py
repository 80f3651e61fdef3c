"""How many threads are used: `dj.set_num_threads` and `dj.get_num_threads`.

Contract: generated kernels give the same bits for any number. The number is `Config.num_threads` of
the process and holds for programs that exist already, too. Products of eager execution are NumPy's:
its BLAS is told the number as well, where it is the OpenBLAS of NumPy's wheels.
"""

import operator

from dynajit.core.errors import ArgumentRuntimeError, CodegenError
from dynajit.core.process import config
from dynajit.core.process.openblas import thread_functions

MSG_NOT_POSITIVE = (
    "set_num_threads({number!r}): expected a positive integer.  Use 1 to compute in the calling "
    "thread, or Config.num_threads=0 for one thread per core."
)


def set_num_threads(number: int) -> None:
    """Compute with so many threads from now on: generated kernels, and NumPy's matrix products.

    Raises:
        CodegenError: the number is not positive.
        ArgumentError: it is no integer.
    """
    if not hasattr(number, "__index__"):
        raise ArgumentRuntimeError(
            f"set_num_threads: expected an integer, got {type(number).__name__}"
        )
    count = operator.index(number)
    if count < 1:
        raise CodegenError(MSG_NOT_POSITIVE.format(number=number))
    config.configure(num_threads=count)
    if blas := thread_functions("numpy"):
        blas.set(count)


def get_num_threads() -> int:
    """Threads of generated kernels: what was set, or the cores that this process may use."""
    return config.current().thread_count
