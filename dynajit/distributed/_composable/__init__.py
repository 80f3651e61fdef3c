"""Sharded modules by PyTorch's inner path: refused."""

from dynajit.distributed._composable import fsdp

__all__ = ["fsdp"]
