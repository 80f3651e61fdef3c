"""`ShardedGradScaler`, by PyTorch's path: what `amp.GradScaler` is, for parts of gradients.

Contract: a step is left out in all processes if one of them found what is not finite. `GradScaler`
itself asks the other processes, too, where parameters are parts.
"""

from typing import Any

from dynajit.amp.grad_scaler import GradScaler


class ShardedGradScaler(GradScaler):
    """See `GradScaler`.

    Args:
        device, init_scale, backoff_factor, growth_factor, growth_interval, enabled: as there.
        process_group: accepted: parts know their groups.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


__all__ = ["ShardedGradScaler"]
