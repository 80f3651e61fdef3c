"""The negative binomial distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.gamma import Gamma
from dynajit.distributions.odds import OfOdds
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.eager.tensor.count_draws import poisson
from dynajit.ops.functions import exp, floor, where
from dynajit.ops.functions.networks.nn import logsigmoid


class NegativeBinomial(OfOdds):
    """Successes before `total_count` failures.

    Args:
        total_count: number of failures, not negative, also no whole number; tensor or number.
        probs: probability of a success, in [0, 1); tensor or number.
        logits: its log odds, instead.

    Raises:
        ValueError: both are given, or none.
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameter_dims = {"total_count": 0, "probs": 0, "logits": 0}  # noqa: RUF012

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        shape = self._set_counted_odds(total_count, probs, logits)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(NegativeBinomial, _instance)
        new._by_probs = self._by_probs
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Any:
        return self.total_count * exp(self.logits)

    @property
    def mode(self) -> Any:
        return floor((self.total_count - 1) * exp(self.logits)).clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Poisson numbers with rates drawn from a gamma distribution."""
        with no_grad():
            # No failure at all is the limit of concentrations near 0.
            shape = self.total_count.clamp(min=finfo(self.total_count.dtype).tiny)
            rates = Gamma(shape, exp(-self.logits), validate_args=False)
            return poisson(rates.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = self.total_count
        odds = count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        choices = (count + value).lgamma() - (value + 1.0).lgamma() - count.lgamma()
        # Without failures there is no success either: lgamma(0) - lgamma(0) is 0 here.
        return odds + where(count + value == 0, 0.0, choices)


__all__ = ["NegativeBinomial"]
