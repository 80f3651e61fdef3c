"""Processes with different numbers of batches: those that have ended take part in what others do.

Contract: within the block, each joinable says once per iteration that its process goes on
(`Join.notify_join_context`). A process that comes to the end of the block runs the main hooks, once
for each iteration of the others, until all have come; then each runs the post hooks once.
"""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any

from dynajit.core.errors import InvalidValueError, ShapeError
from dynajit.core.process.process_groups import is_initialized
from dynajit.core.records import record
from dynajit.core.types.device import Device
from dynajit.distributed.collectives import all_reduce
from dynajit.distributed.groups import ProcessGroup, group_of
from dynajit.distributed.work import Work
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor


class JoinHook:
    """What is done for a process that has ended: hooks to override."""

    def main_hook(self) -> None:
        """Takes part in the collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Runs once, when all processes have ended.

        Args:
            is_last_joiner: this process is among those that ended last.
        """


@record
class JoinSettings:
    """How a joinable is joined at present.

    Args:
        enable: it is within a block of a `Join` that is enabled.
        throw_on_early_termination: as of the block.
        is_first_joinable: it speaks for its process.
    """

    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool


_NOT_JOINED = JoinSettings(False, False, False)


class Joinable(ABC):
    """What can be given to `Join`: a class to derive from, whose `__init__` is called."""

    def __init__(self) -> None:
        super().__init__()
        self._join_config = _NOT_JOINED

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """The hooks of this object; `kwargs` are those of the block."""

    @property
    @abstractmethod
    def join_device(self) -> Device:
        """Where tensors of its collectives lie."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """The processes that end together."""


class Join:
    """A block in which processes may have different numbers of iterations.

    Args:
        joinables: at least one `Joinable`, all of one group; in the order in which an iteration
            runs their collectives.
        enable: False: nothing is done, for inputs that are known to be even.
        throw_on_early_termination: every process raises once one has ended.
        kwargs: given to each `join_hook`.

    Raises:
        InvalidValueError: there are none, or their groups differ; a ValueError.
        ShapeError: a process has ended, and that shall be an error; a RuntimeError. At the end of
            the block, or in `notify_join_context`.
    """

    def __init__(
        self,
        joinables: list[Any],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if len(joinables) == 0:
            raise InvalidValueError("The join context manager requires at least one joinable")
        self._joinables = list(joinables)
        self._hooks = [joinable.join_hook(**kwargs) for joinable in joinables]
        self._enable = enable
        self._throws = throw_on_early_termination
        groups = [getattr(joinable, "join_process_group", None) for joinable in joinables]
        if any(group is not groups[0] for group in groups):
            raise InvalidValueError("Using join context manager with multiple process groups")
        self._group = group_of(groups[0]) if is_initialized() else None
        for place, joinable in enumerate(joinables):
            joinable._join_config = JoinSettings(enable, self._throws, place == 0)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if self._enable and kind is None:
                self._end()
        finally:
            for joinable in self._joinables:
                joinable._join_config = _NOT_JOINED

    def _end(self) -> None:
        is_last = True
        while self._others():
            if self._throws:
                _refuse()
            for hook in self._hooks:
                hook.main_hook()
            is_last = False
        for hook in self._hooks:
            hook.post_hook(is_last)

    def _others(self) -> int:
        """How many processes begin an iteration now."""
        if self._group is None or self._group.size() == 1:
            return 0
        count = tensor(0.0)
        all_reduce(count, group=self._group)
        return int(count)

    @staticmethod
    def notify_join_context(joinable: Any) -> "tuple[Work, Tensor] | None":
        """Say that this process begins an iteration; called before the joinable's collectives.

        Returns:
            None outside of a block, and from joinables that do not speak for the process; else the
            collective, and the tensor that will hold the number of processes that go on.

        Raises:
            ShapeError: a process has ended, and that shall be an error; a RuntimeError.
        """
        settings = getattr(joinable, "_join_config", _NOT_JOINED)
        if not (settings.enable and settings.is_first_joinable and is_initialized()):
            return None
        group = group_of(joinable.join_process_group)
        if group is None or group.size() == 1:
            return None
        count = tensor(1.0)
        work = all_reduce(count, group=group, async_op=True)
        assert work is not None
        if settings.throw_on_early_termination:
            work.wait()
            if int(count) < group.size():
                _refuse()
        return work, count


def _refuse() -> None:
    raise ShapeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")


__all__ = ["Join", "JoinHook", "Joinable"]
