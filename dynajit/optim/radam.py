"""Adam whose step is rectified while few gradients have been seen."""

from typing import Any

from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import ones_like, where, zeros_like
from dynajit.optim.moments import decayed, follow
from dynajit.optim.optimizer import BuiltInOptimizer, start_counting
from dynajit.optim.options import check_betas, check_options


class RAdam(BuiltInOptimizer):
    """Adam whose first steps, while the variance of the step is unknown, are plain momentum.

    Source: Liu et al. (2020). Arguments as of `Adam`.

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
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        step = state["step"].double()
        gradient = decayed(parameter, gradient, group)
        mean_decay, square_decay = group["betas"]
        square = follow(state, gradient, mean_decay, square_decay)
        longest = 2 / (1 - square_decay) - 1
        forgotten = square_decay**step
        length = longest - 2 * step * forgotten / (1 - forgotten)
        # The root exists above 4; below 5 the result is not chosen.
        known = length.clamp(min=5)
        rectified = (
            (known - 4) * (known - 2) * longest / ((longest - 4) * (longest - 2) * known)
        ).abs().sqrt() * (1 - forgotten).sqrt()
        adapted = rectified / (square.sqrt() + group["eps"])
        factor = where(length > 5, adapted, ones_like(square))
        rate = group["lr"] / (1 - mean_decay**step)
        parameter.sub_(state["exp_avg"] * factor * rate)
