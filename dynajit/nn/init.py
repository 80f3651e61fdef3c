"""Initial values of parameters: functions that fill a tensor in place and return it.

Source of the gains and bounds: PyTorch 2.x documentation of `torch.nn.init`; Glorot and Bengio
(2010) for the Xavier forms, He et al. (2015) for the Kaiming forms.
"""

import math
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from dynajit.core.types.dtypes import float64
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.creation import from_numpy
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.creation.creation import eye as identity
from dynajit.ops.functions.creation.creation import randn, randperm

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain of a nonlinearity.

    Raises:
        ValueError: the name is not known.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope!r} is no number.")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"Unsupported nonlinearity {nonlinearity}.  Expected leaky_relu or one of "
            f"{', '.join(_GAINS)}."
        )
    return _GAINS[nonlinearity]


def _without_grad(fill: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fill)
    def wrapper(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        with no_grad():
            fill(tensor, *args, **kwargs)
        return tensor

    return wrapper


@_without_grad
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> None:
    """Uniform in [a, b)."""
    tensor.uniform_(a, b, generator=generator)


@_without_grad
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> None:
    """Normal with this mean and standard deviation."""
    tensor.normal_(mean, std, generator=generator)


@_without_grad
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> None:
    """Normal, redrawn by the inverse distribution within [a, b]."""
    low = math.erf((a - mean) / std / math.sqrt(2.0))
    high = math.erf((b - mean) / std / math.sqrt(2.0))
    tensor.uniform_(low, high, generator=generator)
    tensor.erfinv_()
    tensor.mul_(std * math.sqrt(2.0)).add_(mean).clamp_(a, b)


@_without_grad
def constant_(tensor: Tensor, val: float) -> None:
    """Every element `val`."""
    tensor.fill_(val)


@_without_grad
def ones_(tensor: Tensor) -> None:
    """Every element 1."""
    tensor.fill_(1.0)


@_without_grad
def zeros_(tensor: Tensor) -> None:
    """Every element 0."""
    tensor.zero_()


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input: by PyTorch's private name."""
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


@_without_grad
def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> None:
    """Uniform with variance 2 / (fan_in + fan_out), times `gain` squared."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    tensor.uniform_(-bound, bound, generator=generator)


@_without_grad
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> None:
    """Normal with variance 2 / (fan_in + fan_out), times `gain` squared."""
    tensor.normal_(
        0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator=generator
    )


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan that `mode` names: by PyTorch's private name."""
    chosen = mode.lower()
    if chosen not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[0 if chosen == "fan_in" else 1]


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _is_empty(tensor: Tensor) -> bool:
    """Whether there is nothing to fill, with PyTorch's warning if so: an empty fan has no bound."""
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=4)
    return True


@_without_grad
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> None:
    """Uniform that keeps the variance of a rectified signal."""
    if _is_empty(tensor):
        return
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    tensor.uniform_(-bound, bound, generator=generator)


@_without_grad
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> None:
    """Normal that keeps the variance of a rectified signal."""
    if _is_empty(tensor):
        return
    tensor.normal_(0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator=generator)


@_without_grad
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> None:
    """Normal with mean 0, and a share `sparsity` of each column 0.

    Source: J. Martens, Deep learning via Hessian-free optimization, ICML 2010.
    """
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    tensor.normal_(0, std, generator=generator)
    for column in range(columns):
        tensor[randperm(rows, generator=generator)[:zeros], column] = 0


@_without_grad
def eye_(tensor: Tensor) -> None:
    """Ones on the diagonal of a matrix, else zeros."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    tensor.copy_(identity(*tensor.shape, dtype=tensor.dtype))


@_without_grad
def dirac_(tensor: Tensor, groups: int = 1) -> None:
    """Weight of a convolution that keeps as many of its input's channels as it can, per group."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.shape[0] // groups
    middle = tuple(size // 2 for size in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(per_group, tensor.shape[1])):
            tensor[(group * per_group + channel, channel, *middle)] = 1


@_without_grad
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> None:
    """A (semi-)orthogonal matrix, of the dims after the first as one, times `gain`.

    Source: A. Saxe et al., arXiv:1312.6120.
    """
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    drawn = randn(rows, columns, dtype=float64, generator=generator).numpy()
    q, r = np.linalg.qr(drawn.T if rows < columns else drawn)
    # The signs of r's diagonal make the distribution uniform: F. Mezzadri, arXiv:math-ph/0609050.
    q = q * np.sign(np.diagonal(r))
    matrix = np.ascontiguousarray(q.T if rows < columns else q).reshape(tuple(tensor.shape))
    tensor.copy_(from_numpy(matrix * gain))


def _deprecated(current: Callable[..., Any]) -> Callable[..., Any]:
    older = current.__name__[:-1]

    @wraps(current)
    def function(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"nn.init.{older} is now deprecated in favor of nn.init.{current.__name__}.",
            FutureWarning,
            stacklevel=2,
        )
        return current(*args, **kwargs)

    function.__name__ = function.__qualname__ = older
    function.__doc__ = f"`{current.__name__}` by its older name, with a warning."
    return function


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
