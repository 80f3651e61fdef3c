"""What autocast does in the calling thread, read and set by PyTorch's functions.

Contract: the state is the thread's autocast word (`ops.calls.autocast_words`), so compiled
functions notice every change of it. Casts are not remembered here: a parameter that is used twice
is cast twice (graphs hold equal casts once), and so the cache's switch is kept and has no effect.
`dynajit` publishes these functions.
"""

import threading
from typing import Any

from dynajit.core.errors import ArgumentError
from dynajit.core.types.dtypes import DType
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.ops.calls import autocast_words as words


class _Nesting(threading.local):
    depth = 0


_nesting = _Nesting()


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device type.

    Raises:
        DeviceError: autocast does not know the device type.
    """
    return words.is_enabled(_autocast_word(), device_type)


def set_autocast_enabled(device_type: Any, enabled: bool | None = None) -> None:
    """Turn autocast on or off; `set_autocast_enabled(flag)` is about "cuda".

    Raises:
        DeviceError: autocast does not know the device type.
    """
    if enabled is None:
        device_type, enabled = "cuda", device_type
    _set_autocast_word(words.with_enabled(_autocast_word(), device_type, bool(enabled)))


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype of functions of lower precision; bfloat16 for "cpu", if nobody set another.

    Raises:
        DeviceError: autocast does not know the device type.
    """
    return words.dtype_of(_autocast_word(), device_type)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Choose the dtype of functions of lower precision.

    Raises:
        ArgumentError: `dtype` is no dtype.
        DeviceError: autocast does not know the device type.
    """
    if not isinstance(dtype, DType):
        raise ArgumentError(f"set_autocast_dtype(dtype={dtype!r}): expected a dtype.")
    _set_autocast_word(words.with_dtype(_autocast_word(), device_type, dtype))


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")` by its older name."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)` by its older name."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """`get_autocast_dtype("cpu")` by its older name."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cpu", dtype)` by its older name."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """`get_autocast_dtype("cuda")` by its older name."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cuda", dtype)` by its older name."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """The last setting of `set_autocast_cache_enabled`, or of `autocast(cache_enabled=...)`."""
    return words.is_cached(_autocast_word())


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Kept, and without effect: see the module's text."""
    _set_autocast_word(words.with_cache(_autocast_word(), bool(enabled)))


def clear_autocast_cache() -> None:
    """Forget casts of parameters: none are kept."""


def autocast_increment_nesting() -> int:
    """Count a region that the program enters by hand; the depth now (this thread)."""
    _nesting.depth += 1
    return _nesting.depth


def autocast_decrement_nesting() -> int:
    """Count a region that the program leaves by hand; the depth now (this thread)."""
    _nesting.depth -= 1
    return _nesting.depth
