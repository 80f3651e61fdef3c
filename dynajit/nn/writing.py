"""The `inplace` argument of functions: the result is written into the input.

Contract: what capture inlines, unlike the library's functions: so it sees the write, as it does any
write of the program's own.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from dynajit.eager.modes.grad_mode import is_grad_enabled

#: Where programs, and files that name such a function, find it.
_HOME: Final = "dynajit.nn.functional"

_INPLACE: Final = inspect.Parameter(
    "inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False, annotation=bool
)


def with_inplace(function: Callable[..., Any], *, saves_input: bool = False) -> Callable[..., Any]:
    """The function with a last argument `inplace`.

    Args:
        function: takes the input first.
        saves_input: whether its derivative reads the input, which is then kept in a copy.
    """
    signature = inspect.signature(function)
    others = len(signature.parameters) - 1

    @wraps(function, assigned=("__name__", "__qualname__", "__doc__"))
    def wrapper(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) > others:
            args, inplace = args[:others], args[others]
        if not inplace:
            return function(input, *args, **kwargs)
        is_kept = saves_input and input.requires_grad and is_grad_enabled()
        read = input.clone() if is_kept else input
        result = function(read, *args, **kwargs)
        return input if result is read else input.copy_(result)  # nothing dropped: no write

    wrapper.__module__ = _HOME
    wrapper.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), _INPLACE]
    )
    return wrapper


def in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a name with an underscore: it writes its result into the input."""

    @wraps(function, assigned=("__doc__",))
    def wrapper(input: Any, *args: Any, **kwargs: Any) -> Any:
        return function(input, *args, **kwargs, inplace=True)

    wrapper.__name__ = wrapper.__qualname__ = f"{function.__name__}_"
    wrapper.__module__ = _HOME
    wrapper.__signature__ = inspect.signature(inspect.unwrap(function))  # type: ignore[attr-defined]
    return wrapper
