"""Random number generators: a seed and a position in its stream.

Contract: the whole state is (seed, offset); the numbers themselves come from the counter-based
rows of `ops.random`, which receive seed and offset as inputs. Reserving blocks moves the offset by
a rule that depends only on shape and dtype. Called by `ops.dispatch.reserve_random` (through
`reserve`, installed by `eager`), by data loading, and by users.
"""

import os
import threading
from typing import Any

import numpy as np

from dynajit.core import device as devices
from dynajit.core.device import Device
from dynajit.core.errors import ArgumentError, UnsupportedError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase

_MASK_64 = (1 << 64) - 1


class Generator:
    """A source of random numbers. Mutable: drawing moves `offset`. Safe between threads.

    Args:
        device: only "cpu".
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = devices.parse(device)
        if self.device.type != "cpu":
            raise UnsupportedError(f"Generator(device={str(device)!r}): expected 'cpu'.")
        self._lock = threading.Lock()
        self._seed = 67280421310721  # PyTorch's default seed
        self._offset = 0

    def manual_seed(self, seed: int) -> "Generator":
        """Go to the start of the stream of `seed`, any 64-bit integer; negative ones wrap."""
        if isinstance(seed, bool) or not hasattr(seed, "__index__"):
            raise ArgumentError(f"manual_seed(seed={seed!r}): expected an integer.")
        number = seed.__index__()
        if not -(1 << 63) <= number <= _MASK_64:
            raise ArgumentError(f"manual_seed(seed={number}): expected an integer of 64 bits.")
        with self._lock:
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
        with self._lock:
            offset = self._offset
            self._offset = (offset + int(blocks)) & _MASK_64
            return self._seed, offset

    def give_back(self, seed: int, offset: int) -> None:
        """Forget every `reserve` since the one that returned these; their bits are what counts."""
        with self._lock:
            if self._seed == seed & _MASK_64:
                self._offset = offset & _MASK_64

    def get_state(self) -> Any:
        """The state as a uint8 tensor, shape (16,): seed and offset, little endian."""
        with self._lock:
            state = np.array([self._seed, self._offset], dtype="<u8")
        return _tensor.wrap(state.view(np.uint8).copy())

    def set_state(self, state: Any) -> "Generator":
        """Continue where `get_state` was called.

        Raises:
            ArgumentError: not a uint8 tensor, shape (16,).
        """
        array = state.array if isinstance(state, TensorBase) else None
        if array is None or array.dtype != np.uint8 or array.shape != (16,):
            raise ArgumentError(
                "set_state: expected the uint8 tensor, shape (16,), that get_state returned."
            )
        seed, offset = np.ascontiguousarray(array).view("<u8")
        with self._lock:
            self._seed, self._offset = int(seed), int(offset)
        return self

    def clone_state(self) -> "Generator":
        """A second generator in the same state."""
        return Generator().set_state(self.get_state())

    def __reduce__(self) -> Any:
        return _rebuild, (self._seed, self._offset)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Generator":
        return self.clone_state()

    def __repr__(self) -> str:
        return f"Generator(seed={self._seed}, offset={self._offset})"


def _rebuild(seed: int, offset: int) -> Generator:
    generator = Generator().manual_seed(seed)
    generator.reserve(offset)
    return generator


default_generator = Generator()


def reserve(blocks: Any) -> tuple[int, int, int]:
    """(seed, offset, 0) of blocks of the default generator: what eager random ops use."""
    seed, offset = default_generator.reserve(int(blocks))
    return seed, offset, 0


def signed_bits(number: Any) -> Any:
    """A number below 2**64 as the int64 with its bits, which programs take; others as they are."""
    return number - (1 << 64) if type(number) is int and number >> 63 == 1 else number


def manual_seed(seed: int) -> Generator:
    """Seed the default generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator, a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    """Continue the default generator from `get_rng_state`."""
    default_generator.set_state(state)
