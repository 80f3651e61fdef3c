"""Handles of hooks by PyTorch's path."""

from dynajit.nn.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
