"""Modules whose weights are spread over processes, by PyTorch's path.

Contract: styles say how one module is spread (`styles`), or how what goes in and comes out is
placed (`boundaries`); `parallelize_module` applies them by names of modules.
"""

from dynajit.core.process import late
from dynajit.distributed.tensor.parallel.boundaries import (
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
)
from dynajit.distributed.tensor.parallel.losses import loss_parallel
from dynajit.distributed.tensor.parallel.plans import parallelize_module
from dynajit.distributed.tensor.parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
    "loss_parallel",
    "parallelize_module",
]

late.show(__name__)
