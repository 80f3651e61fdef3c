"""Tensors of which every process of a mesh has a part, by PyTorch's path.

Contract: see `dtensor`. A program that makes none loads nothing of this.
"""

from dynajit.core.process import late
from dynajit.distributed.device_mesh import DeviceMesh, init_device_mesh
from dynajit.distributed.tensor import running as _running
from dynajit.distributed.tensor import writing as _writing
from dynajit.distributed.tensor.creation import (
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from dynajit.distributed.tensor.dtensor import DTensor
from dynajit.distributed.tensor.modules import distribute_module
from dynajit.distributed.tensor.placements import Partial, Placement, Replicate, Shard

_INSTALLED = (_running, _writing)

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "init_device_mesh",
    "ones",
    "parallel",
    "rand",
    "randn",
    "zeros",
]

__getattr__ = late.publish(__name__, modules=("parallel",))

late.show(__name__)
