"""Several processes by PyTorch's path: this library was built without them.

Contract: `is_available()` and `is_initialized()` are False; what needs a group of processes raises.
Names exist, so that programs which ask first run unchanged.
"""

import enum

from dynajit.core.refusals import refused_class, refused_function
from dynajit.distributed import fsdp, nn, optim

_WHY = (
    "dynajit runs in one process; there are no process groups.  Ask distributed.is_available() and "
    "distributed.is_initialized() first."
)


class ReduceOp(enum.Enum):
    """How values of several processes are joined: names to pass on."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class group:
    """Names of groups."""

    WORLD = None


def is_available() -> bool:
    """Whether programs can run in several processes: False."""
    return False


def is_initialized() -> bool:
    """Whether there is a group of processes: False."""
    return False


def is_nccl_available() -> bool:
    """Whether NCCL is here: False."""
    return False


def is_gloo_available() -> bool:
    """Whether Gloo is here: False."""
    return False


def is_mpi_available() -> bool:
    """Whether MPI is here: False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether an elastic agent started this process: False."""
    return False


ProcessGroup = refused_class("distributed.ProcessGroup", _WHY)
all_gather = refused_function("distributed.all_gather", _WHY)
all_gather_into_tensor = refused_function("distributed.all_gather_into_tensor", _WHY)
all_gather_object = refused_function("distributed.all_gather_object", _WHY)
all_reduce = refused_function("distributed.all_reduce", _WHY)
all_to_all = refused_function("distributed.all_to_all", _WHY)
all_to_all_single = refused_function("distributed.all_to_all_single", _WHY)
barrier = refused_function("distributed.barrier", _WHY)
broadcast = refused_function("distributed.broadcast", _WHY)
broadcast_object_list = refused_function("distributed.broadcast_object_list", _WHY)
destroy_process_group = refused_function("distributed.destroy_process_group", _WHY)
gather = refused_function("distributed.gather", _WHY)
get_backend = refused_function("distributed.get_backend", _WHY)
get_rank = refused_function("distributed.get_rank", _WHY)
get_world_size = refused_function("distributed.get_world_size", _WHY)
init_process_group = refused_function("distributed.init_process_group", _WHY)
irecv = refused_function("distributed.irecv", _WHY)
isend = refused_function("distributed.isend", _WHY)
monitored_barrier = refused_function("distributed.monitored_barrier", _WHY)
new_group = refused_function("distributed.new_group", _WHY)
recv = refused_function("distributed.recv", _WHY)
reduce = refused_function("distributed.reduce", _WHY)
reduce_scatter = refused_function("distributed.reduce_scatter", _WHY)
reduce_scatter_tensor = refused_function("distributed.reduce_scatter_tensor", _WHY)
scatter = refused_function("distributed.scatter", _WHY)
send = refused_function("distributed.send", _WHY)

__all__ = [
    "ProcessGroup",
    "ReduceOp",
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "broadcast_object_list",
    "destroy_process_group",
    "fsdp",
    "gather",
    "get_backend",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "irecv",
    "is_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "isend",
    "monitored_barrier",
    "new_group",
    "nn",
    "optim",
    "recv",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
    "send",
]
