"""Averages of weights: `AveragedModel`, `SWALR`, `update_bn`.

Contract: as `torch.optim.swa_utils`.

Source: P. Izmailov et al., arXiv:1803.05407.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from dynajit.core.errors import ExpectationError, InvalidValueError
from dynajit.core.types.dtypes import int64
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn.batch_normalization import _BatchNorm
from dynajit.nn.module import Module
from dynajit.optim.lr_scheduler.base import LRScheduler, for_each_group
from dynajit.optim.optimizer import Optimizer


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """The exponential average of lists of tensors, in place: `e = decay * e + (1 - decay) * p`.

    Raises:
        InvalidValueError: the decay lies outside [0, 1].
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: list[Tensor], current_param_list: list[Tensor], _: Any) -> None:
        for average, current in zip(ema_param_list, current_param_list, strict=True):
            _towards(average, current, 1 - decay)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """The mean of lists of tensors, in place."""

    @no_grad()
    def swa_update(
        averaged_param_list: list[Tensor], current_param_list: list[Tensor], num_averaged: Any
    ) -> None:
        share = 1 / (float(num_averaged) + 1)
        for average, current in zip(averaged_param_list, current_param_list, strict=True):
            _towards(average, current, share)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """The exponential average of one tensor; as `get_ema_multi_avg_fn`."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The mean of one tensor."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise InvalidValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _towards(average: Tensor, current: Tensor, share: float) -> None:
    """`average += share * (current - average)`; integers take the current values' share, cut."""
    if average.is_floating_point():
        average.lerp_(current.to(average.dtype), share)
    else:
        average.copy_(average + (current - average) * share)


class AveragedModel(Module):
    """A copy of a model whose parameters are the average of the original's over time.

    Args:
        model: the original.
        device: where the average lies.
        avg_fn: (average, current, number averaged) -> new average, of one tensor.
        multi_avg_fn: (averages, currents, number averaged), writes lists in place.
        use_buffers: whether buffers are averaged, too; else they are copied.

    Raises:
        ExpectationError: both functions are given.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ExpectationError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's."""
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        members: Iterable[Tensor] = model.parameters()
        if self.use_buffers:
            members = itertools.chain(members, model.buffers())
        return [member.detach() for member in members]

    def update_parameters(self, model: Module) -> None:
        """Take the original's present parameters into the average."""
        mine, theirs = self._averaged(self.module), self._averaged(model)
        if int(self.n_averaged) == 0:
            for average, current in zip(mine, theirs, strict=True):
                average.copy_(current)
        elif self.avg_fn is not None:
            for average, current in zip(mine, theirs, strict=True):
                average.copy_(self.avg_fn(average, current, self.n_averaged))
        else:
            update = self.multi_avg_fn or get_swa_multi_avg_fn()
            update(mine, theirs, self.n_averaged)
        if not self.use_buffers:
            for kept, current in zip(self.module.buffers(), model.buffers(), strict=True):
                kept.detach().copy_(current.detach())
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of batch normalizations anew, over all batches.

    Args:
        loader: batches; of a list or tuple the first entry is the input.
        model: is called on each batch in training mode, and left in the mode that it had.
        device: where batches are moved to.
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # the mean of all batches
    with no_grad():
        for batch in loader:
            given = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(given if device is None else given.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


def _cosine(share: float) -> float:
    return (1 - math.cos(math.pi * share)) / 2


def _linear(share: float) -> float:
    return share


_STRATEGIES = {"cos": _cosine, "linear": _linear}


class SWALR(LRScheduler):
    """Lead each group's rate to `swa_lr` within `anneal_epochs`, and keep it there.

    Args:
        swa_lr: one number, or one per group.
        anneal_strategy: "cos" or "linear".

    Raises:
        InvalidValueError: another strategy, or negative epochs.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(
            for_each_group(optimizer, "swa_lr", swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in _STRATEGIES:
            raise InvalidValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise InvalidValueError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self._strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: float) -> float:
        """How far the rates have come from the initial ones to `swa_lr`."""
        return _STRATEGIES[self._strategy](max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self) -> list[Any]:
        """The rates, from the present ones: a schedule beside this one may have changed them."""
        self._warn_outside_of_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        found = []
        for group in self.optimizer.param_groups:
            final, rate = group["swa_lr"], group["lr"]
            initial = final if before == 1 else (rate - before * final) / (1 - before)
            found.append(final * now + initial * (1 - now))
        return found


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
