"""The exponential distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops.functions import exp, log, log1p, rand, zeros_like


class Exponential(ExponentialFamily):
    """Exponential.

    Args:
        rate: 1 / mean, positive; tensor or number.
    """

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _parameter_dims = {"rate": 0}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        shape = batch_shape_of(self.rate, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = rand(
            self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device
        )
        return -log1p(-drawn) / self.rate

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return log(self.rate) - self.rate * value

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - exp(-self.rate * value)

    def icdf(self, value: Any) -> Any:
        return -log1p(-value) / self.rate

    def entropy(self) -> Any:
        return 1.0 - log(self.rate)


__all__ = ["Exponential"]
