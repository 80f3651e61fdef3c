"""The half-normal distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions.halves import Half
from dynajit.distributions.normal import Normal


class HalfNormal(Half):
    """The absolute value of a normal value with mean 0.

    Args:
        scale: its standard deviation, positive; tensor or number.
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfNormal, _instance))

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)


__all__ = ["HalfNormal"]
