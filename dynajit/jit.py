"""TorchScript's decorators by PyTorch's path: they pass functions and modules through.

Contract: nothing is compiled here; `dynajit.compile` does that. `script` and `trace` say so with a
warning and return what they got, which computes the same.
"""

import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

_Passed = TypeVar("_Passed")


def _warn(name: str) -> None:
    warnings.warn(
        f"jit.{name}: there is no TorchScript; the argument is returned as it is.  Use "
        "dynajit.compile.",
        stacklevel=3,
    )


def script(obj: _Passed, *options: Any, **named: Any) -> _Passed:
    """`obj` itself, with a warning."""
    _warn("script")
    return obj


def trace(func: _Passed, *options: Any, **named: Any) -> _Passed:
    """`func` itself, with a warning; it is not run."""
    _warn("trace")
    return func


def ignore(drop: Any = False, **named: Any) -> Any:
    """A decorator, with or without arguments, that does nothing."""
    return drop if callable(drop) else lambda function: function


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does nothing."""
    return fn


def export(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does nothing."""
    return fn


def is_scripting() -> bool:
    """Whether TorchScript compiles this code: False."""
    return False


def is_tracing() -> bool:
    """Whether TorchScript records this code: False."""
    return False


__all__ = ["Final", "export", "ignore", "is_scripting", "is_tracing", "script", "trace", "unused"]
