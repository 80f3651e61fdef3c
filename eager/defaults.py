"""The dtype and device of new tensors: `get_default_dtype`, `set_default_device` and their kin.

Contract: they are float32, on which rules of promotion, constants of graphs and kernels rely, and
the CPU. Called by users.
"""

from typing import Any

from dynajit.core import device as devices
from dynajit.core import dtypes
from dynajit.core.device import CPU, Device
from dynajit.core.dtypes import DType
from dynajit.core.errors import ArgumentError, DeviceError, UnsupportedError


def get_default_dtype() -> DType:
    """float32."""
    return dtypes.float32


def set_default_dtype(d: Any) -> None:
    """Accept float32.

    Raises:
        UnsupportedError: another floating dtype.
        ArgumentError: no floating dtype.
    """
    if not isinstance(d, DType) or not d.is_floating_point:
        raise ArgumentError(
            f"set_default_dtype({d!r}): only floating-point types are supported as the default type"
        )
    if d is not dtypes.float32:
        raise UnsupportedError(
            f"set_default_dtype({d!r}): new tensors are float32.  Give dtype= where they are made, "
            "or convert the module with .double()."
        )


def get_default_device() -> Device:
    """The CPU."""
    return CPU


def set_default_device(device: Any) -> None:
    """Accept the CPU, and None.

    Raises:
        DeviceError: another device.
    """
    if devices.parse(device) != CPU:
        raise DeviceError(
            f"set_default_device({str(device)!r}): where no device is given, tensors are made on "
            "the CPU only.  Give device= where they are made, or move modules with .to(device)."
        )
