"""Layer, group and local normalization by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.batch_normalization import GroupNorm, LocalResponseNorm
from dynajit.nn.normalization import LayerNorm, RMSNorm

__all__ = [
    "GroupNorm",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]
