"""Adam for sparse gradients: moments are followed where a gradient has rows, and only then."""

import math
from typing import Any

from dynajit.core.errors import InvalidValueError, UnsupportedError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, parts_of
from dynajit.optim.options import check_betas, check_options


class SparseAdam(BuiltInOptimizer):
    """Adam's formula at the positions of each gradient; elsewhere not even moments change.

    Source: PyTorch 2.x documentation of `torch.optim.SparseAdam`; Kingma and Ba (2015) for Adam.

    Args:
        params: dense tensors, whose gradients are sparse: `nn.Embedding(..., sparse=True)`.
        lr: learning rate, a number or a tensor of one.
        betas: how fast the two moments forget.
        eps: added to the root.
        maximize: ascend.

    Raises:
        InvalidValueError: an option out of range, or a parameter that is sparse or complex.
        UnsupportedError: in a step, a gradient that is dense.
    """

    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps)
        for name, value in (("learning rate", lr), ("epsilon value", eps)):
            if not value > 0:
                raise InvalidValueError(f"Invalid {name}: {value}")
        check_betas(betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        for group in self.param_groups:
            if any(parameter.is_sparse or parameter.is_complex() for parameter in group["params"]):
                raise InvalidValueError(
                    "SparseAdam requires dense, real parameters, whose gradients are sparse"
                )

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = 0
        state["exp_avg"] = zeros_like(parameter)
        state["exp_avg_sq"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        if not gradient.is_sparse:
            raise UnsupportedError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state["step"] += 1
        rows, values = parts_of(-gradient if group["maximize"] else gradient)
        first, second = group["betas"]
        mean, square = state["exp_avg"][rows], state["exp_avg_sq"][rows]
        mean = mean + (1 - first) * (values - mean)
        square = square + (1 - second) * (values * values - square)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
        rate = group["lr"] * math.sqrt(1 - second ** state["step"]) / (1 - first ** state["step"])
        parameter[rows] -= rate * (mean / (square.sqrt() + group["eps"]))
