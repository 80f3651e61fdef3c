"""How many threads are used: `dj.set_num_threads` and `dj.get_num_threads`.

Contract: generated kernels give the same bits for any number. The number is `Config.num_threads` of
the process, which DYNAJIT_NUM_THREADS or OMP_NUM_THREADS may have set, and holds for programs that
exist already, too. Products of eager execution that are NumPy's follow: its BLAS is told the number
as well, where it is the OpenBLAS of NumPy's wheels.
"""

import operator
from collections.abc import Callable

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


def get_num_threads() -> int:
    """Threads of generated kernels: what was set, or the cores that this process may use."""
    return config.current().thread_count


def _follow() -> Callable[[config.Config], None]:
    """What tells NumPy's BLAS of a number that was set; it knows the cores by itself."""
    told = [0]

    def tell(default: config.Config) -> None:
        if default.num_threads != told[0]:
            told[0] = default.num_threads
            if blas := thread_functions("numpy"):
                blas.set(default.thread_count)

    return tell


config.on_default(_follow())
