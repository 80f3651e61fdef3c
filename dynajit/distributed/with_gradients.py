"""Collectives that keep gradients, by PyTorch's path: in a group of one process they copy.

Contract: the results have the values of the inputs, whose gradients are those of the results.
"""

from typing import Any

from dynajit.core.errors import ShapeError
from dynajit.core.process.process_groups import member_of
from dynajit.distributed.collectives import check_tensor
from dynajit.distributed.reductions import ReduceOp, check_reduction


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """A copy.

    Raises:
        InvalidValueError: there is no group.
        ArgumentError, DTypeError: as of `check_reduction`.
    """
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "all_reduce")
    member_of(group)
    return tensor.clone()


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """A copy; `dst` is 0."""
    check_root("reduce", dst, None)
    return all_reduce(tensor, op, group)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """A copy; `src` is 0."""
    check_tensor(tensor, "tensor")
    member_of(group)
    check_root("broadcast", src, None)
    return tensor.clone()


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """A tuple of one copy."""
    return (broadcast(tensor, 0, group),)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """A tuple of one copy; `dst` is 0."""
    return (broadcast(tensor, dst, group),)


def scatter(tensors: Any, src: int = 0, group: Any = None) -> Any:
    """A copy of the one tensor; `src` is 0."""
    return broadcast(only(tensors, "scatter", "input list"), src, group)


def reduce_scatter(output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """A copy of the one input, which has the output's shape."""
    source = only(input_list, "reduce_scatter", "input tensor list")
    _check_shape(output, source)
    return all_reduce(source, op, group)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None
) -> tuple[Any, ...]:
    """A tuple of a copy of the one input, which has the output's shape."""
    source = only(input_tensor_list, "all_to_all", "input tensor list")
    _check_shape(only(output_tensor_list, "all_to_all", "output tensor list"), source)
    return (broadcast(source, 0, group),)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
) -> Any:
    """A copy of the input, which has the output's shape."""
    _check_shape(output, input)
    return broadcast(input, 0, group)


def _check_shape(output: Any, source: Any) -> None:
    if tuple(output.shape) != tuple(source.shape):
        raise ShapeError(
            f"an output of shape {tuple(output.shape)} for an input of shape "
            f"{tuple(source.shape)}.  Expected the same shape: there is one process."
        )


def check_root(name: str, given: int | None, within_group: int | None) -> None:
    root = within_group if given is None else given
    if root != 0:
        raise ShapeError(f"{name}: invalid root rank: {root}.  Expected 0, the only process.")


def only(entries: Any, name: str, what: str) -> Any:
    if len(entries) != 1:
        raise ShapeError(
            f"{name}: invalid {what} (expected length 1, the world size, got {len(entries)})"
        )
    return entries[0]


__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
