"""`ReduceLROnPlateau`: a smaller rate where a metric has stopped getting better."""

import math
import warnings
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.optim.lr_scheduler.base import (
    EPOCH_DEPRECATION_WARNING,
    LRScheduler,
    for_each_group,
    rates,
    set_option,
)
from dynajit.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` where `patience` epochs brought nothing better.

    Args:
        mode: "min" or "max": what is better.
        threshold, threshold_mode: how much better, as a share ("rel") or as such ("abs").
        cooldown: epochs after a reduction in which bad ones do not count.
        min_lr: lower bound, or one for each group.
        eps: smaller changes are not made.

    Raises:
        InvalidValueError: `factor` from 1 on, an unknown mode, or a list of a wrong length.
        ArgumentError: not an optimiser.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
        verbose: bool | str = "deprecated",
    ) -> None:
        if factor >= 1.0:
            raise InvalidValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise InvalidValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise InvalidValueError("threshold mode " + threshold_mode + " is unknown!")
        if isinstance(min_lr, (list, tuple)) and len(min_lr) != len(optimizer.param_groups):
            raise InvalidValueError(
                f"expected {len(optimizer.param_groups)} min_lrs, got {len(min_lr)}"
            )
        self.factor = factor
        self.optimizer = optimizer
        self.min_lrs = for_each_group(optimizer, "min_lr", min_lr)
        self.default_min_lr = min_lr if not isinstance(min_lr, (list, tuple)) else None
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = rates(optimizer)
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()
        if verbose != "deprecated":
            warnings.warn(
                "The verbose parameter is deprecated.  Please use get_last_lr() to access the "
                "learning rate.",
                stacklevel=2,
            )
            self.verbose = bool(verbose)

    def _reset(self) -> None:
        """Forget what was seen."""
        self.mode_worse = math.inf if self.mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """The next epoch, which ended with this metric: a number or a tensor of one."""
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self.last_epoch = epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = rates(self.optimizer)

    def _reduce_lr(self, epoch: int) -> None:
        for number, group in enumerate(self.optimizer.param_groups):
            before = float(group["lr"])
            after = max(before * self.factor, self._smallest(number))
            if before - after <= self.eps:
                continue
            set_option(group, "lr", after)
            if getattr(self, "verbose", False):
                print(f"Epoch {epoch:5d}: reducing learning rate of group {number} "
                      f"to {after:.4e}.")  # fmt: skip

    def _smallest(self, number: int) -> float:
        """The bound of a group; groups that were added later have the common one."""
        if number < len(self.min_lrs):
            return float(self.min_lrs[number])
        if self.default_min_lr is None:
            raise RuntimeError(
                f"there is no min_lr for parameter group {number}, which was added after the "
                "scheduler was made with a list of them"
            )
        return float(self.default_min_lr)

    @property
    def in_cooldown(self) -> bool:
        """Whether bad epochs do not count now."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether `a` beats `best` by the threshold."""
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a > bound if self.mode == "max" else a < bound
