"""Adam with the largest gradient in place of the mean square."""

from typing import Any

from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.arguments import known_number
from dynajit.ops.functions import maximum, zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, descend, penalised, start_counting
from dynajit.optim.options import check_betas, check_options


class Adamax(BuiltInOptimizer):
    """Adam with the largest decayed gradient in place of the mean square.

    Source: Kingma and Ba (2015), section 7.1. Arguments as of `Adam`; `eps` is added to the
    gradient's absolute value.

    Raises:
        InvalidValueError: an option is out of its range.
    """

    _counted = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_inf"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        gradient = penalised(parameter, gradient, group)
        mean_decay, largest_decay = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.add_(gradient - mean, alpha=1 - mean_decay)
        largest.copy_(maximum(largest * largest_decay, gradient.abs() + group["eps"]))
        rate = group["lr"] / (1 - mean_decay ** known_number(state["step"]))
        descend(parameter, mean / largest, rate)
