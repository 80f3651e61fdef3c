"""Optimisers of several processes, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

ZeroRedundancyOptimizer = refused_class(
    "distributed.optim.ZeroRedundancyOptimizer",
    "dynajit runs in one process; there are no process groups.  Use the optimizer itself.",
)

__all__ = ["ZeroRedundancyOptimizer"]
