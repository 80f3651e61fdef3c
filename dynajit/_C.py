"""PyTorch's private `_C`: the few names that programs import from there.

Contract: the error of linear algebra is the one that is raised here; readers and writers of files
are refused by name. Called by users.
"""

from dynajit.core.errors import LinAlgError as _LinAlgError
from dynajit.core.refusals import refused_class
from dynajit.eager.random import Generator

_WHY = "files are read by load() and written by save()."

PyTorchFileReader = refused_class("_C.PyTorchFileReader", _WHY)
PyTorchFileWriter = refused_class("_C.PyTorchFileWriter", _WHY)

__all__ = ["Generator", "PyTorchFileReader", "PyTorchFileWriter", "_LinAlgError"]
