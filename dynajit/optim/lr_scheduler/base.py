"""`LRScheduler`: what all schedules of learning rates share.

Contract: as `torch.optim.lr_scheduler.LRScheduler`. A schedule defines `get_lr`, the groups' rates
from those that they have now, and may define `_get_closed_form_lr`, the rates as a function of the
epoch alone. Rates are written into `optimizer.param_groups`; a rate that is a tensor is written in
place, so that a compiled step reads the new number. Programs derive from it, too.
"""

import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from dynajit.core.errors import ArgumentError, InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible.  Please use `scheduler.step()` to step the scheduler."
)


class LRScheduler:
    """A schedule of the learning rates of an optimiser. Mutable: it counts epochs.

    Args:
        optimizer: whose groups' "lr" is written.
        last_epoch: the epoch to go on behind; -1 begins, and takes the groups' rates as initial.
        verbose: print each rate that is set (deprecated: ask `get_last_lr`).

    Raises:
        ArgumentError: not an optimiser.
        KeyError: `last_epoch` is given, and a group has no "initial_lr".
    """

    _get_lr_called_within_step = False

    def __init__(
        self, optimizer: Optimizer, last_epoch: int = -1, verbose: bool | str = "deprecated"
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{type(optimizer).__name__} is not an Optimizer")
        self._set_up(optimizer, last_epoch, verbose)
        self._initial_step()

    def _set_up(self, optimizer: Optimizer, last_epoch: int, verbose: bool | str) -> None:
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    "param 'initial_lr' is not specified in param_groups"
                    f"[{number}] when resuming scheduler with last_epoch >= 0"
                )
        self.base_lrs: list[Any] = [copied(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._is_initial = False
        if not getattr(optimizer, "_has_scheduler", False):
            # Steps before the first schedule do not count when the order is checked.
            optimizer._has_scheduler = True  # type: ignore[attr-defined]
            optimizer._opt_called = False  # type: ignore[attr-defined]
        if verbose != "deprecated":
            warnings.warn(
                "The verbose parameter is deprecated.  Please use get_last_lr() to access the "
                "learning rate.",
                stacklevel=4,
            )
            if verbose:
                self.verbose = True

    def _initial_step(self) -> None:
        """The rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Every attribute but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned; the optimiser's rates are its own to restore."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rate of each group that was set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rate of each group for this epoch; defined by each schedule."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or (deprecated) to `epoch`, and set the rates."""
        self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn where the first step of the schedule comes before that of the optimiser."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in "
                "the opposite order: `optimizer.step()` before `lr_scheduler.step()`; otherwise "
                "the first value of the learning rate schedule is skipped.",
                stacklevel=3,
            )

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed_form()
        finally:
            self._get_lr_called_within_step = False
        groups = self.optimizer.param_groups
        for number, (group, rate) in enumerate(zip(groups, values, strict=False)):
            set_option(group, "lr", rate)
            if getattr(self, "verbose", False):
                print(f"Epoch {self.last_epoch:5d}: adjusting learning rate of group {number} "
                      f"to {float(rate):.4e}.")  # fmt: skip
        self._last_lr = rates(self.optimizer)

    def _warn_outside_of_step(self) -> None:
        """`get_lr` answers for the step that is being made; programs mean `get_last_lr`."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                stacklevel=3,
            )


class _LRScheduler(LRScheduler):
    """The older name, which programs derive from."""


def copied(value: Any) -> Any:
    """A number as it is; a tensor's own copy, since rates are written in place."""
    return value.clone() if isinstance(value, Tensor) else value


def rates(optimizer: Optimizer, name: str = "lr") -> list[Any]:
    """An option of every group."""
    return [copied(group[name]) for group in optimizer.param_groups]


def set_option(group: dict[str, Any], name: str, value: Any) -> None:
    """Set an option of a group; one that is a tensor keeps its place."""
    if isinstance(group[name], Tensor):
        group[name].fill_(float(value))
    else:
        group[name] = value


def for_each_group(optimizer: Optimizer, name: str, value: Any) -> list[Any]:
    """One value per group: a list as it is, anything else as often as there are groups.

    Raises:
        InvalidValueError: a list of another length.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise InvalidValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
            f"values, param_groups has {count}."
        )
    return list(value)


def saved_functions(functions: Sequence[Callable[..., Any] | None]) -> list[Any]:
    """What a state dict holds of functions: attributes of objects; None for plain functions."""
    return [
        None
        if function is None or isinstance(function, types.FunctionType)
        else function.__dict__.copy()
        for function in functions
    ]


def restore_functions(functions: Sequence[Any], saved: Sequence[Any]) -> None:
    """Give objects the attributes that were saved."""
    for function, attributes in zip(functions, saved, strict=False):
        if attributes is not None:
            function.__dict__.update(attributes)
