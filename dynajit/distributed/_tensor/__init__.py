"""Tensors of several processes by PyTorch's older path; see `distributed.tensor`."""

from dynajit.distributed.device_mesh import DeviceMesh, init_device_mesh
from dynajit.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
)

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "init_device_mesh",
]
