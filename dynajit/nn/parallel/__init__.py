"""Modules on several devices by PyTorch's path: without GPUs the module itself runs.

Contract: `DataParallel` passes calls on, as PyTorch's does where there is no GPU,
`DistributedDataParallel` does in a group of one process; what needs several devices raises.
"""

from dynajit.core.refusals import refused_function
from dynajit.nn.parallel import distributed, scatter_gather
from dynajit.nn.parallel.data_parallel import DataParallel, data_parallel
from dynajit.nn.parallel.distributed import DistributedDataParallel
from dynajit.nn.parallel.scatter_gather import gather, scatter

_NO_GPUS = "dynajit's tensors live on the CPU; there are no GPUs to spread modules over."

parallel_apply = refused_function("nn.parallel.parallel_apply", _NO_GPUS)
replicate = refused_function("nn.parallel.replicate", _NO_GPUS)

__all__ = [
    "DataParallel",
    "DistributedDataParallel",
    "data_parallel",
    "distributed",
    "gather",
    "parallel_apply",
    "replicate",
    "scatter",
    "scatter_gather",
]
