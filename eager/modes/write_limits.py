"""Who is asked before a write: `vmap` which tensors its function may write to, and others that have
to know of it.

Contract: within `limited`, in its thread, a write is refused before it happens unless it goes to
memory that the block was given, or to a tensor made within the block: any other tensor would see
the writes of all samples, one after the other, of which only the last would be left. PyTorch
refuses them, too, if what is written depends on the sample. Between `watch` and `unwatch` a
function is told of every write of its thread before that happens, as far as writes go through the
operations of tensors.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.eager import _tensor


class _Limits(threading.local):
    """The blocks that this thread is in: (number of the first storage made in it, may be written,
    whether it is one of a single sample).

    Mutable: blocks are entered and left.
    """

    def __init__(self) -> None:
        self.blocks: list[tuple[int, frozenset[int], bool]] = []
        self.watcher: Callable[[Any], None] | None = None


_limits = _Limits()


@contextmanager
def limited(given: Sequence[Any], is_one_sample: bool = False) -> Iterator[None]:
    """A block in which the function runs.

    Args:
        given: the tensors that have samples.
        is_one_sample: it runs for one of them, of which it gets views.
    """
    first = _tensor.Storage().number
    # `given` lives as long as the block, so no other storage gets one of these ids.
    own = frozenset(id(tensor._storage) for tensor in given)
    _limits.blocks.append((first, own, is_one_sample))
    before = _tensor._set_writes_checked(True)
    try:
        yield
    finally:
        _tensor._set_writes_checked(before)
        _limits.blocks.pop()


def watch(watcher: Callable[[Any], None]) -> bool:
    """Tell a function of each tensor before it is written to; False, without effect, where one is
    told in this thread."""
    if _limits.watcher is not None:
        return False
    _limits.watcher = watcher
    _tensor._set_writes_checked(True)
    return True


def unwatch() -> None:
    """Tell it no more."""
    _limits.watcher = None
    _tensor._set_writes_checked(bool(_limits.blocks))


def is_of_one_sample(tensor: Any) -> bool:
    """Whether a tensor shares memory with one whose samples a function is run for, one by one."""
    storage = id(tensor._storage)
    return any(is_one and storage in given for _, given, is_one in _limits.blocks)


def check_write(tensor: Any, name: str) -> None:
    """Refuse a write that the blocks around do not allow, and tell who watches of one that they do.

    Raises:
        RuntimeError: `tensor` is seen by other samples.
    """
    storage = tensor._storage
    for first, given, _ in _limits.blocks:
        if storage.number < first and id(storage) not in given:
            raise UnsupportedError(
                f"vmap: {name} would write to a tensor that is the same for all samples: each "
                "sample would overwrite what the one before wrote.  Use the out-of-place form, or "
                "give vmap the tensor as an argument with a dim of samples."
            )
    if _limits.watcher is not None:
        _limits.watcher(tensor)
