"""What user code can say to the compiler: break here, leave this function alone, is this compiled.

Eagerly these functions do nothing; the executor gives them their meaning. Called by users through
`dynajit`, and by `dynajit.compile` (`why_not_captured`) for frames met below a region.
"""

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final, TypeVar

from dynajit.capture import _capture

F = TypeVar("F", bound=Callable[..., Any])

DISABLED: Final = "__dynajit_disabled__"
"""Attribute of functions that `disable` wrapped."""

LIBRARY: Final = "dynajit"
"""Frames of this package run as they are; `nn` modules are captured."""

PLAIN: Final = sys.stdlib_module_names | {"numpy"}
"""Packages without tensors: their frames, met below `print` and the like, run as they are."""


def graph_break() -> None:
    """End the graph here; what follows is captured as a new one."""


def is_compiling() -> bool:
    """True while a function is being captured, False in eager execution."""
    return False


def disable(function: F) -> F:
    """A function that always runs as plain Python, also when compiled code calls it.

    Args:
        function: any callable; usable as a decorator.
    """

    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        _capture.hook_enter(None)
        try:
            return function(*args, **kwargs)
        finally:
            _capture.hook_leave()

    _capture.mark_skip(disabled.__code__)
    setattr(disabled, DISABLED, True)
    return disabled  # type: ignore[return-value]  # same signature


def is_disabled(function: Any) -> bool:
    """True for the result of `disable`."""
    return getattr(function, DISABLED, False) is True


def why_not_captured(function: FunctionType) -> str | None:
    """Why a frame met below a region is not captured by itself, or None where it is."""
    module = function.__module__ or ""
    package = module.partition(".")[0]
    if package == LIBRARY and not module.startswith("dynajit.nn."):
        return "it belongs to the library"
    if package in PLAIN:
        return f"it belongs to {package}, which computes nothing with tensors"
    return None
