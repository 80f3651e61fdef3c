"""What programs do to the tensors that are saved for backward: pairs of functions, in blocks.

Contract: within a block of `saved_tensors_hooks` every tensor that a node saves goes through
`pack`, with gradients off, a result of the node itself without its history; backward computes with
what `unpack` makes of that, each time that it asks. The innermost block of the thread counts.
Whether a packed tensor was written to since is not noticed. Nodes ask `current` if `OPEN` is not
empty. Published by `dynajit.autograd.graph`.

Source: semantics of `torch.autograd.graph.saved_tensors_hooks` in PyTorch 2.x.
"""

import threading
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias

from dynajit.core.errors import ArgumentError, AutogradError
from dynajit.eager import _tensor
from dynajit.eager._tensor import TensorBase, _set_grad_enabled

Hooks: TypeAlias = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class Place(Protocol):
    """Where a tensor is that its owner frees, and has again when it is asked for."""

    def found(self) -> Any:
        """The tensor."""


class HooksOfOwner(tuple[Callable[[Any], Any], Callable[[Any], Any]]):
    """Functions for saved tensors, of somebody who frees memory that they lie in.

    Compiled calls keep all their inputs, for derivatives of derivatives; those of which `place_of`
    knows the place are kept as such.
    """

    place_of: Callable[[Any], Place | None]


MSG_WRITTEN: Final = (
    "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack "
    "hook can not be modified by in-place operations as this can lead to unexpected side-effects. "
    "Write to a clone()."
)

OPEN: Final[list[None]] = []
"""As many entries as there are blocks in all threads: nodes look here first."""


class _Blocks(threading.local):
    """The blocks of this thread, the innermost last. Mutable.

    An entry is a pair of functions, or None where tensors are saved as they are.
    """

    stack: tuple[Hooks | None, ...] = ()
    refusals: tuple[str, ...] = ()


_blocks = _Blocks()


def current() -> Hooks | None:
    """The functions that saved tensors go through in this thread."""
    stack = _blocks.stack
    return stack[-1] if stack else None


def is_suspended() -> bool:
    """Whether the innermost block of this thread lets tensors be saved as they are."""
    stack = _blocks.stack
    return bool(stack) and stack[-1] is None


def enter(hooks: Hooks | None) -> None:
    """Open a block.

    Raises:
        AutogradError: such blocks are disabled.
    """
    if hooks is not None and _blocks.refusals:
        raise AutogradError(_blocks.refusals[-1])
    _blocks.stack = (*_blocks.stack, hooks)
    OPEN.append(None)


def leave() -> None:
    """Close the innermost block; nothing, where none is open in this thread."""
    if _blocks.stack:
        _blocks.stack = _blocks.stack[:-1]
        OPEN.pop()


def refuse(message: str) -> None:
    """Let `enter` raise from now on.

    Raises:
        AutogradError: a block is open.
    """
    if any(hooks is not None for hooks in _blocks.stack):
        raise AutogradError(message)
    _blocks.refusals = (*_blocks.refusals, message)


def allow() -> None:
    """End what the last `refuse` began."""
    _blocks.refusals = _blocks.refusals[:-1]


class Packed:
    """What `pack` made of an array, until `unpack` is asked for it. Immutable."""

    __slots__ = ("content", "reopen")

    def __init__(self, tensor: Any, hooks: Hooks) -> None:
        pack, self.reopen = hooks
        storage = tensor._storage
        version = storage.version
        before = _set_grad_enabled(False)
        try:
            self.content = pack(tensor)
        finally:
            _set_grad_enabled(before)
        if storage.version != version:
            raise AutogradError(MSG_WRITTEN)

    def opened(self) -> Any:
        """The tensor that `unpack` gives.

        Raises:
            ArgumentError: it is none.
        """
        before = _set_grad_enabled(False)
        try:
            found = self.reopen(self.content)
        finally:
            _set_grad_enabled(before)
        if not isinstance(found, TensorBase):
            raise ArgumentError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(found).__name__}"
            )
        return found


def without_history(tensor: Any) -> Any:
    """A tensor that shares memory and versions, and has no history."""
    return _tensor.wrap_view(tensor._held, tensor, None)
