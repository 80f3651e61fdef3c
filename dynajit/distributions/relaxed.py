"""Relaxed distributions: what those share that are a base distribution, transformed.

Contract: the base has `temperature`, `logits` and `probs`, which are attributes here, too. Called
by `relaxed_bernoulli` and `relaxed_categorical`.
"""

from typing import Any

from dynajit.distributions.transformed_distribution import TransformedDistribution


class Relaxed(TransformedDistribution):
    """Base class."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities, or log odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self.base_dist.probs


__all__ = ["Relaxed"]
