"""The half-Cauchy distribution."""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.distributions.cauchy import Cauchy
from dynajit.distributions.halves import Half
from dynajit.ops.functions import full


class HalfCauchy(Half):
    """The absolute value of a Cauchy value with median 0; its mean is infinite.

    Args:
        scale: its scale, positive; tensor or number.
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(HalfCauchy, _instance))

    @property
    def mean(self) -> Any:
        return full(
            self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device
        )

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


__all__ = ["HalfCauchy"]
