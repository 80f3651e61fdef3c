"""Adam: steps scaled by running moments of the gradient."""

from typing import Any

from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.arguments import known_number
from dynajit.ops.functions import maximum, zeros_like
from dynajit.optim.moments import decayed, follow
from dynajit.optim.optimizer import BuiltInOptimizer, start_counting
from dynajit.optim.options import check_betas, check_options


class Adam(BuiltInOptimizer):
    """Adaptive moments: `p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)`.

    Source: Kingma and Ba (2015); order of operations as in PyTorch 2.x.

    Args:
        lr: learning rate, a number or a tensor of one.
        betas: decay of the running mean and of the running mean square.
        eps: added to the root.
        weight_decay: L2 penalty added to the gradient.
        amsgrad: use the largest mean square so far.
        maximize: ascend.
        decoupled_weight_decay: decay the parameter itself instead, as AdamW does.

    Raises:
        InvalidValueError: an option is out of its range.
    """

    _counted = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        step = known_number(state["step"])
        learning_rate = group["lr"]
        gradient = decayed(parameter, gradient, group)
        mean_decay, square_decay = group["betas"]
        square = follow(state, gradient, mean_decay, square_decay)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(maximum(state["max_exp_avg_sq"], square))
        root_correction = (1 - square_decay**step) ** 0.5
        denominator = (square.sqrt() / root_correction).add_(group["eps"])
        mean = state["exp_avg"]
        parameter.sub_(mean / denominator * (learning_rate / (1 - mean_decay**step)))
