"""Modules on several devices by PyTorch's path: without GPUs the module itself runs.

Contract: `DataParallel` passes calls on, as PyTorch's does where there is no GPU; what needs
devices or processes raises.
"""

from dynajit.core.refusals import refused_function
from dynajit.nn.parallel import scatter_gather
from dynajit.nn.parallel.data_parallel import (
    DataParallel,
    DistributedDataParallel,
    data_parallel,
)
from dynajit.nn.parallel.scatter_gather import gather, scatter

_NO_GPUS = "dynajit's tensors live on the CPU; there are no GPUs to spread modules over."

parallel_apply = refused_function("nn.parallel.parallel_apply", _NO_GPUS)
replicate = refused_function("nn.parallel.replicate", _NO_GPUS)

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
    "scatter_gather",
]
