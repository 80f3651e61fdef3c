"""Which dtype a library function computes in under autocast: PyTorch's lists for CPU and CUDA.

Contract: a library function that stands on one of the lists says so where it is defined:
`@autocast(cpu=..., cuda=...)`, by the device of its tensors. All others take their operands as they
come. Where autocast is on, the decorator casts tensors among the arguments (float16, bfloat16 and
float32; neither float64 nor integers nor Python numbers), and the function runs with autocast off,
so what it is made of is not cast again. Rows of CUDA's list (`exp`, `sum`, ...) say so on the row:
who runs a row on a GPU, or records it, asks `for_row`. Casts are ordinary rows: gradients come back
in the dtype that an operand had, and graphs hold the casts. Eager says who keeps the thread's word.

Source: PyTorch 2.x, "Automatic Mixed Precision package", CPU and CUDA op-specific behaviour, and
"Prefer binary_cross_entropy_with_logits over binary_cross_entropy".
"""

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dynajit.core.errors import AutogradError, DTypeError
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import ScalarType
from dynajit.ops.calls import autocast_words as words
from dynajit.ops.calls.arguments import cast, is_tensor
from dynajit.ops.calls.autocast_words import CPU_ENABLED, CUDA_ENABLED
from dynajit.ops.table.op_table import Autocast, Op

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

Function = TypeVar("Function", bound=Callable[..., Any])

_ENABLED: Final = CPU_ENABLED | CUDA_ENABLED
_CAST: Final = (dtypes.float16, dtypes.bfloat16, dtypes.float32)


MSG_BANNED: Final = (
    "binary_cross_entropy: torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are "
    "unsafe to autocast: a sigmoid in float16 gives 0 and 1, whose logarithms are infinite.  Use "
    "binary_cross_entropy_with_logits or BCEWithLogitsLoss, which contain the sigmoid."
)


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
    if not word & _ENABLED:
        return contextlib.nullcontext()
    return word_set(word & ~_ENABLED)


def lower_dtype(device: Device = CPU) -> DType | None:
    """The dtype that functions of lower precision compute in now, on a device; None while autocast
    is off for it."""
    word, kind = _thread.read(), device.type
    is_on = words.is_available(kind) and words.is_enabled(word, kind)
    return words.dtype_of(word, kind) if is_on else None


def is_cast(value: Any) -> bool:
    """True for what autocast may cast: tensors of floats that are not float64."""
    if not is_tensor(value) or value.dtype not in _CAST:
        return False
    return not isinstance(getattr(value, "type", None), ScalarType)  # a graph's run-time number


def _converted(value: Any, dtype: DType, kind: str) -> Any:
    """`value` with its tensors on a kind of device, also those in a list or tuple, in `dtype`."""
    if is_cast(value):
        return cast(value, dtype) if value.device.type == kind else value
    if isinstance(value, (list, tuple)) and any(map(is_cast, value)):
        return [_converted(item, dtype, kind) for item in value]
    return value


def _tensors(arguments: Iterable[Any]) -> Iterator[Any]:
    """The tensors of floats among arguments, also those in a list or tuple."""
    for argument in arguments:
        for value in argument if isinstance(argument, (list, tuple)) else (argument,):
            if is_cast(value):
                yield value


def _kind_of_device(arguments: Iterable[Any]) -> str:
    """Whose list counts: "cuda" where a tensor is on a GPU."""
    return "cpu" if all(x.device is CPU for x in _tensors(arguments)) else "cuda"


def _dtype_by(rule: Autocast, lower: DType, name: str, arguments: Iterable[Any]) -> DType:
    """The dtype of a call.

    Raises:
        AutogradError: the function must not be called under autocast.
        DTypeError: tensors of the other 16-bit dtype are to be joined.
    """
    if rule is Autocast.BANNED:
        raise AutogradError(MSG_BANNED)
    if rule is Autocast.WIDEST:
        return _widest(arguments, lower, name)
    return lower if rule is Autocast.LOWER else dtypes.float32


def autocast(
    *, cpu: Autocast | None = None, cuda: Autocast | None = None
) -> Callable[[Function], Function]:
    """Decorate a function that does not take its operands as they come.

    Args:
        cpu: what is done to tensors of the CPU; `Autocast.WIDEST` makes the function raise a
            DTypeError for tensors of the other 16-bit dtype.
        cuda: to those of a GPU.
    """
    rules = {"cpu": cpu, "cuda": cuda}

    def decorate(function: Function) -> Function:
        name = function.__name__

        def cast_and_called(word: int, args: Any, keywords: dict[str, Any]) -> Any:
            given = [*args, *keywords.values()]
            kind = _kind_of_device(given)
            rule = rules[kind]
            if rule is None or not words.is_enabled(word, kind):
                return function(*args, **keywords)
            dtype = _dtype_by(rule, words.dtype_of(word, kind), name, given)
            with word_set(word & ~_ENABLED):
                operands = [_converted(value, dtype, kind) for value in args]
                named = {key: _converted(value, dtype, kind) for key, value in keywords.items()}
                return function(*operands, **named)

        @functools.wraps(function)
        def wrapper(*args: Any, **keywords: Any) -> Any:
            word = _thread.read()
            if not word & _ENABLED:
                return function(*args, **keywords)
            return cast_and_called(word, args, keywords)

        return wrapper  # type: ignore[return-value]

    return decorate


def for_row(row: Op, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operands of a row, one of which is on a GPU, as autocast wants them."""
    word = _thread.read()
    rule = row.autocast if word & CUDA_ENABLED else None
    if rule is None:
        return inputs
    dtype = _dtype_by(rule, words.dtype_of(word, "cuda"), row.name, inputs)
    with word_set(word & ~_ENABLED):
        return tuple(_converted(value, dtype, "cuda") for value in inputs)


def _widest(arguments: Iterable[Any], lower: DType, name: str) -> DType:
    found = lower
    for value in _tensors(arguments):
        if found is dtypes.float32:
            break
        if value.dtype not in (lower, dtypes.float32):
            raise DTypeError(
                f"{name}: Unexpected floating ScalarType {value.dtype.name}, where autocast's "
                f"dtype is {lower.name}.  Cast the tensor with .to(dtype)."
            )
        found = value.dtype
    return found


def widened(x: "TensorMethods") -> Any:
    """x in float32, if autocast is on and casts it: `Autocast.FULL` for one operand."""
    if not _thread.read() & _ENABLED or not is_cast(x) or lower_dtype(x.device) is None:
        return x
    return cast(x, dtypes.float32)
