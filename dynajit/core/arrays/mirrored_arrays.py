"""Arrays that are seen conjugated or negated: what conjugate views hold.

Contract: a `MirroredArray` is memory, an array of any kind, with what its elements have to go
through to be values: `x.conj()` shares the memory of x, and so does the negated imaginary part of
that. It stands where tensors of a GPU hold an array of CuPy: code in C that computes with NumPy's
arrays declines it. `Tensor.array` gives the values, a new array that may not be written; who writes
goes through `eager.operations.mirrored_views`.
"""

from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.meta_arrays import is_meta


class _HostPlace:
    """Where an array of NumPy lies, by the names that CuPy's arrays have for it."""

    __slots__ = ("ptr",)

    #: The CPU.
    device_id = -1

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


class MirroredArray:
    """See the module. Immutable.

    Args:
        memory: an array of any kind.
        conjugate, negative: what its elements go through; one of them, or both.
    """

    __slots__ = ("conjugate", "memory", "negative")

    def __init__(self, memory: Any, conjugate: bool, negative: bool) -> None:
        self.memory = memory
        self.conjugate = conjugate
        self.negative = negative

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return tuple(self.memory.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes."""
        return tuple(self.memory.strides)

    @property
    def dtype(self) -> np.dtype:
        """Element type."""
        found: np.dtype = self.memory.dtype
        return found

    @property
    def data(self) -> Any:
        """Where the memory is: `ptr` and `device_id`."""
        if isinstance(self.memory, np.ndarray):
            return _HostPlace(any_arrays.address(self.memory))
        return self.memory.data

    def values(self) -> Any:
        """A new array of the values, laid out as the memory; NumPy's may not be written."""
        found = turned(self.memory, self.conjugate, self.negative)
        if isinstance(found, np.ndarray):
            found.flags.writeable = False
        return found


def turned(array: Any, conjugate: bool, negative: bool) -> Any:
    """The conjugates, or the negatives, or both, of an array's elements: a new array where one of
    them is asked for."""
    if is_meta(array):
        return array.dense()
    xp = any_arrays.module_of(array)
    with any_arrays.on_device_of(array):
        if conjugate:
            array = xp.asarray(xp.conj(array))
        return xp.asarray(xp.negative(array)) if negative else array


def mirrored(held: Any, conjugate: bool, negative: bool) -> Any:
    """What a tensor holds that sees what another one holds conjugated, negated, or both: an array
    again where it was seen so already."""
    memory, was_conjugate, was_negative = parts_of(held)
    conjugate, negative = conjugate != was_conjugate, negative != was_negative
    return MirroredArray(memory, conjugate, negative) if conjugate or negative else memory


def parts_of(held: Any) -> tuple[Any, bool, bool]:
    """The memory of what a tensor holds; whether it is seen conjugated; whether negated."""
    if type(held) is MirroredArray:
        return held.memory, held.conjugate, held.negative
    return held, False, False
