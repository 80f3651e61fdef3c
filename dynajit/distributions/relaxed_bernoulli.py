"""The relaxed Bernoulli distribution, and that of its log odds.

Sources: C. Maddison et al., arXiv:1611.00712; E. Jang et al., arXiv:1611.01144.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.odds import OfOdds
from dynajit.distributions.relaxed import Relaxed
from dynajit.distributions.transforms import SigmoidTransform
from dynajit.distributions.utils import clamp_probs
from dynajit.ops.functions import log, log1p, rand
from dynajit.ops.functions.networks.nn import softplus


class LogitRelaxedBernoulli(OfOdds):
    """Log odds of relaxed Bernoulli values.

    Args:
        temperature: tensor; near 0 the values are near 0 and 1.
        probs: probability of 1; tensor or number.
        logits: its log odds, instead.

    Raises:
        ValueError: both are given, or none.
    """

    support = constraints.real

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._set_odds(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(LogitRelaxedBernoulli, _instance)
        new.temperature, new._by_probs = self.temperature, self._by_probs
        return super().expand(batch_shape, new)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(*shape))
        drawn = clamp_probs(rand(shape, dtype=probs.dtype, device=probs.device))
        odds = log(drawn) - log1p(-drawn) + log(probs) - log1p(-probs)
        return odds / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        difference = self.logits - value * self.temperature
        return log(self.temperature) + difference - 2 * softplus(difference)


class RelaxedBernoulli(Relaxed):
    """Values in (0, 1) that stand for 0 and 1 and have gradients.

    Args:
        temperature, probs, logits: as of `LogitRelaxedBernoulli`.

    Raises:
        ValueError: both probs and logits are given, or none.
    """

    arg_constraints = OfOdds.arg_constraints
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedBernoulli, _instance)
        return super().expand(batch_shape, new)


__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]
