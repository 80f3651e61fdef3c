"""Layers without sizes by PyTorch's path; defined in `dynajit.nn`."""

from dynajit.nn.lazy import LazyModuleMixin

__all__ = [
    "LazyModuleMixin",
]
