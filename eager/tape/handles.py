"""Handles of hooks on tensors and nodes. Ordinary Python: capture reads it through."""

from collections.abc import Callable
from typing import Any


class Begun:
    """What programs have asked for: runs need not look for it before. Mutable.

    Attributes:
        accumulation: a hook that is called as soon as the gradient of a leaf is complete.
        accumulators: a hook of an `AccumulateGrad`, as long as one with hooks is there.
        unfolding: a gradient within a compiled call, which others are computed from.
    """

    def __init__(self) -> None:
        self.accumulation = False
        self.accumulators = False
        self.unfolding = False


BEGUN = Begun()


class HookOfSeveral:
    """Base of hooks on a gradient that want to be called, with None, also where none arrives."""

    def __call__(self, gradient: Any) -> None:
        """See the class."""
        raise NotImplementedError


class Key:
    """What a hook is found by. A handle refers to the hooks: it is no key of theirs, so that a node
    that is let go of ends with its hooks at once."""

    __slots__ = ()


class Handle:
    """Removes a hook: `handle.remove()`, or at the end of a `with` block.

    Args:
        hooks: key -> hook; the handle enters the hook.
        function: the hook.
    """

    def __init__(self, hooks: dict[Key, Any], function: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._key = Key()
        hooks[self._key] = function

    @property
    def id(self) -> int:
        """A number that no other hook has."""
        return id(self._key)

    def remove(self) -> None:
        """The hook is not called any more; a second call does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *unused: object) -> None:
        self.remove()
