"""Transforms: functions of tensors with inverses and known changes of volume.

Contract: as `transform_base`, whose classes are published here, too, with those of
`transform_parts` and `matrix_transforms`.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.matrix_transforms import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
)
from dynajit.distributions.transform_base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Transform,
    _InverseTransform,  # noqa: F401  (programs look here)
    identity_transform,
)
from dynajit.distributions.transform_parts import CatTransform, StackTransform
from dynajit.distributions.utils import sum_rightmost
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops import functions as f
from dynajit.ops.functions.networks.nn import logsigmoid, pad, softplus


class ExpTransform(Transform):
    """exp(x)."""

    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return f.exp(x)

    def _inverse(self, y: Any) -> Any:
        return f.log(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class PowerTransform(Transform):
    """x to a power, for positive x.

    Args:
        exponent: tensor or number.
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        exponent = self.exponent
        return exponent.sign() if isinstance(exponent, Tensor) else math.copysign(1, exponent)

    def _call(self, x: Any) -> Any:
        return x**self.exponent

    def _inverse(self, y: Any) -> Any:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return f.log((self.exponent * y / x).abs())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    __hash__ = object.__hash__


def _same(a: Any, b: Any) -> bool:
    equal = operator.eq(a, b)
    return bool(equal.all()) if isinstance(equal, Tensor) else bool(equal)


class SigmoidTransform(Transform):
    """sigmoid(x)."""

    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        limits = finfo(x.dtype)
        return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y: Any) -> Any:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return f.log(y) - f.log1p(-y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    codomain = constraints.positive
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return softplus(x)

    def _inverse(self, y: Any) -> Any:
        return f.log(-(-y).expm1()) + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -softplus(-x)


class TanhTransform(Transform):
    """tanh(x); with `cache_size=1` its inverse is exact for values that it made."""

    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1

    def _call(self, x: Any) -> Any:
        return f.tanh(x)

    def _inverse(self, y: Any) -> Any:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)**2), which would cancel for large x.
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|; its inverse is the positive value."""

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class AffineTransform(Transform):
    """loc + scale * x.

    Args:
        loc, scale: tensors or numbers.
        event_dim: dims of one event.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:
        dims = self._event_dim
        return constraints.independent(constraints.real, dims) if dims else constraints.real

    codomain = domain

    @property
    def sign(self) -> Any:
        scale = self.scale
        if isinstance(scale, Tensor):
            return scale.sign()
        return 1 if scale > 0 else -1 if scale < 0 else 0

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        scale = self.scale
        if isinstance(scale, Tensor):
            found = f.broadcast_to(f.log(scale.abs()), tuple((x + scale).shape))
        else:
            found = f.full_like(x, math.log(abs(scale)))
        return sum_rightmost(found, self._event_dim)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AffineTransform)
            and _same(self.loc, other.loc)
            and _same(self.scale, other.scale)
        )

    __hash__ = object.__hash__


class SoftmaxTransform(Transform):
    """softmax along the last dim; not one-to-one, its inverse is log."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Any) -> Any:
        return f.softmax(x, dim=-1)

    def _inverse(self, y: Any) -> Any:
        return f.log(y)


class StickBreakingTransform(Transform):
    """n - 1 numbers as n probabilities: each says how much of the rest is broken off."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _offset(self, x: Any) -> Any:
        return f.log(f.arange(x.shape[-1], 0, -1, dtype=x.dtype, device=x.device))

    def _call(self, x: Any) -> Any:
        part = (x - self._offset(x)).sigmoid()
        rest = (1 - part).cumprod(-1)
        return pad(part, (0, 1), value=1) * pad(rest, (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        cropped = y[..., :-1]
        rest = (1 - cropped.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return f.log(cropped) - f.log(rest) + self._offset(cropped)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        shifted = x - self._offset(x)
        return (-shifted + logsigmoid(shifted) + f.log(y[..., :-1])).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return (*shape[:-1], shape[-1] - 1)


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution: its draws become uniform.

    Args:
        distribution: a distribution with `cdf`, and `icdf` where the inverse is asked for.
    """

    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)


__all__ = [
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "Transform",
    "identity_transform",
]
