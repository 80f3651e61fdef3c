"""Instance normalization by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.batch_normalization import (
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    _InstanceNorm,
)

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "_InstanceNorm",
]
