"""Transforms onto matrices: triangular factors, positive definite ones, factors of correlations.

Contract: as `transform_base`. `transforms` publishes them.
"""

import math
from collections.abc import Sequence
from typing import Any

from dynajit.core.errors import InvalidValueError
from dynajit.core.types.type_info import finfo
from dynajit.distributions import constraints
from dynajit.distributions.transform_base import Transform
from dynajit.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from dynajit.ops.functions import eye, log, tanh
from dynajit.ops.functions.matrices.linalg import cholesky
from dynajit.ops.functions.networks.nn import pad, softplus


class LowerCholeskyTransform(Transform):
    """Matrices as lower triangular ones with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Any) -> Any:
        return x.tril(-1) + _on_diagonal(x.diagonal(dim1=-2, dim2=-1).exp())

    def _inverse(self, y: Any) -> Any:
        return y.tril(-1) + _on_diagonal(y.diagonal(dim1=-2, dim2=-1).log())


def _on_diagonal(values: Any) -> Any:
    return eye(values.shape[-1], dtype=values.dtype, device=values.device) * values.unsqueeze(-1)


class PositiveDefiniteTransform(Transform):
    """Matrices as positive definite ones, by their lower triangles."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Any) -> Any:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Any) -> Any:
        return LowerCholeskyTransform().inv(cholesky(y))


class CorrCholeskyTransform(Transform):
    """n * (n - 1) / 2 numbers as the lower Cholesky factor of a correlation matrix of size n.

    Their hyperbolic tangents say, row by row, how much of the rest of a length of 1 is taken.

    Source: Stan reference manual, "Cholesky factors of correlation matrices".
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Any) -> Any:
        limit = 1 - finfo(x.dtype).eps
        part = vec_to_tril_matrix(tanh(x).clamp(min=-limit, max=limit), diag=-1)
        rest = (1 - part.pow(2)).sqrt().cumprod(-1)
        unit = eye(part.shape[-1], dtype=part.dtype, device=part.device)
        return (part + unit) * pad(rest[..., :-1], (1, 0), value=1)

    def _inverse(self, y: Any) -> Any:
        rest = pad((1 - y.pow(2).cumsum(-1))[..., :-1], (1, 0), value=1)
        part = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(rest, diag=-1).sqrt()
        return part.atanh()

    def log_abs_det_jacobian(self, x: Any, y: Any, intermediates: Any = None) -> Any:
        """Of x and the elements below the diagonal of y; `intermediates` has no effect."""
        rest = tril_matrix_to_vec(1 - y.pow(2).cumsum(-1), diag=-2)
        turned = x + softplus(-2.0 * x) - math.log(2.0)
        return 0.5 * log(rest).sum(-1) - 2.0 * turned.sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 1:
            raise InvalidValueError("Too few dimensions on input: expected (..., n)")
        size = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != shape[-1]:
            raise InvalidValueError(
                f"Input is not a flattened lower-diagonal number: {shape[-1]} is no n * (n - 1) / 2"
            )
        return (*shape[:-1], size, size)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        if len(shape) < 2:
            raise InvalidValueError("Too few dimensions on input: expected (..., n, n)")
        if shape[-2] != shape[-1]:
            raise InvalidValueError(f"Input is not square: {shape[-2]} rows, {shape[-1]} columns")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)
