"""Data parallelism: a module in every process, gradients that are averaged while backward runs."""

from dynajit.distributed.data_parallel.buckets import GradBucket
from dynajit.distributed.data_parallel.module import DistributedDataParallel

__all__ = ["DistributedDataParallel", "GradBucket"]
