"""PyTorch's dispatch keys, as far as programs name them: sets of names, and blocks without some.

Contract: nothing here is dispatched by keys. A key is a member of `DispatchKey`, which has those
that programs register kernels for; a set of them is a `DispatchKeySet`. Of blocks that exclude
keys, those of autocast have their effect: autocast is off there.
"""

import enum
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from dynajit.amp.autocast_mode import autocast


class DispatchKey(enum.Enum):
    """For what a kernel is registered."""

    Undefined = 0
    CPU = 1
    CUDA = 2
    Meta = 3
    QuantizedCPU = 4
    SparseCPU = 5
    AutogradCPU = 6
    AutogradCUDA = 7
    Autograd = 8
    AutocastCPU = 9
    AutocastCUDA = 10
    AutocastXPU = 11
    CompositeImplicitAutograd = 12
    CompositeExplicitAutograd = 13
    ADInplaceOrView = 14
    BackendSelect = 15
    Python = 16
    FuncTorchBatched = 17


class DispatchKeySet:
    """Several keys. Immutable.

    Args:
        keys: a key, or those of a set.
    """

    __slots__ = ("_keys",)

    def __init__(self, keys: Any) -> None:
        self._keys = frozenset(keys if isinstance(keys, (frozenset, set)) else [keys])

    def __or__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: "DispatchKeySet") -> "DispatchKeySet":
        return DispatchKeySet(self._keys - other._keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __iter__(self) -> Iterator[DispatchKey]:
        return iter(sorted(self._keys, key=lambda key: key.value))

    def has(self, key: DispatchKey) -> bool:
        """Whether a key is among them."""
        return key in self._keys

    def add(self, key: DispatchKey) -> "DispatchKeySet":
        """These and one more."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: DispatchKey) -> "DispatchKeySet":
        """These without one."""
        return DispatchKeySet(self._keys - {key})


_AUTOCAST = {DispatchKey.AutocastCPU: "cpu", DispatchKey.AutocastCUDA: "cuda"}


class _ExcludeDispatchKeyGuard:
    """A block in which kernels of some keys are not asked: see the module.

    Args:
        keys: a `DispatchKeySet`.
    """

    def __init__(self, keys: DispatchKeySet) -> None:
        self._devices = [device for key, device in _AUTOCAST.items() if keys.has(key)]
        self._entered: list[ExitStack] = []

    def __enter__(self) -> None:
        stack = ExitStack()
        for device in self._devices:
            stack.enter_context(autocast(device, enabled=False))
        self._entered.append(stack)

    def __exit__(self, *reason: Any) -> None:
        self._entered.pop().close()


__all__ = ["DispatchKey", "DispatchKeySet"]
