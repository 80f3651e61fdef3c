"""TorchScript's decorators by PyTorch's path: they pass functions and modules through.

Contract: nothing is compiled here; `dynajit.compile` does that. `script` and `trace` say so with a
warning and return what they got, which computes the same.
"""

import warnings
from collections.abc import Callable
from typing import Any, Final, TypeVar

from dynajit.nn.module import Module

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


def annotate(the_type: Any, the_value: _Passed) -> _Passed:
    """`the_value`: a hint for TorchScript's types."""
    return the_value


def is_scripting() -> bool:
    """Whether TorchScript compiles this code: False."""
    return False


def is_tracing() -> bool:
    """Whether TorchScript records this code: False."""
    return False


class TracerWarning(Warning):
    """What programs filter out; nothing is traced here, so that nothing warns so."""


class ScriptModule(Module):
    """A module: what derives from it runs as ordinary Python."""


def script_method(fn: _Passed) -> _Passed:
    """A decorator that does nothing."""
    return fn


def _overload_method(func: _Passed) -> _Passed:
    """A decorator that does nothing: the last definition counts, as in Python."""
    return func


_overload = _overload_method

__all__ = [
    "Final",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "ignore",
    "is_scripting",
    "is_tracing",
    "script",
    "script_method",
    "trace",
    "unused",
]
