"""The uniform distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops.calls.contents import holds
from dynajit.ops.functions import log, rand


class Uniform(Distribution):
    """Uniform in [low, high).

    Args:
        low, high: bounds; tensors or numbers.

    Raises:
        ValueError: low is not below high.
    """

    has_rsample = True
    _parameter_dims = {"low": 0, "high": 0}  # noqa: RUF012

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        shape = batch_shape_of(self.low, low, high)
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and not holds(self.low < self.high):
            raise InvalidValueError("Uniform is not defined when low>= high")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return float("nan") * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = rand(
            self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device
        )
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return log(inside.type_as(self.low)) - log(self.high - self.low)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return log(self.high - self.low)


__all__ = ["Uniform"]
