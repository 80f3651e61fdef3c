"""Rprop: steps that depend on the signs of gradients alone."""

from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import full_like, where, zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, start_counting
from dynajit.optim.options import check_options


class Rprop(BuiltInOptimizer):
    """`p -= size * sign(g)`: sizes grow while the sign stays, and shrink where it changes.

    Source: Riedmiller and Braun (1993). Where the sign changes, the parameter stays for one step.

    Args:
        lr: the first size, a number or a tensor of one.
        etas: factors of shrinking (below 1) and of growing (above 1).
        step_sizes: smallest and largest size.
        maximize: ascend.

    Raises:
        InvalidValueError: a negative learning rate, or factors on the wrong side of 1.
    """

    _counted = ("step",)

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise InvalidValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        state["prev"] = zeros_like(parameter)
        state["step_size"] = full_like(parameter, 0.0).add_(group["lr"])

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        if group["maximize"]:
            gradient = -gradient
        shrinking, growing = group["etas"]
        smallest, largest = group["step_sizes"]
        product = gradient * state["prev"]
        size = state["step_size"]
        changed = where(product > 0, size * growing, where(product < 0, size * shrinking, size))
        size.copy_(changed.clamp(smallest, largest))
        gradient = where(product < 0, zeros_like(gradient), gradient)
        parameter.sub_(gradient.sign() * size)
        state["prev"].copy_(gradient)
