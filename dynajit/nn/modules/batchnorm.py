"""Batch normalization by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.batch_normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    SyncBatchNorm,
    _BatchNorm,
)
from dynajit.nn.batch_normalization import _Norm as _NormBase
from dynajit.nn.lazy import LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d
from dynajit.nn.lazy import _LazyNorm as _LazyNormBase

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
    "_BatchNorm",
    "_LazyNormBase",
    "_NormBase",
]
