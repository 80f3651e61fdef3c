"""The base class by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.module import Module

__all__ = [
    "Module",
]
