"""The Bernoulli distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.odds import OfOdds
from dynajit.distributions.utils import broadcast_all
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.nn.functional import binary_cross_entropy_with_logits
from dynajit.ops.functions import arange, bernoulli, where


class Bernoulli(OfOdds, ExponentialFamily):
    """1 with probability `probs`, else 0.

    Args:
        probs: probability of 1; tensor or number.
        logits: its log odds, instead.

    Raises:
        ValueError: both are given, or none.
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_odds(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Bernoulli, _instance)
        new._by_probs = self._by_probs
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        likely = (self.probs >= 0.5).type_as(self.probs)
        return where(self.probs == 0.5, float("nan"), likely)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            return bernoulli(self.probs.expand(*self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Any:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Any:
        values = arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


__all__ = ["Bernoulli"]
