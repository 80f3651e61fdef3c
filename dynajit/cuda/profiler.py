"""Control of NVIDIA's profilers by PyTorch's path: through CuPy.

Contract: without a GPU everything raises `NoGpuError`.
"""

import contextlib
from collections.abc import Iterator

from dynajit.core.arrays.gpu import runtime as gpu


def start() -> None:
    """Let a profiler that waits begin to record.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.profiler.start")
    gpu.module().cuda.profiler.start()


def stop() -> None:
    """Let the profiler stop.

    Raises:
        NoGpuError: no GPU can be used.
    """
    gpu.require("cuda.profiler.stop")
    gpu.module().cuda.profiler.stop()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A block that is recorded."""
    start()
    try:
        yield
    finally:
        stop()


__all__ = ["profile", "start", "stop"]
