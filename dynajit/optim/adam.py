"""Adam and AdamW."""

from typing import Any

from dynajit.eager.creation import tensor
from dynajit.eager.tensor import Tensor
from dynajit.ops.functions import maximum, zeros_like
from dynajit.optim.optimizer import Optimizer, check_positive


class Adam(Optimizer):
    """Adaptive moments: `p -= lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + eps)`.

    Source: Kingma and Ba (2015); order of operations as in PyTorch 2.x's single-tensor form.

    Args:
        lr: learning rate.
        betas: decay of the running mean and of the running mean square.
        eps: added to the root.
        weight_decay: L2 penalty added to the gradient (AdamW: decays the parameter instead).
        amsgrad: use the largest mean square so far.
        maximize: ascend.
    """

    decoupled = False

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_positive(lr=lr, eps=eps, weight_decay=weight_decay)
        for number, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {number}: {beta}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        if not state:
            state["step"] = tensor(0.0)
            state["exp_avg"] = zeros_like(parameter)
            state["exp_avg_sq"] = zeros_like(parameter)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(parameter)
        state["step"] += 1
        # In tensors, so that a compiled step does not ask for the number.
        step = state["step"].double()
        learning_rate = group["lr"]
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] and self.decoupled:
            parameter.mul_(1 - learning_rate * group["weight_decay"])
        elif group["weight_decay"]:
            gradient = gradient + group["weight_decay"] * parameter
        mean_decay, square_decay = group["betas"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.add_(gradient - mean, alpha=1 - mean_decay)
        square.mul_(square_decay).add_(gradient * gradient, alpha=1 - square_decay)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(maximum(state["max_exp_avg_sq"], square))
        root_correction = (1 - square_decay**step).sqrt()
        denominator = (square.sqrt() / root_correction).add_(group["eps"])
        parameter.sub_(mean / denominator * (learning_rate / (1 - mean_decay**step)))


class AdamW(Adam):
    """Adam with decoupled weight decay: the parameter itself shrinks by `lr * weight_decay`.

    Source: Loshchilov and Hutter (2019).
    """

    decoupled = True

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **options)
