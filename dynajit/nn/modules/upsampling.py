"""Upsampling by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.resampling import (
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)

__all__ = [
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
]
