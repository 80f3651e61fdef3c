"""RMSprop: steps scaled by the running mean square of the gradient."""

from typing import Any

from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, descend, penalised, start_counting
from dynajit.optim.options import check_options


class RMSprop(BuiltInOptimizer):
    """`v = alpha * v + (1 - alpha) * g^2; p -= lr * g / (sqrt(v) + eps)`.

    Source: Tieleman and Hinton (2012); centred by Graves (2013).

    Args:
        lr: learning rate, a number or a tensor of one.
        alpha: decay of the running mean square.
        eps: added to the root.
        weight_decay: L2 penalty, added to the gradient.
        momentum: of the scaled gradient.
        centered: divide by an estimate of the standard deviation.
        maximize: ascend.

    Raises:
        InvalidValueError: a negative option.
    """

    _counted = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["square_avg"] = zeros_like(parameter)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        gradient = penalised(parameter, gradient, group)
        alpha = group["alpha"]
        square = state["square_avg"]
        square.mul_(alpha).add_(gradient * gradient, alpha=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.add_(gradient - mean, alpha=1 - alpha)
            square = square - mean * mean
        direction = gradient / square.sqrt().add_(group["eps"])
        if group["momentum"] > 0:
            direction = state["momentum_buffer"].mul_(group["momentum"]).add_(direction)
        descend(parameter, direction, group["lr"])
