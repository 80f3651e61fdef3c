"""Distributions of successes: what those share that take a probability or its log odds.

Contract: `probs` and `logits` are attributes, of which one was given and the other is computed when
it is first read.
"""

from numbers import Number
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class OfOdds(Distribution):
    """Base class; subclasses call `_set_odds` first, and give `_by_probs` to expanded forms."""

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    _parameter_dims = {"probs": 0, "logits": 0}  # noqa: RUF012
    _by_probs: bool

    def _set_odds(self, probs: Any, logits: Any) -> tuple[int, ...]:
        """Keep what was given as a tensor; the batch shape.

        Raises:
            ValueError: both are given, or none.
        """
        given = self._given(probs, logits)
        (value,) = broadcast_all(given)
        setattr(self, "probs" if self._by_probs else "logits", value)
        return () if isinstance(given, Number) else tuple(value.shape)

    def _set_counted_odds(self, total_count: Any, probs: Any, logits: Any) -> tuple[int, ...]:
        """The same with a number of trials, which gets the dtype of the odds."""
        count, value = broadcast_all(total_count, self._given(probs, logits))
        setattr(self, "probs" if self._by_probs else "logits", value)
        self.total_count = count.type_as(value)
        return tuple(value.shape)

    def _given(self, probs: Any, logits: Any) -> Any:
        if (probs is None) == (logits is None):
            raise InvalidValueError("Either `probs` or `logits` must be specified, but not both.")
        self._by_probs = probs is not None
        return logits if probs is None else probs

    @property
    def _param(self) -> Any:
        return self.probs if self._by_probs else self.logits

    @lazy_property
    def logits(self) -> Any:
        """Log odds of a success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Any:
        """Probability of a success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.shape


__all__ = ["OfOdds"]
