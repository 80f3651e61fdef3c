"""Collectives between several processes, as they run: arguments were checked.

Contract: all processes of a group, of more than one, make the call of a collective; of a message
the two that they concern. With `async_op` the result is a `Work`, else None when it has ended. What
a launch began before it refused its values is not begun again (`captured.takeover`).
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, TypeAlias

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import DistBackendError
from dynajit.distributed import agreement, repeats
from dynajit.distributed.buffers import incoming, joined, outgoing
from dynajit.distributed.captured.takeover import is_taken_over, taken_over
from dynajit.distributed.channels.channel import Array, Request
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.reductions import PremultipliedSum, ReduceOp
from dynajit.distributed.work import PROGRESS, Work, finished
from dynajit.eager.tensor.tensor import Tensor

#: Read in every call: members of enumerations are looked up by Python code.
_SUM: Final = ReduceOp.SUM
_AVG: Final = ReduceOp.AVG

Operation: TypeAlias = ReduceOp | PremultipliedSum


def all_reduce(
    group: ProcessGroup, tensors: Sequence[Tensor], op: Operation, async_op: bool
) -> Work | None:
    """Join the tensors, of one dtype, in one message."""
    if is_taken_over():
        return taken_over(group, ("all_reduce", _kind(op)), tensors, async_op)
    name = "all_reduce"
    agreement.check(group, name, tensors, _kind(op))
    array, write = incoming(tensors, group, True)
    kind = _factored(array, op)
    work = _run(
        group,
        name,
        lambda: group.channel.all_reduce(array, kind),
        tensors,
        _averaged(array, op, group, write),
        async_op,
    )
    if kind is op and array is tensors[0]._held:
        make = group.channel.all_reduce_again
        repeats.note(group, name, op, tensors[0], None, make, array, kind)
    return work


def reduce(
    group: ProcessGroup, tensor: Tensor, root: int, op: Operation, async_op: bool
) -> Work | None:
    """Join the tensors in the root's."""
    if is_taken_over():
        results = [tensor] if group.rank() == root else []
        return taken_over(group, ("reduce", _kind(op), root), results, async_op)
    agreement.check(group, "reduce", [tensor], _kind(op), root)
    array, write = incoming([tensor], group, True)
    finish = None
    if group.rank() == root:
        finish = _averaged(array, op, group, write)
    elif isinstance(op, PremultipliedSum):
        array = any_arrays.copied(array)
    kind = _factored(array, op)
    return _run(
        group, "reduce", lambda: group.channel.reduce(array, root, kind), [tensor], finish, async_op
    )


def broadcast(
    group: ProcessGroup, tensors: Sequence[Tensor], root: int, async_op: bool
) -> Work | None:
    """Write the root's tensors, of one dtype, into those of all, in one message."""
    if is_taken_over():
        return taken_over(group, ("broadcast", root), tensors, async_op)
    agreement.check(group, "broadcast", tensors, root)
    if group.rank() == root:
        array = outgoing(tensors[0], group) if len(tensors) == 1 else joined(tensors, group)
        finish = None
    else:
        array, finish = incoming(tensors, group)
    return _run(
        group, "broadcast", lambda: group.channel.broadcast(array, root), tensors, finish, async_op
    )


def barrier(group: ProcessGroup, async_op: bool, timeout: timedelta | None = None) -> Work | None:
    """Wait until all processes are here."""
    if is_taken_over():
        return taken_over(group, ("barrier",), [], async_op)
    agreement.check(group, "barrier", [])
    return _run(group, "barrier", group.channel.barrier, [], None, async_op, timeout)


def all_gather(
    group: ProcessGroup,
    outputs: Sequence[Tensor],
    tensor: Tensor,
    async_op: bool,
    name: str = "all_gather",
) -> Work | None:
    """Write the tensors of all into the outputs, or into one, one after the other.

    Args:
        name: what the program called.
    """
    if is_taken_over():
        return taken_over(group, ("all_gather",), outputs, async_op)
    agreement.check(group, name, [tensor])
    array, write = incoming(outputs, group)
    source = outgoing(tensor, group)
    return _run(
        group,
        name,
        lambda: group.channel.all_gather(array, source),
        outputs,
        write,
        async_op,
    )


def gather(
    group: ProcessGroup,
    outputs: Sequence[Tensor] | None,
    tensor: Tensor,
    root: int,
    async_op: bool,
) -> Work | None:
    """Write the tensors of all into the root's outputs."""
    if is_taken_over():
        return taken_over(group, ("gather", root), outputs or [], async_op)
    agreement.check(group, "gather", [tensor], root)
    source = outgoing(tensor, group)
    array, write = incoming(outputs, group) if outputs else (None, None)
    return _run(
        group,
        "gather",
        lambda: group.channel.gather(array, source, root),
        outputs or [],
        write,
        async_op,
    )


