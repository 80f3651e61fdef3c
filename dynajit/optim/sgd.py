"""Stochastic gradient descent with momentum, Nesterov momentum and weight decay."""

from typing import Any

from dynajit.eager.tensor import Tensor
from dynajit.optim.optimizer import Optimizer, check_positive


class SGD(Optimizer):
    """`v = momentum * v + (1 - dampening) * g; p -= lr * v`.

    Source: PyTorch 2.x documentation of `torch.optim.SGD` (Sutskever et al., 2013, for momentum).

    Args:
        lr: learning rate.
        momentum, dampening: see the formula; the first step takes v = g.
        weight_decay: L2 penalty, added to the gradient.
        nesterov: use `g + momentum * v` in place of v.
        maximize: ascend.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_positive(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * parameter
        momentum = group["momentum"]
        if momentum:
            velocity = state.get("momentum_buffer")
            if velocity is None:
                velocity = state["momentum_buffer"] = gradient.clone()
            else:
                velocity.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
            gradient = gradient + momentum * velocity if group["nesterov"] else velocity
        parameter.add_(gradient, alpha=-group["lr"])
