"""The Weibull distribution."""

from collections.abc import Sequence
from typing import Any

from dynajit.distributions import constraints
from dynajit.distributions.exponential import Exponential
from dynajit.distributions.transformed_distribution import TransformedDistribution
from dynajit.distributions.transforms import AffineTransform, PowerTransform
from dynajit.distributions.utils import broadcast_all, euler_constant
from dynajit.ops.functions import exp, log, ones_like


class Weibull(TransformedDistribution):
    """A power of an exponential value, times a scale.

    Args:
        scale: positive; tensor or number.
        concentration: 1 / the power, positive.
    """

    arg_constraints = {  # noqa: RUF012
        "scale": constraints.positive,
        "concentration": constraints.positive,
    }
    support = constraints.positive
    _parameter_dims = {  # noqa: RUF012
        "scale": 0,
        "concentration": 0,
        "concentration_reciprocal": 0,
    }

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ones_like(self.scale), validate_args=validate_args)
        power = PowerTransform(self.concentration_reciprocal)
        transforms = [power, AffineTransform(0, self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Weibull, _instance))

    @property
    def mean(self) -> Any:
        return self.scale * exp((1 + self.concentration_reciprocal).lgamma())

    @property
    def mode(self) -> Any:
        power = self.concentration_reciprocal
        return self.scale * ((self.concentration - 1) / self.concentration) ** power

    @property
    def variance(self) -> Any:
        power = self.concentration_reciprocal
        squares = exp((1 + 2 * power).lgamma()) - exp(2 * (1 + power).lgamma())
        return self.scale.pow(2) * squares

    def entropy(self) -> Any:
        power = self.concentration_reciprocal
        return euler_constant * (1 - power) + log(self.scale * power) + 1


__all__ = ["Weibull"]
