"""Overridden functions by PyTorch's path: `__torch_function__` and modes.

Contract: what classes and modes are asked is in `ops.table.overriding`. `get_overridable_functions`
and its kin list what is here, by the namespaces of PyTorch. There is no `__torch_dispatch__`.
"""

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import dynajit
from dynajit import fft, linalg, special
from dynajit.core.errors import ArgumentError
from dynajit.eager.operations.subclasses import change_unasked, enter_mode, leave_mode
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional
from dynajit.ops import functions
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table import overriding
from dynajit.ops.table.overriding import (
    handle_torch_function,
    has_torch_function,
    has_torch_function_unary,
    has_torch_function_variadic,
)


class TorchFunctionMode:
    """A block in which every call of a function or method on tensors is a call of this object's
    `__torch_function__(func, types, args, kwargs)`, in the thread that entered it.

    Within that method the mode is not active (modes around it are), so it may call `func`. Mutable:
    may be entered several times, also within itself.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        raise NotImplementedError(
            f"{type(self).__qualname__}: a mode has to define "
            "__torch_function__(self, func, types, args, kwargs)."
        )

    def __enter__(self) -> "TorchFunctionMode":
        enter_mode(self)
        return self

    def __exit__(self, *error: object) -> None:
        leave_mode()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that only calls."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """The call itself."""
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """A block in which no class is asked by `__torch_function__`, in this thread; modes are."""

    def __enter__(self) -> None:
        change_unasked(1)

    def __exit__(self, *error: object) -> None:
        change_unasked(-1)


class DisableTorchFunction:
    """A block in which neither classes nor modes are asked, in this thread.

    Mutable: keeps what was so before each block that it entered.
    """

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(change_unasked(1, True))

    def __exit__(self, *error: object) -> None:
        change_unasked(-1, self._before.pop())


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or its class has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, overriding.PROTOCOL)


_NAMESPACES: Final[dict[Any, str]] = {
    dynajit: "torch",
    functional: "torch.nn.functional",
    linalg: "torch.linalg",
    fft: "torch.fft",
    special: "torch.special",
}

_NOT_OF_TENSORS: Final = frozenset(("broadcast_shapes", "can_cast", "is_tensor"))


@functools.cache
def _overridable() -> dict[Any, tuple[Any, ...]]:
    names = {
        dynajit: [name for name in functions.__all__ if name not in _NOT_OF_TENSORS],
        **{space: space.__all__ for space in (functional, linalg, fft, special)},
    }
    found: dict[Any, tuple[Any, ...]] = {}
    for space, listed in names.items():
        members = (getattr(space, name) for name in listed)
        found[space] = tuple(dict.fromkeys(m for m in members if _is_function(m)))
    methods = (getattr(Tensor, name) for name in dir(Tensor) if not name.startswith("_"))
    found[Tensor] = tuple(dict.fromkeys(m for m in methods if _is_function(m)))
    return found


def _is_function(member: Any) -> bool:
    return isinstance(member, (FunctionType, LibraryFunction))


def get_overridable_functions() -> dict[Any, list[Any]]:
    """Per namespace (a module, or the class `Tensor`) the functions that may be overridden."""
    return {space: list(members) for space, members in _overridable().items()}


def get_ignored_functions() -> set[Any]:
    """Public functions of which classes are not asked."""
    names = (*_NOT_OF_TENSORS, "tensor", "as_tensor", "asarray", "from_numpy", "load", "save")
    return {getattr(dynajit, name) for name in names}


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether it is a method of `Tensor`, or `__get__` or `__set__` of an attribute of it."""
    if getattr(func, "__name__", "") in ("__get__", "__set__"):
        return True
    return any(func is getattr(Tensor, name, None) for name in (_name(func), f"__{_name(func)}__"))


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", ""))


def resolve_name(f: Any) -> str | None:
    """The dotted name of a function or method, by PyTorch's path; None where it has none."""
    for name in (_name(f), *dir(Tensor)):
        if getattr(Tensor, name, None) is f:
            return f"torch.Tensor.{name}"
    for space, path in _NAMESPACES.items():
        if getattr(space, _name(f), None) is f:
            return f"{path}.{_name(f)}"
    return None


def wrap_torch_function(dispatcher: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the function asks modes and classes first.

    Args:
        dispatcher: takes the function's arguments and gives those that may override it.

    Raises:
        ArgumentError: what is decorated cannot be called.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise ArgumentError(
                f"wrap_torch_function: expected a function, got {type(function).__name__}."
            )

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorate


__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "get_ignored_functions",
    "get_overridable_functions",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]
