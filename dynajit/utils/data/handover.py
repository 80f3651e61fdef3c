"""Batches from one process to another: a pickle, and one shared block for what is large.

Contract: tensors and arrays of at least `LARGE` bytes leave the pickle and lie in a block of shared
memory that the sender makes under a name the receiver chose; the receiver copies them out and
removes the block. Who asked for a batch can remove its block also when the batch never came. Where
shared memory is missing or nearly full, everything stays in the pickle.
"""

import io
import os
import pickle
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager import _tensor
from dynajit.eager.tensor.convert import pinned_copy
from dynajit.eager.tensor.tensor import Tensor

LARGE: Final = 1 << 13  # bytes; below, a copy through a pipe costs less than a block
ALIGNMENT: Final = 64
SHARED_FOLDER: Final = "/dev/shm"  # where Linux keeps blocks; its size is limited


class _Sender(ForkingPickler):
    """Pickles a batch without its large arrays, which are put aside. Mutable."""

    def __init__(self, file: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.size = 0
        self.aside: dict[int, tuple[Any, Any, Any]] = {}

    def persistent_id(self, obj: Any) -> Any:
        """What stands in the pickle for a large tensor or array; None for all else."""
        if type(obj) is Tensor:
            if obj.array.nbytes < LARGE or not obj.is_leaf or obj.__dict__:
                return None
            return self._put_aside(obj, obj.array, (True, bool(obj.requires_grad)))
        if type(obj) is np.ndarray and obj.nbytes >= LARGE and not obj.dtype.hasobject:
            return self._put_aside(obj, obj, (False, False))
        return None

    def _put_aside(self, obj: Any, array: Any, kind: tuple[bool, bool]) -> Any:
        if id(obj) not in self.aside:
            self.aside[id(obj)] = (obj, array, (self.size, array.shape, _spelled(array), *kind))
            self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        return self.aside[id(obj)][2]


def _spelled(array: Any) -> Any:
    """The dtype of an array for the receiver: NumPy has no text for bfloat16."""
    if array.dtype in _TENSOR_DTYPES:
        return dtypes.from_numpy(array.dtype)
    return array.dtype


_TENSOR_DTYPES: Final = frozenset(dtype.numpy for dtype in dtypes.KNOWN)


class _Receiver(pickle.Unpickler):
    """Reads a batch; large arrays are copied out of the block, tensors into pinned memory where a
    GPU will read them."""

    def __init__(self, file: Any, block: Any, pins: bool) -> None:
        super().__init__(file)
        self._block = block
        self._pins = pins
        self._made: dict[int, Any] = {}

    def persistent_load(self, identity: Any) -> Any:
        """The tensor or array that was put aside."""
        offset, shape, spelled, is_tensor, requires_grad = identity
        if offset in self._made:
            return self._made[offset]
        dtype = spelled.numpy if isinstance(spelled, DType) else spelled
        there: Any = np.ndarray(shape, dtype, self._block, offset)
        made = pinned_copy(there) if is_tensor and self._pins else there.copy()
        if is_tensor:
            made = _tensor.wrap(made)
            if requires_grad:
                made.requires_grad = True
        self._made[offset] = made
        return made


def packed(batch: Any, block_name: str) -> tuple[bytes, bool]:
    """(pickle of a batch, whether the block of that name holds its large arrays).

    Raises:
        Exception: what pickling a part of the batch raises.
    """
    file = io.BytesIO()
    sender = _Sender(file)
    sender.dump(batch)
    if not sender.size:
        return file.getvalue(), False
    if not _has_room(sender.size):
        return bytes(ForkingPickler.dumps(batch, pickle.HIGHEST_PROTOCOL)), False
    block = SharedMemory(block_name, create=True, size=sender.size)
    try:
        for _, array, (offset, shape, _, _, _) in sender.aside.values():
            np.ndarray(shape, array.dtype, block.buf, offset)[...] = array
    except BaseException:
        block.unlink()
        raise
    finally:
        block.close()
    return file.getvalue(), True


def _has_room(size: int) -> bool:
    """Whether a block of this size fits: a write beyond what is left ends the process."""
    if not os.path.isdir(SHARED_FOLDER):
        return os.name == "nt" or not hasattr(os, "statvfs")
    room = os.statvfs(SHARED_FOLDER)
    return size * 2 < room.f_bavail * room.f_frsize


def unpacked(data: bytes, block_name: str, has_block: bool, pins: bool = False) -> Any:
    """The batch that `packed` packed; its block is gone then.

    Args:
        pins: its large tensors go to pinned memory.
    """
    if not has_block:
        return pickle.loads(data)
    block = SharedMemory(block_name)
    try:
        return _Receiver(io.BytesIO(data), block.buf, pins).load()
    finally:
        block.close()
        block.unlink()


def forget(block_name: str) -> None:
    """Remove a block that nobody will read, if there is one."""
    try:
        block = SharedMemory(block_name)
    except FileNotFoundError:
        return
    block.close()
    block.unlink()
