"""Whether results must be the same in every run, bit for bit: PyTorch's deterministic mode.

Contract: one setting per process. On the CPU all results are the same in every run anyway; with the
setting, convolutions are sums in PyTorch's order, never Winograd's form. On a GPU, additions
at indices and writes at repeated indices are done in an order that is fixed, which takes a sort;
the default leaves the order to the hardware. Read by `core.arrays.gpu.scatter`, by convolutions and
by code generation; set by users through `dynajit`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dynajit.core.errors import ArgumentError, InvalidValueError


@dataclass
class _Setting:
    """What was asked for. Mutable."""

    required: bool = False
    warn_only: bool = False


_setting = _Setting()
_listeners: Final[list[Callable[[bool], object]]] = []
_MODES = ("default", "warn", "error")


def is_required() -> bool:
    """True if results must not depend on the order in which a GPU happens to work."""
    return _setting.required


def on_change(listener: Callable[[bool], object]) -> None:
    """Call `listener(is_required())` now and whenever somebody sets it."""
    _listeners.append(listener)
    listener(_setting.required)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that are the same in every run, also on a GPU, and for convolutions that are
    summed in PyTorch's order.

    Args:
        mode: whether to ask for them.
        warn_only: kept and given back; there is a deterministic form of everything, so nothing is
            refused that could be warned of.
    """
    if not isinstance(mode, (bool, int)):
        raise ArgumentError(f"use_deterministic_algorithms(mode={mode!r}): expected True or False.")
    _setting.required, _setting.warn_only = bool(mode), bool(warn_only)
    for listener in _listeners:
        listener(_setting.required)


def are_deterministic_algorithms_enabled() -> bool:
    """What `use_deterministic_algorithms` was told last; False at first."""
    return _setting.required


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """The `warn_only` that `use_deterministic_algorithms` was told last."""
    return _setting.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by a level: 0 or "default", 1 or "warn", 2 or "error".

    Raises:
        InvalidValueError: another level.
    """
    level: Any = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if isinstance(level, bool) or level not in (0, 1, 2):
        raise InvalidValueError(
            f"set_deterministic_debug_mode({debug_mode!r}): expected 0, 1, 2 or one of {_MODES}."
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """The level that holds: see `set_deterministic_debug_mode`."""
    if not _setting.required:
        return 0
    return 1 if _setting.warn_only else 2


__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]
