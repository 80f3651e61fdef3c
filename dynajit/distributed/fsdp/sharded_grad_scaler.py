"""The scaler of sharded gradients, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

ShardedGradScaler = refused_class(
    "distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
    "dynajit runs in one process; gradients are whole.  Use dynajit.amp.GradScaler.",
)

__all__ = ["ShardedGradScaler"]
