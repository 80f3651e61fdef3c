"""The dtype and device of new tensors: `get_default_dtype`, `set_default_device` and their kin.

Contract: the dtype is that of the process (`core.types.dtypes`), float32 at first. What was derived
under another one is forgotten: plans of rows here, compiled functions by `dynajit.compile`. The
device is that of the thread, none at first, which means the CPU; it lies in the autocast word,
which compiled functions compare already.
"""

import threading
from typing import Any, Final

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import ArgumentError
from dynajit.core.types import device as devices
from dynajit.core.types import dtypes
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.ops.calls import autocast_words as words
from dynajit.ops.evaluate import PLANS


def get_default_dtype() -> DType:
    """The dtype of new floating tensors; float32 at first."""
    return dtypes.default_floating()


def set_default_dtype(d: Any) -> None:
    """Make `d` the dtype of new floating tensors, and of what integers become where floats are
    needed; complex numbers get its parts. Compiled functions are compiled again.

    Raises:
        ArgumentError: no floating dtype.
    """
    if not isinstance(d, DType) or not d.is_floating_point:
        raise ArgumentError(
            f"set_default_dtype({d!r}): only floating-point types are supported as the default type"
        )
    dtypes.set_default_floating(d)


dtypes.watch_default(PLANS.clear)


class _Outer(threading.local):
    """The default devices that hold again where blocks of this thread end. Mutable."""

    def __init__(self) -> None:
        self.devices: list[Device | None] = []


_outer: Final = _Outer()


def get_default_device() -> Device:
    """Where new tensors of this thread are made; a GPU with its number."""
    return gpu.resolve(devices.of_new_tensor(None), "get_default_device")


def set_default_device(device: Any) -> None:
    """Make new tensors of this thread on `device`, where no device is given; None: on the CPU.

    It concerns functions that make tensors of sizes and of data, not `from_numpy`, not
    `Tensor(...)` and not the functions that are given a tensor.

    Raises:
        DeviceError: there is no such device.
    """
    place = None if device is None else devices.parse(device)
    if place is not None:
        gpu.resolve(place, "set_default_device")
    _choose(place)


def _choose(device: Device | None) -> Device | None:
    """Make `device` the default one of this thread; returns the one before."""
    word = _autocast_word()
    _set_autocast_word(words.with_default_device(word, device))
    return words.default_device(word)


def _chosen() -> Device | None:
    return words.default_device(_autocast_word())


def _enter(device: Device) -> None:
    _outer.devices.append(_choose(device))


def _leave() -> None:
    _choose(_outer.devices.pop())


devices.install(_chosen, _enter, _leave)

__all__ = ["get_default_device", "get_default_dtype", "set_default_device", "set_default_dtype"]
