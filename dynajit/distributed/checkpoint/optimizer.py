"""Optimisers of sharded modules, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_function

_WHY = "dynajit runs in one process; nothing is sharded.  Use dynajit.save and dynajit.load."

load_sharded_optimizer_state_dict = refused_function(
    "distributed.checkpoint.optimizer.load_sharded_optimizer_state_dict", _WHY
)

__all__ = [
    "load_sharded_optimizer_state_dict",
]
