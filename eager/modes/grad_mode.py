"""Whether operations are recorded for backward: per thread, as context managers and decorators.

Contract: the flags live in C (`_tensor`), one pair per thread, new threads start with gradients on.
Every class here is an ordinary Python class whose `__enter__` and `__exit__` call one primitive,
`_set_grad_enabled(flag) -> flag before`, so capture can follow them.
"""

import functools
import inspect
import threading
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any

from dynajit.core.errors import ArgumentError
from dynajit.eager._tensor import (
    _set_grad_enabled,
    _set_inference_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
)

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_multithreading_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


class _GradMode:
    """Base: enters with `wanted`, leaves with what was before. Mutable: remembers it."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.before: list[bool] = []

    def __enter__(self) -> None:
        self.before.append(_set_grad_enabled(self.wanted))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _set_grad_enabled(self.before.pop())

    def fresh(self) -> "_GradMode":
        """A manager of the same setting for one decorated call."""
        return type(self)()  # type: ignore[call-arg]  # subclasses bind `wanted`

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `function` (also a generator function) to run in this mode."""
        if isinstance(function, type):
            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
                stacklevel=2,
            )
        return _decorated(self.fresh, function)


def _decorated(
    manager: Callable[[], _GradMode], function: Callable[..., Any]
) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function):
        return _decorated_generator(manager, function)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with manager():
            return function(*args, **kwargs)

    return wrapper


def _decorated_generator(
    manager: Callable[[], _GradMode], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The mode holds while the generator runs, its end by `close` included, and not while it is
    suspended."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            with manager():
                try:
                    item = step()
                except StopIteration as stop:
                    return stop.value
            try:
                received = yield item
                step = functools.partial(generator.send, received)
            except GeneratorExit:
                with manager():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)

    return wrapper


class _Threads(threading.local):
    """Whether backward may use threads, in the opinion of this thread. Mutable."""

    is_enabled = True


_threads = _Threads()


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was given last, True at first."""
    return _threads.is_enabled


class set_multithreading_enabled:
    """Say whether backward may use threads: at once, and until the end of the block if used with
    `with`. Backward runs in the thread that calls it either way.

    Args:
        mode: True if it may.
    """

    def __init__(self, mode: bool) -> None:
        self.prev = _threads.is_enabled
        _threads.is_enabled = self.mode = mode

    def __enter__(self) -> None:
        """Nothing: it was said on creation."""

    def __exit__(self, *error: object) -> None:
        _threads.is_enabled = self.prev

    def clone(self) -> "set_multithreading_enabled":
        """Another manager of the same setting, which says it, too."""
        return type(self)(self.mode)


class no_grad(_GradMode):
    """Operations in the block (or in the decorated function) are not recorded."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """`@no_grad` without parentheses decorates, too."""
        if function is None:
            return super().__new__(cls)
        return cls()(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(False)


class enable_grad(_GradMode):
    """Operations in the block are recorded again, inside `no_grad`."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """`@enable_grad` without parentheses decorates, too."""
        if function is None:
            return super().__new__(cls)
        return cls()(function)

    def __init__(self, function: None = None) -> None:
        super().__init__(True)


class set_grad_enabled(_GradMode):
    """Turn recording on or off: at once, and until the end of the block if used with `with`.

    Args:
        mode: True to record.
    """

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self.at_creation = _set_grad_enabled(self.wanted)

    def __enter__(self) -> None:
        self.before.append(self.at_creation)
        _set_grad_enabled(self.wanted)

    def fresh(self) -> _GradMode:
        return set_grad_enabled(self.wanted)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate; creating the decorator leaves the mode outside as it was."""
        _set_grad_enabled(self.at_creation)
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"set_grad_enabled({self.wanted})"


class inference_mode(_GradMode):
    """Like `no_grad`, and `is_inference_mode_enabled()` is true.

    Args:
        mode: False leaves inference mode (gradients on) within an outer block.
    """

    def __new__(cls, mode: Any = True) -> Any:
        """`@inference_mode` without parentheses decorates, too."""
        if callable(mode):
            return cls()(mode)
        return super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        if not isinstance(mode, bool):
            raise ArgumentError(f"inference_mode(mode={mode!r}): expected a bool.")
        super().__init__(not mode)
        self.inference_before: list[bool] = []

    def __enter__(self) -> None:
        self.inference_before.append(_set_inference_enabled(not self.wanted))
        super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        _set_inference_enabled(self.inference_before.pop())

    def fresh(self) -> _GradMode:
        manager: _GradMode = inference_mode(not self.wanted)
        return manager


def is_inference(input: Any) -> bool:
    """Whether a tensor, or what it is a view of, was made in inference mode."""
    return bool(input.is_inference())
