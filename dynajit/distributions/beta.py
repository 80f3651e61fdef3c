"""The beta distribution."""

from collections.abc import Sequence
from numbers import Number
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.dirichlet import Dirichlet
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.utils import broadcast_all
from dynajit.ops.functions import full, stack


class Beta(ExponentialFamily):
    """Beta: the first of two probabilities of a Dirichlet.

    Args:
        concentration1, concentration0: positive; tensors or numbers.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            both = [full((), float(c)) for c in (concentration1, concentration0)]  # type: ignore[arg-type]
        else:
            both = list(broadcast_all(concentration1, concentration0))
        self._dirichlet = Dirichlet(stack(both, -1), validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        return super().expand(batch_shape, new)

    @property
    def concentration1(self) -> Any:
        """The first parameter."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        """The second parameter."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        return self._dirichlet.rsample(sample_shape)[..., 0]

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        # Only the vector's shape and range would be checked again.
        checked, self._dirichlet._validate_args = self._dirichlet._validate_args, False
        found = self._dirichlet.log_prob(stack([value, 1.0 - value], -1))
        self._dirichlet._validate_args = checked
        return found

    def entropy(self) -> Any:
        return self._dirichlet.entropy()


__all__ = ["Beta"]
