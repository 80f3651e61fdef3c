"""Plans of sharded checkpoints, by PyTorch's path: refused."""

from dynajit.distributed.checkpoint import DefaultLoadPlanner, DefaultSavePlanner

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]
