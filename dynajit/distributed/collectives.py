"""What processes tell each other, in a group of one: values stay, outputs get copies of inputs.

Contract: arguments are checked as by PyTorch's Gloo backend; gradients do not pass
(`distributed.nn` has the functions that keep them). With `async_op` the result is a `Work` that is
done. Outside of a group nothing happens.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import ArgumentError, DTypeError, InvalidValueError, ShapeError
from dynajit.core.process.process_groups import NON_GROUP_MEMBER, member_of
from dynajit.distributed.reductions import ReduceOp, check_reduction
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor

MSG_NOT_A_TENSOR = (
    "Invalid function argument. Expected parameter `{name}` of type Tensor\n"
    "             but got {got} instead."
)


class Work:
    """What an asynchronous call gives back: it is done already.

    Args:
        results: the tensors that it wrote.
    """

    def __init__(self, results: Sequence[Any] = ()) -> None:
        self._results = list(results)

    def wait(self, timeout: Any = None) -> bool:
        """True, at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def is_success(self) -> bool:
        """True."""
        return True

    def exception(self) -> None:
        """None: nothing failed."""

    def result(self) -> list[Any]:
        """The tensors that it wrote."""
        return self._results


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Join the values of all processes: the tensor stays as it is.

    Raises:
        InvalidValueError: there is no group.
        ArgumentError, DTypeError: as of `check_reduction`.
    """
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "all_reduce")
    member_of(group)
    return _finished([tensor], async_op)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors."""
    _check_list(tensors, "tensors")
    for tensor in tensors:
        check_reduction(tensor, op, "all_reduce_coalesced")
    member_of(group)
    return _finished(tensors, async_op)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Join values in one process: the tensor stays as it is.

    Raises:
        InvalidValueError: there is no group, or no process is named.
        ShapeError: another process than 0 is; a RuntimeError, as in PyTorch.
    """
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "reduce")
    member_of(group)
    check_root("reduce", dst, group_dst)
    return _finished([tensor], async_op)


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Send one process's values to all: the tensor stays as it is.

    Raises: as of `reduce`.
    """
    check_tensor(tensor, "tensor")
    member_of(group)
    check_root("broadcast", src, group_src)
    return _finished([tensor], async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Wait for all processes: at once.

    Raises:
        InvalidValueError: there is no group.
    """
    member_of(group)
    return _finished([], async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """`barrier`."""
    member_of(group)


def all_gather(
    tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the tensor into the one entry of `tensor_list`.

    Raises:
        InvalidValueError: there is no group, or dtypes differ.
        ShapeError: there is another number of entries, or of another shape.
    """
    _check_list(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    _copy(only(tensor_list, "all_gather", "output tensor list"), tensor, "all_gather")
    return _finished(tensor_list, async_op)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_gather` of several tensors."""
    _check_list(input_tensor_list, "input_tensor_list")
    outputs = only(output_tensor_lists, "all_gather_coalesced", "output tensor lists")
    _check_list(outputs, "output_tensor_lists")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    if len(outputs) != len(input_tensor_list):
        raise ShapeError(
            f"all_gather_coalesced: {len(outputs)} outputs for {len(input_tensor_list)} inputs.  "
            "Expected one for each."
        )
    for output, tensor in zip(outputs, input_tensor_list, strict=True):
        _copy(output, tensor, "all_gather_coalesced")
    return _finished(outputs, async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the input into the output, which has its shape, or one more dim of size 1 in front.

    Raises: as of `all_gather`.
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    shape = tuple(input_tensor.shape)
    stacked = tuple(output_tensor.shape) == (1, *shape)
    _copy(
        output_tensor[0] if stacked else output_tensor,
        input_tensor,
        "all_gather_into_tensor",
        DTypeError,
    )
    return _finished([output_tensor], async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the one entry of `input_list` into the output.

    Raises: as of `all_gather` and `all_reduce`.
    """
    check_tensor(output, "output")
    _check_list(input_list, "input_list")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    check_reduction(output, op, "reduce_scatter")
    _copy(output, only(input_list, "reduce_scatter", "input tensor list"), "reduce_scatter")
    return _finished([output], async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the input, which has the output's shape or one more dim of size 1 in front, into it.

    Raises: as of `reduce_scatter`.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    check_reduction(output, op, "reduce_scatter_tensor")
    stacked = tuple(input.shape) == (1, *tuple(output.shape))
    _copy(output, input[0] if stacked else input, "reduce_scatter_tensor", DTypeError)
    return _finished([output], async_op)


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write the tensor into the one entry of `gather_list`.

    Raises:
        InvalidValueError: there is no group, no list, or dtypes differ.
        ShapeError: there is another number of entries, of another shape, or another process than 0
            is named.
    """
    check_tensor(tensor, "tensor")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    check_root("gather", 0 if dst is None and group_dst is None else dst, group_dst)
    if not gather_list:
        raise InvalidValueError("Argument ``gather_list`` must be specified on destination rank.")
    _check_list(gather_list, "gather_list")
    _copy(only(gather_list, "gather", "output list"), tensor, "gather")
    return _finished(gather_list, async_op)


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the one entry of `scatter_list` into the tensor.

    Raises: as of `gather`.
    """
    check_tensor(tensor, "tensor")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    check_root("scatter", 0 if src is None and group_src is None else src, group_src)
    if not scatter_list:
        raise InvalidValueError("Argument ``scatter_list`` must be specified on source rank.")
    _check_list(scatter_list, "scatter_list")
    _copy(tensor, only(scatter_list, "scatter", "input list"), "scatter")
    return _finished([tensor], async_op)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the one entry of the second list into that of the first.

    Raises: as of `all_gather`.
    """
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    output = only(output_tensor_list, "all_to_all", "output tensor list")
    _copy(output, only(input_tensor_list, "all_to_all", "input tensor list"), "all_to_all")
    return _finished(output_tensor_list, async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Write the input into the output.

    Args:
        output_split_sizes, input_split_sizes: the size of the first dim in a list, or None.

    Raises:
        ShapeError: shapes differ, or sizes do not add up to that of the first dim.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    if member_of(group) is NON_GROUP_MEMBER:
        return None
    for sizes, tensor in ((output_split_sizes, output), (input_split_sizes, input)):
        if sizes and (len(sizes) != 1 or sum(sizes) != tensor.shape[0]):
            raise ShapeError(
                f"all_to_all_single: Split sizes doesn't match total dim 0 size: {sizes} for "
                f"{tensor.shape[0]}."
            )
    _copy(output, input, "all_to_all_single", DTypeError)
    return _finished([output], async_op)


def _finished(results: Sequence[Any], async_op: bool) -> Work | None:
    return Work(results) if async_op else None


def check_tensor(tensor: Any, name: str) -> None:
    if not isinstance(tensor, Tensor):
        raise ArgumentError(MSG_NOT_A_TENSOR.format(name=name, got=type(tensor)))


def _check_list(tensors: Any, name: str) -> None:
    if not isinstance(tensors, (list, tuple)):
        raise ArgumentError(
            f"Invalid function argument. Expected parameter `{name}` of type list of Tensors, but "
            f"got {type(tensors)} instead."
        )
    for tensor in tensors:
        check_tensor(tensor, name)


def check_root(name: str, given: int | None, within_group: int | None) -> None:
    if given is None and within_group is None:
        raise InvalidValueError("Must specify global_rank or group_rank")
    if given is not None and within_group is not None:
        raise InvalidValueError("Can't specify both group_rank and global_rank")
    root = within_group if given is None else given
    if root != 0:
        raise ShapeError(f"{name}: invalid root rank: {root}.  Expected 0, the only process.")


def only(entries: Any, name: str, what: str) -> Any:
    if len(entries) != 1:
        raise ShapeError(
            f"{name}: invalid {what} (expected length 1, the world size, got {len(entries)})"
        )
    return entries[0]


def _copy(output: Any, source: Any, name: str, refuse: type[Exception] = InvalidValueError) -> None:
    """Write; `refuse` is what PyTorch raises where dtypes differ."""
    if output.dtype is not source.dtype:
        raise refuse(
            f"{name}: Invalid usage of tensors with different dtypes. Found {output.dtype} and "
            f"{source.dtype}"
        )
    if tuple(output.shape) != tuple(source.shape):
        raise ShapeError(
            f"{name}: invalid tensor size (expected {tuple(source.shape)}, got "
            f"{tuple(output.shape)})"
        )
    with no_grad():
        output.copy_(source)
