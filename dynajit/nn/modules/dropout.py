"""Dropout by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.activation import (
    AlphaDropout,
    Dropout,
    FeatureAlphaDropout,
)
from dynajit.nn.resampling import (
    Dropout1d,
    Dropout2d,
    Dropout3d,
)

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]
