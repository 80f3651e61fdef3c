"""Accelerators by PyTorch's path: the GPUs of `dynajit.cuda`, where there are some.

Contract: answers without a GPU are those of a PyTorch on a machine without one; what needs one
raises `NoGpuError`.
"""

from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.gpu.runtime import device_count, is_available
from dynajit.core.process import late
from dynajit.core.types.device import Device
from dynajit.cuda import devices, streams


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of accelerator: `cuda`, or None where there is none."""
    return Device("cuda") if is_available() else None


def current_device_index() -> int:
    """The number of the thread's current accelerator.

    Raises:
        NoGpuError: there is none.
    """
    gpu.require("accelerator.current_device_index")
    return devices.current_device()


def set_device_index(device: Any) -> None:
    """Make an accelerator the thread's current one.

    Raises:
        NoGpuError: there is none.
    """
    gpu.require("accelerator.set_device_index")
    devices.set_device(device)


def current_stream(device: Any = None) -> streams.Stream:
    """The thread's current stream of an accelerator.

    Raises:
        NoGpuError: there is none.
    """
    gpu.require("accelerator.current_stream")
    return streams.current_stream(device)


def set_stream(stream: streams.Stream) -> None:
    """Make a stream the thread's current one, and its accelerator, too.

    Raises:
        NoGpuError: there is none.
    """
    gpu.require("accelerator.set_stream")
    streams.set_stream(stream)


def synchronize(device: Any = None) -> None:
    """Wait until an accelerator (the current one) has done all that it was given.

    Raises:
        NoGpuError: there is none.
    """
    gpu.require("accelerator.synchronize")
    devices.synchronize(device)


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

late.show(__name__)
