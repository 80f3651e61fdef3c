"""Modules on several devices by PyTorch's path: without GPUs the module itself runs.

Contract: `DataParallel` passes calls on, as PyTorch's does where there is no GPU; what needs several
devices raises. `DistributedDataParallel` is a class of `dynajit.distributed`, which lies above.
"""

from dynajit.core.process import late
from dynajit.core.refusals import refused_function
from dynajit.nn.parallel.data_parallel import DataParallel, data_parallel

_ONE_DEVICE = "tensors of one module live on one device; there are none to spread it over."
_NO_GPUS = "dynajit's tensors live on the CPU; there are no GPUs to spread them over."

gather = refused_function("nn.parallel.gather", _NO_GPUS)
parallel_apply = refused_function("nn.parallel.parallel_apply", _ONE_DEVICE)
replicate = refused_function("nn.parallel.replicate", _ONE_DEVICE)
scatter = refused_function("nn.parallel.scatter", _NO_GPUS)
scatter_kwargs = refused_function("nn.parallel.scatter_kwargs", _NO_GPUS)

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
