"""The gamma distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.eager.backward.gamma_numbers import standard_gamma
from dynajit.ops.functions import log, xlogy
from dynajit.ops.functions.elements.special import gammainc


class Gamma(ExponentialFamily):
    """Gamma.

    Args:
        concentration: shape parameter, positive; tensor or number.
        rate: 1 / scale, positive.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _parameter_dims = {"concentration": 0, "rate": 0}  # noqa: RUF012

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = batch_shape_of(self.rate, concentration, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(*shape)) / self.rate.expand(*shape)
        return drawn.clamp(min=finfo(drawn.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        powers = xlogy(self.concentration, self.rate) + xlogy(self.concentration - 1, value)
        return powers - self.rate * value - self.concentration.lgamma()

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        shape = self.concentration
        return shape - log(self.rate) + shape.lgamma() + (1.0 - shape) * shape.digamma()


class Chi2(Gamma):
    """Sum of `df` squares of standard normal values.

    Args:
        df: degrees of freedom, positive.
    """

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2


__all__ = ["Chi2", "Gamma"]
