"""Utilities that programs import by PyTorch's paths."""

from dynajit.utils import data

__all__ = ["data"]
