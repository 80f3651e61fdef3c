"""Schedules that go up and down: warm restarts, cycles, and the one cycle.

Contract: as PyTorch's. `CyclicLR` and `OneCycleLR` move the momentum against the rate.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.optim.lr_scheduler.base import (
    LRScheduler,
    for_each_group,
    restore_functions,
    saved_functions,
    set_option,
)
from dynajit.optim.optimizer import Optimizer


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosines from the initial rate to `eta_min`, over T_0 epochs, T_0 * T_mult, and so on.

    Source: Loshchilov and Hutter (2017).

    Raises:
        InvalidValueError: `T_0` no positive integer, `T_mult` no integer from 1 on, or `eta_min`
            no number.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise InvalidValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise InvalidValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise InvalidValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch, verbose)

    def get_lr(self) -> list[Any]:
        """The rates of this epoch."""
        self._warn_outside_of_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to `epoch`, which may lie between two.

        Raises:
            InvalidValueError: a negative epoch.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._find(epoch)
        # As in PyTorch, these steps are not counted, so their order is not checked.
        self.last_epoch = math.floor(epoch) - 1
        self._update_lr()

    def _find(self, epoch: float) -> None:
        """The length of the period of an epoch, and what has passed of it."""
        if epoch < 0:
            raise InvalidValueError(f"Expected non-negative epoch, but got {epoch}")
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        periods = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        passed = self.T_0 * (self.T_mult**periods - 1) / (self.T_mult - 1)
        self.T_cur = epoch - passed
        self.T_i = self.T_0 * self.T_mult**periods


class CyclicLR(LRScheduler):
    """Rates that go from `base_lr` to `max_lr` and back, again and again.

    Source: Smith (2017).

    Args:
        step_size_up, step_size_down: steps of each half; down as up unless given.
        mode: "triangular", "triangular2" (each cycle half as high) or "exp_range" (height times
            `gamma` with each step).
        scale_fn, scale_mode: height as a function of the "cycle" or of the "iterations", in place
            of a mode.
        cycle_momentum: move the momentum (or Adam's first beta) from `max_momentum` to
            `base_momentum` and back.

    Raises:
        InvalidValueError: an unknown mode, lists of a wrong length, or an optimiser without
            momentum where it shall move.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise InvalidValueError("mode is invalid and scale_fn is None")
        for group, rate in zip(
            optimizer.param_groups, for_each_group(optimizer, "base_lr", base_lr), strict=True
        ):
            if last_epoch == -1:
                set_option(group, "lr", rate)
        self.max_lrs = for_each_group(optimizer, "max_lr", max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch, verbose)
        self.base_lrs = for_each_group(optimizer, "base_lr", base_lr)

    def _set_momenta(self, optimizer: Optimizer, base: Any, largest: Any, last_epoch: int) -> None:
        self.use_beta1 = moves_beta1(optimizer)
        self.base_momentums = for_each_group(optimizer, "base_momentum", base)
        self.max_momentums = for_each_group(optimizer, "max_momentum", largest)
        if last_epoch == -1:
            start_momenta(optimizer, self.base_momentums, self.max_momentums)

    def scale_fn(self, x: float) -> float:
        """The height at a cycle or iteration, as a share of the first."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return float(1 / 2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        """The rates of this step; sets the momenta."""
        self._warn_outside_of_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        if place <= self.step_ratio:
            height = place / self.step_ratio
        else:
            height = (place - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                set_momentum(group, high - (high - low) * height)
        return [
            low + (high - low) * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """As the base's; of `scale_fn`, only the attributes of an object."""
        state = super().state_dict()
        (state["_scale_fn_custom"],) = saved_functions([state["_scale_fn_custom"]])
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        others = {key: value for key, value in state_dict.items() if key != "_scale_fn_custom"}
        super().load_state_dict(others)
        restore_functions([self._scale_fn_custom], [state_dict["_scale_fn_custom"]])


class OneCycleLR(LRScheduler):
    """Up from `max_lr / div_factor` to `max_lr`, then down below the start, in `total_steps`.

    Source: Smith and Topin (2019).

    Args:
        total_steps: the length, or `epochs` and `steps_per_epoch`.
        pct_start: share of the rise.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: move the momentum (or Adam's first beta) from `max_momentum` to
            `base_momentum` and back.
        final_div_factor: the last rate is the first one divided by it.
        three_phase: come down as far as the first rate as slowly as up, and then further.

    Raises:
        InvalidValueError: no length, an option out of its range, more steps than `total_steps`,
            or an optimiser without momentum where it shall move.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool | str = "deprecated",
    ) -> None:
        self.total_steps = _length(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise InvalidValueError(
                f"Expected float between 0 and 1 pct_start, but got {pct_start}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            peaks = for_each_group(optimizer, "max_lr", max_lr)
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["initial_lr"] = peak / div_factor
                group["max_lr"] = peak
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._set_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch, verbose)

    def _set_momenta(self, optimizer: Optimizer, base: Any, largest: Any, last_epoch: int) -> None:
        self.use_beta1 = moves_beta1(optimizer)
        if last_epoch != -1:
            return
        highest = for_each_group(optimizer, "max_momentum", largest)
        lowest = for_each_group(optimizer, "base_momentum", base)
        start_momenta(optimizer, lowest, highest)

    def get_lr(self) -> list[Any]:
        """The rates of this step; sets the momenta.

        Raises:
            InvalidValueError: more steps than `total_steps`.
        """
        self._warn_outside_of_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise InvalidValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        found = []
        for group in self.optimizer.param_groups:
            found.append(self._level(group, "lr", step))
            if self.cycle_momentum:
                set_momentum(group, self._level(group, "momentum", step))
        return found

    def _level(
        self, group: dict[str, Any], option: str, step: int, number: int = 0, start: float = 0.0
    ) -> Any:
        """What an option of a group is in a step, in a phase or one of those behind it.

        One expression, so that captured turns are alike.
        """
        phase, is_last = self._schedule_phases[number], number == len(self._schedule_phases) - 1
        first, last = group[phase[f"start_{option}"]], group[phase[f"end_{option}"]]
        end = phase["end_step"]
        return (
            self._between(first, last, (step - start) / (end - start))
            if is_last or step <= end
            else self._level(group, option, step, number + 1, end)
        )

    def _between(self, start: float, end: float, share: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)


def moves_beta1(optimizer: Optimizer) -> bool:
    """Whether the momentum that moves is Adam's first beta.

    Raises:
        InvalidValueError: there is neither.
    """
    if not ("momentum" in optimizer.defaults or "betas" in optimizer.defaults):
        raise InvalidValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def start_momenta(optimizer: Optimizer, lowest: list[Any], highest: list[Any]) -> None:
    """Set the momentum of each group to its highest, and note both ends."""
    for group, low, high in zip(optimizer.param_groups, lowest, highest, strict=True):
        set_momentum(group, high)
        group["max_momentum"] = high
        group["base_momentum"] = low


def set_momentum(group: dict[str, Any], momentum: float) -> None:
    """Set the momentum of a group, or the first of its betas."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def _length(total: Any, epochs: Any, per_epoch: Any) -> int:
    """The number of steps.

    Raises:
        InvalidValueError: none is given, or one that is no positive integer.
    """
    if total is None and (epochs is None or per_epoch is None):
        raise InvalidValueError(
            "You must define either total_steps OR (epochs AND steps_per_epoch)"
        )
    named = {"total_steps": total}
    if total is None:
        named = {"epochs": epochs, "steps_per_epoch": per_epoch}
    for name, value in named.items():
        if value <= 0 or not isinstance(value, int):
            raise InvalidValueError(f"Expected positive integer {name}, but got {value}")
    return int(math.prod(named.values()))


def _phases(total: int, share: float, has_three: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and between which options of a group it goes."""
    up = float(share * total) - 1

    def phase(end: float, rates: str, momenta: str) -> dict[str, Any]:
        start_lr, end_lr = rates.split()
        start_momentum, end_momentum = momenta.split()
        return {
            "end_step": end,
            "start_lr": start_lr,
            "end_lr": end_lr,
            "start_momentum": start_momentum,
            "end_momentum": end_momentum,
        }

    rise = phase(up, "initial_lr max_lr", "max_momentum base_momentum")
    if not has_three:
        return [rise, phase(total - 1, "max_lr min_lr", "base_momentum max_momentum")]
    return [
        rise,
        phase(float(2 * share * total) - 2, "max_lr initial_lr", "base_momentum max_momentum"),
        phase(total - 1, "initial_lr min_lr", "max_momentum max_momentum"),
    ]
