"""Modules on several devices by PyTorch's path: without GPUs the module itself runs.

Contract: `DataParallel` passes calls on, as PyTorch's does where there is no GPU,
`DistributedDataParallel` does in a group of one process; what needs several devices raises.
"""

from dynajit.nn.parallel import distributed, scatter_gather
from dynajit.nn.parallel.data_parallel import DataParallel, data_parallel
from dynajit.nn.parallel.distributed import DistributedDataParallel
from dynajit.nn.parallel.parallel_apply import parallel_apply
from dynajit.nn.parallel.replicate import replicate
from dynajit.nn.parallel.scatter_gather import gather, scatter

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
