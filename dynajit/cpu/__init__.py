"""The CPU by PyTorch's path: `dynajit.cpu.is_available()` and its kin; `cpu.amp` is a module below.

Contract: there is one, it is at work, and calls return when their work is done.
"""

from typing import Any

from dynajit.core.process import late
from dynajit.cpu import amp


def is_available() -> bool:
    """Whether there is a CPU: True."""
    return True


def device_count() -> int:
    """Number of CPUs as devices: 1."""
    return 1


def current_device() -> str:
    """The device: "cpu"."""
    return "cpu"


def synchronize(device: Any = None) -> None:
    """Wait until everything is done: it is."""


__all__ = ["amp", "current_device", "device_count", "is_available", "synchronize"]

late.show(__name__)
