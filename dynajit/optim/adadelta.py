"""Adadelta: steps scaled by the ratio of running mean squares of steps and gradients."""

from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, descend, penalised, start_counting
from dynajit.optim.options import check_options


class Adadelta(BuiltInOptimizer):
    """`d = sqrt(u + eps) / sqrt(v + eps) * g; p -= lr * d`; v and u follow g^2 and d^2.

    Source: Zeiler (2012).

    Args:
        lr: factor of the step, a number or a tensor of one.
        rho: decay of both running mean squares.
        eps: added below both roots.
        weight_decay: L2 penalty, added to the gradient.
        maximize: ascend.

    Raises:
        InvalidValueError: a negative option, or `rho` above 1.
    """

    _counted = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay)
        if rho > 1.0:
            raise InvalidValueError(f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["square_avg"] = zeros_like(parameter)
        state["acc_delta"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        gradient = penalised(parameter, gradient, group)
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).add_(gradient * gradient, alpha=1 - rho)
        delta = (moved + eps).sqrt() / (square + eps).sqrt() * gradient
        moved.mul_(rho).add_(delta * delta, alpha=1 - rho)
        descend(parameter, delta, group["lr"])
