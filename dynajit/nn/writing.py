"""The `inplace` argument of functions: the result is written into the input.

Contract: what capture inlines, unlike the library's functions: so it sees the write, as it does any
write of the program's own. Called by `nn.functional`.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any


def with_inplace(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with a last argument `inplace`."""
    others = len(inspect.signature(function).parameters) - 1

    # Without `__module__`: the wrapper is a function of this module.
    @wraps(function, assigned=("__name__", "__qualname__", "__doc__"))
    def wrapper(input: Any, *args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) > others:
            args, inplace = args[:others], args[others]
        result = function(input, *args, **kwargs)
        return input.copy_(result) if inplace else result

    return wrapper
