"""Which tensors a function may write to while `vmap` runs it for one sample.

Contract: within `limited`, in its thread, a write is refused before it happens unless it goes to
memory that the block was given, or to a tensor made within the block: any other tensor would see
the writes of all samples, one after the other, of which only the last would be left. PyTorch
refuses them, too, if what is written depends on the sample.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.eager import _tensor


class _Limits(threading.local):
    """The blocks that this thread is in: (number of the first storage made in it, may be written).

    Mutable: blocks are entered and left.
    """

    def __init__(self) -> None:
        self.blocks: list[tuple[int, frozenset[int]]] = []


_limits = _Limits()


@contextmanager
def limited(given: Sequence[Any]) -> Iterator[None]:
    """A block of one sample, whose own tensors are `given`."""
    first = _tensor.Storage().number
    # `given` lives as long as the block, so no other storage gets one of these ids.
    _limits.blocks.append((first, frozenset(id(tensor._storage) for tensor in given)))
    before = _tensor._set_writes_checked(True)
    try:
        yield
    finally:
        _tensor._set_writes_checked(before)
        _limits.blocks.pop()


def check_write(tensor: Any, name: str) -> None:
    """Refuse a write that the blocks around do not allow.

    Raises:
        RuntimeError: `tensor` is seen by other samples.
    """
    storage = tensor._storage
    for first, given in _limits.blocks:
        if storage.number < first and id(storage) not in given:
            raise UnsupportedError(
                f"vmap: {name} would write to a tensor that is the same for all samples: each "
                "sample would overwrite what the one before wrote.  Use the out-of-place form, or "
                "give vmap the tensor as an argument with a dim of samples."
            )
