"""Modules on several devices by PyTorch's path: without GPUs the module itself runs.

Contract: `DataParallel` spreads a batch over this process's GPUs, and passes calls on where there
is none, as PyTorch's does. `DistributedDataParallel` is a class of `dynajit.distributed`, which
lies above.
"""

from dynajit.core.process import late
from dynajit.nn.parallel.data_parallel import DataParallel, data_parallel
from dynajit.nn.parallel.spreading import gather, parallel_apply, replicate, scatter

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

__getattr__ = late.publish(
    __name__,
    names={"DistributedDataParallel": "dynajit.distributed.data_parallel.module"},
)

late.show(__name__)
