"""TorchScript's decorators by PyTorch's path: they pass functions and modules through.

Contract: nothing is compiled here; `dynajit.compile` does that. `script` and `trace` say so with a
warning and return what they got, which computes the same.
"""

import contextlib
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from dynajit.core.errors import UnsupportedError
from dynajit.core.process import late
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


def is_scripting() -> bool:
    """Whether TorchScript compiles this code: False."""
    return False


def is_tracing() -> bool:
    """Whether TorchScript records this code: False."""
    return False


class ScriptModule(Module):
    """A module: what derives from it runs as ordinary Python."""


def script_method(fn: _Passed) -> _Passed:
    """A decorator that does nothing."""
    return fn


def _overload_method(func: _Passed) -> _Passed:
    """A decorator that does nothing: the last definition counts, as in Python."""
    return func


_overload = _overload_method


class RecursiveScriptModule(ScriptModule):
    """What PyTorch's `script` returns; here no module is one."""


class ScriptFunction:
    """What PyTorch's `script` returns for functions; here none is one."""


class TracedModule(ScriptModule):
    """What PyTorch's `trace` returned long ago; here no module is one."""


class TracerWarning(Warning):
    """PyTorch warns so of what a trace does not see; here nothing does."""


class Error(RuntimeError):
    """PyTorch raises this for errors in TorchScript; here nothing does."""


class Attribute(NamedTuple):
    """A value with the type that TorchScript shall give it."""

    value: Any
    type: Any


def annotate(the_type: Any, the_value: _Passed) -> _Passed:
    """`the_value` itself."""
    return the_value


def _unwrap_optional(x: _Passed | None) -> _Passed:
    """`x`, which is not None.

    Raises:
        AssertionError: it is None.
    """
    if x is None:
        raise AssertionError("Unwrapping null optional")
    return x


def script_if_tracing(fn: _Passed) -> _Passed:
    """A decorator that does nothing."""
    return fn


_script_if_tracing = script_if_tracing


def interface(obj: _Passed) -> _Passed:
    """A decorator that does nothing."""
    return obj


def trace_module(mod: _Passed, inputs: Any, *options: Any, **named: Any) -> _Passed:
    """`mod` itself, with a warning; it is not run."""
    _warn("trace_module")
    return mod


def freeze(mod: _Passed, *options: Any, **named: Any) -> _Passed:
    """`mod` itself, with a warning."""
    _warn("freeze")
    return mod


def optimize_for_inference(mod: _Passed, *options: Any, **named: Any) -> _Passed:
    """`mod` itself, with a warning."""
    _warn("optimize_for_inference")
    return mod


def _get_trace_graph(*args: Any, **kwargs: Any) -> NoReturn:
    """Refused: there are no graphs of TorchScript.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "jit._get_trace_graph: there is no TorchScript, and so no graph of it.  Use "
        "dynajit.explain, or fx.symbolic_trace."
    )


class _Finished:
    """What `fork` returns: a result that is there already."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def wait(self) -> Any:
        """The result."""
        return self.result

    value = wait

    def done(self) -> bool:
        """True."""
        return True


Future = _Finished


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> _Finished:
    """The result of `func(*args, **kwargs)`, which is called now, as in PyTorch's eager mode."""
    return _Finished(func(*args, **kwargs))


def wait(future: _Finished) -> Any:
    """The result that `fork` was for."""
    return future.wait()


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether `obj` is of a class, or of one of several, whose elements may be named:
    `list[int]`, `dict[str, Tensor]`, `tuple[int, str]`, `Optional[int]`."""
    targets = target_type if type(target_type) is tuple else (target_type,)
    return any(_is_of(obj, target) for target in targets)


def _is_of(obj: Any, target: Any) -> bool:
    origin, parts = typing.get_origin(target), typing.get_args(target)
    if target is None or target is type(None):
        return obj is None
    if target is Any:
        return True
    if origin is None:
        return type(obj) is target or issubclass(type(obj), target)
    if origin in (typing.Union, types.UnionType):
        return any(_is_of(obj, part) for part in parts)
    if not issubclass(type(obj), origin):
        return False
    if issubclass(origin, dict):
        return all(_is_of(k, parts[0]) and _is_of(v, parts[1]) for k, v in obj.items())
    if issubclass(origin, tuple) and parts[-1:] != (...,):
        return len(obj) == len(parts) and all(map(_is_of, obj, parts))
    return all(_is_of(item, parts[0]) for item in obj)


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """A block that changes nothing."""
    yield


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted; nothing is fused by TorchScript."""


def onednn_fusion_enabled() -> bool:
    """False."""
    return False


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accepted; there was none before."""
    return []


def load(f: Any, map_location: Any = None, **options: Any) -> NoReturn:
    """Refused: files of TorchScript hold programs of another language.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "jit.load: there is no TorchScript.  Save the module's state_dict() with save, and read it "
        "into a module made by its class."
    )


def save(m: Any, f: Any, **options: Any) -> NoReturn:
    """Refused: see `load`.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "jit.save: there is no TorchScript.  Save the module's state_dict() with save."
    )


__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TracedModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

late.show(__name__)
