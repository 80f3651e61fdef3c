"""Activations and dropout as modules: each is one function of `nn.functional`."""

import warnings
from typing import Any, ClassVar

from dynajit.core.types.dtypes import DType
from dynajit.eager.tensor.creation import empty
from dynajit.eager.tensor.tensor import Tensor
from dynajit.nn import functional as F
from dynajit.nn.init import constant_
from dynajit.nn.module import Module
from dynajit.nn.parameter import Parameter


class _Inplace(Module):
    """A module with PyTorch's `inplace` flag; the result is the same either way."""

    #: Whether `repr` tells the flag.
    _shows_flag: ClassVar[bool] = True

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Options, and the flag where it is set."""
        options = super().extra_repr()
        flag = "inplace=True" if self.inplace and self._shows_flag else ""
        return f"{options}, {flag}" if options and flag else options or flag


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


class Mish(_Inplace):
    """x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.mish(input, inplace=self.inplace)


class SELU(_Inplace):
    """Scaled elu whose outputs keep mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.selu(input, inplace=self.inplace)


class Hardsigmoid(_Inplace):
    """min(max(x + 3, 0), 6) / 6."""

    _shows_flag = False

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardsigmoid(input, inplace=self.inplace)


class Hardswish(_Inplace):
    """x * hardsigmoid(x)."""

    _shows_flag = False

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardswish(input, inplace=self.inplace)


class LogSigmoid(Module):
    """log(sigmoid(x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.logsigmoid(input)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.tanhshrink(input)


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

    _options_in_repr = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.leaky_relu(input, self.negative_slope, inplace=self.inplace)


class ELU(_Inplace):
    """x where positive, alpha * (exp(x) - 1) elsewhere."""

    _options_in_repr = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.elu(input, self.alpha, inplace=self.inplace)


class CELU(_Inplace):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    _options_in_repr = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.celu(input, self.alpha, inplace=self.inplace)


class Hardtanh(_Inplace):
    """x cut to [min_val, max_val].

    Args:
        min_val, max_val: the ends.
        inplace: whether the input itself is cut.
        min_value, max_value: older names of the ends; they warn, and win over the newer ones.
    """

    _options_in_repr = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__(inplace)
        if min_value is not None:
            min_val = _renamed("min_value", "min_val", min_value)
        if max_value is not None:
            max_val = _renamed("max_value", "max_val", max_value)
        if not max_val > min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardtanh(input, self.min_val, self.max_val, inplace=self.inplace)


def _renamed(old: str, new: str, value: float) -> float:
    warnings.warn(f"Hardtanh({old}=) is deprecated: use {new}=.", FutureWarning, stacklevel=3)
    return value


class Threshold(_Inplace):
    """x above the threshold, else a value."""

    _options_in_repr = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold = threshold
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.threshold(input, self.threshold, self.value, inplace=self.inplace)


class RReLU(_Inplace):
    """leaky_relu with a random slope per element in training, and the mean slope in evaluation."""

    _options_in_repr = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__(inplace)
        self.lower = lower
        self.upper = upper

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.rrelu(input, self.lower, self.upper, self.training, inplace=self.inplace)


class PReLU(Module):
    """x where positive, weight * x elsewhere; one weight, or one per channel (dim 1)."""

    _options_in_repr = ("num_parameters",)

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Every weight `init`."""
        constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise, with the weight of the element's channel."""
        return F.prelu(input, self.weight)


class _Shrink(Module):
    """A function with a width `lambd`."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        """The width, for repr."""
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| > lambd, else 0."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x moved towards 0 by lambd, and 0 where it would cross."""

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softshrink(input, self.lambd)


class GLU(Module):
    """First half along `dim` times the sigmoid of the second."""

    _options_in_repr = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Half as many elements along `dim`."""
        return F.glu(input, self.dim)


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    _options_in_repr = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Elementwise."""
        return F.softplus(input, self.beta, self.threshold)


class Softmax(Module):
    """exp(x) / sum(exp(x)) along `dim`."""

    _options_in_repr = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities along the dim."""
        return F.softmax(input, self.dim)


class LogSoftmax(Softmax):
    """log(softmax(x)) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """Log-probabilities along the dim."""
        return F.log_softmax(input, self.dim)


class Softmin(Softmax):
    """softmax(-x) along `dim`."""

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities along the dim."""
        return F.softmin(input, self.dim)


class Softmax2d(Module):
    """softmax over the channels of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Tensor) -> Tensor:
        """Probabilities along the channels."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3)


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


class AlphaDropout(Dropout):
    """Sets elements to selu's limit with probability `p` in training, then scales and shifts so
    that mean 0 and variance 1 stay."""

    def forward(self, input: Any) -> Any:
        """The input, thinned out in training."""
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(Dropout):
    """`AlphaDropout` of whole channels, the first two dims."""

    def forward(self, input: Any) -> Any:
        """The input, thinned out in training."""
        return F.feature_alpha_dropout(input, self.p, self.training)
