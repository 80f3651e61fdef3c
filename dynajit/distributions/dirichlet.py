"""The Dirichlet distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.eager.backward.gamma_numbers import standard_gamma
from dynajit.ops.functions import where, xlogy
from dynajit.ops.functions.networks.nn import one_hot


class Dirichlet(ExponentialFamily):
    """Vectors of probabilities.

    Args:
        concentration: positive, shape (..., n).

    Raises:
        ValueError: it has no dims.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True
    _parameter_dims = {"concentration": 1}  # noqa: RUF012

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        shape = tuple(concentration.shape)
        if len(shape) < 1:
            raise InvalidValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        found = above / above.sum(-1, True)
        flat = (self.concentration < 1).all(-1, True)
        largest = one_hot(found.argmax(dim=-1), tuple(found.shape)[-1]).to(found.dtype)
        return where(flat, largest, found)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = standard_gamma(self.concentration.expand(*shape))
        limits = finfo(drawn.dtype)
        return (drawn / drawn.sum(-1, True)).clamp(min=limits.tiny, max=1 - limits.eps / 2)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        powers = xlogy(self.concentration - 1.0, value).sum(-1)
        return powers + self.concentration.sum(-1).lgamma() - self.concentration.lgamma().sum(-1)

    def entropy(self) -> Any:
        size, total = self._event_shape[0], self.concentration.sum(-1)
        spread = ((self.concentration - 1.0) * self.concentration.digamma()).sum(-1)
        normalisers = self.concentration.lgamma().sum(-1) - total.lgamma()
        return normalisers - (size - total) * total.digamma() - spread


__all__ = ["Dirichlet"]
