"""The Poisson distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.count_draws import poisson
from dynajit.ops.functions import floor, xlogy


class Poisson(ExponentialFamily):
    """How often something happens that happens `rate` times on average.

    Args:
        rate: mean, not negative; tensor or number.
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer
    _parameter_dims = {"rate": 0}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        shape = batch_shape_of(self.rate, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return floor(self.rate)

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            return poisson(self.rate.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return xlogy(value, self.rate) - self.rate - (value + 1).lgamma()


__all__ = ["Poisson"]
