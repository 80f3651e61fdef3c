"""PyTorch's code generator by its inner path: `config` takes settings that change nothing."""

from dynajit._inductor import config

__all__ = ["config"]
