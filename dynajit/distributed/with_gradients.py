"""Collectives that keep gradients, by PyTorch's path: results are new tensors.

Contract: the function that is derived is the sum of what all processes derive, so what one process
sends to others gets the sum of their gradients. Backward runs collectives of its own: every process
of the group calls it, for the same results in the same order. Backward of backward works.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

from dynajit.core.errors import ShapeError, UnsupportedError
from dynajit.core.types.memory_format import contiguous_format
from dynajit.distributed import collectives
from dynajit.distributed.collectives import check_tensor
from dynajit.distributed.groups import ProcessGroup, group_of, place_in
from dynajit.distributed.reductions import PremultipliedSum, ReduceOp, check_reduction
from dynajit.eager.backward.function import Function
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import cat, empty, stack, zeros_like

Gradients: TypeAlias = "tuple[Tensor | None, ...]"

_SELECTIONS = (ReduceOp.MIN, ReduceOp.MAX)


class _Reduced(Function):
    """A sum in all processes; its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, tensor: Tensor) -> Any:
        context.group = group
        output = _copy(tensor)
        collectives.all_reduce(output, ReduceOp.SUM, group)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, _Reduced.apply(context.group, gradients[0])


class _Selected(Function):
    """The least or largest value of all processes; those that have it share its gradient."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, op: ReduceOp, tensor: Tensor) -> Any:
        context.group = group
        output = _copy(tensor)
        collectives.all_reduce(output, op, group)
        is_chosen = (tensor == output).to(output.dtype)
        count = is_chosen.clone()
        collectives.all_reduce(count, ReduceOp.SUM, group)
        context.save_for_backward(is_chosen / count)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        (share,) = context.saved_tensors
        return None, None, _Reduced.apply(context.group, gradients[0]) * share


class _Sent(Function):
    """One process's tensor in all; its gradient is the sum of theirs."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Any:
        context.group, context.root = group, root
        output = _copy(tensor)
        collectives.broadcast(output, group=group, group_src=root)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, None, _SummedAt.apply(context.group, context.root, gradients[0])


class _SummedAt(Function):
    """A sum in one process, whose gradient goes to all; zeros in the others, whose gradients go
    nowhere."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Any:
        context.group, context.root = group, root
        output = _copy(tensor)
        collectives.reduce(output, group=group, group_dst=root)
        return output if group.rank() == root else output.zero_()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, None, _Sent.apply(context.group, context.root, gradients[0])


class _GatheredEverywhere(Function):
    """The tensors of all processes, one after the other; the gradient of each part is summed."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, tensor: Tensor) -> Any:
        context.group = group
        output = empty((group.size(), *tensor.shape), dtype=tensor.dtype, device=tensor.device)
        collectives.all_gather_into_tensor(output, tensor, group)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, _SummedInParts.apply(context.group, gradients[0])


class _SummedInParts(Function):
    """Part i of the sum of all processes' tensors in process i; its gradient goes to all."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, parts: Tensor) -> Any:
        context.group = group
        output = empty(parts.shape[1:], dtype=parts.dtype, device=parts.device)
        collectives.reduce_scatter_tensor(output, parts, ReduceOp.SUM, group)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, _GatheredEverywhere.apply(context.group, gradients[0])


class _GatheredAt(Function):
    """The tensors of all processes in one; zeros elsewhere, whose gradients go nowhere."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, root: int, tensor: Tensor) -> Any:
        context.group, context.root = group, root
        outputs = [zeros_like(tensor) for _ in group.ranks]
        entries = outputs if group.rank() == root else None
        collectives.gather(tensor.detach(), entries, group=group, group_dst=root)
        return tuple(outputs)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, None, _Scattered.apply(context.group, context.root, *gradients)


class _Scattered(Function):
    """One of the tensors of one process in each; the gradients go back to it."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, root: int, *tensors: Tensor) -> Any:
        context.group, context.root = group, root
        output = zeros_like(tensors[group.rank()])
        entries = [tensor.detach() for tensor in tensors] if group.rank() == root else None
        collectives.scatter(output, entries, group=group, group_src=root)
        return output

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, None, *_GatheredAt.apply(context.group, context.root, gradients[0])


class _Exchanged(Function):
    """Tensor j of every process in process j; gradients go back. `shapes` are those of results."""

    @staticmethod
    def forward(context: Any, group: ProcessGroup, shapes: Sequence[Any], *tensors: Tensor) -> Any:
        context.group, context.shapes = group, [tuple(tensor.shape) for tensor in tensors]
        like = tensors[0]
        outputs = [empty(tuple(shape), dtype=like.dtype, device=like.device) for shape in shapes]
        collectives.all_to_all(outputs, [tensor.detach() for tensor in tensors], group)
        return tuple(outputs)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> Gradients:
        return None, None, *_Exchanged.apply(context.group, context.shapes, *gradients)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The values of all processes joined.

    The gradient of a sum is the sum of the gradients of all processes. Processes whose value is the
    least or largest share it equally; that of a product is multiplied by what the others have.

    Raises:
        InvalidValueError: there is no group.
        ArgumentError, DTypeError: as of `check_reduction`.
        DistBackendError: as of `collectives.all_reduce`.
    """
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "all_reduce")
    found = group_of(group)
    if found is None or found.size() == 1:
        return _scaled(tensor, op, found).clone()
    if _is_sum(op):
        return _Reduced.apply(found, _scaled(tensor, op, found))
    # Which collectives run depends on the dtype alone, not on who wants gradients: all run the
    # same ones.
    if tensor.dtype.is_floating_point and op in _SELECTIONS:
        return _Selected.apply(found, op, tensor)
    if tensor.dtype.is_floating_point:
        return _GatheredEverywhere.apply(found, tensor).prod(0)
    output = _copy(tensor)
    collectives.all_reduce(output, op, found)
    return output


