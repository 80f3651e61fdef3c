"""What processes tell each other: all processes of a group call the functions that are here.

Contract: arguments are checked as by PyTorch's Gloo backend; gradients do not pass
(`distributed.nn` has the functions that keep them). With `async_op` the result is a `Work`, and the
tensors are neither read nor written by the program until it was waited for. Outside of a group
nothing happens.
"""

import functools
import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import numpy as np

from dynajit.capture.control import disable, is_compiling
from dynajit.core.errors import (
    ArgumentError,
    DistBackendError,
    DTypeError,
    InvalidValueError,
    ShapeError,
)
from dynajit.distributed import transfers
from dynajit.distributed.captured import nodes
from dynajit.distributed.groups import ProcessGroup, group_of, is_at_root, place_in
from dynajit.distributed.reductions import ReduceOp, check_reduction
from dynajit.distributed.repeats import repeated
from dynajit.distributed.work import EndedWork, Work, finished
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor

#: The tag of messages of `monitored_barrier`; programs' tags are not negative, and less than it.
_MONITORED: Final = 32_000

MSG_NOT_A_TENSOR: Final = (
    "Invalid function argument. Expected parameter `{name}` of type Tensor\n"
    "             but got {got} instead."
)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Join the values of all processes, in place.

    Args:
        tensor: of one shape and dtype in all processes.
        op: a `ReduceOp`.
        group: the default one if None.
        async_op: give a `Work` back at once.

    Raises:
        InvalidValueError: there is no group.
        ArgumentError, DTypeError: as of `check_reduction`.
        DistBackendError: the engine failed, or the others did not come in time.
    """
    if not (async_op or is_compiling()) and repeated("all_reduce", op, group, tensor):
        return None
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "all_reduce")
    found = group_of(group)
    if found is None or found.size() == 1:
        return _nothing(found, [tensor], async_op)
    if is_compiling():
        return nodes.all_reduce(found, [tensor], op).after(async_op)
    return transfers.all_reduce(found, [tensor], op, async_op)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_reduce` of several tensors of one dtype, in one message."""
    _check_list(tensors, "tensors")
    for tensor in tensors:
        check_reduction(tensor, op, "all_reduce_coalesced")
    found = group_of(group)
    if found is None or found.size() == 1 or not tensors:
        return _nothing(found, tensors, async_op)
    _check_dtypes(tensors, tensors[0], "all_reduce_coalesced", DTypeError)
    if is_compiling():
        return nodes.all_reduce(found, tensors, op).after(async_op)
    return transfers.all_reduce(found, tensors, op, async_op)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Join values in one process's tensor; those of the others stay as they are.

    Raises:
        InvalidValueError: there is no group, or no process is named.
        DistBackendError: as of `all_reduce`, or there is no such process.
    """
    check_tensor(tensor, "tensor")
    check_reduction(tensor, op, "reduce")
    found = group_of(group)
    if found is None:
        return None
    root = place_in(found, dst, group_dst, "reduce")
    if found.size() == 1:
        return _nothing(found, [tensor], async_op)
    if is_compiling():
        return nodes.reduce(found, tensor, root, op).after(async_op)
    return transfers.reduce(found, tensor, root, op, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write one process's values into the tensors of all.

    Raises: as of `reduce`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    root = place_in(found, src, group_src, "broadcast")
    if found.size() == 1:
        return _nothing(found, [tensor], async_op)
    if is_compiling():
        return nodes.broadcast(found, [tensor], root).after(async_op)
    return transfers.broadcast(found, [tensor], root, async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Wait until all processes are here.

    Raises:
        InvalidValueError: there is no group.
        DistBackendError: the others did not come in time.
    """
    found = group_of(group)
    if found is None:
        return None
    if found.size() == 1:
        return _nothing(found, [], async_op)
    if is_compiling():
        return nodes.barrier(found).after(async_op)
    return transfers.barrier(found, async_op, timeout)


