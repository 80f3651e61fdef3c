"""Tensors as what a channel sends and receives: contiguous arrays where the engine can reach them.

Contract: a contiguous tensor's own memory is used where the engine reaches it; anything else is
copied, and copied back when it has arrived. Writes count as in-place writes for autograd.
"""

from collections.abc import Callable, Sequence
from functools import partial
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


def incoming(
    tensors: Sequence[Tensor], group: ProcessGroup, keep: bool = False
) -> tuple[Array, Callable[[], None]]:
    """Tensors that an engine writes, one after the other: an array, and what is called when it has
    arrived.

    Args:
        tensors: at least one, all of one dtype and on one device.
        group: whose engine writes.
        keep: the array holds the tensors' elements before.
    """
    first = tensors[0]
    if len(tensors) == 1 and _is_reached(first, group, True):
        return first.array, partial(_tensor.bump_version, first)
    if keep:
        array = joined(tensors, group)
        if array is first.array:
            array = array.copy()
    else:
        count = sum(tensor.numel() for tensor in tensors)
        module = np if group.channel.on_host else any_arrays.module_of(first.array)
        array = module.empty(count, first.array.dtype)
    return array, partial(_write, array, tensors)


def _write(array: Array, tensors: Sequence[Tensor]) -> None:
    """What arrived, in the tensors."""
    flat, start = array.reshape(-1), 0
    with no_grad():
        for tensor in tensors:
            part = flat[start : start + tensor.numel()].reshape(tuple(tensor.shape))
            start += tensor.numel()
            tensor.detach().copy_(_tensor.wrap(any_arrays.placed_like(part, tensor.array)))
            _tensor.bump_version(tensor)


def _is_reached(tensor: Tensor, group: ProcessGroup, is_written: bool = False) -> bool:
    """Whether an engine can read the tensor's elements, in order, where they lie, and write them if
    it is to."""
    array: Any = tensor.array
    flags = array.flags
    if not flags.c_contiguous or tensor._is_mirrored:
        return False
    if isinstance(array, np.ndarray):
        return not is_written or flags.writeable
    return not group.channel.on_host  # memory of a GPU may always be written
