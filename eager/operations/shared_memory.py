"""Tensors in memory that several processes share: `share_memory_`.

Contract: the elements lie in a file that has no name, mapped into every process that has the
tensor: a child that was forked, and a process that got it as an argument or through a queue of
`multiprocessing` (what is pickled is then the open file). A write in one is seen by all; nothing
orders the writes. Loaded by the first call; `Tensor.is_shared` asks `is_shared`, which needs no
file.
"""

import mmap
import os
import tempfile
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import UnsupportedError
from dynajit.core.types import dtypes
from dynajit.eager import _tensor
from dynajit.eager.operations.reshaping import is_alone


class Block(mmap.mmap):
    """Mapped memory that keeps its file open. Mutable: its bytes are."""

    descriptor: int

    def __del__(self) -> None:
        os.close(self.descriptor)


def share(tensor: Any) -> None:
    """Move a tensor's elements into shared memory, unless they are there, or on a GPU.

    Raises:
        UnsupportedError: another tensor or array has the same memory, and would be left behind.
    """
    if type(tensor.array) is not np.ndarray or block_of(tensor.array) is not None:
        return
    if tensor._base is not None or not is_alone(tensor):  # counts references: none is held here
        raise UnsupportedError(
            "share_memory_: other tensors or arrays share the tensor's memory.  Share the tensor "
            "that they are views of before they are made, or a clone()."
        )
    array = tensor.array
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    block = _mapped(_file(max(array.nbytes, 1)))
    memory = np.frombuffer(block, array.dtype, array.size)
    shared = memory.reshape([array.shape[d] for d in order]).transpose(np.argsort(order))
    shared[...] = array
    _tensor.adopt_view(tensor, shared, None)
    ForkingPickler.register(type(tensor), _reduced)


def block_of(array: Any) -> Block | None:
    """The shared memory in which an array lies, if it does."""
    found = getattr(any_arrays.owner(array).base, "obj", None)
    return found if isinstance(found, Block) else None


def _file(size: int) -> int:
    """The descriptor of a new file without a name, of `size` bytes."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("dynajit")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def _mapped(descriptor: int) -> Block:
    """All of a file; the block closes it."""
    block = Block(descriptor, 0)
    block.descriptor = descriptor
    return block


def _reduced(tensor: Any) -> Any:
    """How a tensor is sent to another process; one outside of shared memory is copied."""
    block = block_of(tensor.array)
    if block is None or not tensor.is_leaf:
        return tensor.__reduce_ex__(2)
    array = tensor.array
    offset = any_arrays.address(array) - np.frombuffer(block, np.uint8).ctypes.data
    layout = (dtypes.from_numpy(array.dtype).name, array.shape, array.strides, offset)
    _, _, kept = tensor.__reduce_ex__(2)
    return _received, (type(tensor), DupFd(block.descriptor), layout, tensor.requires_grad), kept


def _received(cls: Any, sent: Any, layout: tuple[Any, ...], requires_grad: bool) -> Any:
    dtype, shape, strides, offset = layout
    block = _mapped(sent.detach())
    bytes_ = np.frombuffer(block, np.uint8)
    array = np.ndarray(shape, dtypes.by_name(dtype).numpy, bytes_, offset, strides)
    made = _tensor.new_of(cls, array, None)
    if requires_grad:
        made.requires_grad = True
    ForkingPickler.register(cls, _reduced)
    return made
