"""`GradScaler` by PyTorch's older path.

Contract: as `dynajit.amp` with the device type "cuda"; each use warns that the path is old.
"""

from dynajit import amp
from dynajit.cuda.amp.autocast_mode import warn_of_old_path

__all__ = ["GradScaler"]


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
        warn_of_old_path("GradScaler", "GradScaler('cuda', args...)")
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
