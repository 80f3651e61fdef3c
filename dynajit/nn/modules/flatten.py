"""Flattening by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.linear import Flatten, Unflatten

__all__ = [
    "Flatten",
    "Unflatten",
]