@functools.partial(disable, reason="it tells who is late, one by one")
def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier` that names the processes which did not come.

    Args:
        timeout: how long the first process waits; the group's if None.
        wait_all_ranks: name all that are missing, not only the first.

    Raises:
        InvalidValueError: there is no group.
        DistBackendError: a process did not come in time.
    """
    found = group_of(group)
    if found is None or found.size() == 1:
        return
    limit = found.limit if timeout is None else timeout.total_seconds()
    try:
        _meet(found, limit, wait_all_ranks)
    except DistBackendError as error:
        found.fail(error)
        raise


def _meet(found: ProcessGroup, limit: float, wait_all_ranks: bool) -> None:
    """Tell the first process that this one is there, and wait until it has heard of all."""
    token = np.zeros(1, np.int8)
    if found.rank() != 0:
        finished(found.channel.send(token, 0, _MONITORED), None, limit, "monitored_barrier")
        request = found.channel.receive(token, 0, _MONITORED)
        finished(request, None, limit, "monitored_barrier: rank 0")
        return
    missing = []
    for rank in range(1, found.size()):
        work = Work(found.channel.receive(token, rank, _MONITORED), (), None, limit, "")
        try:
            work.wait()
        except DistBackendError:
            missing.append(found.ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        names = ", ".join(map(str, missing))
        raise DistBackendError(
            f"monitored_barrier: rank{'s' if len(missing) > 1 else ''} {names} did not come within "
            f"{limit:g} s.  Look at what they print: they failed, wait elsewhere, or are slow."
        )
    for rank in range(1, found.size()):
        finished(found.channel.send(token, rank, _MONITORED), None, limit, "monitored_barrier")


def all_gather(
    tensor_list: Any, tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write every process's tensor into the entry of `tensor_list` that its rank says.

    Raises:
        InvalidValueError: there is no group, or dtypes differ.
        ShapeError: there is another number of entries, or of another shape.
        DistBackendError: as of `all_reduce`.
    """
    _check_list(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    _check_count(tensor_list, found, "all_gather", "output tensor list")
    for entry in tensor_list:
        _check_alike(entry, tensor, "all_gather")
    if found.size() == 1:
        return _copied(tensor_list, [tensor], async_op)
    if is_compiling():
        return nodes.all_gather(found, tensor_list, tensor).after(async_op)
    return transfers.all_gather(found, tensor_list, tensor, async_op)


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """`all_gather` of several tensors: one list of outputs per process."""
    _check_list(input_tensor_list, "input_tensor_list")
    found = group_of(group)
    if found is None:
        return None
    _check_count(output_tensor_lists, found, "all_gather_coalesced", "output tensor lists")
    for outputs in output_tensor_lists:
        _check_list(outputs, "output_tensor_lists")
        if len(outputs) != len(input_tensor_list):
            raise ShapeError(
                f"all_gather_coalesced: {len(outputs)} outputs for {len(input_tensor_list)} "
                "inputs.  Expected one for each."
            )
    last = None
    for place, tensor in enumerate(input_tensor_list):
        entries = [outputs[place] for outputs in output_tensor_lists]
        last = all_gather(entries, tensor, group, async_op)
    return last if last is not None else _nothing(found, [], async_op)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Write the inputs of all processes into the output, one after the other along its first dim.

    Args:
        output_tensor: as many elements as all inputs, in their order.

    Raises: as of `all_gather`, DTypeError where dtypes differ.
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    found = group_of(group)
    if found is None:
        return None
    name = "all_gather_into_tensor"
    _check_parts(output_tensor, input_tensor, found, name, ("output", "input"))
    if found.size() == 1:
        return _copied([_shaped(output_tensor, input_tensor)], [input_tensor], async_op)
    if is_compiling():
        return nodes.all_gather(found, [output_tensor], input_tensor, name).after(async_op)
    return transfers.all_gather(found, [output_tensor], input_tensor, async_op, name)


def reduce_scatter(
    output: Tensor,
    input_list: Any,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Join the lists of all processes, and write into each process's output the entry of its rank.

    Raises: as of `all_gather` and `all_reduce`.
    """
    check_tensor(output, "output")
    _check_list(input_list, "input_list")
    found = group_of(group)
    if found is None:
        return None
    check_reduction(output, op, "reduce_scatter")
    _check_count(input_list, found, "reduce_scatter", "input tensor list")
    for entry in input_list:
        _check_alike(output, entry, "reduce_scatter")
    if found.size() == 1:
        return _copied([output], input_list, async_op)
    if is_compiling():
        return nodes.reduce_scatter(found, output, input_list, op).after(async_op)
    return transfers.reduce_scatter(found, output, input_list, op, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Join the inputs of all processes, and write the part of each process's rank into its output.

    Args:
        input: as many elements as all outputs, in their order.

    Raises: as of `reduce_scatter`, DTypeError where dtypes differ.
    """
    name = "reduce_scatter_tensor"
    if not (async_op or is_compiling()) and repeated(name, op, group, output, input):
        return None
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = group_of(group)
    if found is None:
        return None
    check_reduction(output, op, name)
    _check_parts(input, output, found, name, ("input", "output"))
    if found.size() == 1:
        return _copied([output], [_shaped(input, output)], async_op)
    if is_compiling():
        return nodes.reduce_scatter(found, output, [input], op, name).after(async_op)
    return transfers.reduce_scatter(found, output, [input], op, async_op, name)


def gather(
    tensor: Tensor,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Write every process's tensor into the list of one, by rank.

    Args:
        gather_list: as many tensors as processes, in the process that `dst` names; None elsewhere.
        dst: 0 if no process is named.

    Raises:
        InvalidValueError: there is no group; no list where there should be one, or one elsewhere;
            or dtypes differ.
        ShapeError: there is another number of entries, of another shape.
        DistBackendError: as of `reduce`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    root = place_in(found, 0 if dst is None and group_dst is None else dst, group_dst, "gather")
    if is_at_root(found, root, gather_list, "gather_list", "destination"):
        _check_list(gather_list, "gather_list")
        _check_count(gather_list, found, "gather", "output list")
        for entry in gather_list:
            _check_alike(entry, tensor, "gather")
    if found.size() == 1:
        return _copied(gather_list, [tensor], async_op)
    if is_compiling():
        return nodes.gather(found, gather_list, tensor, root).after(async_op)
    return transfers.gather(found, gather_list, tensor, root, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Write the entries of one process's list into the tensors of all, by rank.

    Args:
        scatter_list: as many tensors as processes, in the process that `src` names; None elsewhere.
        src: 0 if no process is named.

    Raises: as of `gather`.
    """
    check_tensor(tensor, "tensor")
    found = group_of(group)
    if found is None:
        return None
    root = place_in(found, 0 if src is None and group_src is None else src, group_src, "scatter")
    if is_at_root(found, root, scatter_list, "scatter_list", "source"):
        _check_list(scatter_list, "scatter_list")
        _check_count(scatter_list, found, "scatter", "input list")
        for entry in scatter_list:
            _check_alike(tensor, entry, "scatter")
    if found.size() == 1:
        return _copied([tensor], scatter_list, async_op)
    if is_compiling():
        return nodes.scatter(found, tensor, scatter_list, root).after(async_op)
    return transfers.scatter(found, tensor, scatter_list, root, async_op)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Send entry j of every process's inputs to process j, as the entry of the sender's rank.

    Raises: as of `all_gather`.
    """
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    found = group_of(group)
    if found is None:
        return None
    _check_count(output_tensor_list, found, "all_to_all", "output tensor list")
    _check_count(input_tensor_list, found, "all_to_all", "input tensor list")
    first = input_tensor_list[0]
    _check_dtypes([*output_tensor_list, *input_tensor_list], first, "all_to_all", InvalidValueError)
    _check_alike(output_tensor_list[found.rank()], input_tensor_list[found.rank()], "all_to_all")
    if found.size() == 1:
        return _copied(output_tensor_list, input_tensor_list, async_op)
    received = [tensor.numel() for tensor in output_tensor_list]
    sent = [tensor.numel() for tensor in input_tensor_list]
    outputs, inputs = output_tensor_list, input_tensor_list
    if is_compiling():
        return nodes.exchange(found, outputs, inputs, received, sent).after(async_op)
    return transfers.exchange(found, outputs, inputs, received, sent, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send part j of every process's input to process j, as the part of the sender's rank.

    Args:
        output_split_sizes, input_split_sizes: sizes of the parts along the first dim; None for
            equal ones.

    Raises:
        ShapeError: sizes do not add up to that of the first dim, or it has no equal parts.
        DTypeError: dtypes differ.
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    found = group_of(group)
    if found is None:
        return None
    _check_dtypes([output], input, "all_to_all_single", DTypeError)
    received = _split_counts(output, output_split_sizes, found)
    sent = _split_counts(input, input_split_sizes, found)
    if received[found.rank()] != sent[found.rank()]:
        _check_alike(output, input, "all_to_all_single")
    if found.size() == 1:
        _check_alike(output, input, "all_to_all_single")
        return _copied([output], [input], async_op)
    if is_compiling():
        return nodes.exchange(found, [output], [input], received, sent).after(async_op)
    return transfers.exchange(found, [output], [input], received, sent, async_op)


def split_sizes(tensor: Tensor, sizes: Any, group: ProcessGroup) -> list[int]:
    """The size of each process's part along the first dim of a tensor.

    Raises:
        ShapeError: the sizes do not add up, or there are no equal ones.
    """
    rows = tensor.shape[0] if tensor.dim() else 1
    if not sizes:
        if rows % group.size():
            raise ShapeError(
                f"all_to_all_single: Tensor's dim 0 does not divide equally across group size: "
                f"{rows} for {group.size()}."
            )
        return [rows // group.size()] * group.size()
    if len(sizes) != group.size() or sum(sizes) != rows:
        raise ShapeError(
            f"all_to_all_single: Split sizes doesn't match total dim 0 size: {sizes} for {rows}."
        )
    return list(sizes)


def _split_counts(tensor: Tensor, sizes: Any, group: ProcessGroup) -> list[int]:
    """The elements of each process's part."""
    rows = tensor.shape[0] if tensor.dim() else 1
    per_row = tensor.numel() // rows if rows else 0
    return [size * per_row for size in split_sizes(tensor, sizes, group)]


def _nothing(group: ProcessGroup | None, results: Sequence[Tensor], async_op: bool) -> Work | None:
    """The answer of a call that changes nothing."""
    if group is None or not async_op:
        return None
    return EndedWork(results)


def _copied(outputs: Sequence[Tensor], sources: Sequence[Tensor], async_op: bool) -> Work | None:
    """The answer of one process, which gets what it sends."""
    with no_grad():
        for output, source in zip(outputs, sources, strict=True):
            output.copy_(source)
    return EndedWork(outputs) if async_op else None


def _shaped(tensor: Tensor, other: Tensor) -> Tensor:
    """A tensor in the shape of another, of as many elements."""
    return tensor if tensor.shape == other.shape else tensor.view(other.shape)


def check_tensor(tensor: Any, name: str) -> None:
    """Refuse what is no tensor.

    Raises:
        ArgumentError: it is none.
    """
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


def _check_count(entries: Any, group: ProcessGroup, name: str, what: str) -> None:
    if len(entries) != group.size():
        raise ShapeError(
            f"{name}: invalid {what} (expected length {group.size()}, the world size, got "
            f"{len(entries)})"
        )


def _check_dtypes(
    tensors: Sequence[Tensor], other: Tensor, name: str, refuse: type[Exception]
) -> None:
    """`refuse` is what PyTorch raises where dtypes differ."""
    for tensor in tensors:
        if tensor.dtype is not other.dtype:
            raise refuse(
                f"{name}: Invalid usage of tensors with different dtypes. Found {tensor.dtype} and "
                f"{other.dtype}"
            )


def _check_alike(output: Tensor, source: Tensor, name: str) -> None:
    _check_dtypes([output], source, name, InvalidValueError)
    if tuple(output.shape) != tuple(source.shape):
        raise ShapeError(
            f"{name}: invalid tensor size (expected {tuple(source.shape)}, got "
            f"{tuple(output.shape)})"
        )


def _check_parts(
    whole: Tensor, part: Tensor, group: ProcessGroup, name: str, names: tuple[str, str]
) -> None:
    """`names` are those of the whole and of the part."""
    if whole.dtype is not part.dtype:
        _check_dtypes([whole], part, name, DTypeError)
    if math.prod(whole.shape) != math.prod(part.shape) * group.size():
        raise ShapeError(
            f"{name}: {names[0]} tensor size must be equal to world_size times {names[1]} "
            f"tensor size: {tuple(whole.shape)} for {group.size()} of {tuple(part.shape)}."
        )
