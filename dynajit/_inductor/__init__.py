"""PyTorch's code generator by its inner path: `config` takes settings that change nothing."""

from dynajit._inductor import config
from dynajit.compiler import cudagraph_mark_step_begin

__all__ = ["config", "cudagraph_mark_step_begin"]
