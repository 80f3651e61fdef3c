"""Generators of GPUs by PyTorch's names.

Contract: each GPU has a default generator, whose numbers are those of the CPU's at the same seed
and position. Seeds set before a GPU is used, or where there is none, count once one is. Published
by `dynajit.cuda`.
"""

from collections.abc import Iterable
from typing import Any

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.types.device import Device
from dynajit.cuda.devices import number_of
from dynajit.eager.modes.random import Generator, generator_of, seed_gpus


def _generator(device: Any, what: str) -> Generator:
    return generator_of(Device("cuda", number_of(device, what)))


def _all() -> list[Generator]:
    return [generator_of(Device("cuda", number)) for number in range(gpu.device_count())]


def manual_seed(seed: int) -> None:
    """Seed the current GPU's generator; without a GPU those that there will be."""
    if gpu.is_available():
        _generator(None, "manual_seed").manual_seed(seed)
    else:
        seed_gpus(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generator of every GPU."""
    seed_gpus(seed)


def seed() -> None:
    """Seed the current GPU's generator from the operating system."""
    if gpu.is_available():
        _generator(None, "seed").seed()


def seed_all() -> None:
    """Seed the generator of every GPU from the operating system: all with one number."""
    seed_gpus(Generator().seed())


def initial_seed() -> int:
    """The seed of the current GPU's generator.

    Raises:
        NoGpuError: no GPU can be used.
    """
    return _generator(None, "initial_seed").initial_seed()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a GPU's generator, a uint8 tensor on the CPU.

    Raises:
        NoGpuError: no GPU can be used.
    """
    return _generator(device, "get_rng_state").get_state()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Continue a GPU's generator from `get_rng_state`.

    Raises:
        NoGpuError: no GPU can be used.
    """
    _generator(device, "set_rng_state").set_state(new_state)


def get_rng_state_all() -> list[Any]:
    """The generators' states, one per GPU."""
    return [generator.get_state() for generator in _all()]


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Restore what `get_rng_state_all` gave.

    Raises:
        NoGpuError: there are states in it, and no GPU.
    """
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]
