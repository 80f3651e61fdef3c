"""Tensors as what a channel sends and receives: contiguous arrays where the engine can reach them.

Contract: a contiguous tensor's own memory is used where the engine reaches it; anything else is
copied, and copied back when it has arrived. Writes count as in-place writes for autograd.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.distributed.channels.channel import Array
from dynajit.distributed.groups import ProcessGroup
from dynajit.eager import _tensor
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor


def outgoing(tensor: Tensor, group: ProcessGroup) -> Array:
    """The elements in order, for an engine that reads them: the tensor's own memory, or a copy."""
    if _is_reached(tensor, group):
        return tensor.array
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().array
    return any_arrays.as_numpy(plain) if group.channel.on_host else plain


def joined(tensors: Sequence[Tensor], group: ProcessGroup) -> Array:
    """The elements of several tensors of one dtype, one after the other, in an array of its own."""
    arrays = [outgoing(tensor, group).reshape(-1) for tensor in tensors]
    if not arrays:
        return np.empty(0, np.float32)
    return any_arrays.module_of(arrays[0]).concatenate(arrays)


class Incoming:
    """Tensors that an engine writes, one after the other, as one array.

    Args:
        tensors: at least one, all of one dtype and on one device.
        group: whose engine writes.
        keep: the array holds the tensors' elements before.
    """

    def __init__(self, tensors: Sequence[Tensor], group: ProcessGroup, keep: bool = False) -> None:
        self._tensors = tensors
        first = tensors[0]
        self.array: Array = first.array
        self._is_direct = (
            len(tensors) == 1 and _is_reached(first, group) and any_arrays.is_writable(self.array)
        )
        if self._is_direct:
            return
        if keep:
            copied = joined(tensors, group)
            self.array = copied.copy() if copied is first.array else copied
        else:
            count = sum(tensor.numel() for tensor in tensors)
            module = np if group.channel.on_host else any_arrays.module_of(first.array)
            self.array = module.empty(count, first.array.dtype)

    def write(self) -> None:
        """What arrived, in the tensors."""
        if self._is_direct:
            _tensor.bump_version(self._tensors[0])
            return
        flat, start = self.array.reshape(-1), 0
        with no_grad():
            for tensor in self._tensors:
                part = flat[start : start + tensor.numel()].reshape(tuple(tensor.shape))
                start += tensor.numel()
                tensor.detach().copy_(_tensor.wrap(any_arrays.placed_like(part, tensor.array)))
                _tensor.bump_version(tensor)


def _is_reached(tensor: Tensor, group: ProcessGroup) -> bool:
    """Whether an engine can read the tensor's elements, in order, where they lie."""
    array: Any = tensor.array
    if group.channel.on_host and not isinstance(array, np.ndarray):
        return False
    return bool(array.flags.c_contiguous) and not tensor._is_mirrored
