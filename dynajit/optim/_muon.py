"""Muon: momentum of matrices, made orthogonal."""

from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import addmm, zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, descend

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(BuiltInOptimizer):
    """Steps along the orthogonal matrix that is nearest to the momentum.

    Source: Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks"; the
    Newton-Schulz iteration runs in bfloat16.

    Args:
        params: matrices.
        lr: learning rate.
        weight_decay: decay of the parameter itself.
        momentum: decay of the running mean of gradients.
        nesterov: look ahead along the momentum.
        ns_coefficients: of x, x^3 and x^5 in the iteration.
        eps: smallest norm to divide by.
        ns_steps: number of iterations, below 100.
        adjust_lr_fn: None or "original" (Jordan et al.), or "match_rms_adamw" (Liu et al., 2025).

    Raises:
        InvalidValueError: an option is out of its range, or a parameter is no matrix.
    """

    _is_elementwise = False

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise InvalidValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise InvalidValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise InvalidValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise InvalidValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in _ADJUSTMENTS:
            raise InvalidValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported"
            )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.dim() != 2:
                    raise InvalidValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{parameter.size()}"
                    )

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["momentum_buffer"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        mean, momentum = state["momentum_buffer"], group["momentum"]
        mean.lerp_(gradient, 1 - momentum)
        direction = gradient.lerp(mean, momentum) if group["nesterov"] else mean
        direction = _orthogonal(
            direction, group["ns_coefficients"], group["ns_steps"], group["eps"]
        )
        rate = group["lr"]
        parameter.mul_(1 - rate * group["weight_decay"])
        factor = _adjustment(parameter.shape[0], parameter.shape[1], group["adjust_lr_fn"])
        descend(parameter, direction.to(parameter.dtype), rate * factor)


def _orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Newton-Schulz iterations: the matrix with singular values near 1, in bfloat16."""
    if steps >= 100:
        raise InvalidValueError(
            "Number of steps must be less than 100 for computational efficiency"
        )
    if len(coefficients) != 3:
        raise InvalidValueError("Coefficients must be a tuple of exactly 3 values")
    linear, cubic, quintic = coefficients
    is_tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.bfloat16()
    found = found.T if is_tall else found
    found = found / found.norm().clamp(min=eps)
    for _ in range(steps):
        gram = found @ found.T
        polynomial = addmm(gram, gram, gram, beta=cubic, alpha=quintic)
        found = addmm(found, polynomial, found, beta=linear)
    return found.T if is_tall else found


def _adjustment(rows: int, columns: int, kind: str | None) -> float:
    """The factor of the learning rate for a matrix of this size."""
    if kind == "match_rms_adamw":
        return 0.2 * float(max(rows, columns)) ** 0.5
    return max(1.0, rows / columns) ** 0.5
