"""The normal distribution of vectors whose covariance is a diagonal and a few columns.

Contract: nothing of the size of the covariance is computed unless it is asked for: systems have
the size of the number of columns.

Source: M. A. Woodbury's identity and the determinant lemma, for W W' + D.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError, ShapeError
from dynajit.distributions import constraints
from dynajit.distributions.distribution import Distribution
from dynajit.distributions.matrices import cholesky, matrix_times, solve_lower
from dynajit.distributions.normal import HALF_LOG_2_PI
from dynajit.distributions.utils import lazy_property
from dynajit.ops.functions import broadcast_tensors, diag_embed, eye, log, randn


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with covariance W @ W' + diag(D).

    Args:
        loc: mean, shape (..., n).
        cov_factor: W, shape (..., n, rank).
        cov_diag: D, positive, shape (..., n).

    Raises:
        ValueError: sizes that do not fit.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameter_dims = {  # noqa: RUF012
        "loc": 1,
        "cov_factor": 2,
        "cov_diag": 1,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
    }

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        _check_sizes(tuple(loc.shape), tuple(cov_factor.shape), tuple(cov_diag.shape))
        try:
            column, self.cov_factor, diagonal = broadcast_tensors(
                loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1)
            )
        except ShapeError as error:
            raise InvalidValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = column[..., 0], diagonal[..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        unit = eye(cov_factor.shape[-1], dtype=cov_factor.dtype, device=cov_factor.device)
        self._capacitance_tril = cholesky(unit + self._scaled_rows() @ cov_factor)
        shape = tuple(self.loc.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        for name in ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"):
            setattr(new, name, getattr(self, name))
        return super().expand(batch_shape, new)

    def _scaled_rows(self) -> Any:
        """W' inv(D)."""
        return self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)

    def _matrix_shape(self) -> tuple[int, ...]:
        return (*self._batch_shape, *self._event_shape, *self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower Cholesky factor of the covariance."""
        # inv(sqrt(D)) W W' inv(sqrt(D)) + 1 has no eigenvalue below 1.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        rows = self._unbroadcasted_cov_factor / root
        unit = eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return (root * cholesky(unit + rows @ rows.mT)).expand(*self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        found = factor @ factor.mT + diag_embed(self._unbroadcasted_cov_diag)
        return found.expand(*self._matrix_shape())

    def _solved_rows(self) -> Any:
        """inv(C) W' inv(D) with the factor C of the small system, shape (..., rank, n)."""
        return solve_lower(self._capacitance_tril.unsqueeze(-3), self._scaled_rows().mT).mT

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        rows = self._solved_rows()
        found = diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - rows.mT @ rows
        return found.expand(*self._matrix_shape())

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        found = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return found.expand(*self._batch_shape, *self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        shape = self._extended_shape(sample_shape)
        rank = self._unbroadcasted_cov_factor.shape[-1]
        common = randn((*shape[:-1], rank), dtype=self.loc.dtype, device=self.loc.device)
        own = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        spread = matrix_times(self._unbroadcasted_cov_factor, common)
        return self.loc + spread + self._unbroadcasted_cov_diag.sqrt() * own

    def _half_log_determinant(self) -> Any:
        pivots = log(self._capacitance_tril.diagonal(dim1=-2, dim2=-1)).sum(-1)
        return pivots + 0.5 * log(self._unbroadcasted_cov_diag).sum(-1)

    def _squared_distance(self, difference: Any) -> Any:
        """x' inv(covariance) x of vectors of shape (..., n)."""
        inside = solve_lower(self._capacitance_tril, matrix_times(self._scaled_rows(), difference))
        whole = (difference.pow(2) / self._unbroadcasted_cov_diag).sum(-1)
        return whole - inside.pow(2).sum(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        constant = self._event_shape[0] * HALF_LOG_2_PI
        distance = self._squared_distance(value - self.loc)
        return -0.5 * distance - self._half_log_determinant() - constant

    def entropy(self) -> Any:
        constant = self._event_shape[0] * (0.5 + HALF_LOG_2_PI)
        return (self._half_log_determinant() + constant).expand(*self._batch_shape)


def _check_sizes(loc: Sequence[int], factor: Sequence[int], diagonal: Sequence[int]) -> None:
    if len(loc) < 1:
        raise InvalidValueError("loc must be at least one-dimensional.")
    if len(factor) < 2:
        raise InvalidValueError(
            "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
        )
    if factor[-2] != loc[-1]:
        raise InvalidValueError(
            f"cov_factor must be a batch of matrices with shape {loc[-1]} x m, not "
            f"{factor[-2]} x {factor[-1]}"
        )
    if tuple(diagonal[-1:]) != tuple(loc[-1:]):
        raise InvalidValueError(f"cov_diag must be a batch of vectors with shape ({loc[-1]},)")


__all__ = ["LowRankMultivariateNormal"]
