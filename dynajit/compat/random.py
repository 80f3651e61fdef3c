"""Random state by PyTorch's path: `dynajit.random.manual_seed` and its kin."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DeviceError
from dynajit.core.types.device import CPU, Device, parse
from dynajit.eager.modes.random import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    set_states,
    states,
)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """Default generators go back at the end of the block to where they were at its start.

    Args:
        devices: GPUs whose generators do so beside the CPU's; by default all of them.
        enabled: False does nothing.

    Raises:
        DeviceError: there is no such GPU, or devices of another type are meant.
    """
    if not enabled:
        yield
        return
    if device_type != "cuda":
        raise DeviceError(f"{_caller}(device_type={device_type!r}): expected 'cuda'.")
    before = states(None if devices is None else _gpus_of(devices, f"{_caller}({_devices_kw})"))
    try:
        yield
    finally:
        set_states(before)


def _gpus_of(devices: Iterable[Any], caller: str) -> list[Device]:
    places = [parse(one) for one in devices]
    return [gpu.resolve(place, caller) for place in places if place is not CPU]


__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
