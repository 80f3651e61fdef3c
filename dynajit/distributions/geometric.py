"""The geometric distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.odds import OfOdds
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.nn.functional import binary_cross_entropy_with_logits
from dynajit.ops import functions as f
from dynajit.ops.calls.contents import holds


class Geometric(OfOdds):
    """Failures before the first success.

    Args:
        probs: probability of a success, in (0, 1]; tensor or number.
        logits: its log odds, instead.

    Raises:
        ValueError: both are given, or none; a probability is 0.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_odds(probs, logits), validate_args=validate_args)
        if self._validate_args and self._by_probs:
            self._refuse_impossible_success()

    def _refuse_impossible_success(self) -> None:
        if not holds(self.probs > 0):
            raise InvalidValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive but found invalid values:\n{self.probs}"
            )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Geometric, _instance)
        new._by_probs = self._by_probs
        return super().expand(batch_shape, new)

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return f.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            kind = self.probs.dtype
            # A uniform number of 0 stands for those up to one step of eps / 2.
            shape = self._extended_shape(sample_shape)
            drawn = f.rand(shape, dtype=kind, device=self.probs.device)
            return f.floor(f.log(drawn.clamp(min=finfo(kind).eps / 4)) / f.log1p(-self.probs))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        # Where success is certain, no failure costs 0 * log(0) = 0.
        chance = f.where((self.probs == 1) & (value == 0), 0.0, self.probs)
        return value * f.log1p(-chance) + f.log(self.probs)

    def entropy(self) -> Any:
        one = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return one / self.probs


__all__ = ["Geometric"]
