"""Adagrad: steps scaled by the sum of all squared gradients."""

from typing import Any

from dynajit.core.errors import UnsupportedError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.calls.arguments import known_number
from dynajit.ops.functions import full_like
from dynajit.optim.optimizer import (
    BuiltInOptimizer,
    descend,
    parts_of,
    penalised,
    start_counting,
)
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
        UnsupportedError: in a step, sparse gradients with `weight_decay`.
    """

    _counted = ("step",)
    _takes_sparse = True

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
        if gradient.is_sparse and group["weight_decay"]:
            raise UnsupportedError(
                "Adagrad: weight_decay option is not compatible with sparse gradients.  Leave it 0."
            )
        state["step"] += 1
        gradient = penalised(parameter, gradient, group)
        rate = group["lr"] / (1 + (known_number(state["step"]) - 1) * group["lr_decay"])
        if gradient.is_sparse:
            rows, values = parts_of(gradient)
            state["sum"][rows] += values * values
            parameter[rows] -= rate * (values / (state["sum"][rows].sqrt() + group["eps"]))
            return
        total = state["sum"].add_(gradient * gradient)
        descend(parameter, gradient / (total.sqrt() + group["eps"]), rate)
