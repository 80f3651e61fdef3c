"""Tensors without contents, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class

_WHY = "tensors without contents are not modes here.  Make tensors on the device meta."

FakeTensor = refused_class("_subclasses.fake_tensor.FakeTensor", _WHY)
FakeTensorConverter = refused_class("_subclasses.fake_tensor.FakeTensorConverter", _WHY)
FakeTensorMode = refused_class("_subclasses.fake_tensor.FakeTensorMode", _WHY)

__all__ = [
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorMode",
]
