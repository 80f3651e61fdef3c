"""What Adam and its kin share: decay of parameters, and running moments of the gradient.

Contract: steps are counted in tensors, and what depends on the count is computed from
`known_number`: in Python floats, but in float64 tensors without dimensions in a graph, so that a
compiled step never asks for the number. `radam` computes in such tensors always.
"""

from typing import Any

from dynajit.eager.tensor.tensor import Tensor


def decayed(parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
    """The gradient to descend along; the parameter decays in place where decay is decoupled."""
    if group["maximize"]:
        gradient = -gradient
    if group["weight_decay"] and group["decoupled_weight_decay"]:
        parameter.mul_(1 - group["lr"] * group["weight_decay"])
    elif group["weight_decay"]:
        gradient = gradient + group["weight_decay"] * parameter
    return gradient


def follow(
    state: dict[str, Any], gradient: Tensor, mean_decay: float, square_decay: float
) -> Tensor:
    """Move the running mean and mean square towards the gradient; the mean square."""
    mean, square = state["exp_avg"], state["exp_avg_sq"]
    mean.add_(gradient - mean, alpha=1 - mean_decay)
    square.mul_(square_decay).add_(gradient * gradient, alpha=1 - square_decay)
    return square
