"""Limits of this machine, measured: memory bandwidth at three levels, and the rate of products.

A roofline fraction is the time that the work of a case needs at these rates over the time it took.
Bytes are counted as read and written by the program; the rates count the same, so the reads that
a write to fresh memory causes are part of the rate.
"""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from dynajit.core.records import record

#: Working sets in bytes: in the cache of one core, in the shared cache, in memory.
WORKING_SETS: Final = (192 << 10, 6 << 20, 192 << 20)
GEMM_SIZE: Final = 1024
#: Of every rate; the best one counts, other programs only slow it down.
REPEATS: Final = 25


@record
class Work:
    """What no implementation can avoid.

    Args:
        bytes: moved between the cores and the level of memory that holds the data.
        flops: of matrix products and convolutions (a multiply-add is two).
        is_update: the bytes are read and written back where they lie, without fresh memory.
    """

    bytes: int = 0
    flops: int = 0
    is_update: bool = False


@record
class Limits:
    """Rates of one process with a fixed number of threads.

    Args:
        stream: bytes per second of `c = a + b` (12 bytes per element) for each of WORKING_SETS.
        update: bytes per second of `a += 1` (8 bytes per element) for each of WORKING_SETS.
        flops: per second, of a float32 product of 1024 x 1024 matrices.
    """

    stream: tuple[float, ...]
    update: tuple[float, ...]
    flops: float

    def seconds(self, work: Work) -> float:
        """The least time in which `work` can be done: bytes and products overlap."""
        rates = self.update if work.is_update else self.stream
        level = next(
            (n for n, size in enumerate(WORKING_SETS) if work.bytes <= 2 * size), len(rates) - 1
        )
        return max(work.bytes / rates[level], work.flops / self.flops)


def measure(threads: int, repeats: int = REPEATS) -> Limits:
    """Measure with `threads` threads; the BLAS takes its number from the environment.

    Args:
        repeats: of every rate.
    """
    return Limits(
        _rates(threads, _stream, 12, repeats),
        _rates(threads, _update, 8, repeats),
        _gemm_rate(repeats),
    )


def _rates(
    threads: int,
    prepare: Callable[[int], Callable[[int], None]],
    bytes_per_element: int,
    repeats: int,
) -> tuple[float, ...]:
    """Bytes per second for each of WORKING_SETS."""
    private, *shared = WORKING_SETS
    with ThreadPoolExecutor(threads) as pool:
        # Every core has its own: one is measured, without threads that wait for the interpreter.
        alone = _rate(pool, 1, prepare, private, bytes_per_element, repeats)
        rates = [_rate(pool, threads, prepare, size, bytes_per_element, repeats) for size in shared]
    return (threads * alone, *rates)


def _rate(
    pool: ThreadPoolExecutor,
    threads: int,
    prepare: Callable[[int], Callable[[int], None]],
    working_set: int,
    bytes_per_element: int,
    repeats: int,
) -> float:
    """Bytes per second of all threads together; each works on its own part of the set."""
    elements = working_set // bytes_per_element // threads
    loops = [prepare(elements) for _ in range(threads)]
    # About 40 MB per measurement and thread, so that starting the threads does not count.
    turns = max(1, (40 << 20) // (elements * bytes_per_element))
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        list(pool.map(lambda loop: loop(turns), loops))
        best = min(best, time.perf_counter() - start)
    return elements * bytes_per_element * turns * threads / best


def _stream(elements: int) -> Callable[[int], None]:
    a, b, c = (np.ones(elements, np.float32) for _ in range(3))

    def loop(turns: int) -> None:
        for _ in range(turns):
            np.add(a, b, out=c)

    return loop


def _update(elements: int) -> Callable[[int], None]:
    a = np.ones(elements, np.float32)
    one = np.float32(1)

    def loop(turns: int) -> None:
        for _ in range(turns):
            np.add(a, one, out=a)

    return loop


def _gemm_rate(repeats: int) -> float:
    a: np.ndarray[Any, Any] = np.ones((GEMM_SIZE, GEMM_SIZE), np.float32)
    out = a @ a
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        np.matmul(a, a, out=out)
        best = min(best, time.perf_counter() - start)
    return 2 * GEMM_SIZE**3 / best
