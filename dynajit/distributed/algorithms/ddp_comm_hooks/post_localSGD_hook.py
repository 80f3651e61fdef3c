"""Local SGD by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; there is nobody to send gradients to."

PostLocalSGDState = refused_class(
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.PostLocalSGDState", _WHY
)
post_localSGD_hook = refused_function(
    "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook.post_localSGD_hook", _WHY
)

__all__ = [
    "PostLocalSGDState",
    "post_localSGD_hook",
]
