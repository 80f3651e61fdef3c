"""Random state by PyTorch's path: `dynajit.random.manual_seed` and its kin."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from dynajit.core.errors import DeviceError
from dynajit.eager.random import (
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Any] | None = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterator[None]:
    """The default generator goes back at the end of the block to where it was at its start.

    Args:
        devices: GPUs whose generators shall do so, too: there are none.
        enabled: False does nothing.

    Raises:
        DeviceError: `devices` names a GPU.
    """
    if not enabled:
        yield
        return
    named = [device for device in devices or () if str(device) != "cpu"]
    if named:
        raise DeviceError(
            f"{_caller}({_devices_kw}={named!r}): dynajit's tensors live on the CPU; there is no "
            f"{device_type} device.  Leave the argument out."
        )
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


__all__ = [
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
]
