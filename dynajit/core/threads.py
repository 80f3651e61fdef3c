"""How many threads generated kernels use: `dj.set_num_threads` and `dj.get_num_threads`.

Contract: results have the same bits for any number. The number is `Config.num_threads` of the
process and holds for programs that exist already, too. NumPy's own products (eager execution) take
theirs from their library. Called by users.
"""

import operator

from dynajit.core import config
from dynajit.core.errors import CodegenError

MSG_NOT_POSITIVE = (
    "set_num_threads({number!r}): expected a positive integer.  Use 1 to compute in the calling "
    "thread, or Config.num_threads=0 for one thread per core."
)


def set_num_threads(number: int) -> None:
    """Compute with so many threads from now on.

    Raises:
        CodegenError: the number is not positive.
        TypeError: it is no integer.
    """
    count = operator.index(number)
    if count < 1:
        raise CodegenError(MSG_NOT_POSITIVE.format(number=number))
    config.configure(num_threads=count)


def get_num_threads() -> int:
    """Threads of generated kernels: what was set, or the cores that this process may use."""
    return config.current().thread_count
