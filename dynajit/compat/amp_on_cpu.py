"""Mixed precision by PyTorch's older path: `from dynajit.cpu.amp import autocast, GradScaler`.

Contract: as `dynajit.amp` with the device type "cpu".
"""

import warnings

from dynajit import amp
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType

__all__ = ["GradScaler", "autocast"]


def _is_old(name: str) -> None:
    warnings.warn(
        f"`cpu.amp.{name}(args...)` is deprecated. Please use `amp.{name}('cpu', args...)` "
        "instead.",
        FutureWarning,
        stacklevel=3,
    )


class autocast(amp.autocast):
    """`amp.autocast("cpu", ...)`; see there."""

    def __init__(
        self, enabled: bool = True, dtype: DType = dtypes.bfloat16, cache_enabled: bool = True
    ) -> None:
        _is_old("autocast")
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cpu", ...)`; see there."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        _is_old("GradScaler")
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
