"""Tensors without contents, by PyTorch's path: refused."""

from dynajit._subclasses import fake_tensor
from dynajit._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode", "fake_tensor"]
