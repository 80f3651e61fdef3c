"""ASGD: gradient descent that also keeps the mean of the parameters on their way."""

from typing import Any

from dynajit.eager.tensor.creation import tensor
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, descend, penalised, start_counting
from dynajit.optim.options import _get_scalar_dtype, check_options


class ASGD(BuiltInOptimizer):
    """`p = p * (1 - lambd * eta) - eta * g; ax += mu * (p - ax)`.

    With `eta = lr / (1 + lambd * lr * t)^alpha` and `mu = 1 / max(1, t - t0)`, of the step before.
    Source: Polyak and Juditsky (1992); schedule of Bottou's `asgd`. The mean is `state[p]["ax"]`.

    Args:
        lr: learning rate, a number or a tensor of one.
        lambd: decay.
        alpha: power of the fall of eta.
        t0: step at which averaging begins.
        weight_decay: L2 penalty, added to the gradient.
        maximize: ascend.

    Raises:
        InvalidValueError: a negative learning rate or penalty.
    """

    _counted = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
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
        state["eta"] = tensor(0.0, dtype=_get_scalar_dtype()).add_(group["lr"])
        state["mu"] = tensor(1.0, dtype=_get_scalar_dtype())
        state["ax"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        rate, lambd = group["lr"], group["lambd"]
        state["step"] += 1
        step = state["step"].double()
        gradient = penalised(parameter, gradient, group)
        eta, mu = state["eta"].double(), state["mu"].double()
        parameter.mul_(1 - lambd * eta)
        descend(parameter, gradient, eta)
        mean = state["ax"]
        mean.add_((parameter - mean) * mu)
        state["eta"].copy_(rate / (1 + lambd * rate * step) ** group["alpha"])
        state["mu"].copy_(1 / (step - group["t0"]).clamp(min=1))
