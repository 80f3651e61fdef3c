"""Marks that NVIDIA's profilers show: named ranges of the program's time.

Contract: as `torch.cuda.nvtx`, through CuPy; without a GPU everything raises `NoGpuError`.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu


def _nvtx(what: str) -> Any:
    gpu.require(f"cuda.nvtx.{what}")
    return gpu.module().cuda.nvtx


def range_push(msg: str) -> None:
    """Begin a range within those that are open.

    Raises:
        NoGpuError: no GPU can be used.
    """
    _nvtx("range_push").RangePush(msg)


def range_pop() -> None:
    """End the range that was begun last.

    Raises:
        NoGpuError: no GPU can be used.
    """
    _nvtx("range_pop").RangePop()


def mark(msg: str) -> None:
    """Mark this moment.

    Raises:
        NoGpuError: no GPU can be used.
    """
    _nvtx("mark").Mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range around a block or a function; `msg` is formatted with the other arguments.

    Raises:
        NoGpuError: no GPU can be used.
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["mark", "range", "range_pop", "range_push"]
