"""Several processes that run one program, by PyTorch's path: groups, collectives and messages.

Contract: `init_process_group` makes the group of the processes that were started together; before,
functions raise ValueError, as in PyTorch. Arrays are carried by MPI; one process needs no engine.
"""

import os
from typing import Any

from dynajit.core.errors import (
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    InvalidValueError,
    ShapeError,
)
from dynajit.core.process import late, process_groups
from dynajit.core.process.process_groups import (
    NON_GROUP_MEMBER,
    STATE,
    get_rank,
    get_world_size,
    is_initialized,
    member_of,
)
from dynajit.distributed.agreement import (
    DebugLevel,
    get_debug_level,
    set_debug_level,
    set_debug_level_from_env,
)
from dynajit.distributed.channels import mpi, nccl
from dynajit.distributed.collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from dynajit.distributed.data_parallel.statistics import rows_of
from dynajit.distributed.device_mesh import DeviceMesh, init_device_mesh
from dynajit.distributed.groups import (
    BACKENDS,
    ProcessGroup,
    default_pg_timeout,
    destroy_process_group,
    group_of,
    init_process_group,
    new_group,
)
from dynajit.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from dynajit.distributed.point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.reductions import _make_nccl_premul_sum as _make_nccl_premul_sum
from dynajit.distributed.reductions import reduce_op as reduce_op
from dynajit.distributed.rendezvous import rendezvous
from dynajit.distributed.stores.store import FileStore, HashStore, PrefixStore, Store, TCPStore
from dynajit.distributed.work import Work


class Backend(str):
    """The name of a backend in lower case."""

    __slots__ = ()

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"

    def __new__(cls, name: str) -> "Backend":
        if not isinstance(name, str):
            raise InvalidValueError(f"Backend constructor parameter must be string-ish: {name!r}")
        return super().__new__(cls, name.lower())


class _Group(type):
    """Lets the class answer for the default group."""

    @property
    def WORLD(cls) -> process_groups.ProcessGroup | None:
        """The group of all processes, or None."""
        return STATE.default


class group(metaclass=_Group):
    """Names of groups: `group.WORLD`."""


class GroupMember(metaclass=_Group):
    """Names of groups: `GroupMember.WORLD`, and what stands for a group without this process."""

    NON_GROUP_MEMBER = NON_GROUP_MEMBER


def is_available() -> bool:
    """Whether programs may make a group of processes: True."""
    return True


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` accepts a name."""
    return backend.lower() in BACKENDS


def is_nccl_available() -> bool:
    """Whether NCCL is here: a GPU, CuPy, and NCCL's library."""
    return nccl.why_not() is None


def is_gloo_available() -> bool:
    """Whether the backend "gloo" is served, which is done by MPI."""
    return mpi.is_available()


def is_mpi_available() -> bool:
    """Whether MPI is here: mpi4py and a runtime."""
    return mpi.is_available()


def is_ucc_available() -> bool:
    """Whether UCC is here: False."""
    return False


def is_xccl_available() -> bool:
    """Whether XCCL is here: False."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether an elastic agent started this process: as the environment says."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def get_backend(group: Any = None) -> Backend:
    """The name of a group's backend, as the program called it.

    Raises:
        InvalidValueError: there is no such group.
    """
    found = member_of(group)
    if not isinstance(found, ProcessGroup):
        raise InvalidValueError("Invalid process group specified")
    return Backend(found.name())


def get_default_backend_for_device(device: Any) -> str:
    """The backend that carries the tensors of a device: "nccl" for GPUs, else "gloo"."""
    kind = device if isinstance(device, str) else getattr(device, "type", "cpu")
    return Backend.NCCL if kind.startswith("cuda") else Backend.GLOO


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """LOCAL_RANK of the environment, or `fallback_rank`.

    Raises:
        ShapeError: there is neither; a RuntimeError, as in PyTorch.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise ShapeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work."
    )


def get_process_group_ranks(group: Any = None) -> list[int]:
    """The processes of a group, as all count; none outside of it.

    Raises:
        InvalidValueError: there is no such group.
    """
    found = group_of(group)
    return [] if found is None else list(found.ranks)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank among all processes of one in a group.

    Raises:
        InvalidValueError: there is no such process.
    """
    found = group_of(group)
    if found is None or not 0 <= group_rank < found.size():
        raise InvalidValueError(f"Group rank {group_rank} is not part of group {group!r}")
    return found.ranks[group_rank]


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in a group of one among all processes.

    Raises:
        InvalidValueError: there is no such process.
    """
    found = group_of(group)
    if found is None or global_rank not in found.ranks:
        raise InvalidValueError(f"Global rank {global_rank} is not part of group {group!r}")
    return found.ranks.index(global_rank)


def get_pg_count() -> int:
    """How many groups there are."""
    return len(STATE.groups)


STATE.rows = rows_of

_all_gather_base = all_gather_into_tensor
_reduce_scatter_base = reduce_scatter_tensor

__all__ = [
    "Backend",
    "DebugLevel",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "GradBucket",
    "GroupMember",
    "HashStore",
    "P2POp",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "TCPStore",
    "Work",
    "algorithms",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "checkpoint",
    "constants",
    "default_pg_timeout",
    "destroy_process_group",
    "device_mesh",
    "fsdp",
    "gather",
    "gather_object",
    "get_backend",
    "get_debug_level",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "monitored_barrier",
    "new_group",
    "nn",
    "optim",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "rendezvous",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_debug_level",
    "set_debug_level_from_env",
    "tensor",
    "utils",
]

__getattr__ = late.publish(
    __name__,
    modules=("checkpoint", "tensor"),
    names={"GradBucket": "dynajit.distributed.data_parallel.buckets"},
)

late.show(__name__, also=("reduce_op",))
