"""The continuous Bernoulli distribution.

Source: G. Loaiza-Ganem and J. P. Cunningham, arXiv:1907.06845.
"""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.odds import OfOdds
from dynajit.distributions.utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs
from dynajit.nn.functional import binary_cross_entropy_with_logits
from dynajit.ops.functions import log, log1p, rand, where


class ContinuousBernoulli(OfOdds, ExponentialFamily):
    """Values in [0, 1] with density proportional to p**x * (1 - p)**(1 - x).

    Args:
        probs: p, in (0, 1), which is not the mean; tensor or number.
        logits: its log odds, instead.
        lims: between these probabilities formulas, which divide by 1 - 2 * p, are replaced by
            their first Taylor terms.

    Raises:
        ValueError: both are given, or none; a probability lies outside [0, 1].
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._set_odds(probs, logits)
        self._lims = lims
        if self._by_probs:
            if validate_args is not None:
                self._refuse_what_is_no_probability()
            self.probs = clamp_probs(self.probs)
        super().__init__(shape, validate_args=validate_args)

    def _refuse_what_is_no_probability(self) -> None:
        """Before the probabilities are kept off 0 and 1, where all would be good."""
        if not constraints.are_met(constraints.unit_interval, self.probs):
            raise InvalidValueError("The parameter probs has invalid values")

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(ContinuousBernoulli, _instance)
        new._by_probs, new._lims = self._by_probs, self._lims
        return super().expand(batch_shape, new)

    @lazy_property
    def probs(self) -> Any:
        """The parameter p."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _is_far_from_half(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _probs_far_from_half(self) -> Any:
        """The parameter where it is far from 1/2, else one that is."""
        return where(self._is_far_from_half(), self.probs, self._lims[0])

    def _log_normalizer_of_probs(self) -> Any:
        p, x = self._probs_far_from_half(), (self.probs - 0.5).pow(2)
        found = log((log1p(-p) - log(p)).abs()) - log((1 - 2.0 * p).abs())
        near = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return where(self._is_far_from_half(), found, near)

    @property
    def mean(self) -> Any:
        p, x = self._probs_far_from_half(), self.probs - 0.5
        found = p / (2.0 * p - 1.0) + 1.0 / (log1p(-p) - log(p))
        near = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return where(self._is_far_from_half(), found, near)

    @property
    def variance(self) -> Any:
        p, x = self._probs_far_from_half(), (self.probs - 0.5).pow(2)
        found = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / (log1p(-p) - log(p)).pow(2)
        near = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return where(self._is_far_from_half(), found, near)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self.icdf(
            rand(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
            )
        )

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        cross = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._log_normalizer_of_probs() - cross

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        p = self._probs_far_from_half()
        found = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        found = where(self._is_far_from_half(), found, value)
        return where(value <= 0.0, 0.0, where(value >= 1.0, 1.0, found))

    def icdf(self, value: Any) -> Any:
        p = self._probs_far_from_half()
        turned = log1p(-p + value * (2.0 * p - 1.0)) - log1p(-p)
        return where(self._is_far_from_half(), turned / (log(p) - log1p(-p)), value)

    def entropy(self) -> Any:
        low, high = log1p(-self.probs), log(self.probs)
        return self.mean * (low - high) - self._log_normalizer_of_probs() - low


__all__ = ["ContinuousBernoulli"]
