"""Accelerators by PyTorch's path: there is none.

Contract: answers are those of a PyTorch on a machine without one; what needs one raises.
"""

from typing import Any

from dynajit.core.refusals import refused_function

_WHY = "dynajit's tensors live on the CPU; there is no accelerator.  Ask is_available() first."


def is_available() -> bool:
    """Whether tensors can live on an accelerator: False."""
    return False


def device_count() -> int:
    """Number of accelerators: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The kind of accelerator: None."""
    return None


current_device_index = refused_function("accelerator.current_device_index", _WHY)
current_stream = refused_function("accelerator.current_stream", _WHY)
set_device_index = refused_function("accelerator.set_device_index", _WHY)
set_stream = refused_function("accelerator.set_stream", _WHY)
synchronize = refused_function("accelerator.synchronize", _WHY)

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "is_available",
    "set_device_index",
    "set_stream",
    "synchronize",
]
