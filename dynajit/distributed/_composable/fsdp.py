"""Sharded modules by PyTorch's inner path; see `distributed.fsdp`."""

from dynajit.distributed.fsdp.fully_sharded_data_parallel import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)

FSDP = FSDPModule

__all__ = [
    "FSDP",
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "fully_shard",
]
