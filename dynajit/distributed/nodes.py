"""Collectives within compiled functions: nodes of the graph, in the order of the program.

Contract: a collective is started by one node and waited for by another, so that what lies between
them goes on meanwhile. The node that starts gives a number, one int64, and takes the number of the
collective before it: data that the graph cannot reorder, as no process may. `ORDER.last` is what
the last one of a function leaves for the next. Results are written into the program's tensors when
they are waited for. No gradient passes.
"""

import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from dynajit.core.errors import DistBackendError
from dynajit.core.process.process_groups import STATE
from dynajit.core.types.dtypes import int64
from dynajit.distributed import transfers
from dynajit.distributed.channels.channel import DONE
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.reductions import ReduceOp
from dynajit.distributed.work import Work
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import empty, empty_like, tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.library.definitions import custom_op
from dynajit.ops.functions.shapes.index import cat

_STARTED: Final[dict[int, tuple[Work, Tensor]]] = {}
"""What was started and not waited for, by number, with the tensor that it writes."""

_NUMBERS: Final = itertools.count(1)


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
    """

    def __init__(self, results: Sequence[Tensor], write: Callable[[], None]) -> None:
        self._request = DONE
        self._results = list(results)
        self._error = None
        self._write = write
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

    def after(self, async_op: bool) -> "NodeWork | None":
        """What a call gives: itself, or None when it has ended."""
        if async_op:
            return self
        self.wait()
        return None


def all_reduce(group: ProcessGroup, tensors: Sequence[Tensor], op: Any) -> NodeWork:
    """`collectives.all_reduce` of tensors of one dtype, in one message."""
    source = _joined(tensors)
    number = _followed(_start_all_reduce(source, ORDER.last, op.name, group.group_name))
    return NodeWork(tensors, lambda: _write_parts(tensors, _wait(number, source)))


def broadcast(group: ProcessGroup, targets: Sequence[Tensor], root: int) -> NodeWork:
    """`collectives.broadcast` of tensors of one dtype, in one message."""
    source = _joined(targets)
    number = _followed(_start_broadcast(source, ORDER.last, root, group.group_name))
    return NodeWork(targets, lambda: _write_parts(targets, _wait(number, source)))


def all_gather(group: ProcessGroup, outputs: Sequence[Tensor], tensor: Tensor) -> NodeWork:
    """`collectives.all_gather`, or of one output with all parts."""
    source = tensor.detach()
    number = _followed(_start_all_gather(source, ORDER.last, group.group_name))

    def write() -> None:
        arrived = _wait_for_all(number, source, group.size())
        if len(outputs) == 1:
            outputs[0].copy_(arrived.view(outputs[0].shape))
            return
        for place, output in enumerate(outputs):
            output.copy_(arrived[place])

    return NodeWork(outputs, write)


def reduce_scatter(
    group: ProcessGroup, output: Tensor, sources: Sequence[Tensor], op: Any
) -> NodeWork:
    """`collectives.reduce_scatter`, or of one source with all parts."""
    source, like = _joined(sources), output.detach()
    number = _followed(_start_reduce_scatter(source, like, ORDER.last, op.name, group.group_name))
    return NodeWork([output], lambda: _write(output, _wait(number, like)))


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
        _start_exchange(source, like, ORDER.last, list(received), list(sent), group.group_name)
    )
    return NodeWork(outputs, lambda: _write_parts(outputs, _wait(number, like)))


def barrier(group: ProcessGroup) -> NodeWork:
    """`collectives.barrier`."""
    number = _followed(_start_barrier(ORDER.last, group.group_name))
    return NodeWork([], lambda: _write(ORDER.last, _wait(number, number)))


def _followed(number: Tensor) -> Tensor:
    ORDER.last = number
    return number


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


_Function = TypeVar("_Function", bound=Callable[..., Tensor])


def _starts(function: _Function) -> _Function:
    """An operator that starts a collective and gives its number."""
    operator = custom_op(f"distributed::{function.__name__[1:]}", function, mutates_args=())
    operator.register_fake(lambda *arguments: empty(1, dtype=int64))
    operator._opoverload.starts = True
    return operator  # type: ignore[no-any-return]


def _waits(fake: Callable[..., Tensor]) -> Callable[[_Function], _Function]:
    """An operator that waits for a collective and gives what arrived, which `fake` is like."""

    def made(function: _Function) -> _Function:
        operator = custom_op(f"distributed::{function.__name__[1:]}", function, mutates_args=())
        operator.register_fake(fake)
        return operator  # type: ignore[no-any-return]

    return made


@_starts
def _start_all_reduce(source: Tensor, after: Tensor, op: str, group: str) -> Tensor:
    result = source.clone()
    return _started(transfers.all_reduce(_group(group), [result], ReduceOp[op], True), result)


@_starts
def _start_broadcast(source: Tensor, after: Tensor, root: int, group: str) -> Tensor:
    result = source.clone()
    return _started(transfers.broadcast(_group(group), result, root, True), result)


@_starts
def _start_all_gather(source: Tensor, after: Tensor, group: str) -> Tensor:
    found = _group(group)
    result = source.new_empty((found.size(), *source.shape))
    return _started(transfers.all_gather(found, [result], source.clone(), True), result)


@_starts
def _start_reduce_scatter(
    source: Tensor, like: Tensor, after: Tensor, op: str, group: str
) -> Tensor:
    result = empty_like(like)
    work = transfers.reduce_scatter(_group(group), result, [source.clone()], ReduceOp[op], True)
    return _started(work, result)


@_starts
def _start_exchange(
    source: Tensor, like: Tensor, after: Tensor, received: list[int], sent: list[int], group: str
) -> Tensor:
    result = empty_like(like)
    work = transfers.exchange(_group(group), [result], [source.clone()], received, sent, True)
    return _started(work, result)


@_starts
def _start_barrier(after: Tensor, group: str) -> Tensor:
    return _started(transfers.barrier(_group(group), True), tensor([0]))


@_waits(lambda number, like: empty_like(like))
def _wait(number: Tensor, like: Tensor) -> Tensor:
    return _ended(number)


@_waits(lambda number, like, count: like.new_empty((count, *like.shape)))
def _wait_for_all(number: Tensor, like: Tensor, count: int) -> Tensor:
    return _ended(number)


def _group(name: str) -> ProcessGroup:
    for group in STATE.groups:
        if group.group_name == name and isinstance(group, ProcessGroup):
            return group
    raise DistBackendError(
        f"a compiled function was captured with the group {name!r}, which was destroyed since."
    )


def _started(work: Work | None, result: Tensor) -> Tensor:
    """The number of what was started."""
    assert work is not None
    number = next(_NUMBERS)
    _STARTED[number] = work, result
    return tensor([number])


def _ended(number: Tensor) -> Tensor:
    work, result = _STARTED.pop(int(number.item()))
    work.wait()
    return result