def _is_sum(op: Any) -> bool:
    return op is ReduceOp.SUM or op is ReduceOp.AVG or isinstance(op, PremultipliedSum)


def _scaled(tensor: Tensor, op: Any, group: ProcessGroup | None) -> Any:
    """What is summed for an operation that is a sum with a factor."""
    if isinstance(op, PremultipliedSum):
        return tensor * op.factor
    if op is ReduceOp.AVG and group is not None and group.size() > 1:
        return tensor / group.size()
    return tensor


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The values of all processes joined in one; zeros in the others.

    Raises:
        InvalidValueError, DistBackendError: as of `collectives.reduce`.
        UnsupportedError: gradients are recorded of what is no sum.
    """
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "reduce")
    found = group_of(group)
    if found is None:
        return tensor.clone()
    root = place_in(found, dst, None, "reduce")
    if found.size() == 1:
        return _scaled(tensor, op, found).clone()
    if _is_sum(op):
        return _SummedAt.apply(found, root, _scaled(tensor, op, found))
    if tensor.requires_grad:
        raise UnsupportedError(
            f"distributed.nn.reduce(op={op}): the gradient is not implemented.  Expected a sum, a "
            "mean, or a tensor without requires_grad.  Use distributed.nn.all_reduce."
        )
    output = _copy(tensor)
    collectives.reduce(output, op=op, group=found, group_dst=root)
    return output if found.rank() == root else output.zero_()


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Any:
    """One process's values, which gets the sum of all gradients; others give a tensor alike.

    Raises: as of `collectives.broadcast`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return tensor.clone()
    root = place_in(found, src, None, "broadcast")
    return tensor.clone() if found.size() == 1 else _Sent.apply(found, root, tensor)


def all_gather(tensor: Tensor, group: Any = None) -> Any:
    """The tensors of all processes, by rank.

    Raises: as of `collectives.all_gather`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None or found.size() == 1:
        return (tensor.clone(),)
    return tuple(_GatheredEverywhere.apply(found, tensor).unbind(0))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> Any:
    """The tensors of all processes, by rank, in one; as many zeros in the others.

    Raises: as of `collectives.gather`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return (tensor.clone(),)
    root = place_in(found, dst, None, "gather")
    return (tensor.clone(),) if found.size() == 1 else _GatheredAt.apply(found, root, tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Any:
    """The entry of each process's rank of what one process has; others give tensors alike.

    Raises: as of `collectives.scatter`.
    """
    found = group_of(group)
    if found is None:
        return tensors[0].clone()
    root = place_in(found, src, None, "scatter")
    _check_count(tensors, found, "scatter", "input list")
    return tensors[0].clone() if found.size() == 1 else _Scattered.apply(found, root, *tensors)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Any:
    """The entry of each process's rank of what joins the lists of all.

    Args:
        output: tells the shape.

    Raises: as of `collectives.reduce_scatter`.
    """
    found = group_of(group)
    if found is None:
        return output
    _check_count(input_list, found, "reduce_scatter", "input tensor list")
    for entry in input_list:
        check_reduction(entry, op, "reduce_scatter")
        _check_shape(output, entry)
    if found.size() == 1:
        return _scaled(input_list[0], op, found).clone()
    parts = stack(list(input_list))
    if _is_sum(op):
        return _SummedInParts.apply(found, _scaled(parts, op, found))
    return all_reduce(parts, op, found)[found.rank()]


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> Any:
    """Tensor j of every process in process j, by the sender's rank.

    Args:
        output_tensor_list: tells the shapes.

    Raises: as of `collectives.all_to_all`.
    """
    found = group_of(group)
    if found is None:
        return tuple(output_tensor_list)
    _check_count(input_tensor_list, found, "all_to_all", "input tensor list")
    _check_count(output_tensor_list, found, "all_to_all", "output tensor list")
    if found.size() == 1:
        _check_shape(output_tensor_list[0], input_tensor_list[0])
        return (input_tensor_list[0].clone(),)
    shapes = [tensor.shape for tensor in output_tensor_list]
    return _Exchanged.apply(found, shapes, *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """Part j of every process's input in process j, one after the other along the first dim.

    Args:
        output: tells the shape.
        output_split_sizes, input_split_sizes: sizes of the parts; None for equal ones.

    Raises: as of `collectives.all_to_all_single`.
    """
    found = group_of(group)
    if found is None:
        return output
    if found.size() == 1:
        _check_shape(output, input)
        return input.clone()
    received = collectives.split_sizes(output, output_split_sizes, found)
    sent = collectives.split_sizes(input, input_split_sizes, found)
    shapes = [(size, *output.shape[1:]) for size in received]
    return cat(_Exchanged.apply(found, shapes, *input.split(sent)), 0)


def _copy(tensor: Tensor) -> Any:
    """A contiguous copy without history."""
    return tensor.detach().clone(memory_format=contiguous_format)


def _check_shape(output: Tensor, source: Tensor) -> None:
    if tuple(output.shape) != tuple(source.shape):
        raise ShapeError(
            f"an output of shape {tuple(output.shape)} for an input of shape "
            f"{tuple(source.shape)}.  Expected the same shape."
        )


def _check_count(entries: Sequence[Tensor], group: ProcessGroup, name: str, what: str) -> None:
    for entry in entries:
        check_tensor(entry, what)
    if len(entries) != group.size():
        raise ShapeError(
            f"{name}: invalid {what} (expected length {group.size()}, the world size, got "
            f"{len(entries)})"
        )


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
