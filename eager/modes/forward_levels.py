"""The levels of forward mode that are open in a thread, and the tangents that tensors have there.

Contract: a `Level` knows the tangents of tensors, by identity, as long as it is open; a tangent has
the shape, dtype and device of its tensor, and a layout in which the same views exist. Levels are
nested: the tangent of a tensor at a level may have tangents itself at the levels below. `acting`
are those that operations look at; `_tensor.has_levels` says in C whether there is one.
`eager.operations.duals` says what operations do.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from dynajit.core.errors import AutogradError
from dynajit.eager import _tensor

MSG_NOT_LAST: Final = (
    "Trying to exit a forward AD level that was not the last one that was created. This is not "
    "supported."
)


class Level:
    """One level. Mutable: tensors get tangents, and lose them with it.

    Args:
        number: how many levels were open before it.
        is_of_transform: a function is transformed, which gives tangents by operations alone.
    """

    def __init__(self, number: int, is_of_transform: bool = False) -> None:
        self.number = number
        self.is_of_transform = is_of_transform
        self.is_open = True
        self._entries: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self._duals: list[weakref.ref[Any]] = []

    def known(self, tensor: Any) -> tuple[bool, Any]:
        """Whether somebody said what the tangent of a tensor is, and what it is."""
        entry = self._entries.get(id(tensor))
        return (False, None) if entry is None else (True, entry[1])

    def note(self, tensor: Any, tangent: Any) -> None:
        """Let a tensor have this tangent; None: it has none, whatever it is a view of."""
        entries, key = self._entries, id(tensor)

        def forget(reference: Any) -> None:
            entry = entries.get(key)
            if entry is not None and entry[0] is reference:
                del entries[key]

        entries[key] = weakref.ref(tensor, forget), tangent

    def note_dual(self, tensor: Any) -> None:
        """The tensor has another tangent than what it is a view of, and so have its views."""
        self._duals = [kept for kept in self._duals if kept() is not None]
        self._duals.append(weakref.ref(tensor))

    def duals(self) -> Iterator[Any]:
        """Those of `note_dual`, the last first."""
        for kept in reversed(self._duals):
            tensor = kept()
            if tensor is not None:
                yield tensor

    def close(self) -> None:
        """The end of all tangents."""
        self.is_open = False
        self._entries.clear()
        self._duals.clear()


class _Levels(threading.local):
    """The levels of this thread. Mutable.

    Args:
        opened: those that are open, the innermost last.
        acting: those of them that operations look at now.
    """

    def __init__(self) -> None:
        self.opened: tuple[Level, ...] = ()
        self.acting: tuple[Level, ...] = ()
        self.is_enabled = True


_levels = _Levels()


def opened() -> tuple[Level, ...]:
    """The levels that are open in this thread, the innermost last."""
    return _levels.opened


def acting() -> tuple[Level, ...]:
    """The levels that operations of this thread look at, the innermost last."""
    return _levels.acting


def act(levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Let operations look at these levels.

    Returns:
        Those that they looked at before.
    """
    before = _levels.acting
    _levels.acting = levels
    _tensor._set_has_levels(bool(levels))
    return before


@contextmanager
def only(levels: tuple[Level, ...]) -> Iterator[None]:
    """Operations look at these levels alone within the block."""
    before = act(levels)
    try:
        yield
    finally:
        act(before)


def enter(is_of_transform: bool = False) -> Level:
    """Open a level, which acts."""
    level = Level(len(_levels.opened), is_of_transform)
    _levels.opened = (*_levels.opened, level)
    act((*_levels.acting, level))
    return level


def leave(level: Level) -> None:
    """Close the innermost level.

    Raises:
        AutogradError: `level` is another one.
    """
    if not _levels.opened or _levels.opened[-1] is not level:
        raise AutogradError(MSG_NOT_LAST)
    _levels.opened = _levels.opened[:-1]
    act(tuple(other for other in _levels.acting if other is not level))
    level.close()


@contextmanager
def opening() -> Iterator[Level]:
    """A level of its own for the block, in which a function is transformed."""
    before, was_enabled = _levels.acting, _levels.is_enabled
    level = enter(is_of_transform=True)
    _levels.is_enabled = True
    try:
        yield level
    finally:
        if _levels.opened and _levels.opened[-1] is level:
            leave(level)
        _levels.is_enabled = was_enabled
        act(before)


def is_enabled() -> bool:
    """Whether tangents are computed in this thread, if there is a level."""
    return _levels.is_enabled


def set_enabled(flag: bool) -> tuple[bool, tuple[Level, ...]]:
    """Turn the levels that are open on or off; later ones act in any case.

    Returns:
        What `restore` takes.
    """
    before = _levels.is_enabled, act(_levels.opened if flag else ())
    _levels.is_enabled = flag
    return before


def restore(before: tuple[bool, tuple[Level, ...]]) -> None:
    """The end of `set_enabled`."""
    _levels.is_enabled = before[0]
    act(tuple(level for level in before[1] if level.is_open))
