"""Meshes of devices, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; there is no mesh of devices.  Use tensors as they are."

DeviceMesh = refused_class("distributed.device_mesh.DeviceMesh", _WHY)
init_device_mesh = refused_function("distributed.device_mesh.init_device_mesh", _WHY)

__all__ = [
    "DeviceMesh",
    "init_device_mesh",
]
