"""cuDNN's switches by PyTorch's path: eager code does not use the library, settings change nothing.

Convolutions are products of matrices here: `backends.cuda.matmul.allow_tf32` is theirs, too.
"""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit: int | None = 10


def is_available() -> bool:
    """Whether cuDNN is here: False."""
    return False


def version() -> int | None:
    """cuDNN's version: None."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN would compute with a tensor: False."""
    return False


@contextlib.contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> Iterator[None]:
    """Settings for the block; they change nothing."""
    module = sys.modules[__name__]
    given = {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": benchmark_limit,
        "deterministic": deterministic,
        "allow_tf32": allow_tf32,
    }
    before = {name: getattr(module, name) for name in given}
    vars(module).update(given)
    try:
        yield
    finally:
        vars(module).update(before)


@contextlib.contextmanager
def mkldnn_flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Settings of oneDNN for the block; they change nothing."""
    yield


__all__ = [
    "allow_tf32",
    "benchmark",
    "benchmark_limit",
    "deterministic",
    "enabled",
    "flags",
    "is_acceptable",
    "is_available",
    "version",
]
