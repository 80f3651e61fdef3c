"""What the node of a compiled call keeps for backward: arrays of programs, as they were saved.

Contract: what shares memory with a tensor has that one's version of then, by which writes are
noticed. Values that the program packs itself (`saved_hooks`) come back with their strides.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import AutogradError
from dynajit.eager import _tensor
from dynajit.eager.tape import saved_hooks
from dynajit.eager.tape.node import SavedTensor

MSG_UNPACKED: Final = (
    "backward through a compiled function: the unpack hook of a saved tensor gave shape and dtype "
    "{after}; expected what the pack hook received, {before}."
)


class SavedArray:
    """A saved value that shares memory with an output; writes to that output are noticed.

    Args:
        writes: how many writes to the output are still to be counted when the call has returned.
    """

    __slots__ = ("array", "storage", "version")

    def __init__(self, array: Any, output: Any, writes: int) -> None:
        self.array = array
        self.storage = output._storage
        self.version = self.storage.version + writes


class PackedArray:
    """A saved value that went through the program's own functions (`saved_hooks`).

    Args:
        array: the value, row by row up to an order of its dims, which it has again when unpacked.
        hooks: pack and unpack.
        tensor: the input that it is, if it is one.
    """

    __slots__ = ("dtype", "packed", "shape", "strides")

    def __init__(self, array: Any, hooks: saved_hooks.Hooks, tensor: Any = None) -> None:
        self.packed = saved_hooks.Packed(_tensor.wrap(array) if tensor is None else tensor, hooks)
        self.shape, self.dtype, self.strides = array.shape, array.dtype, array.strides

    def array(self) -> Any:
        """What the program gives back.

        Raises:
            AutogradError: it has another shape or dtype, or is on another device.
        """
        found = self.packed.opened().array
        if (found.shape, found.dtype) != (self.shape, self.dtype):
            raise AutogradError(MSG_UNPACKED.format(
                before=(self.shape, self.dtype.name), after=(found.shape, found.dtype.name)
            ))  # fmt: skip
        return found if found.strides == self.strides else _in_order(found, self.strides)


class InputElsewhere(SavedTensor):
    """An input that its owner frees meanwhile, and has again when it is asked for.

    Args:
        saved: the input as it was kept.
        place: gives the tensor.
    """

    __slots__ = ("place",)

    def __init__(self, saved: SavedTensor, place: saved_hooks.Place) -> None:
        self.storage, self.version, self.place = saved.storage, saved.version, place

    @property
    def tensor(self) -> Any:
        return self.place.found()

    @property
    def array(self) -> Any:
        return self.place.found().array


def packed(value: Any, hooks: saved_hooks.Hooks) -> Any:
    """A saved value as the program packs it; numbers, and what has gaps, stay as they are."""
    array = value.array if isinstance(value, (SavedTensor, SavedArray)) else value
    if not hasattr(array, "strides") or _in_order(array, array.strides).strides != array.strides:
        return value
    is_input = isinstance(value, SavedTensor) and value.tensor.array is array
    return PackedArray(array, hooks, value.tensor if is_input else None)


def kept_elsewhere(
    kept: Any, place_of: Callable[[Any], saved_hooks.Place | None]
) -> SavedTensor | Any:
    """An input of a call, without its memory where an owner gives that again."""
    place = place_of(kept.tensor) if isinstance(kept, SavedTensor) else None
    return kept if place is None else InputElsewhere(kept, place)


def _in_order(array: Any, strides: tuple[int, ...]) -> Any:
    """The array with its dims in memory in the order of these strides, without gaps."""
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    inverse = [order.index(d) for d in range(len(order))]
    return any_arrays.row_major(array.transpose(order)).transpose(inverse)
