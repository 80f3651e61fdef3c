"""Experiments with tensors of several processes, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_function

implicit_replication = refused_function(
    "distributed._tensor.experimental.implicit_replication",
    "dynajit runs in one process; there are no tensors of several.  Use tensors as they are.",
)

__all__ = ["implicit_replication"]
