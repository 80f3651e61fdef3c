"""PowerSGD by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; there is nobody to send gradients to."

PowerSGDState = refused_class(
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook.PowerSGDState", _WHY
)
batched_powerSGD_hook = refused_function(
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook.batched_powerSGD_hook", _WHY
)
powerSGD_hook = refused_function(
    "distributed.algorithms.ddp_comm_hooks.powerSGD_hook.powerSGD_hook", _WHY
)

__all__ = [
    "PowerSGDState",
    "batched_powerSGD_hook",
    "powerSGD_hook",
]
