"""The F-distribution of Fisher and Snedecor."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.gamma import Gamma
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops.functions import log, log1p, where


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared values, each over its degrees of freedom.

    Args:
        df1, df2: degrees of freedom, positive; tensors or numbers.
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012
    support = constraints.positive
    has_rsample = True
    _parameter_dims = {"df1": 0, "df2": 0}  # noqa: RUF012

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        shape = batch_shape_of(self.df1, df1, df2)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        df2 = where(self.df2 <= 2, math.nan, self.df2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, found)

    @property
    def variance(self) -> Any:
        df2 = where(self.df2 <= 4, math.nan, self.df2)
        spread = self.df1 * (df2 - 2).pow(2) * (df2 - 4)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / spread

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        above, below = (
            Gamma(df * 0.5, df, validate_args=False).rsample(sample_shape)
            for df in (self.df1, self.df2)
        )
        return (above / below).clamp(min=finfo(self.df1.dtype).tiny)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (a + b).lgamma() - a.lgamma() - b.lgamma() + a * log(ratio)
        return constant + (a - 1) * log(value) - (a + b) * log1p(ratio * value)


__all__ = ["FisherSnedecor"]
