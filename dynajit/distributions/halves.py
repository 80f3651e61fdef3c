"""What distributions of absolute values share."""

import math
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import AbsTransform
from dynajit.ops.functions import where, zeros_like


class Half(TransformedDistribution):
    """The absolute value of a distribution that is symmetric around 0.

    Args:
        whole: that distribution, with a parameter `scale`.
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, whole: Any, validate_args: bool | None = None) -> None:
        super().__init__(whole, AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Any:
        """The scale of the whole distribution."""
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        found = self.base_dist.log_prob(value) + math.log(2)
        return where(value >= 0, found, -math.inf)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Any) -> Any:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


__all__ = ["Half"]
