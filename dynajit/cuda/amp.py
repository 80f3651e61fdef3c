"""Mixed precision by PyTorch's older path: `from dynajit.cuda.amp import autocast, GradScaler`.

Contract: as `dynajit.amp` with the device type "cuda": there is no GPU, so `autocast` and
`GradScaler` warn and change nothing.
"""

import warnings
from collections.abc import Callable
from typing import Any

from dynajit import amp
from dynajit.core import dtypes
from dynajit.core.dtypes import DType

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _is_old(name: str, instead: str) -> None:
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
        _is_old("autocast", "autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cuda", ...)`; see there."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _is_old("GradScaler", "GradScaler('cuda', args...)")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: DType | None = None) -> Any:
    """`amp.custom_fwd(..., device_type="cuda")`; see there."""
    _is_old("custom_fwd", "custom_fwd(args..., device_type='cuda')")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """`amp.custom_bwd(..., device_type="cuda")`; see there."""
    _is_old("custom_bwd", "custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")
