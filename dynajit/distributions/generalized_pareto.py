"""The generalized Pareto distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops import functions as f
from dynajit.ops.functions.elements.number import xlog1py


class GeneralizedPareto(Distribution):
    """Tails: of exponential height where the concentration is 0, heavier above, bounded below.

    Args:
        loc: the least value; tensor or number.
        scale: positive.
        concentration: the shape of the tail.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0, "concentration": 0}  # noqa: RUF012

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = batch_shape_of(self.loc, loc, scale, concentration)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        below = self.concentration < 0
        shape = f.where(below, self.concentration, -1.0)
        upper = f.where(below, self.loc - self.scale / shape, math.inf)
        return constraints.interval(self.loc, upper)

    def _shape(self) -> tuple[Any, Any]:
        """Where the concentration is 0, and a concentration that is not 0 there."""
        zero = f.isclose(self.concentration, f.zeros_like(self.concentration))
        return zero, f.where(zero, 1.0, self.concentration)

    def _distance(self, value: Any) -> Any:
        return (value - self.loc) / self.scale

    @property
    def mean(self) -> Any:
        known = self.concentration < 1
        shape = f.where(known, self.concentration, 0.5)
        return f.where(known, self.loc + self.scale / (1 - shape), math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        known = self.concentration < 0.5
        shape = f.where(known, self.concentration, 0.25)
        return f.where(known, self.scale**2 / ((1 - shape) ** 2 * (1 - 2 * shape)), math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.icdf(
            f.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        )

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        (zero, shape), distance = self._shape(), self._distance(value)
        # At a concentration of -1 values are uniform: 0 * log(0) at the last one is 0.
        fall = xlog1py(1 / shape + 1, shape * distance)
        return -f.log(self.scale) - f.where(zero, distance, fall)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of values above this one."""
        if self._validate_args:
            self._validate_sample(value)
        (zero, shape), distance = self._shape(), self._distance(value)
        return f.where(zero, -distance, -f.log1p(shape * distance) / shape)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the probability of values up to this one."""
        return f.log1p(-f.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return f.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        (zero, shape), rest = self._shape(), f.log1p(-value)
        curved = self.loc + self.scale / shape * f.expm1(-shape * rest)
        return f.where(zero, self.loc - self.scale * rest, curved)

    def entropy(self) -> Any:
        return f.broadcast_to(f.log(self.scale) + self.concentration + 1, self._batch_shape)


__all__ = ["GeneralizedPareto"]
