"""Collectives whose results are new tensors, by PyTorch's inner path.

Contract: results are there when a function returns, so `wait_tensor` has nothing to wait for.
Gradients pass, as of `with_gradients`; the names that end with `_autograd` are the same functions.
A group is a `ProcessGroup`, its name, a mesh of one dim, a mesh with one of its dims, or a list of
ranks, of which a group is made if there is none; None is the default group.
"""

from collections.abc import Sequence
from typing import Any, Final

from dynajit.core.errors import ArgumentError, InvalidValueError, ShapeError
from dynajit.core.process.process_groups import STATE, ProcessGroup
from dynajit.distributed import with_gradients
from dynajit.distributed.device_mesh import DeviceMesh
from dynajit.distributed.groups import group_of, new_group, place_in
from dynajit.distributed.reductions import ReduceOp
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import cat, empty

_OPERATIONS: Final = {
    "sum": ReduceOp.SUM,
    "avg": ReduceOp.AVG,
    "product": ReduceOp.PRODUCT,
    "min": ReduceOp.MIN,
    "max": ReduceOp.MAX,
    "band": ReduceOp.BAND,
    "bor": ReduceOp.BOR,
    "bxor": ReduceOp.BXOR,
}


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Any:
    """The values of all processes joined.

    Args:
        reduceOp: "sum", "avg", "product", "min", "max", "band", "bor" or "bxor".

    Raises:
        InvalidValueError: there is no such group, or no such operation.
        DistBackendError: as of `collectives.all_reduce`.
    """
    return with_gradients.all_reduce(self, _operation(reduceOp), resolved(group))


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Any]:
    """`all_reduce` of several tensors."""
    found = resolved(group)
    return [all_reduce(tensor, reduceOp, found) for tensor in self]


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Any:
    """The tensors of all processes, one after the other along a dim.

    Raises: as of `all_reduce`.
    """
    return cat(with_gradients.all_gather(self, resolved(group)), gather_dim)


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Any]:
    """`all_gather_tensor` of several tensors along their first dims."""
    found = resolved(group)
    return [all_gather_tensor(tensor, 0, found) for tensor in self]


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Any:
    """The part of each process's rank, along a dim, of what joins the tensors of all.

    Raises:
        ShapeError: the dim has no equal parts.
        Else as of `all_reduce`.
    """
    found = group_of(resolved(group))
    if found is None:
        return self
    if self.shape[scatter_dim] % found.size():
        raise ShapeError(
            f"reduce_scatter_tensor: {self.shape[scatter_dim]} elements of dim {scatter_dim} have "
            f"no {found.size()} equal parts.  Expected a multiple of the group's size."
        )
    parts = self.chunk(found.size(), scatter_dim)
    return with_gradients.reduce_scatter(parts[0], parts, _operation(reduceOp), found)


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Any]:
    """`reduce_scatter_tensor` of several tensors, each with its dim."""
    found = resolved(group)
    return [
        reduce_scatter_tensor(tensor, reduceOp, dim, found)
        for tensor, dim in zip(inputs, scatter_dim, strict=True)
    ]


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Any:
    """The values of the process that has rank `src` in the group.

    Raises: as of `all_reduce`.
    """
    found = group_of(resolved(group))
    if found is None:
        return self.clone()
    root = place_in(found, None, src, "broadcast")
    return with_gradients.broadcast(self, found.ranks[root], found)


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Any:
    """Part j of every process's tensor in process j, one after the other along the first dim.

    Args:
        output_split_sizes, input_split_sizes: sizes of the parts; both or none, for equal ones.

    Raises:
        ArgumentError: only one is given.
        ShapeError: they do not add up.
        Else as of `all_reduce`.
    """
    if (output_split_sizes is None) is not (input_split_sizes is None):
        raise ArgumentError(
            "all_to_all_single: output_split_sizes and input_split_sizes must either be specified "
            "together or both set to None"
        )
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    output = empty((rows, *self.shape[1:]), dtype=self.dtype, device=self.device)
    return with_gradients.all_to_all_single(
        output, self, output_split_sizes, input_split_sizes, resolved(group)
    )


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Any:
    """The tensor of the process that sends to this one; entry i says where process i sends to.

    Raises:
        ShapeError: `src_dst` does not name each process once.
        Else as of `all_reduce`.
    """
    found = group_of(resolved(group))
    if found is None:
        return self.clone()
    if sorted(src_dst) != list(range(found.size())):
        raise ShapeError(
            f"permute_tensor(src_dst={list(src_dst)}): expected each of {found.size()} ranks once."
        )
    rows = self.shape[0]
    sent, received = [0] * found.size(), [0] * found.size()
    sent[src_dst[found.rank()]] = received[list(src_dst).index(found.rank())] = rows
    return all_to_all_single(self, received, sent, found)


all_gather_tensor_autograd = all_gather_tensor
all_to_all_single_autograd = all_to_all_single
reduce_scatter_tensor_autograd = reduce_scatter_tensor


def wait_tensor(tensor: Tensor) -> Any:
    """The tensor itself: it is there."""
    return tensor


def resolved(group: Any) -> Any:
    """The group that is meant, as `group_of` takes it.

    Raises:
        InvalidValueError: there is no such group, or a mesh has several dims.
    """
    if isinstance(group, DeviceMesh):
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, str):
        return _found(lambda known: known.group_name == group, group)
    if isinstance(group, (list, tuple)):
        ranks = tuple(group)
        known = [other for other in STATE.groups if other.ranks == ranks]
        return known[0] if known else new_group(ranks, sort_ranks=False)
    return group


def _found(is_meant: Any, name: str) -> ProcessGroup:
    for group in STATE.groups:
        if is_meant(group):
            return group
    raise InvalidValueError(
        f"Could not resolve the process group registered under the name {name!r}: expected one of "
        f"{[group.group_name for group in STATE.groups]}."
    )


def _operation(name: str) -> ReduceOp:
    found = _OPERATIONS.get(str(name).lower())
    if found is None:
        raise InvalidValueError(
            f"unknown reduction {name!r}.  Expected one of {', '.join(_OPERATIONS)}."
        )
    return found


__all__ = [
    "all_gather_into_tensor_coalesced",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]
