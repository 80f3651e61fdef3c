"""Batch normalization by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.batch_normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    SyncBatchNorm,
    _BatchNorm,
)
from dynajit.nn.batch_normalization import _Norm as _NormBase

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "SyncBatchNorm",
    "_BatchNorm",
    "_NormBase",
]
