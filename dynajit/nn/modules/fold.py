"""Folding by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.convolution import Fold, Unfold

__all__ = [
    "Fold",
    "Unfold",
]
