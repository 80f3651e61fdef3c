"""What several processes do together, by PyTorch's path: in one, there is nobody to wait for."""

from dynajit.distributed.algorithms import _checkpoint, ddp_comm_hooks, join
from dynajit.distributed.algorithms.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable", "_checkpoint", "ddp_comm_hooks", "join"]
