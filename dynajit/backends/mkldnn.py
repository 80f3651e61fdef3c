"""oneDNN's switches by PyTorch's path: the library is not used, settings change nothing."""

import contextlib
from collections.abc import Iterator

enabled = True
allow_tf32 = False
deterministic = False


def is_available() -> bool:
    """Whether oneDNN is used: False."""
    return False


@contextlib.contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Settings for the block; they change nothing."""
    yield


__all__ = ["allow_tf32", "deterministic", "enabled", "flags", "is_available"]
