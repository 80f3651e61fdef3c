"""The Pareto distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.exponential import Exponential
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import AffineTransform, ExpTransform
from dynajit.distributions.utils import broadcast_all
from dynajit.ops.functions import log, where


class Pareto(TransformedDistribution):
    """Pareto of type 1: from `scale` on, falling by a power.

    Args:
        scale: the least value, positive; tensor or number.
        alpha: the power, positive.
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012
    _parameter_dims = {"alpha": 0, "scale": 0}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        transforms = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Pareto, _instance))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        power = where(self.alpha > 1, self.alpha, 2.0)
        return where(self.alpha > 1, power * self.scale / (power - 1), math.inf)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        power = where(self.alpha > 2, self.alpha, 3.0)
        found = self.scale.pow(2) * power / ((power - 1).pow(2) * (power - 2))
        return where(self.alpha > 2, found, math.inf)

    def entropy(self) -> Any:
        return log(self.scale / self.alpha) + (1 + self.alpha.reciprocal())


__all__ = ["Pareto"]
