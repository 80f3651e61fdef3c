"""The binomial distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.odds import OfOdds
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.count_draws import binomial
from dynajit.ops.functions import arange, floor, minimum
from dynajit.ops.functions.networks.nn import logsigmoid


class Binomial(OfOdds):
    """How many of `total_count` trials succeed.

    Args:
        total_count: number of trials; tensor or int.
        probs: probability of a success; tensor or number.
        logits: its log odds, instead.

    Raises:
        ValueError: both are given, or none.
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    _parameter_dims = {"total_count": 0, "probs": 0, "logits": 0}  # noqa: RUF012

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        shape = self._set_counted_odds(total_count, probs, logits)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Binomial, _instance)
        new._by_probs = self._by_probs
        return super().expand(batch_shape, new)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return minimum(floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(*shape), self.probs.expand(*shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = self.total_count
        choices = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        return choices + value * self.logits + count * logsigmoid(-self.logits)

    def _only_count(self, asked: str) -> int:
        """The number of trials where all have the same.

        Raises:
            NotImplementedError: they differ.
        """
        count = int(self.total_count.max())
        if int(self.total_count.min()) != count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return count

    def entropy(self) -> Any:
        self._only_count("entropy")
        found = self.log_prob(self.enumerate_support(False))
        return -(found.exp() * found).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        count = self._only_count("enumerate_support")
        values = arange(count + 1, dtype=self._param.dtype, device=self._param.device)
        values = values.view(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


__all__ = ["Binomial"]
