"""The Kumaraswamy distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import AffineTransform, PowerTransform
from dynajit.distributions.uniform import Uniform
from dynajit.distributions.utils import broadcast_all, euler_constant
from dynajit.ops.functions import exp, full_like, log, log1p, where


class Kumaraswamy(TransformedDistribution):
    """Values in [0, 1], much like beta ones, with a distribution function in closed form.

    Args:
        concentration1, concentration0: positive; tensors or numbers.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _parameter_dims = {"concentration1": 0, "concentration0": 0}  # noqa: RUF012

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = (full_like(self.concentration0, bound) for bound in (0.0, 1.0))
        transforms = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        base = Uniform(low, high, validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Kumaraswamy, _instance))

    def _moment(self, power: int) -> Any:
        """The mean of a power."""
        first, b = 1 + power / self.concentration1, self.concentration0
        return b * exp(first.lgamma() + b.lgamma() - (first + b).lgamma())

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        found = exp(b.reciprocal() * log1p(-b) - log1p(-a * b))
        return where((a < 1) | (b < 1), math.nan, found)

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        rest = (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic
        return rest - log(a) - log(b)


__all__ = ["Kumaraswamy"]
