"""Adafactor: mean squares of matrices kept as rows and columns."""

from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import zeros_like
from dynajit.optim.optimizer import BuiltInOptimizer, start_counting
from dynajit.optim.options import check_options


class Adafactor(BuiltInOptimizer):
    """Scaled gradients whose mean squares are products of a row's and a column's.

    Source: Shazeer and Stern (2018), in the form of PyTorch's documentation.

    Args:
        lr: bound of the relative step size, a number or a tensor of one.
        beta2_decay: power with which the mean squares forget: `1 - t^beta2_decay`.
        eps: bound of the mean squares (None: the dtype's eps), and of the parameters' own size.
        d: updates of a larger root mean square are scaled down to it.
        weight_decay: decay of the parameter itself.
        maximize: ascend.

    Raises:
        InvalidValueError: an option is out of its range.
    """

    _counted = ("step",)

    _is_elementwise = False

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _check(lr, beta2_decay, eps, d, weight_decay)
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _begin(self, parameter: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """State before the first step."""
        state["step"] = start_counting(parameter)
        if parameter.dim() > 1:
            state["row_var"] = zeros_like(parameter[..., :1])
            state["col_var"] = zeros_like(parameter[..., :1, :])
        else:
            state["variance"] = zeros_like(parameter)

    def _update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        """One parameter, in place."""
        state["step"] += 1
        step = state["step"].double()
        if group["maximize"]:
            gradient = -gradient
        smallest, size_bound = group["eps"]
        if smallest is None:
            smallest = finfo(parameter.dtype).eps
        rate = step.rsqrt().clamp(max=group["lr"])
        rate = _root_mean_square(parameter).double().clamp(min=size_bound) * rate
        if group["weight_decay"]:
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
        weight = step ** group["beta2_decay"]
        square = _mean_square(state, gradient, weight, smallest)
        update = gradient * square.clamp(min=smallest * smallest).rsqrt()
        excess = (_root_mean_square(update).double() / group["d"]).clamp(min=1)
        parameter.sub_(update * (rate / excess))


def _mean_square(
    state: dict[str, Any], gradient: Tensor, weight: Tensor, smallest: float
) -> Tensor:
    """The running mean square, as large as the gradient; `weight` is that of the new one."""
    squared = gradient * gradient
    if gradient.dim() <= 1:
        return state["variance"].add_((squared - state["variance"]) * weight)
    row, column = state["row_var"], state["col_var"]
    row.add_((squared.mean(-1, keepdim=True) - row) * weight)
    column.add_((squared.mean(-2, keepdim=True) - column) * weight)
    return row * column / row.mean(-2, keepdim=True).clamp(min=smallest)


def _root_mean_square(values: Tensor) -> Tensor:
    return (values * values).mean().sqrt()


def _check(lr: Any, beta2_decay: float, eps: Any, d: float, weight_decay: float) -> None:
    if isinstance(lr, Tensor):
        check_options(lr=lr)
    ranges = [
        (lr >= 0.0, f"Learning rate should be >= 0 but is: {lr}"),
        (beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}"),
        (eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}"),
        (eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}"),
        (d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}"),
        (weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}"),
    ]
    for holds, message in ranges:
        if not holds:
            raise InvalidValueError(message)
