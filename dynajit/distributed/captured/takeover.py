"""Collectives that a launch began before it refused its values, as the plain run asks for them.

Contract: the plain run asks for the same collectives in the same order. Each gets what arrives, or
has arrived, for the launch; the channel hears nothing of it.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dynajit.core.errors import DistBackendError
from dynajit.core.process.begun import BEGUN
from dynajit.core.records import record
from dynajit.core.types.dtypes import DType
from dynajit.distributed.channels.channel import Request
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.work import PROGRESS, Work
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.tensor import Tensor

Asked: TypeAlias = tuple[object, ...]
"""The name of a collective, and what else is the same in all processes: an operation, a root."""


@record(eq=False)
class Begun:
    """A collective that a launch began.

    Args:
        group: whose.
        asked: what for.
        work: ends when it has arrived.
        result: one dim, what arrives; None where this process gets nothing.
        let_go: nobody will wait for it by its number.
    """

    group: ProcessGroup
    asked: Asked
    work: Work
    result: Tensor | None
    let_go: Callable[[], object]

    @property
    def kind(self) -> tuple[DType | None, int]:
        """Dtype and number of elements."""
        if self.result is None:
            return None, 0
        return self.result.dtype, self.result.numel()


def is_taken_over() -> bool:
    """Whether the next collective was begun by a launch that refused its values."""
    return bool(BEGUN.handed_over)


def taken_over(
    group: ProcessGroup, asked: Asked, results: Sequence[Tensor], async_op: bool
) -> Work | None:
    """The collective that a launch began, in the place of one that is asked for.

    Several that travelled one by one may stand for one.

    Args:
        results: what it writes, in order.

    Raises:
        DistBackendError: the launch began something else. The group sends nothing from now on.
    """
    wanted = sum(result.numel() for result in results)
    parts: list[Begun] = []
    found = 0
    while BEGUN.handed_over and (found < wanted or not parts):
        part = BEGUN.handed_over.pop(0)
        part.let_go()
        parts.append(part)
        found += part.kind[1]
        fits = not results or part.result is None or part.result.dtype is results[0].dtype
        if part.group is not group or part.asked != asked or not fits:
            break
    else:
        if found == wanted or parts[0].result is None:
            return _followed(parts, results, async_op)
    BEGUN.handed_over.clear()
    error = DistBackendError(
        f"{asked[0]}: the compiled function began another collective ({parts[-1].asked[0]}) with "
        "the other processes before an operation refused its operands.  What a function asks other "
        "processes for must follow from its arguments alone."
    )
    group.fail(error)
    raise error


class _Several(Request):
    """All of some works."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    def test(self) -> bool:
        """Whether all have ended.

        Raises:
            DistBackendError: one has failed.
        """
        for work in self._works:
            if not work.advance():
                return False
            work.wait()
        return True


def _followed(parts: Sequence[Begun], results: Sequence[Tensor], async_op: bool) -> Work | None:
    arrived = [part.result for part in parts if part.result is not None]
    first = parts[0].group
    work = Work(
        _Several([part.work for part in parts]),
        results,
        _writing(results, arrived) if arrived else None,
        first.limit,
        str(parts[0].asked[0]),
        first.fail,
    )
    if async_op:
        PROGRESS.add(work)
        return work
    work.wait()
    return None


def _writing(results: Sequence[Tensor], arrived: Sequence[Tensor]) -> Callable[[], None]:
    def write() -> None:
        flat = [part.reshape(-1) for part in arrived]
        with no_grad():
            for result in results:
                _fill(result, flat)

    return write


def _fill(result: Tensor, flat: list[Tensor]) -> None:
    """Write the next elements into a tensor, and drop them from `flat`."""
    target = result.detach().new_empty(result.numel())
    start = 0
    while start < target.numel():
        part = flat[0][: target.numel() - start]
        target[start : start + part.numel()] = part
        start += part.numel()
        flat[0] = flat[0][part.numel() :]
        if not flat[0].numel():
            del flat[0]
    result.detach().copy_(target.view(tuple(result.shape)))


__all__ = ["Asked", "Begun", "is_taken_over", "taken_over"]
