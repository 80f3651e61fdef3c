"""Stochastic gradient descent with momentum, Nesterov momentum and weight decay."""

from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.optim.optimizer import BuiltInOptimizer, descend, penalised
from dynajit.optim.options import check_options


class SGD(BuiltInOptimizer):
    """`v = momentum * v + (1 - dampening) * g; p -= lr * v`.

    Source: PyTorch 2.x documentation of `torch.optim.SGD` (Sutskever et al., 2013, for momentum).

    Args:
        lr: learning rate, a number or a tensor of one.
        momentum, dampening: see the formula; the first step takes v = g.
        weight_decay: L2 penalty, added to the gradient.
        nesterov: use `g + momentum * v` in place of v.
        maximize: ascend.

    Raises:
        InvalidValueError: a negative option, or `nesterov` without momentum or with dampening.
    """

    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise InvalidValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        gradient = penalised(parameter, gradient, group)
        momentum = group["momentum"]
        if momentum:
            velocity = state.get("momentum_buffer")
            if velocity is None:
                velocity = state["momentum_buffer"] = gradient.clone()
            elif velocity.is_sparse:  # of sparse gradients; positions that repeat would add up
                velocity = momentum * velocity + (1 - group["dampening"]) * gradient
                velocity = velocity.coalesce() if velocity.is_sparse else velocity
                state["momentum_buffer"] = velocity
            else:
                velocity.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
            gradient = gradient + momentum * velocity if group["nesterov"] else velocity
        descend(parameter, gradient, group["lr"])
