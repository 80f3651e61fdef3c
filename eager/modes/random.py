"""Random number generators: a seed and a position in its stream, one per device.

Contract: the whole state is (seed, offset); the numbers themselves come from the counter-based rows
of `ops.rows.random`, which receive seed and offset as inputs. Reserving blocks moves the offset by
a rule that depends only on shape and dtype.
"""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import ArgumentRuntimeError, ArgumentValueError
from dynajit.core.records import record
from dynajit.core.types import device as devices
from dynajit.core.types.device import CPU, META, Device
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase

_MASK_64 = (1 << 64) - 1
DEFAULT_SEED: Final = 67280421310721
"""PyTorch's default seed."""


class _Guard:
    """The lock of all generators: held for an addition. Mutable: a forked child has its own, since
    its parent's may be held by a thread that the child does not have. A handler of signals may
    draw while the thread that it interrupts does: it may get the same numbers."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Have a lock that nobody holds."""
        self.lock = threading.RLock()


_guard: Final = _Guard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_guard.renew)


class _Noted(threading.local):
    """Per block of `noted` in this thread, what it gives. Mutable."""

    def __init__(self) -> None:
        self.states: list[dict[Generator, Any]] = []


_noted = _Noted()


@contextmanager
def noted() -> "Iterator[dict[Generator, Any]]":
    """The generators that this thread draws from within the block, with their states before."""
    states: dict[Generator, Any] = {}
    _noted.states.append(states)
    try:
        yield states
    finally:
        _noted.states.pop()


