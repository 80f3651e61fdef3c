"""Schedules of schedules: several at once, and one behind the other."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.optim.lr_scheduler.base import LRScheduler, rates, set_option
from dynajit.optim.optimizer import Optimizer


class ChainedScheduler(LRScheduler):
    """Every schedule, each step: their factors multiply.

    Raises:
        InvalidValueError: no schedules, or schedules of several optimisers.
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise InvalidValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_optimizers(type(self).__name__, schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = rates(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """The next step of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates(self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        """With the state dicts of the schedules."""
        return _with_states(super().state_dict(), self._schedulers)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(_without_states(state_dict))
        _load_states(self._schedulers, state_dict)


class SequentialLR(LRScheduler):
    """One schedule behind the other; `milestones` are the epochs at which the next one begins.

    Raises:
        InvalidValueError: no schedules, schedules of several optimisers, or not one milestone
            less than schedules.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise InvalidValueError(
                f"{name} expects at least one scheduler to be chained, but got no scheduler."
            )
        _check_optimizers(name, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise InvalidValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        self._start_again()
        self._last_lr = schedulers[0].get_last_lr()

    def _start_again(self) -> None:
        """Undo the first steps that the schedules made when they were built; begin the first."""
        for group in self.optimizer.param_groups:
            set_option(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0]._initial_step()

    def step(self) -> None:  # type: ignore[override]
        """The next step of the schedule that is at work."""
        self.last_epoch += 1
        place = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[place]
        if place > 0 and self._milestones[place - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """With the state dicts of the schedules."""
        return _with_states(super().state_dict(), self._schedulers)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        super().load_state_dict(_without_states(state_dict))
        _load_states(self._schedulers, state_dict)


def _check_optimizers(name: str, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
    for number, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
        if scheduler.optimizer is not optimizer:
            raise InvalidValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got "
                f"scheduler {type(scheduler).__name__} at index {number} has another one."
            )


def _with_states(state: dict[str, Any], schedulers: Sequence[LRScheduler]) -> dict[str, Any]:
    return {**state, "_schedulers": [scheduler.state_dict() for scheduler in schedulers]}


def _without_states(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != "_schedulers"}


def _load_states(schedulers: Sequence[LRScheduler], state: dict[str, Any]) -> None:
    for scheduler, saved in zip(schedulers, state["_schedulers"], strict=True):
        scheduler.load_state_dict(saved)
