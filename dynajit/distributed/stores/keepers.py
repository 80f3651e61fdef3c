"""What keeps keys and values: the interface, in memory, and under a prefix.

Contract: every method is atomic; values are bytes. Numbers are kept as decimal digits, as PyTorch
keeps them.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from dynajit.core.errors import DistStoreError


class Keeper(Protocol):
    """Keys with their values. Mutable."""

    def read(self, key: str) -> bytes | None:
        """The value of a key, None if there is none."""

    def write(self, key: str, value: bytes) -> None:
        """Set a key."""

    def add(self, key: str, amount: int) -> int:
        """Add to the number that a key has, 0 if it has none; the sum."""

    def append(self, key: str, value: bytes) -> None:
        """Put bytes behind those that a key has."""

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """Set a key that has the value `expected`, or none where that is empty; the value that it
        has then, or `expected` where it has none."""

    def delete(self, key: str) -> bool:
        """Forget a key; whether there was one."""

    def count(self) -> int:
        """The number of keys."""

    def has(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""

    def await_keys(self, keys: Sequence[str], limit: float) -> bool:
        """Whether all keys are there within some seconds."""


class HeldKeeper(ABC):
    """A keeper that has all values in `_values` while it holds them. Mutable."""

    _values: dict[str, bytes]

    @abstractmethod
    def _held(self) -> AbstractContextManager[object]:
        """A block in which `_values` is what all have, and nobody else changes it."""

    @abstractmethod
    def _update(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        """Set a key to what `change` makes of its value, and give that; None leaves the key."""

    def read(self, key: str) -> bytes | None:
        """As of `Keeper`."""
        with self._held():
            return self._values.get(key)

    def write(self, key: str, value: bytes) -> None:
        """As of `Keeper`."""
        self._update(key, lambda old: value)

    def add(self, key: str, amount: int) -> int:
        """As of `Keeper`."""
        return int(self._update(key, lambda old: summed(key, old, amount)) or b"0")

    def append(self, key: str, value: bytes) -> None:
        """As of `Keeper`."""
        self._update(key, lambda old: (old or b"") + value)

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """As of `Keeper`."""
        found: bytes | None = None

        def change(old: bytes | None) -> bytes | None:
            nonlocal found
            found = old
            return desired if (b"" if old is None else old) == expected else None

        if self._update(key, change) is not None:
            return desired
        return expected if found is None else found

    def count(self) -> int:
        """As of `Keeper`."""
        with self._held():
            return len(self._values)

    def has(self, keys: Sequence[str]) -> bool:
        """As of `Keeper`."""
        with self._held():
            return all(key in self._values for key in keys)


class MemoryKeeper(HeldKeeper):
    """Keys in this process's memory, for all its threads. Mutable."""

    def __init__(self) -> None:
        self._values = {}
        self._condition = threading.Condition()

    def delete(self, key: str) -> bool:
        """As of `Keeper`."""
        with self._condition:
            return self._values.pop(key, None) is not None

    def await_keys(self, keys: Sequence[str], limit: float) -> bool:
        """As of `Keeper`."""
        with self._condition:
            return self._condition.wait_for(
                lambda: all(key in self._values for key in keys), timeout=limit
            )

    def _held(self) -> AbstractContextManager[object]:
        return self._condition

    def _update(self, key: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        with self._condition:
            value = change(self._values.get(key))
            if value is not None:
                self._values[key] = value
                self._condition.notify_all()
            return value


class PrefixedKeeper:
    """The keys of another keeper that start with a prefix, without it.

    Args:
        prefix: ends with what sets it off.
        keeper: has the keys.
    """

    def __init__(self, prefix: str, keeper: Keeper) -> None:
        self._prefix = prefix
        self._keeper = keeper

    def read(self, key: str) -> bytes | None:
        """As of `Keeper`."""
        return self._keeper.read(self._prefix + key)

    def write(self, key: str, value: bytes) -> None:
        """As of `Keeper`."""
        self._keeper.write(self._prefix + key, value)

    def add(self, key: str, amount: int) -> int:
        """As of `Keeper`."""
        return self._keeper.add(self._prefix + key, amount)

    def append(self, key: str, value: bytes) -> None:
        """As of `Keeper`."""
        self._keeper.append(self._prefix + key, value)

    def compare_set(self, key: str, expected: bytes, desired: bytes) -> bytes:
        """As of `Keeper`."""
        return self._keeper.compare_set(self._prefix + key, expected, desired)

    def delete(self, key: str) -> bool:
        """As of `Keeper`."""
        return self._keeper.delete(self._prefix + key)

    def count(self) -> int:
        """Of all keys of the other keeper, as in PyTorch."""
        return self._keeper.count()

    def has(self, keys: Sequence[str]) -> bool:
        """As of `Keeper`."""
        return self._keeper.has([self._prefix + key for key in keys])

    def await_keys(self, keys: Sequence[str], limit: float) -> bool:
        """As of `Keeper`."""
        return self._keeper.await_keys([self._prefix + key for key in keys], limit)


def summed(key: str, old: bytes | None, amount: int) -> bytes:
    """The digits of a sum.

    Raises:
        DistStoreError: the key has no number.
    """
    try:
        return b"%d" % (int(old or b"0") + amount)
    except ValueError as error:
        raise DistStoreError(
            f"add({key!r}, {amount}): its value {old!r} is no number.  Expected digits, or a key "
            "that add made."
        ) from error
