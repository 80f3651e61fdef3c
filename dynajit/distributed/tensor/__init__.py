"""Tensors whose parts lie in several processes, by PyTorch's path: refused."""

from dynajit.core.refusals import refused_class, refused_function

_WHY = "dynajit runs in one process; there is no mesh of devices.  Use tensors as they are."

DTensor = refused_class("distributed.tensor.DTensor", _WHY)
Partial = refused_class("distributed.tensor.Partial", _WHY)
Placement = refused_class("distributed.tensor.Placement", _WHY)
Replicate = refused_class("distributed.tensor.Replicate", _WHY)
Shard = refused_class("distributed.tensor.Shard", _WHY)
distribute_module = refused_function("distributed.tensor.distribute_module", _WHY)
distribute_tensor = refused_function("distributed.tensor.distribute_tensor", _WHY)

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
]
