"""The normal distribution of vectors."""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.distributions import constraints
from dynajit.distributions.covariances import (
    MSG_ONE_MATRIX,
    OfCovariance,
    factor_of,
    given_matrix,
)
from dynajit.distributions.distribution import Distribution  # noqa: F401  (programs look here)
from dynajit.distributions.matrices import matrix_times, solve_lower
from dynajit.distributions.normal import HALF_LOG_2_PI
from dynajit.ops.functions import broadcast_tensors, randn


class MultivariateNormal(OfCovariance):
    """Normal vectors.

    Args:
        loc: mean, shape (..., n).
        covariance_matrix, precision_matrix, scale_tril: exactly one, shape (..., n, n): the
            covariance, its inverse, or its lower Cholesky factor.

    Raises:
        ValueError: not exactly one of the matrices, sizes that do not fit, or a matrix that is not
            positive definite.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameter_dims = {  # noqa: RUF012
        "loc": 1,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
        "_unbroadcasted_scale_tril": 2,
    }

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if len(loc.shape) < 1:
            raise InvalidValueError("loc must be at least one-dimensional.")
        given = given_matrix(covariance_matrix, precision_matrix, scale_tril)
        if given is None:
            raise InvalidValueError(MSG_ONE_MATRIX)
        name, matrix = given
        if len(matrix.shape) < 2:
            raise InvalidValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        columns, spread = broadcast_tensors(loc.unsqueeze(-1), matrix)
        self.loc = columns[..., 0]
        setattr(self, name, spread)
        shape = tuple(self.loc.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        noise = randn(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + matrix_times(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = solve_lower(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * HALF_LOG_2_PI
        return -0.5 * distance.pow(2).sum(-1) - self._half_log_determinant() - constant

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (0.5 + HALF_LOG_2_PI)
        return (self._half_log_determinant() + constant).expand(*self._batch_shape)


__all__ = ["MultivariateNormal"]
