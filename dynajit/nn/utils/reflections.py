"""Householder reflections: an orthogonal matrix as their product, and a matrix as reflections.

Contract: reflection i is `I - t[i] v v^T` with v zero above row i, 1 in row i, and below it what
column i of the vectors has there, as LAPACK keeps them.

Source: G. Golub, C. Van Loan, Matrix Computations, chapter 5.1.
"""

from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions import eye, sqrt, stack, where, zeros_like


def _vector(vectors: Tensor, column: int, unit: Tensor) -> Tensor:
    below = vectors[..., column].unsqueeze(-1).tril(-column - 1)
    return below + unit[:, column : column + 1]


def product_of_reflections(vectors: Tensor, factors: Tensor) -> Tensor:
    """The first columns of the product of all reflections.

    Args:
        vectors: (..., n, k) with n >= k, read below the diagonal.
        factors: (..., k).

    Returns:
        (..., n, k).
    """
    rows, columns = vectors.shape[-2], vectors.shape[-1]
    unit = eye(rows, columns, dtype=vectors.dtype, device=vectors.device)
    product = unit
    for column in reversed(range(columns)):
        vector = _vector(vectors, column, unit)
        factor = factors[..., column, None, None]
        product = product - factor * (vector @ (vector.mT @ product))
    return product


def reflections_of(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """The reflections that make a (..., n, k) matrix upper triangular, n >= k.

    Returns:
        (..., n, k): the triangle, and below it the vectors; and the factors, (..., k).
    """
    rows, columns = matrix.shape[-2], matrix.shape[-1]
    unit = eye(rows, columns, dtype=matrix.dtype, device=matrix.device)
    rest, kept, factors = matrix, zeros_like(matrix), []
    for column in range(columns):
        head = rest[..., column, column]
        tail = rest[..., column].unsqueeze(-1).tril(-column - 1)
        squares = (tail * tail).sum((-2, -1))
        length = sqrt(head * head + squares)
        triangular = where(head >= 0, -length, length)
        none = squares == 0
        safe = where(none, head * 0 + 1, head - triangular)
        factor = where(none, head * 0, (triangular - head) / where(none, head * 0 + 1, triangular))
        below = tail / safe[..., None, None]
        vector = below + unit[:, column : column + 1]
        rest = rest - factor[..., None, None] * (vector @ (vector.mT @ rest))
        kept = kept + below @ unit[:columns, column : column + 1].mT
        factors.append(factor)
    return rest.triu() + kept, stack(factors, -1)
