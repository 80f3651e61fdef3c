"""The functions of `dynajit.distributed`, by PyTorch's path."""

from dynajit.core.process.process_groups import (
    ProcessGroup,
    default_group,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
)
from dynajit.distributed.reductions import ReduceOp

_get_default_group = default_group

__all__ = [
    "ProcessGroup",
    "ReduceOp",
    "get_rank",
    "get_world_size",
    "init_process_group",
    "is_initialized",
]
