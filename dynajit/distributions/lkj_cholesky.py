"""The LKJ distribution of the Cholesky factors of correlations.

Source: D. Lewandowski, D. Kurowicka and H. Joe, Journal of Multivariate Analysis 100 (2009): the
onion method of section 3.2, and the constant of page 1999.
"""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.beta import Beta
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.utils import broadcast_all
from dynajit.eager.modes.grad_mode import no_grad
from dynajit.ops.functions import arange, diag_embed, log, randn, where
from dynajit.ops.functions.elements.special import multigammaln


class LKJCholesky(Distribution):
    """Factors of correlations, whose density is proportional to det ** (concentration - 1).

    Args:
        dim: size of the matrices, at least 2.
        concentration: positive; at 1 all correlations are alike; tensor or number.

    Raises:
        ValueError: a smaller size.
    """

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support = constraints.corr_cholesky
    _parameter_dims = {"concentration": 0}  # noqa: RUF012

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise InvalidValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(LKJCholesky, _instance)
        new.dim = self.dim
        return super().expand(batch_shape, new)

    def _squared_lengths(self) -> Any:
        """The distribution of the squared length of each row left of the diagonal."""
        shape = self.concentration
        rows = arange(self.dim, dtype=shape.dtype, device=shape.device)
        offset = (rows - 1).clamp(min=0)
        above = shape.unsqueeze(-1) + 0.5 * (self.dim - 2 - offset)
        return Beta(offset + 0.5, above, validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        with no_grad():
            squares = self._squared_lengths().sample(sample_shape)
            shape = self._extended_shape(sample_shape)
            noise = randn(shape, dtype=squares.dtype, device=squares.device).tril(-1)
            length = noise.pow(2).sum(-1, True).sqrt()
            # The first row has nothing left of the diagonal.
            rows = squares.sqrt().unsqueeze(-1) * noise / where(length == 0, 1.0, length)
            rest = (1 - rows.pow(2).sum(-1)).clamp(min=finfo(rows.dtype).tiny)
            return rows + diag_embed(rest.sqrt())

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        size, shape = self.dim - 1, self.concentration
        rows = arange(2, self.dim + 1, dtype=shape.dtype, device=shape.device)
        powers = 2 * (shape - 1).unsqueeze(-1) + self.dim - rows
        found = (powers * log(value.diagonal(dim1=-2, dim2=-1)[..., 1:])).sum(-1)
        alpha = shape + 0.5 * size
        constant = 0.5 * size * math.log(math.pi) + multigammaln(alpha - 0.5, size)
        return found - constant + alpha.lgamma() * size


__all__ = ["LKJCholesky"]
