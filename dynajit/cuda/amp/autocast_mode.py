"""`autocast` by PyTorch's older path, and what goes with it.

Contract: as `dynajit.amp` with the device type "cuda"; each use warns that the path is old. Called
by users and by `cuda.amp.grad_scaler`.
"""

import warnings
from collections.abc import Callable
from typing import Any

from dynajit import amp
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def warn_of_old_path(name: str, instead: str) -> None:
    """Warn the caller's caller that `cuda.amp.name` is now `amp.instead`."""
    warnings.warn(
        f"`cuda.amp.{name}(args...)` is deprecated. Please use `amp.{instead}` instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """`amp.autocast("cuda", ...)`; see there."""

    def __init__(
        self, enabled: bool = True, dtype: DType = dtypes.float16, cache_enabled: bool = True
    ) -> None:
        warn_of_old_path("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: DType | None = None) -> Any:
    """`amp.custom_fwd(..., device_type="cuda")`; see there."""
    warn_of_old_path("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`amp.custom_bwd(..., device_type="cuda")`; see there."""
    warn_of_old_path("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
