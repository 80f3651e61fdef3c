"""Layer, group and local normalization by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.batch_normalization import CrossMapLRN2d, GroupNorm, LocalResponseNorm
from dynajit.nn.normalization import LayerNorm, RMSNorm

__all__ = [
    "CrossMapLRN2d",
    "GroupNorm",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]
