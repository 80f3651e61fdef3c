"""The Cauchy distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops import functions as f


class Cauchy(Distribution):
    """Cauchy: the ratio of two normal values; without mean and variance.

    Args:
        loc: median; tensor or number.
        scale: half of the width at half of the height, positive.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"loc": 0, "scale": 0}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        shape = batch_shape_of(self.loc, loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return f.full(
            self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device
        )

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return f.full(
            self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device
        )

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        kind = self.loc.dtype
        # Uniform numbers are multiples of eps / 2; their middles lie symmetric around 0 here, and
        # off -1/2, where the tangent is infinite.
        drawn = f.rand(self._extended_shape(sample_shape), dtype=kind, device=self.loc.device)
        turn = (drawn - 0.5) + finfo(kind).eps / 4
        return self.loc + f.tan(math.pi * turn) * self.scale

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        return -math.log(math.pi) - f.log(self.scale) - f.log1p(distance**2)

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return f.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return f.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + f.log(self.scale)


__all__ = ["Cauchy"]
