"""`DistributedDataParallel` by PyTorch's path; defined in `nn.parallel.data_parallel`."""

from dynajit.nn.parallel.data_parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
