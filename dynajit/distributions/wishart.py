"""The Wishart distribution of covariances."""

import math
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.covariances import (
    MSG_ONE_MATRIX,
    OfCovariance,
    factor_of,
    given_matrix,
)
from dynajit.distributions.distribution import ExponentialFamily
from dynajit.distributions.gamma import Chi2
from dynajit.distributions.matrices import inverse_of_lower
from dynajit.ops import functions as f
from dynajit.ops.calls.contents import occurs
from dynajit.ops.functions.elements.special import multigammaln
from dynajit.ops.functions.matrices.linalg import slogdet
from dynajit.ops.table.dispatch import is_recording


class Wishart(OfCovariance, ExponentialFamily):
    """Sums of `df` outer products of normal vectors with themselves.

    Args:
        df: degrees of freedom, above n - 1; tensor or number.
        covariance_matrix, precision_matrix, scale_tril: exactly one, shape (..., n, n): the
            vectors' covariance, its inverse, or its lower Cholesky factor.

    Raises:
        AssertionError: not exactly one of the matrices.
        ValueError: too few degrees of freedom, or a matrix that is not positive definite.
    """

    support = constraints.positive_definite
    has_rsample = True
    _parameter_dims = {  # noqa: RUF012
        "df": 0,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        if given is None:
            raise AssertionError(MSG_ONE_MATRIX)
        name, matrix = given
        if len(matrix.shape) < 2:
            raise InvalidValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                f"dimensions; {name} has shape {tuple(matrix.shape)}"
            )
        batch, event = tuple(matrix.shape[:-2]), tuple(matrix.shape[-2:])
        if isinstance(df, Number):
            self.df = f.full((), df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch = tuple(f.broadcast_shapes(batch, tuple(df.shape)))
            self.df = df.expand(*batch)
        self._check_freedom(df, event[-1])
        setattr(self, name, matrix.expand(*batch, *event))
        super().__init__(batch, event, validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _check_freedom(self, df: Any, size: int) -> None:
        if occurs(self.df <= size - 1):
            raise InvalidValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}."
            )
        if not is_recording() and bool((self.df < size).any()):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=3,
            )

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Wishart, _instance))

    def _freedom(self) -> Any:
        """Degrees of freedom, to multiply matrices with."""
        return self.df.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Any:
        return self._freedom() * self.covariance_matrix

    @property
    def mode(self) -> Any:
        above = self._freedom() - self._event_shape[-1] - 1
        return f.where(above <= 0, math.nan, above) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._freedom() * (matrix.pow(2) + outer)

    def _draw(self, sample_shape: Sequence[int]) -> Any:
        """Source: M. S. Bartlett's decomposition: the factor of a draw for a unit covariance has
        roots of chi-squared values on the diagonal, and normal ones below."""
        kind, size = self._unbroadcasted_scale_tril.dtype, self._event_shape[-1]
        place = self._unbroadcasted_scale_tril.device
        freedom = f.broadcast_to(self.df, self._batch_shape).unsqueeze(-1)
        squares = Chi2(freedom - f.arange(size, dtype=kind, device=place), validate_args=False)
        roots = squares.rsample(sample_shape).sqrt().clamp(min=finfo(kind).eps)
        below = f.randn(self._extended_shape(sample_shape), dtype=kind, device=place).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + f.diag_embed(roots))
        return factor @ factor.mT

    def rsample(
        self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None
    ) -> Any:
        """Draws that have gradients; those that rounding made singular are drawn again, up to
        `max_try_correction` times (None: 10)."""
        found = self._draw(sample_shape)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            good = self.support.check(found)
            if bool(good.all()):
                return found
            found = f.where(good.unsqueeze(-1).unsqueeze(-1), found, self._draw(sample_shape))
        if not bool(self.support.check(found).all()):
            warnings.warn("Singular sample detected.", stacklevel=2)
        return found

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        df, size = self.df, self._event_shape[-1]
        inverse = inverse_of_lower(self._unbroadcasted_scale_tril)
        trace = ((inverse @ value) * inverse).sum((-1, -2))
        constant = df * (size * math.log(2) / 2 + self._half_log_determinant())
        power = (df - size - 1) / 2 * slogdet(value).logabsdet
        return power - trace / 2 - constant - multigammaln(df / 2, size)

    def _multivariate_digamma(self) -> Any:
        """The derivative of the multivariate log gamma function at df / 2."""
        halves = f.arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device) / 2
        return (self.df.unsqueeze(-1) / 2 - halves).digamma().sum(-1)

    def entropy(self) -> Any:
        df, size = self.df, self._event_shape[-1]
        constant = (size + 1) * (size * math.log(2) / 2 + self._half_log_determinant())
        power = (df - size - 1) / 2 * self._multivariate_digamma()
        return constant + multigammaln(df / 2, size) - power + df * size / 2


__all__ = ["Wishart"]
