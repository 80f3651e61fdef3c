"""Collectives within compiled functions: nodes of the graph, in the order of the program.

Contract: a collective is started by one node and waited for by another, so that what lies between
them goes on meanwhile. The node that starts gives a number, one int64, and takes the number of the
collective before it: data that the graph cannot reorder, as no process may. `ORDER.last` is what
the last one of a function leaves for the next. Results are written into the program's tensors when
they are waited for. No gradient passes but through `rows_of`.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from dynajit.compat.futures import Future
from dynajit.core.process import process_groups
from dynajit.distributed.captured import rows
from dynajit.distributed.channels.channel import DONE
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.work import Work
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.shapes.index import cat


class Order:
    """What keeps the collectives of compiled functions in order. Mutable.

    Attributes:
        last: the number of the last one that a compiled function started.
    """

    def __init__(self) -> None:
        self.last = tensor([0])


ORDER: Final = Order()


class NodeWork(Work):
    """A collective that compiled code has started. Mutable: it ends when it is waited for.

    Args:
        results: the tensors that it writes.
        write: waits, and writes them.
        source: the place of the process that sent a message.
    """

    def __init__(
        self, results: Sequence[Tensor], write: Callable[[], None], source: int = -1
    ) -> None:
        self._request = DONE
        self._results = list(results)
        self._error = None
        self._write = write
        self._source = source
        self._ended = False

    def advance(self) -> bool:
        """True, when it has ended: compiled code waits."""
        return self.wait()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """True, when it has ended.

        Raises:
            DistBackendError: the engine failed, or the others did not come in time.
        """
        if not self._ended:
            self._ended = True
            with no_grad():
                self._write()
        return True

    def source_rank(self) -> int:
        """The process that sent what was received, as the group counts."""
        return self._source

    def get_future(self) -> "NodeFuture":  # type: ignore[override]  # without locks
        """A future of the tensors."""
        return NodeFuture(self.wait, self.result)

    def after(self, async_op: bool) -> "NodeWork | None":
        """What a call gives: itself, or None when it has ended."""
        if async_op:
            return self
        self.wait()
        return None


class NodeFuture(Future):
    """A value that compiled code computes when it waits. Mutable: it ends.

    One thread runs compiled code, so nothing is locked. See `work.WorkFuture`.

    Args:
        wait: waits for what it depends on.
        compute: makes the value.
    """

    def __init__(self, wait: Callable[[], object], compute: Callable[[], Any]) -> None:
        self._wait_for = wait
        self._compute = compute
        self._is_done = False
        self._value = None
        self._error = None

    def done(self) -> bool:
        """Whether it was waited for."""
        return self._is_done

    def wait(self) -> Any:
        """The value.

        Raises:
            The error of the work, or of the callback.
        """
        if not self._is_done:
            self._wait_for()
            self._value = self._compute()
            self._is_done = True
        return self._value

    def then(self, callback: Callable[[Any], Any]) -> "NodeFuture":
        """A future of what the callback makes of this one; a future that it returns is waited
        for."""

        def made() -> Any:
            value = callback(self)
            return value.wait() if isinstance(value, Future) else value

        return NodeFuture(self.wait, made)


def known(value: Any) -> NodeFuture:
    """A future that has its value."""
    future = NodeFuture(lambda: None, lambda: value)
    future.wait()
    return future


def all_reduce(group: ProcessGroup, tensors: Sequence[Tensor], op: Any) -> NodeWork:
    """`collectives.all_reduce` of tensors of one dtype, in one message."""
    source = _joined(tensors)
    number = _followed(
        rows.start_all_reduce(source, ORDER.last, op=op.name, parts=None, group=group.group_name)
    )
    return NodeWork(tensors, lambda: _write_parts(tensors, rows.wait(number, source)))


def reduce(group: ProcessGroup, tensor: Tensor, root: int, op: Any) -> NodeWork:
    """`collectives.reduce`."""
    source = tensor.detach()
    number = _followed(
        rows.start_reduce(source, ORDER.last, op=op.name, root=root, group=group.group_name)
    )
    if group.rank() != root:
        return NodeWork([tensor], lambda: _end(number))
    return NodeWork([tensor], lambda: _write(tensor, rows.wait(number, source)))


def broadcast(group: ProcessGroup, targets: Sequence[Tensor], root: int) -> NodeWork:
    """`collectives.broadcast` of tensors of one dtype, in one message."""
    source = _joined(targets)
    number = _followed(
        rows.start_broadcast(source, ORDER.last, root=root, parts=None, group=group.group_name)
    )
    return NodeWork(targets, lambda: _write_parts(targets, rows.wait(number, source)))


def all_gather(
    group: ProcessGroup, outputs: Sequence[Tensor], tensor: Tensor, name: str = "all_gather"
) -> NodeWork:
    """`collectives.all_gather`, or of one output with all parts; `name` is what was called."""
    source = tensor.detach()
    number = _followed(
        rows.start_all_gather(source, ORDER.last, called=name, group=group.group_name)
    )
    return NodeWork(outputs, lambda: _write_all(outputs, number, source, group.size()))


def rows_of(row: Tensor, group: process_groups.ProcessGroup) -> Tensor:
    """`data_parallel.statistics.rows_of`: gradients pass."""
    source = row.detach()
    number = _followed(
        rows.start_all_gather(source, ORDER.last, called=rows.ALL_ROWS, group=group.group_name)
    )
    gathered: Tensor = rows.wait_for_rows(
        number, row, count=group.size(), place=group.rank(), group=group.group_name
    )
    return gathered


def gather(
    group: ProcessGroup, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
) -> NodeWork:
    """`collectives.gather`; outputs count at the root."""
    source = tensor.detach()
    number = _followed(rows.start_gather(source, ORDER.last, root=root, group=group.group_name))
    if outputs is None or group.rank() != root:
        return NodeWork([], lambda: _end(number))
    return NodeWork(outputs, lambda: _write_all(outputs, number, source, group.size()))


def scatter(
    group: ProcessGroup, output: Tensor, sources: Sequence[Tensor] | None, root: int
) -> NodeWork:
    """`collectives.scatter`; sources count at the root."""
    like = output.detach()
    source = _joined(sources) if sources and group.rank() == root else like
    number = _followed(
        rows.start_scatter(source, like, ORDER.last, root=root, group=group.group_name)
    )
    return NodeWork([output], lambda: _write(output, rows.wait(number, like)))


def reduce_scatter(
    group: ProcessGroup,
    output: Tensor,
    sources: Sequence[Tensor],
    op: Any,
    name: str = "reduce_scatter",
) -> NodeWork:
    """`collectives.reduce_scatter`, or of one source with all parts; `name` is what was called."""
    source, like = _joined(sources), output.detach()
    number = _followed(
        rows.start_reduce_scatter(
            source, like, ORDER.last, op=op.name, called=name, group=group.group_name
        )
    )
    return NodeWork([output], lambda: _write(output, rows.wait(number, like)))


def exchange(
    group: ProcessGroup,
    outputs: Sequence[Tensor],
    sources: Sequence[Tensor],
    received: Sequence[int],
    sent: Sequence[int],
) -> NodeWork:
    """`collectives.all_to_all`, or of one output and one source."""
    source, like = _joined(sources), _joined(outputs)
    number = _followed(
        rows.start_exchange(
            source,
            like,
            ORDER.last,
            received=tuple(received),
            sent=tuple(sent),
            group=group.group_name,
        )
    )
    return NodeWork(outputs, lambda: _write_parts(outputs, rows.wait(number, like)))


def barrier(group: ProcessGroup) -> NodeWork:
    """`collectives.barrier`."""
    number = _followed(rows.start_barrier(ORDER.last, group=group.group_name))
    return NodeWork([], lambda: _end(number))


def send(group: ProcessGroup, tensor: Tensor, peer: int, tag: int) -> NodeWork:
    """`point_to_point.isend`."""
    source = tensor.detach()
    number = _followed(
        rows.start_send(source, ORDER.last, peer=peer, tag=tag, group=group.group_name)
    )
    return NodeWork([tensor], lambda: _end(number))


def receive(group: ProcessGroup, tensor: Tensor, peer: int, tag: int) -> NodeWork:
    """`point_to_point.irecv` from a process that is named."""
    like = tensor.detach()
    number = _followed(
        rows.start_receive(like, ORDER.last, peer=peer, tag=tag, group=group.group_name)
    )
    return NodeWork([tensor], lambda: _write(tensor, rows.wait(number, like)), peer)


def _followed(number: Tensor) -> Tensor:
    ORDER.last = number
    return number


def _end(number: Tensor) -> None:
    """Wait where nothing arrives: what is started later starts after it."""
    ORDER.last = rows.wait_for_end(number, ORDER.last)


def _write_all(outputs: Sequence[Tensor], number: Tensor, like: Tensor, count: int) -> None:
    """What arrived of all processes, in an output for each, or in one."""
    arrived = rows.wait_for_all(number, like, count=count)
    if len(outputs) == 1:
        outputs[0].copy_(arrived.view(outputs[0].shape))
        return
    for place, output in enumerate(outputs):
        output.copy_(arrived[place])


def _write(target: Tensor, arrived: Tensor) -> None:
    target.copy_(arrived)


def _write_parts(targets: Sequence[Tensor], arrived: Tensor) -> None:
    """What arrived for several tensors, one after the other, in each."""
    if len(targets) == 1:
        targets[0].copy_(arrived)
        return
    start = 0
    for target in targets:
        target.copy_(arrived[start : start + target.numel()].view(target.shape))
        start += target.numel()


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) == 1:
        alone: Tensor = tensors[0].detach()
        return alone
    joined: Tensor = cat([part.detach().reshape(-1) for part in tensors])
    return joined
