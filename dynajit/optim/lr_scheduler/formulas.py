"""Schedules that are formulas of the epoch.

Contract: as PyTorch's, including that `get_lr` starts from the rates that the groups have, so that
several schedules of one optimiser multiply. Sources: the formulas in the classes' descriptions.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.optim.lr_scheduler.base import (
    LRScheduler,
    for_each_group,
    rates,
    restore_functions,
    saved_functions,
)
from dynajit.optim.optimizer import Optimizer

_Function = Callable[[int], float]


class LambdaLR(LRScheduler):
    """`initial * lr_lambda(epoch)`.

    Args:
        lr_lambda: a function of the epoch, or one for each group.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: _Function | list[_Function],
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.optimizer = optimizer
        self.lr_lambdas = _functions(optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch, verbose)

    def state_dict(self) -> dict[str, Any]:
        """As the base's; of functions, only the attributes of objects."""
        return {**super().state_dict(), "lr_lambdas": saved_functions(self.lr_lambdas)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        others = {key: value for key, value in state_dict.items() if key != "lr_lambdas"}
        super().load_state_dict(others)
        restore_functions(self.lr_lambdas, state_dict["lr_lambdas"])

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        return [
            base * function(self.last_epoch)
            for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(LambdaLR):
    """The rate times `lr_lambda(epoch)`, every epoch. Arguments as of `LambdaLR`."""

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        if self._is_initial:
            return rates(self.optimizer)
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, rates(self.optimizer), strict=True)
        ]


class StepLR(LRScheduler):
    """The rate times `gamma`, every `step_size` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        return [self._following(rate) for rate in rates(self.optimizer)]

    def _following(self, rate: Any) -> Any:
        """The rate after `rate`: one expression, so that captured turns are alike."""
        epoch = self.last_epoch
        return rate * self.gamma if epoch != 0 and epoch % self.step_size == 0 else rate

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [base * factor for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the epochs `milestones`; one named twice counts twice."""

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        return [self._following(rate) for rate in rates(self.optimizer)]

    def _following(self, rate: Any) -> Any:
        """The rate after `rate`: by comparisons alone, so that captured turns are alike."""
        for milestone, times in self.milestones.items():
            rate = rate * self.gamma**times if self.last_epoch == milestone else rate
        return rate

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """`initial * factor` for `total_iters` epochs, then the initial rate.

    Raises:
        InvalidValueError: `factor` outside of [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise InvalidValueError(
                "Constant multiplicative factor expected to be between 0 and 1."
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        return [self._following(rate) for rate in rates(self.optimizer)]

    def _following(self, rate: Any) -> Any:
        """The rate after `rate`: one expression, so that captured turns are alike."""
        return (
            rate * self.factor
            if self.last_epoch == 0
            else rate * (1.0 / self.factor)
            if self.last_epoch == self.total_iters
            else rate
        )

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """The initial rate times what goes from `start_factor` to `end_factor` in `total_iters` epochs.

    Raises:
        InvalidValueError: `start_factor` outside of (0, 1], or `end_factor` outside of [0, 1].
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise InvalidValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal "
                "to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise InvalidValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        return [self._following(rate) for rate in rates(self.optimizer)]

    def _following(self, rate: Any) -> Any:
        """The rate after `rate`: one expression, so that captured turns are alike."""
        growth = self.end_factor - self.start_factor
        first = self.total_iters * self.start_factor
        return (
            rate * self.start_factor
            if self.last_epoch == 0
            else rate
            if self._is_initial or self.last_epoch > self.total_iters
            else rate * (1.0 + growth / (first + (self.last_epoch - 1) * growth))
        )

    def _get_closed_form_lr(self) -> list[Any]:
        growth = self.end_factor - self.start_factor
        passed = min(self.total_iters, self.last_epoch)
        factor = self.start_factor + growth * passed / self.total_iters
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """The rate times `gamma`, every epoch."""

    def __init__(
        self,
        optimizer: Optimizer,
        gamma: float,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        if self._is_initial:
            return rates(self.optimizer)
        return [rate * self.gamma for rate in rates(self.optimizer)]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """`initial * (1 - epoch / total_iters)^power`, then 0."""

    def __init__(
        self,
        optimizer: Optimizer,
        total_iters: int = 5,
        power: float = 1.0,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        return [self._following(rate) for rate in rates(self.optimizer)]

    def _following(self, rate: Any) -> Any:
        """The rate after `rate`: one expression, so that captured turns are alike."""
        epoch, count = self.last_epoch, self.total_iters
        return (
            rate
            if self._is_initial or epoch > count
            else rate * ((1.0 - epoch / count) / (1.0 - (epoch - 1) / count)) ** self.power
        )

    def _get_closed_form_lr(self) -> list[Any]:
        passed = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (1.0 - passed) ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """`eta_min + (initial - eta_min) * (1 + cos(pi * epoch / T_max)) / 2`.

    Source: Loshchilov and Hutter (2017), without restarts.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        now = rates(self.optimizer)
        if self._is_initial:
            return now
        if self._step_count == 1 and self.last_epoch > 0:
            return self._cosines(self.last_epoch)
        return [self._following(rate, base) for base, rate in zip(self.base_lrs, now, strict=True)]

    def _following(self, rate: Any, base: Any) -> Any:
        """The rate after `rate`.

        At the turn the rate before is the lowest, from which no factor leads up. One expression:
        captured code has no version of its own for that step.
        """
        epoch, half, lowest = self.last_epoch, self.T_max, self.eta_min
        return (
            rate + (base - lowest) * ((1 - math.cos(math.pi / half)) / 2)
            if (epoch - 1 - half) % (2 * half) == 0
            else (1 + math.cos(math.pi * epoch / half))
            / (1 + math.cos(math.pi * (epoch - 1) / half))
            * (rate - lowest)
            + lowest
        )

    def _get_closed_form_lr(self) -> list[Any]:
        return self._cosines(self.last_epoch)

    def _cosines(self, epoch: int) -> list[Any]:
        height = (1 + math.cos(math.pi * epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


def _functions(optimizer: Optimizer, functions: Any) -> list[_Function]:
    """One function for each group."""
    if isinstance(functions, (list, tuple)) and len(functions) != len(optimizer.param_groups):
        raise InvalidValueError(
            f"Expected {len(optimizer.param_groups)} lr_lambdas, but got {len(functions)}"
        )
    return for_each_group(optimizer, "lr_lambda", functions)
