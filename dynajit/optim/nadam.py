"""Adam with Nesterov momentum."""

from typing import Any

from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.arguments import known_number
from dynajit.ops.functions import zeros_like
from dynajit.optim.moments import decayed, follow
from dynajit.optim.optimizer import BuiltInOptimizer, start_counting
from dynajit.optim.options import _get_scalar_dtype, check_betas, check_options


class NAdam(BuiltInOptimizer):
    """Adam with Nesterov momentum.

    Source: Dozat (2016). Arguments as of `Adam`; `momentum_decay` says how fast the momentum grows.

    Raises:
        InvalidValueError: an option is out of its range.
    """

    _counted = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["mu_product"] = tensor(1.0, dtype=_get_scalar_dtype())
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        step = known_number(state["step"])
        gradient = decayed(parameter, gradient, group)
        mean_decay, square_decay = group["betas"]
        square = follow(state, gradient, mean_decay, square_decay)
        denominator = (square / (1 - square_decay**step)).sqrt().add_(group["eps"])
        growth = group["momentum_decay"]
        momentum = mean_decay * (1 - 0.5 * 0.96 ** (step * growth))
        following = mean_decay * (1 - 0.5 * 0.96 ** ((step + 1) * growth))
        state["mu_product"] *= momentum
        product = known_number(state["mu_product"])
        rate = group["lr"]
        parameter.sub_(gradient / denominator * (rate * (1 - momentum) / (1 - product)))
        mean = state["exp_avg"]
        parameter.sub_(mean / denominator * (rate * following / (1 - product * following)))
