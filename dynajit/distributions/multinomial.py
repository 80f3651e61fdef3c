"""The multinomial distribution: counts of categorical draws."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import ArgumentNotImplementedError
from dynajit.distributions import constraints
from dynajit.distributions.categorical import OfCategorical
from dynajit.distributions.utils import xlogy_of_logits
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.ops.functions import arange, xlogy
from dynajit.ops.functions.networks.nn import one_hot


class Multinomial(OfCategorical):
    """How often each number was drawn in `total_count` draws.

    Args:
        total_count: number of draws.
        probs, logits: as of `Categorical`.

    Raises:
        TypeError: the number of draws is no int.
        ValueError: both are given, or none.
    """

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise ArgumentNotImplementedError(
                "inhomogeneous total_count is not supported: expected an int"
            )
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Multinomial, _instance)
        new.total_count = self.total_count
        return super().expand(batch_shape, new)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))
            return one_hot(drawn, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        powers = xlogy_of_logits(value, self.logits).sum(-1)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + powers

    def entropy(self) -> Any:
        n = self.total_count
        counts = arange(n + 1, dtype=self.probs.dtype, device=self.probs.device)
        counts = counts.view(-1, *[1] * len(self.probs.shape))
        choices = math.lgamma(n + 1) - (counts + 1).lgamma() - (n - counts + 1).lgamma()
        weights = (choices + xlogy(counts, self.probs) + xlogy(n - counts, 1 - self.probs)).exp()
        repeated = (weights * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + repeated


__all__ = ["Multinomial"]