class Generator:
    """A source of random numbers. Mutable: drawing moves `offset`. Safe between threads.

    Equal seeds give equal numbers on every device.

    Args:
        device: for tensors of which device.

    Raises:
        DeviceError: there is no such device.
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = gpu.resolve(devices.parse(device), "Generator")
        self._seed = DEFAULT_SEED
        self._offset = 0

    def manual_seed(self, seed: int) -> "Generator":
        """Go to the start of the stream of `seed`, any 64-bit integer; negative ones wrap."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise ArgumentRuntimeError(f"manual_seed(seed={seed!r}): expected an integer.")
        number = seed.__index__()
        if not -(1 << 63) <= number <= _MASK_64:
            raise ArgumentValueError(f"manual_seed(seed={number}): expected an integer of 64 bits.")
        with _guard.lock:
            self._seed = number & _MASK_64
            self._offset = 0
        return self

    def seed(self) -> int:
        """Start from a seed that the operating system draws; returns it."""
        number = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(number)
        return number

    def initial_seed(self) -> int:
        """The seed of the stream."""
        return self._seed

    def reserve(self, blocks: int) -> tuple[int, int]:
        """(seed, offset) of `blocks` counter blocks that nobody else will use."""
        for states in _noted.states:
            if self not in states:
                states[self] = self.get_state()
        with _guard.lock:
            offset = self._offset
            self._offset = (offset + int(blocks)) & _MASK_64
            return self._seed, offset

    def give_back(self, seed: int, offset: int) -> None:
        """Forget every `reserve` since the one that returned these; their bits are what counts."""
        with _guard.lock:
            if self._seed == seed & _MASK_64:
                self._offset = offset & _MASK_64

    def get_state(self) -> Any:
        """The state as a uint8 tensor, shape (16,): seed and offset, little endian."""
        with _guard.lock:
            state = np.array([self._seed, self._offset], dtype="<u8")
        return _tensor.wrap(state.view(np.uint8).copy())

    def set_state(self, state: Any) -> "Generator":
        """Continue where `get_state` was called.

        Raises:
            ArgumentError: not a uint8 tensor on the CPU, shape (16,).
        """
        array = state.array if isinstance(state, TensorBase) else None
        if not isinstance(array, np.ndarray) or array.dtype != np.uint8 or array.shape != (16,):
            raise ArgumentRuntimeError(
                "set_state: expected the uint8 tensor, shape (16,), that get_state returned, on "
                "the CPU."
            )
        seed, offset = np.ascontiguousarray(array).view("<u8")
        with _guard.lock:
            self._seed, self._offset = int(seed), int(offset)
        return self

    def clone_state(self) -> "Generator":
        """A second generator in the same state."""
        return Generator(self.device).set_state(self.get_state())

    def __reduce__(self) -> Any:
        return _rebuild, (self._seed, self._offset, self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Generator":
        return self.clone_state()

    def __repr__(self) -> str:
        place = "" if self.device is CPU else f", device='{self.device}'"
        return f"Generator(seed={self._seed}, offset={self._offset}{place})"


def _rebuild(seed: int, offset: int, device: Device = CPU) -> Generator:
    generator = Generator(device).manual_seed(seed)
    generator.reserve(offset)
    return generator


default_generator = Generator()
_on_gpus: Final[dict[Device, Generator]] = {}
# What generators of GPUs start from, which are made when they are first asked for.
_seed_of_gpus: Final[list[int]] = [DEFAULT_SEED]


def generator_of(device: Device) -> Generator:
    """The default generator of a device.

    Raises:
        DeviceError: there is no such device.
    """
    if device is CPU:
        return default_generator
    place = gpu.resolve(device, "default generator")
    found = _on_gpus.get(place)
    if found is None:
        found = _on_gpus.setdefault(place, Generator(place).manual_seed(_seed_of_gpus[0]))
    return found


def generators_of_gpus() -> list[Generator]:
    """The default generators of GPUs that were asked for so far."""
    return list(_on_gpus.values())


def seed_gpus(seed: int) -> None:
    """Seed the default generator of every GPU, also of those that nobody has used yet."""
    default = Generator().manual_seed(seed)  # refuses what is no seed
    _seed_of_gpus[0] = default.initial_seed()
    for generator in generators_of_gpus():
        generator.manual_seed(seed)


@record
class States:
    """Where default generators were.

    Args:
        of: states by device.
        seed_of_gpus: what those of GPUs started from that nobody had used yet; None: they are left
            alone.
    """

    of: Mapping[Device, Any]
    seed_of_gpus: int | None = None


def states(gpus: Iterable[Device] | None = None) -> States:
    """The states of the default generators of the CPU and of GPUs, by default of all of them."""
    if gpus is None:
        found = {device: one.get_state() for device, one in list(_on_gpus.items())}
        return States({CPU: default_generator.get_state(), **found}, _seed_of_gpus[0])
    places = [CPU, *gpus]
    return States({device: generator_of(device).get_state() for device in places})


def set_states(before: States) -> None:
    """Continue the default generators from `states`."""
    for device, state in before.of.items():
        # One that is there needs no GPU: a forked child has none.
        (_on_gpus.get(device) or generator_of(device)).set_state(state)
    if before.seed_of_gpus is None:
        return
    _seed_of_gpus[0] = before.seed_of_gpus
    for device, generator in list(_on_gpus.items()):
        if device not in before.of:  # made since
            generator.manual_seed(before.seed_of_gpus)


def reserve(blocks: Any, device: Device = CPU) -> tuple[int, int, int]:
    """(seed, offset, 0) of blocks of a device's default generator: what eager random ops use; on
    `meta`, where there is none, nothing is drawn."""
    if device is META:
        return 0, 0, 0
    seed, offset = generator_of(device).reserve(int(blocks))
    return seed, offset, 0


def signed_bits(number: Any) -> Any:
    """A number below 2**64 as the int64 with its bits, which programs take; others as they are."""
    return number - (1 << 64) if type(number) is int and number >> 63 == 1 else number


def manual_seed(seed: int) -> Generator:
    """Seed the default generators of all devices; returns that of the CPU."""
    given: Any = seed
    if isinstance(given, str):
        raise ArgumentValueError(f"manual_seed(seed={seed!r}): expected an integer.")
    seed_gpus(seed)
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generators of all devices from the operating system; returns the seed."""
    number = default_generator.seed()
    seed_gpus(number)
    return number


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    """Continue the default generator from `get_rng_state`."""
    default_generator.set_state(state)
