"""What user code can say to the compiler: break here, leave this function alone, run eagerly.

Eagerly these functions do nothing; the executor gives them their meaning.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final, TypeVar, overload

from dynajit.capture import _capture
from dynajit.core.errors import ArgumentError
from dynajit.core.process import config

F = TypeVar("F", bound=Callable[..., Any])

DISABLED: Final = "__dynajit_disabled__"
"""Attribute of functions that `disable` wrapped."""

REASON: Final = "__dynajit_disabled_reason__"
"""Attribute of such functions: why, or None."""

ALLOWED: Final = "__dynajit_allowed__"
"""Attribute of functions that `allow_in_graph` marked."""

PASSED_ON: Final = "__dynajit_passed_on__"
"""Attribute of functions whose `*args` and `**kwargs` go to another one: what that one calls the
first ones. For reports."""

LIBRARY: Final = "dynajit"
"""Frames of this package run as they are; `nn` modules are captured."""

PLAIN: Final = sys.stdlib_module_names | {"numpy"}
"""Packages without tensors: their frames, met below `print` and the like, run as they are."""


def graph_break() -> None:
    """End the graph here; what follows is captured as a new one."""


def is_compiling() -> bool:
    """True while a function is being captured, False in eager execution."""
    return False


def disable(function: F, recursive: bool = True, reason: str | None = None) -> F:
    """A function that always runs as plain Python, also when compiled code calls it.

    Args:
        function: any callable.
        recursive: what it calls runs as plain Python, too.
        reason: why; graph breaks say so.
    """
    disabled = _with_all_it_calls(function) if recursive else _alone(function)
    _capture.mark_skip(disabled.__code__)
    setattr(disabled, DISABLED, True)
    setattr(disabled, REASON, reason)
    return disabled  # type: ignore[no-any-return]  # same signature


def _with_all_it_calls(function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        _capture.hook_enter(None)
        try:
            return function(*args, **kwargs)
        finally:
            _capture.hook_leave()

    return disabled


def _alone(function: Callable[..., Any]) -> Any:
    code = getattr(function, "__code__", None)
    if code is not None:
        _capture.mark_skip(code)

    @functools.wraps(function)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return disabled


def is_disabled(function: Any) -> bool:
    """True for the result of `disable`."""
    return getattr(function, DISABLED, False) is True


def why_disabled(function: Any) -> str:
    """What a graph break says of such a function."""
    reason = getattr(function, REASON, None)
    return f"{function.__qualname__} is disabled" + (f": {reason}" if reason else "")


@overload
def allow_in_graph(function: F) -> F: ...
@overload
def allow_in_graph(function: Sequence[F]) -> list[F]: ...


def allow_in_graph(function: Any) -> Any:
    """Call `function` with graph values instead of reading its bytecode.

    For a function that only calls operations of this library on its tensor arguments. It runs once
    per compile; Python side effects in it are not replayed.

    Args:
        function: a plain Python function; usable as a decorator. A class stays as it is: its
            instances are made and called as ever. Of a list, each.

    Raises:
        ArgumentError: it is not a Python function.
    """
    if isinstance(function, (list, tuple)):
        return [allow_in_graph(each) for each in function]
    if isinstance(function, type):
        return function
    if not isinstance(function, FunctionType):
        raise ArgumentError(
            f"allow_in_graph({function!r}): expected a Python function.  Wrap it in one."
        )
    setattr(function, ALLOWED, True)
    return function


def is_allowed(function: Any) -> bool:
    """True for a function that `allow_in_graph` marked."""
    return getattr(function, ALLOWED, False) is True


class set_stance:  # a context manager, spelled as users call it
    """Say what compiled functions may do from now on, in the whole process.

    A plain call lasts; `with set_stance(...)` and the decorator form restore the stance before.

    Args:
        stance: `default`; `force_eager`: run as plain Python; `eager_on_recompile`: versions
            compiled so far run, every other call runs as plain Python; `fail_on_recompile`: every
            other call raises RecompileError.

    Raises:
        ArgumentError: there is no such stance.
    """

    def __init__(self, stance: str = "default") -> None:
        if stance not in config.STANCES:
            raise ArgumentError(
                f"set_stance({stance!r}): no such stance.  Expected one of "
                f"{', '.join(config.STANCES)}."
            )
        self.stance = stance
        self._before = config.configure(stance=stance).stance

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        config.configure(stance=self._before)

    def __call__(self, function: F) -> F:
        """Run `function` under this stance; the stance itself goes back at once."""
        config.configure(stance=self._before)
        stance = self.stance

        @functools.wraps(function)
        def under_stance(*args: Any, **kwargs: Any) -> Any:
            with set_stance(stance):
                return function(*args, **kwargs)

        return under_stance  # type: ignore[return-value]  # same signature


config.on_default(lambda default: _capture.set_default_is_eager(default.is_eager))


#: Module -> functions; none named: all of the module.
_OF_ARRAYS: Final[dict[str, tuple[str, ...]]] = {
    "dynajit.nn.ctc": (),
    "dynajit.nn.sequences": ("invert_permutation", "pack_padded_sequence", "pad_packed_sequence"),
}


def works_on_arrays(function: FunctionType) -> bool:
    """True for functions of the library, not eager ones, that look into tensors all along."""
    names = _OF_ARRAYS.get(function.__module__ or "")
    return names is not None and (not names or function.__qualname__ in names)


def why_not_captured(function: FunctionType) -> str | None:
    """Why a frame met below a region is not captured by itself, or None where it is."""
    module = function.__module__ or ""
    package = module.partition(".")[0]
    if works_on_arrays(function):
        return "it works on arrays"
    if package == LIBRARY and not module.startswith("dynajit.nn."):
        return "it belongs to the library"
    if package in PLAIN or package.startswith("namedtuple_"):
        return f"it belongs to {package}, which computes nothing with tensors"
    return None
