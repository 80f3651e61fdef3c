"""Student's t-distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.gamma import Chi2
from dynajit.distributions.utils import broadcast_all
from dynajit.ops.functions import log, log1p, randn, rsqrt, where


class StudentT(Distribution):
    """A normal value over the root of a chi-squared one by its degrees of freedom.

    Args:
        df: degrees of freedom, positive; tensor or number.
        loc: middle.
        scale: positive.
    """

    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _parameter_dims = {"df": 0, "loc": 0, "scale": 0}  # noqa: RUF012

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        df = where(self.df > 2, self.df, 3.0)
        found = where(self.df > 2, self.scale.pow(2) * df / (df - 2), math.inf)
        return where(self.df <= 1, math.nan, found)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        noise = randn(
            self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device
        )
        squares = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * noise * rsqrt(squares / self.df)

    def _log_beta(self) -> Any:
        """log of B(df / 2, 1 / 2)."""
        return (0.5 * self.df).lgamma() + math.lgamma(0.5) - (0.5 * (self.df + 1)).lgamma()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = (value - self.loc) / self.scale
        height = log(self.scale) + 0.5 * log(self.df) + self._log_beta()
        return -0.5 * (self.df + 1.0) * log1p(distance**2 / self.df) - height

    def entropy(self) -> Any:
        half = 0.5 * (self.df + 1)
        growth = half * (half.digamma() - (0.5 * self.df).digamma())
        return log(self.scale) + growth + 0.5 * log(self.df) + self._log_beta()


__all__ = ["StudentT"]
