"""The relaxed categorical distribution, and that of its logarithms.

Sources: C. Maddison et al., arXiv:1611.00712; E. Jang et al., arXiv:1611.01144.
"""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.categorical import Categorical, OfCategorical
from dynajit.distributions.relaxed import Relaxed
from dynajit.distributions.transforms import ExpTransform
from dynajit.distributions.utils import clamp_probs
from dynajit.ops.functions import log, log_softmax, rand


class ExpRelaxedCategorical(OfCategorical):
    """Logarithms of relaxed one-hot vectors.

    Args:
        temperature: tensor; near 0 the vectors are near one-hot ones.
        probs, logits: as of `Categorical`.

    Raises:
        ValueError: both are given, or none.
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(probs, logits, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        new.temperature = self.temperature
        return super().expand(batch_shape, new)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        drawn = clamp_probs(
            rand(
                self._extended_shape(sample_shape),
                dtype=self.logits.dtype,
                device=self.logits.device,
            )
        )
        scores = (self.logits - log(-log(drawn))) / self.temperature
        return log_softmax(scores, dim=-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        size = self._event_shape[0]
        scores = log_softmax(self.logits - value * self.temperature, dim=-1)
        return scores.sum(-1) + math.lgamma(size) + (size - 1) * log(self.temperature)


class RelaxedOneHotCategorical(Relaxed):
    """Vectors of probabilities that stand for one-hot vectors and have gradients.

    Args:
        temperature, probs, logits: as of `ExpRelaxedCategorical`.

    Raises:
        ValueError: both probs and logits are given, or none.
    """

    arg_constraints = Categorical.arg_constraints
    support = constraints.simplex

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, new)


__all__ = ["ExpRelaxedCategorical", "RelaxedOneHotCategorical"]
