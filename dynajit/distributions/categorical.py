"""The categorical distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import lazy_property, logits_to_probs, probs_to_logits
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.ops.functions import arange, argmax, broadcast_tensors, full, multinomial


class Categorical(Distribution):
    """Number i in 0..K-1 with probability `probs[..., i]`.

    Args:
        probs: weights along the last dim, not negative; they are made to sum to 1.
        logits: logarithms of weights, instead.

    Raises:
        ValueError: both are given, or none; there is no dim to draw from.
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _parameter_dims = {"probs": 1, "logits": 1}  # noqa: RUF012

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise InvalidValueError("Either `probs` or `logits` must be specified, but not both.")
        given = logits if probs is None else probs
        if len(given.shape) < 1:
            name = "logits" if probs is None else "probs"
            raise InvalidValueError(f"`{name}` parameter must be at least one-dimensional.")
        self._by_probs = probs is not None
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(tuple(given.shape)[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Categorical, _instance)
        new._by_probs, new._num_events = self._by_probs, self._num_events
        return super().expand(batch_shape, new)

    @property
    def _param(self) -> Any:
        return self.probs if self._by_probs else self.logits

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Any:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Any:
        return full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mode(self) -> Any:
        return argmax(self.probs, dim=-1)

    @property
    def variance(self) -> Any:
        return full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = tuple(sample_shape)
        with no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = multinomial(rows, math.prod(shape), True)
            return drawn.T.reshape(self._extended_shape(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        value, logits = broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        # Where a logit is -inf the probability is 0, and so is the product.
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = arange(self._num_events, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class OfCategorical(Distribution):
    """What distributions share whose draws are vectors made of numbers drawn from a Categorical.

    Args:
        probs, logits: as of `Categorical`.

    Raises:
        ValueError: both are given, or none.
    """

    arg_constraints = Categorical.arg_constraints

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = tuple(self._categorical.param_shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(OfCategorical, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return super().expand(batch_shape, new)

    @property
    def probs(self) -> Any:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._categorical.param_shape


__all__ = ["Categorical", "OfCategorical"]
