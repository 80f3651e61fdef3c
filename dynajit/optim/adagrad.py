"""Adagrad: steps scaled by the sum of all squared gradients."""

from typing import Any

from dynajit.eager.tensor import Tensor
from dynajit.ops.arguments import known_number
from dynajit.ops.functions import full_like
from dynajit.optim.optimizer import BuiltInOptimizer, descend, penalised, start_counting
from dynajit.optim.options import check_options


class Adagrad(BuiltInOptimizer):
    """`s += g^2; p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`.

    Source: Duchi, Hazan and Singer (2011). The state is made at once, not at the first step.

    Args:
        lr: learning rate, a number or a tensor of one.
        lr_decay: how fast the rate falls.
        weight_decay: L2 penalty, added to the gradient.
        initial_accumulator_value: where the sums begin.
        eps: added to the root.
        maximize: ascend.

    Raises:
        InvalidValueError: a negative option.
    """

    _counted = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self._begin(parameter, self.state[parameter], group)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["sum"] = full_like(parameter, group["initial_accumulator_value"])

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        gradient = penalised(parameter, gradient, group)
        total = state["sum"].add_(gradient * gradient)
        rate = group["lr"] / (1 + (known_number(state["step"]) - 1) * group["lr_decay"])
        descend(parameter, gradient / (total.sqrt() + group["eps"]), rate)
