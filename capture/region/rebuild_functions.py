"""Functions, partial methods and names made again at run time, and what must be kept apart."""

import functools
import sys
import types
from typing import Any


def is_exchanged(text: str) -> bool:
    """True for a string that a code object, which interns names, exchanges for an equal one."""
    is_name = text.isascii() and text.replace("_", "a").isalnum()
    return is_name and sys.intern(text) is not text


def partial_method(method: Any, /, *args: Any, **keywords: Any) -> Any:
    """What a `functools.partialmethod` gives for the instance of a bound method."""
    made: Any = functools.partial(method, *args, **keywords)
    made.__self__ = method.__self__
    return made


def set_annotations(function: types.FunctionType, pairs: tuple[Any, ...]) -> None:
    """Annotations from a tuple of names and values in turn."""
    function.__annotations__ = dict(zip(pairs[::2], pairs[1::2], strict=True))
