"""Blocks in which tensors may be written to after they were saved for backward.

Contract: before a write, what was saved of that memory and is still kept is copied, once for each
version; backward computes with the copy. A write that goes past the operations of tensors (by
NumPy, or in another thread) is not seen, and of what compiled calls save nothing is copied:
backward refuses there, as it does outside of such blocks. Compiled functions leave writes within a
block to eager execution.

Source: semantics of `torch.autograd.graph.allow_mutation_on_saved_tensors` in PyTorch 2.x.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dynajit.capture.control import disable
from dynajit.core.errors import AutogradAssertionError, AutogradError
from dynajit.eager._tensor import _set_grad_enabled
from dynajit.eager.modes import write_limits
from dynajit.eager.tape import saved_hooks

MSG_OUTSIDE = (
    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the "
    "graph was originally recorded."
)
MSG_NESTED = "allow_mutation_on_saved_tensors contexts cannot be nested"
MSG_UNSEEN = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation that allow_mutation_on_saved_tensors does not see: by NumPy, or in another thread.  "
    "Use operations of tensors, in the thread of the block."
)


class _Kept:
    """A tensor that is saved, perhaps by several nodes. Immutable.

    Args:
        tensor: without history, over the same memory.
    """

    __slots__ = ("__weakref__", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.version = tensor._storage.version


class Overwriting:
    """What was saved in a block. Mutable.

    Attributes:
        cloned: copies that were made before a write, of what is still kept.
    """

    def __init__(self) -> None:
        self.cloned: weakref.WeakKeyDictionary[_Kept, Any] = weakref.WeakKeyDictionary()
        self.is_open = True
        self._kept: dict[int, weakref.WeakValueDictionary[Any, _Kept]] = {}
        self._limit = 64

    def pack(self, tensor: Any) -> _Kept:
        """Keep a tensor, if its version is not kept already."""
        if len(self._kept) > self._limit:
            self._kept = {key: kept for key, kept in self._kept.items() if len(kept)}
            self._limit = 64 + 2 * len(self._kept)
        # What is kept keeps its storage alive, so that no other one has this identity meanwhile.
        of_memory = self._kept.setdefault(id(tensor._storage), weakref.WeakValueDictionary())
        key = tensor._storage.version, id(tensor._held)
        kept = of_memory.get(key)
        if kept is None:
            kept = of_memory[key] = _Kept(saved_hooks.without_history(tensor))
        return kept

    def unpack(self, kept: _Kept) -> Any:
        """What the tensor held when it was saved.

        Raises:
            AutogradAssertionError: the block has ended.
            AutogradError: it was written to by somebody who did not say so.
        """
        if not self.is_open:
            raise AutogradAssertionError(MSG_OUTSIDE)
        copied = self.cloned.get(kept)
        if copied is not None:
            return copied
        if kept.tensor._storage.version != kept.version:
            raise AutogradError(MSG_UNSEEN)
        return kept.tensor

    def is_about_to_write(self, tensor: Any) -> None:
        """Copy what is kept of the memory of a tensor."""
        of_memory = self._kept.pop(id(tensor._storage), None)
        for kept in () if of_memory is None else tuple(of_memory.values()):
            if kept not in self.cloned and kept.tensor._storage.version == kept.version:
                before = _set_grad_enabled(False)
                try:
                    self.cloned[kept] = kept.tensor.clone()
                finally:
                    _set_grad_enabled(before)

    def clear(self) -> None:
        """Let go of everything: the block has ended."""
        self.is_open = False
        self.cloned.clear()
        self._kept.clear()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[Overwriting]:
    """A block in which what is saved for backward may be overwritten: it is copied before.

    Backward has to run within the block.

    Raises:
        AutogradError: there is such a block around in this thread.
    """
    block = _begin()
    try:
        yield block
    finally:
        _end(block)


@disable
def _begin() -> Overwriting:
    block = Overwriting()
    if not write_limits.watch(block.is_about_to_write):
        raise AutogradError(MSG_NESTED)
    try:
        saved_hooks.enter((block.pack, block.unpack))
    except BaseException:
        write_limits.unwatch()
        raise
    return block


@disable
def _end(block: Overwriting) -> None:
    saved_hooks.leave()
    write_limits.unwatch()
    block.clear()
