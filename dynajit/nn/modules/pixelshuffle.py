"""Pixel shuffling by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.resampling import PixelShuffle, PixelUnshuffle

__all__ = [
    "PixelShuffle",
    "PixelUnshuffle",
]
