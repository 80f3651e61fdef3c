"""Distributions of a covariance: what those share that take it, its inverse or its factor.

Contract: one of the three matrices is given; the others are computed when they are first read, from
`_unbroadcasted_scale_tril`.
"""

from typing import Any, Final

from dynajit.distributions.distribution import Distribution
from dynajit.distributions.matrices import cholesky, inverse_of_lower
from dynajit.distributions.utils import lazy_property
from dynajit.ops.functions import log


class OfCovariance(Distribution):
    """Base class; the last dim of an event has the size of the matrices."""

    _unbroadcasted_scale_tril: Any

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        return self._unbroadcasted_scale_tril.expand(*self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return (factor @ factor.mT).expand(*self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        inverse = inverse_of_lower(self._unbroadcasted_scale_tril)
        return (inverse.mT @ inverse).expand(*self._matrix_shape())

    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, self._event_shape[-1], self._event_shape[-1])

    def _half_log_determinant(self) -> Any:
        return log(self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1)).sum(-1)


def given_matrix(
    covariance_matrix: Any, precision_matrix: Any, scale_tril: Any
) -> tuple[str, Any] | None:
    """The name and the value of the one matrix that is given; None if it is not exactly one."""
    matrices = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
    return given[0] if len(given) == 1 else None


MSG_ONE_MATRIX: Final = (
    "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
)


def factor_of(name: str, matrix: Any) -> Any:
    """The lower Cholesky factor of the covariance, from the matrix that was given."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return cholesky(matrix)
    # With P = U U' (U upper, from the matrix read backwards) the factor is the inverse of U'.
    upper = cholesky(matrix.flip((-2, -1))).flip((-2, -1))
    return inverse_of_lower(upper.mT)


__all__ = ["MSG_ONE_MATRIX", "OfCovariance", "factor_of", "given_matrix"]
