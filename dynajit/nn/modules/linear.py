"""Linear layers by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.distance import Bilinear
from dynajit.nn.linear import Identity, Linear

__all__ = [
    "Bilinear",
    "Identity",
    "Linear",
]
