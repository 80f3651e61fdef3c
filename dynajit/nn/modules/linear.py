"""Linear layers by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.distance import Bilinear
from dynajit.nn.lazy import LazyLinear
from dynajit.nn.linear import Identity, Linear
from dynajit.nn.linear import NonDynamicallyQuantizableLinear as NonDynamicallyQuantizableLinear

__all__ = [
    "Bilinear",
    "Identity",
    "LazyLinear",
    "Linear",
]
