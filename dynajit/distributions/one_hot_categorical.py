"""The categorical distribution over one-hot vectors, and its straight-through form."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.categorical import OfCategorical
from dynajit.ops.functions import argmax, eye
from dynajit.ops.functions.networks.nn import one_hot


class OneHotCategorical(OfCategorical):
    """One-hot vectors, drawn with the probabilities of a Categorical.

    Args:
        probs, logits: as of `Categorical`.

    Raises:
        ValueError: both are given, or none.
    """

    support = constraints.one_hot
    has_enumerate_support = True

    @property
    def _param(self) -> Any:
        return self._categorical._param

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return self._one_hot(argmax(self.probs, dim=-1))

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def _one_hot(self, numbers: Any) -> Any:
        return one_hot(numbers, self._event_shape[0]).to(self._param.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(argmax(value, dim=-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        size = self._event_shape[0]
        values = eye(size, dtype=self._param.dtype, device=self._param.device)
        values = values.view(size, *[1] * len(self._batch_shape), size)
        return values.expand(size, *self._batch_shape, size) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of the probabilities.

    Source: Y. Bengio et al., arXiv:1308.3432.
    """

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = self.sample(sample_shape)
        return drawn + (self.probs - self.probs.detach())


__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]
