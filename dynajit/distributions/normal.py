"""The normal distribution."""

import math
from collections.abc import Sequence
from typing import Any, Final

from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops.functions import erf, log, randn

HALF_LOG_2_PI: Final = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """Normal (Gaussian).

    Args:
        loc: mean; tensor or number.
        scale: standard deviation, positive.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = batch_shape_of(self.loc, loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.scale.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        noise = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        return -0.5 * distance**2 - log(self.scale) - HALF_LOG_2_PI

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + HALF_LOG_2_PI + log(self.scale)


__all__ = ["Normal"]
