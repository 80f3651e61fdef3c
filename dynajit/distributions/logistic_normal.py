"""The logistic normal distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.normal import Normal
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import StickBreakingTransform


class LogisticNormal(TransformedDistribution):
    """Vectors of n + 1 probabilities, by breaking a stick at n normal values.

    Args:
        loc, scale: means and standard deviations of the normal values, shape (..., n); tensors or
            numbers, which are taken as n = 1.
    """

    arg_constraints = Normal.arg_constraints
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Any:
        """Means of the normal values."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        """Standard deviations of the normal values."""
        return self.base_dist.base_dist.scale


__all__ = ["LogisticNormal"]