def scatter(
    group: ProcessGroup,
    tensor: Tensor,
    sources: Sequence[Tensor] | None,
    root: int,
    async_op: bool,
) -> Work | None:
    """Write the root's sources into the tensors of all."""
    if is_taken_over():
        return taken_over(group, ("scatter", root), [tensor], async_op)
    agreement.check(group, "scatter", [tensor], root)
    array, write = incoming([tensor], group)
    source = joined(sources, group) if sources else None
    return _run(
        group,
        "scatter",
        lambda: group.channel.scatter(array, source, root),
        [tensor],
        write,
        async_op,
    )


def reduce_scatter(
    group: ProcessGroup,
    output: Tensor,
    sources: Sequence[Tensor],
    op: Operation,
    async_op: bool,
    name: str = "reduce_scatter",
) -> Work | None:
    """Join the sources, or the parts of one, and write one part into each process's output.

    Args:
        name: what the program called.
    """
    if is_taken_over():
        return taken_over(group, ("reduce_scatter", _kind(op)), [output], async_op)
    agreement.check(group, name, [output], _kind(op))
    array, write = incoming([output], group)
    source = outgoing(sources[0], group) if len(sources) == 1 else joined(sources, group)
    if isinstance(op, PremultipliedSum):
        source = any_arrays.copied(source)
    kind = _factored(source, op)
    work = _run(
        group,
        name,
        lambda: group.channel.reduce_scatter(array, source, kind),
        [output],
        _averaged(array, op, group, write),
        async_op,
    )
    if kind is op and array is output._held and source is sources[0]._held:
        make = group.channel.reduce_scatter_again
        repeats.note(group, name, op, output, sources[0], make, array, source, kind)
    return work


def exchange(
    group: ProcessGroup,
    outputs: Sequence[Tensor],
    sources: Sequence[Tensor],
    received: Sequence[int],
    sent: Sequence[int],
    async_op: bool,
) -> Work | None:
    """Send a part of the sources to each process; `received` and `sent` count elements."""
    if is_taken_over():
        return taken_over(group, ("all_to_all",), outputs, async_op)
    agreement.check(group, "all_to_all", [], outputs[0].dtype)
    array, write = incoming(outputs, group)
    source = outgoing(sources[0], group) if len(sources) == 1 else joined(sources, group)
    return _run(
        group,
        "all_to_all",
        lambda: group.channel.all_to_all(array, source, received, sent),
        outputs,
        write,
        async_op,
    )


def send(group: ProcessGroup, tensor: Tensor, peer: int, tag: int) -> Work | None:
    """Start to send a tensor, which stays as it is until the work has ended."""
    if is_taken_over():
        return taken_over(group, ("send", peer, tag), [], True)
    group.refuse_after_failure("send")
    request = group.channel.send(outgoing(tensor, group), peer, tag)
    name = f"send to rank {group.ranks[peer]}"
    return _followed(Work(request, [tensor], None, group.limit, name, group.fail))


def receive(group: ProcessGroup, tensor: Tensor, peer: int | None, tag: int) -> Work | None:
    """Start to receive a tensor from a process, or from any for None."""
    if is_taken_over():
        return taken_over(group, ("recv", peer, tag), [tensor], True)
    group.refuse_after_failure("recv")
    array, write = incoming([tensor], group)
    request = group.channel.receive(array, peer, tag)
    name = "recv" if peer is None else f"recv from rank {group.ranks[peer]}"
    return _followed(Work(request, [tensor], write, group.limit, name, group.fail))


def _followed(work: Work) -> Work:
    PROGRESS.add(work)
    return work


def _run(
    group: ProcessGroup,
    name: str,
    start: Callable[[], Request],
    results: Sequence[Tensor],
    finish: Callable[[], None] | None,
    async_op: bool,
    timeout: timedelta | None = None,
) -> Work | None:
    """Start a transfer, and wait for it unless the program will."""
    limit = group.limit if timeout is None else timeout.total_seconds()
    try:
        request = start()
        if not async_op:
            finished(request, finish, limit, name)
            return None
    except DistBackendError as error:
        group.fail(error)
        raise
    return _followed(Work(request, results, finish, limit, name, group.fail))


def _kind(op: Operation) -> ReduceOp:
    """What processes agree on of an operation: factors may differ."""
    return ReduceOp.PREMUL_SUM if isinstance(op, PremultipliedSum) else op


def _factored(array: Array, op: Operation) -> ReduceOp:
    """What the engine does for an operation; elements are multiplied by its factor first."""
    if not isinstance(op, PremultipliedSum):
        return _SUM if op is _AVG else op
    array *= op.factor.array if isinstance(op.factor, Tensor) else op.factor
    return _SUM


def _averaged(
    array: Array, op: Operation, group: ProcessGroup, write: Callable[[], None]
) -> Callable[[], None]:
    """What is done with the sum of all processes: divide it for a mean, and write it."""
    if op is not _AVG:
        return write

    def divided() -> None:
        nonlocal array
        array /= group.size()
        write()

    return divided
