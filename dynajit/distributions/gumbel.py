"""The Gumbel distribution."""

import math
from collections.abc import Sequence
from numbers import Number
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import AffineTransform, ExpTransform
from dynajit.distributions.uniform import Uniform
from dynajit.distributions.utils import broadcast_all, euler_constant
from dynajit.ops.functions import exp, full_like, log, ones_like


class Gumbel(TransformedDistribution):
    """Gumbel: -log(-log(u)) of uniform u, the limit of largest values of many.

    Args:
        loc: the most probable value; tensor or number.
        scale: positive.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    _parameter_dims = {"loc": 0, "scale": 0}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        bounds = limits.tiny, 1 - limits.eps
        both = isinstance(loc, Number) and isinstance(scale, Number)
        low, high = bounds if both else (full_like(self.loc, bound) for bound in bounds)
        transforms = [
            ExpTransform().inv,
            AffineTransform(0, -ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]
        base = Uniform(low, high, validate_args=validate_args)
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Gumbel, _instance))

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def log_prob(self, value: Any) -> Any:
        # By the transforms the uniform number would round to 0 or 1 early.
        if self._validate_args:
            self._validate_sample(value)
        distance = (self.loc - value) / self.scale
        return distance - exp(distance) - log(self.scale)

    def entropy(self) -> Any:
        return log(self.scale) + (1 + euler_constant)


__all__ = ["Gumbel"]
