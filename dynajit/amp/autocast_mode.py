"""`autocast`: regions in which library functions choose their precision.

Contract: an ordinary Python class whose `__enter__` and `__exit__` set the thread's autocast word
by one primitive each, so capture can follow them. "cpu" is about tensors of the CPU, "cuda" about
those of a GPU; where there is none it warns and does nothing, as PyTorch does.
"""

import functools
import warnings
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import ArgumentError, DeviceError, InvalidValueError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.eager.modes.autocast_mode import _autocast_word, _set_autocast_word
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls import autocast_words as words

_LOWER = (dtypes.bfloat16, dtypes.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` takes a device type."""
    return words.is_available(device_type)


class autocast:
    """Within the block, or the decorated function, functions choose the dtype they compute in.

    Args:
        device_type: "cpu" or "cuda".
        dtype: that of products and convolutions: bfloat16 or float16; None: bfloat16 on the CPU,
            float16 on GPUs.
        enabled: False turns autocast off within the block.
        cache_enabled: kept, and without effect (see `amp.state`).

    Raises:
        InvalidValueError: `device_type` is no text.
        DeviceError: autocast does not know the device type.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise InvalidValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
            )
        if not words.is_available(device_type):
            raise DeviceError(f"User specified an unsupported autocast device_type '{device_type}'")
        word = _autocast_word()
        self.device = device_type
        self.fast_dtype = words.dtype_of(word, device_type) if dtype is None else dtype
        self._cache_enabled = words.is_cached(word) if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._can_be_on()
        self._before: list[int] = []

    def _can_be_on(self) -> bool:
        if self.device == "cuda" and not gpu.is_available():
            warnings.warn(
                "CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=3
            )
            return False
        if self.fast_dtype in _LOWER:
            return True
        warnings.warn(
            f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling "
            f"autocast.\n{self.device.upper()} Autocast only supports dtypes of "
            f"{', '.join(map(str, _LOWER))} currently.",
            stacklevel=3,
        )
        return False

    def _enter(self) -> int:
        """Set the word; returns the one before."""
        before: int = _autocast_word()
        word = words.with_enabled(before, self.device, self._enabled)
        word = words.with_dtype(word, self.device, self.fast_dtype)
        _set_autocast_word(words.with_cache(word, self._cache_enabled))
        return before

    def __enter__(self) -> "autocast":
        self._before.append(self._enter())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _set_autocast_word(words.with_casts_of(_autocast_word(), self._before.pop()))

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `func` to run under these settings.

        Raises:
            ArgumentError: it cannot be called.
        """
        if not callable(func):
            raise ArgumentError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}.  For a "
                "block, write: with autocast(device_type=...):"
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[..., Any]:
    """`func`, run under the settings of `autocast_instance`, which keeps nothing of the calls."""

    @functools.wraps(func)
    def decorate_autocast(*args: Any, **kwargs: Any) -> Any:
        before = autocast_instance._enter()
        try:
            return func(*args, **kwargs)
        finally:
            _set_autocast_word(before)

    return decorate_autocast


# ---------------------------------------------------------------------------------------------
# custom functions


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """`value` with its tensors of floats (not float64) in `dtype`, in containers, too."""
    if isinstance(value, Tensor):
        is_eligible = value.dtype.is_floating_point and value.dtype is not dtypes.float64
        return value.to(dtype) if is_eligible and value.device.type == device_type else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, Mapping):
        return {
            _cast(key, device_type, dtype): _cast(item, device_type, dtype)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(item, device_type, dtype) for item in value])
    if isinstance(value, Iterable):
        return (_cast(item, device_type, dtype) for item in value)
    return value


def _require_text(device_type: Any) -> None:
    if not isinstance(device_type, str):
        raise InvalidValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: DType | None = None,
) -> Any:
    """Decorate the `forward` of an `autograd.Function` that is called under autocast.

    Args:
        fwd: the function; None returns the decorator.
        device_type: whose autocast it is about.
        cast_inputs: where autocast is on, tensors of floats are cast to it and `forward` runs with
            autocast off; None leaves both as they are.

    Raises:
        InvalidValueError: `device_type` is no text.
    """
    _require_text(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args: Any, **kwargs: Any) -> Any:
        context, word = args[0], _autocast_word()
        is_on = words.is_enabled(word, device_type)
        context._dtype = words.dtype_of(word, device_type)
        context._fwd_used_autocast = is_on and cast_inputs is None
        if cast_inputs is None or not is_on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(
                *_cast(args, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs)
            )

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the `backward` that belongs to `custom_fwd`: it runs under the same autocast.

    Args:
        bwd: the function; None returns the decorator.
        device_type: as of `custom_fwd`.

    Raises:
        InvalidValueError: `device_type` is no text.
    """
    _require_text(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        context = args[0]
        with autocast(device_type, context._dtype, enabled=context._fwd_used_autocast):
            return bwd(*args, **kwargs)

    return decorate_bwd
