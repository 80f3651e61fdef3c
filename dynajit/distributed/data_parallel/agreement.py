"""Processes agree on a module: the same parameters everywhere, with the values of one.

Contract: every process of a group calls these functions, with modules that may differ; each of them
raises where one would.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Any

from dynajit.capture.control import is_compiling
from dynajit.core.errors import ShapeError
from dynajit.core.process.process_groups import is_initialized
from dynajit.distributed import transfers
from dynajit.distributed.captured import nodes
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.objects import all_gather_object
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.module import Module


def check_shapes(group: ProcessGroup, named: Sequence[tuple[str, Tensor]]) -> None:
    """Refuse parameters that differ in number, shape or dtype.

    Raises:
        ShapeError: they do; in every process.
    """
    own = [(name, tuple(tensor.shape), tensor.dtype.name) for name, tensor in named]
    described: list[Any] = [None] * group.size()
    all_gather_object(described, own, group)
    first = described[0]
    for rank, other in enumerate(described):
        if len(other) != len(first):
            raise ShapeError(
                f"DistributedDataParallel expects the same model across all ranks: rank {rank} has "
                f"{len(other)} params, while rank 0 has inconsistent {len(first)} params."
            )
        for place, (mine, theirs) in enumerate(zip(first, other, strict=True)):
            if mine[1:] != theirs[1:]:
                raise ShapeError(
                    "DistributedDataParallel expects the same model across all ranks: parameter "
                    f"{place} ({mine[0]}) in rank 0 is {mine[2]} of sizes {list(mine[1])}, and in "
                    f"rank {rank} ({theirs[0]}) {theirs[2]} of sizes {list(theirs[1])}."
                )


def broadcast_all(group: ProcessGroup, tensors: Iterable[Tensor], root: int) -> None:
    """The values of one process in the tensors of all; one message for each dtype and device.

    Raises:
        DistBackendError: the engine failed, or the others did not come in time.
    """
    kinds: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            kinds.setdefault((tensor.dtype, str(tensor.device)), []).append(tensor.detach())
    for same in kinds.values():
        if is_compiling():
            nodes.broadcast(group, same, root).wait()
        else:
            transfers.broadcast(group, same, root, False)


def sync_module_states(
    module: Module,
    process_group: Any,
    broadcast_bucket_size: int,
    src: int,
    params_and_buffers_to_ignore: Container[str],
    broadcast_buffers: bool = True,
) -> None:
    """Give every process the parameters and buffers of one.

    Args:
        broadcast_bucket_size: changes nothing: there is one message for each dtype.
        src: the place of the process in the group.
        params_and_buffers_to_ignore: names of what stays as it is.
    """
    group = group_of(process_group) if is_initialized() else None
    if group is None or group.size() == 1:
        return
    buffers = module.named_buffers() if broadcast_buffers else ()
    both: Iterable[tuple[str, Tensor]] = (*module.named_parameters(), *buffers)
    chosen = [value for name, value in both if name not in params_and_buffers_to_ignore]
    broadcast_all(group, chosen, src)


def verify_param_shape_across_processes(
    process_group: Any, tensors: Sequence[Tensor], logger: Any = None
) -> None:
    """Refuse parameters that differ between processes.

    Raises:
        ShapeError: they do; in every process.
    """
    group = group_of(process_group) if is_initialized() else None
    if group is not None and group.size() > 1:
        check_shapes(group, [(str(place), tensor) for place, tensor in enumerate(tensors)])


__all__ = [
    "broadcast_all",
    "check_shapes",
    "sync_module_states",
    "verify_param_shape_across_processes",
]
