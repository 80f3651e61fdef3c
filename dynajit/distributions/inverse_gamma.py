"""The inverse gamma distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.gamma import Gamma
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import PowerTransform
from dynajit.ops.functions import full, log, where


class InverseGamma(TransformedDistribution):
    """1 / x of gamma values x.

    Args:
        concentration, rate: of the gamma values, positive; tensors or numbers.
    """

    arg_constraints = Gamma.arg_constraints
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(full((), -1.0, dtype=base.rate.dtype, device=base.rate.device))
        super().__init__(base, inverse, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Any:
        """Shape parameter of the gamma values."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        """Rate of the gamma values."""
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        shape = where(self.concentration > 1, self.concentration, 2.0)
        return where(self.concentration > 1, self.rate / (shape - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        shape = where(self.concentration > 2, self.concentration, 3.0)
        found = self.rate.square() / ((shape - 1).square() * (shape - 2))
        return where(self.concentration > 2, found, math.inf)

    def entropy(self) -> Any:
        shape = self.concentration
        return shape + log(self.rate) + shape.lgamma() - (1 + shape) * shape.digamma()


__all__ = ["InverseGamma"]
