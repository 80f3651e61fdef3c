"""The Laplace distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import batch_shape_of, broadcast_all
from dynajit.ops.functions import expm1, log, log1p, rand, sign


class Laplace(Distribution):
    """Laplace: two exponentials, back to back.

    Args:
        loc: mean; tensor or number.
        scale: mean distance from it, positive.
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
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Any:
        return (2**0.5) * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = rand(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        u = drawn * 2 - 1
        # -1 itself would be infinitely far away.
        tail = log1p(-u.abs().clamp(max=1 - finfo(self.loc.dtype).eps / 2))
        return self.loc - self.scale * sign(u) * tail

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return -log(2 * self.scale) - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * sign(distance) * expm1(-distance.abs() / self.scale)

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * sign(term) * log1p(-2 * term.abs())

    def entropy(self) -> Any:
        return 1 + log(2 * self.scale)


__all__ = ["Laplace"]
