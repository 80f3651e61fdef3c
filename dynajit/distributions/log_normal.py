"""The distribution of exp of a normal value."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.normal import Normal
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import ExpTransform
from dynajit.ops.functions import exp, expm1


class LogNormal(TransformedDistribution):
    """exp of a normal value.

    Args:
        loc, scale: mean and standard deviation of the logarithm.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogNormal, _instance))

    @property
    def loc(self) -> Any:
        """Mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        """Standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return exp(self.loc + self.scale.pow(2) / 2)

    @property
    def mode(self) -> Any:
        return exp(self.loc - self.scale.square())

    @property
    def variance(self) -> Any:
        square = self.scale.pow(2)
        return expm1(square) * exp(2 * self.loc + square)

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


__all__ = ["LogNormal"]
