"""Matrices of small normal distributions: Cholesky factors and triangular systems.

Contract: composed of library functions, one step per row, so that they compile and have gradients
of any order; batches broadcast.
"""

from typing import Any

from dynajit.ops.functions import eye, stack
from dynajit.ops.functions.networks.nn import pad


def cholesky(matrix: Any) -> Any:
    """The lower triangular factor of positive definite matrices, shape (..., n, n); NaN where a
    matrix is not positive definite."""
    # Both triangles count alike, so that the gradient is symmetric, as PyTorch's.
    rest, columns = (matrix + matrix.mT) / 2, []
    for position in range(matrix.shape[-1]):
        column = rest[..., 0] / rest[..., 0, 0].sqrt().unsqueeze(-1)
        columns.append(pad(column, (position, 0)))
        below = column[..., 1:]
        rest = rest[..., 1:, 1:] - below.unsqueeze(-1) * below.unsqueeze(-2)
    return stack(columns, -1)


def solve_lower(factor: Any, right: Any) -> Any:
    """x with factor @ x == right: shapes (..., n, n) and (..., n), factor lower triangular."""
    rest, found = right, []
    for position in range(factor.shape[-1]):
        value = rest[..., 0] / factor[..., position, position]
        found.append(value)
        rest = rest[..., 1:] - factor[..., position + 1 :, position] * value.unsqueeze(-1)
    return stack(found, -1)


def inverse_of_lower(factor: Any) -> Any:
    """The inverse of lower triangular matrices, shape (..., n, n)."""
    unit = eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return solve_lower(factor.unsqueeze(-3), unit).mT


def matrix_times(matrix: Any, vector: Any) -> Any:
    """matrix @ vector, of shapes (..., n, n) and (..., n), broadcast."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)
