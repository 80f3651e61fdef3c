"""Operators by PyTorch's private path: `torch._ops.ops` is `torch.ops`."""

from dynajit import ops
from dynajit.library.operators import OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "ops"]
