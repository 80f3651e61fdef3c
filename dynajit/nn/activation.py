"""Activations and dropout as modules: each is one function of `nn.functional`."""

from typing import Any

from dynajit.eager.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.module import Module


class _Inplace(Module):
    """A module with PyTorch's `inplace` flag; the result is the same either way."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The flag, for repr."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Inplace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.relu(input, inplace=self.inplace)


class ReLU6(_Inplace):
    """min(max(x, 0), 6)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.relu6(input, inplace=self.inplace)


class SiLU(_Inplace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.silu(input, inplace=self.inplace)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return input.sigmoid()


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return input.tanh()


class GELU(Module):
    """x * Phi(x), exact or by the tanh approximation.

    Args:
        approximate: "none" or "tanh".
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The formula, for repr."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(_Inplace):
    """x where positive, negative_slope * x elsewhere."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)

    def extra_repr(self) -> str:
        """The slope, for repr."""
        return f"negative_slope={self.negative_slope}"


class ELU(_Inplace):
    """x where positive, alpha * (exp(x) - 1) elsewhere."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.elu(input, self.alpha, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Alpha, for repr."""
        return f"alpha={self.alpha}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """Constants, for repr."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `dim`."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities along the dim."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The dim, for repr."""
        return f"dim={self.dim}"


class LogSoftmax(Softmax):
    """log(softmax(x)) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """Log-probabilities along the dim."""
        return F.log_softmax(input, self.dim)


class Dropout(_Inplace):
    """Zeroes elements with probability `p` in training and scales the others by 1 / (1 - p).

    Raises:
        ValueError: `p` is not in [0, 1].
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(inplace)
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p

    def forward(self, input: Any) -> Any:
        """The input, thinned out in training."""
        return F.dropout(input, self.p, self.training, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Probability, for repr."""
        return f"p={self.p}, inplace={self.inplace}"
