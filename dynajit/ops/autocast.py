"""Which dtype a library function computes in under autocast: PyTorch's lists for the CPU.

Contract: a library function that stands on one of the lists says so by a decorator where it is
defined: `lower_precision`, `full_precision` (float32) or `widest`. All others take their operands
as they come. Where autocast is on, the decorator casts tensors among the arguments (float16,
bfloat16 and float32; neither float64 nor integers nor Python numbers), and the function runs with
autocast off, so what it is made of is not cast again. Casts are ordinary rows: gradients come back
in the dtype that an operand had, and graphs hold the casts. Used by the modules of library
functions; eager names who keeps the thread's word.

Source: PyTorch 2.x, "Automatic Mixed Precision package", CPU op-specific behaviour.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from dynajit.core import dtypes
from dynajit.core.dtypes import DType
from dynajit.core.errors import DTypeError
from dynajit.core.types import ScalarType
from dynajit.ops import autocast_words as words
from dynajit.ops.arguments import cast, is_tensor
from dynajit.ops.autocast_words import CPU_ENABLED

Function = TypeVar("Function", bound=Callable[..., Any])

_CAST: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32)


class _Thread:
    """Reads and sets the calling thread's word. Mutable: eager installs its own once."""

    read: Callable[[], int] = staticmethod(lambda: 0)
    write: Callable[[int], int] = staticmethod(lambda word: 0)


_thread: Final = _Thread()


def install(read: Callable[[], int], write: Callable[[int], int]) -> None:
    """Name who keeps the word of each thread.

    Args:
        read: the word that holds in the calling thread.
        write: sets it, and returns the one before.
    """
    _thread.read, _thread.write = read, write


@contextlib.contextmanager
def word_set(word: int) -> Iterator[None]:
    """`word` holds within the block (this thread)."""
    before = _thread.write(word)
    try:
        yield
    finally:
        _thread.write(before)


def disabled() -> contextlib.AbstractContextManager[None]:
    """Nothing is cast within the block (this thread)."""
    word = _thread.read()
    if not word & CPU_ENABLED:
        return contextlib.nullcontext()
    return word_set(word & ~CPU_ENABLED)


def lower_dtype() -> DType | None:
    """The dtype that functions of lower precision compute in now; None while autocast is off."""
    word = _thread.read()
    return words.dtype_of(word, "cpu") if word & CPU_ENABLED else None


def is_cast(value: Any) -> bool:
    """True for what autocast may cast: tensors of floats that are not float64."""
    if not is_tensor(value) or value.dtype not in _CAST:
        return False
    return not isinstance(getattr(value, "type", None), ScalarType)  # a graph's run-time number


def _converted(value: Any, dtype: DType) -> Any:
    """`value` with its tensors, also those in a list or tuple, in `dtype`."""
    if is_cast(value):
        return cast(value, dtype)
    if isinstance(value, (list, tuple)) and any(map(is_cast, value)):
        return [_converted(item, dtype) for item in value]
    return value


def _run(
    function: Callable[..., Any], dtype: DType, word: int, args: Any, keywords: dict[str, Any]
) -> Any:
    with word_set(word & ~CPU_ENABLED):
        operands = [_converted(value, dtype) for value in args]
        named = {name: _converted(value, dtype) for name, value in keywords.items()}
        return function(*operands, **named)


def lower_precision(function: Function) -> Function:
    """Decorate a function that computes in autocast's dtype: products and convolutions."""

    @functools.wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        word = _thread.read()
        if not word & CPU_ENABLED:
            return function(*args, **keywords)
        return _run(function, words.dtype_of(word, "cpu"), word, args, keywords)

    return wrapper  # type: ignore[return-value]


def full_precision(function: Function) -> Function:
    """Decorate a function that computes in float32: losses, decompositions and others."""

    @functools.wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        word = _thread.read()
        if not word & CPU_ENABLED:
            return function(*args, **keywords)
        return _run(function, dtypes.float32, word, args, keywords)

    return wrapper  # type: ignore[return-value]


def widest(function: Function) -> Function:
    """Decorate a function that joins tensors: in float32 if one has it, else in autocast's dtype.

    The function then raises a DTypeError for tensors of the other 16-bit dtype.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **keywords: Any) -> Any:
        word = _thread.read()
        if not word & CPU_ENABLED:
            return function(*args, **keywords)
        lower = words.dtype_of(word, "cpu")
        dtype = _widest([*args, *keywords.values()], lower, function.__name__)
        return _run(function, dtype, word, args, keywords)

    return wrapper  # type: ignore[return-value]


def _widest(arguments: list[Any], lower: DType, name: str) -> DType:
    found = lower
    for argument in arguments:
        for value in argument if isinstance(argument, (list, tuple)) else (argument,):
            if not is_cast(value) or found is dtypes.float32:
                continue
            if value.dtype not in (lower, dtypes.float32):
                raise DTypeError(
                    f"{name}: Unexpected floating ScalarType {value.dtype.name}, where autocast's "
                    f"dtype is {lower.name}.  Cast the tensor with .to(dtype)."
                )
            found = value.dtype
    return found


def widened(x: Any) -> Any:
    """x in float32, if autocast is on and casts it: `full_precision` for one operand."""
    return cast(x, dtypes.float32) if lower_dtype() is not None and is_cast(x) else x
