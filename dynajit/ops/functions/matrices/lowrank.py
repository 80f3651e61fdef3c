"""Factorizations of low rank, of matrices and by random subspaces; some eigenvalues.

Contract: `svd_lowrank` and `pca_lowrank` draw from the default generator, so their results are
approximations that a seed repeats; they are composed of rows, so they have derivatives. `lobpcg`
gives what its iterations converge to, by a whole factorization.

Source: N. Halko, P.-G. Martinsson, J. Tropp, "Finding structure with randomness", SIAM Review 53
(2011), algorithms 4.4 and 5.1.
"""

from typing import TYPE_CHECKING, Any

from dynajit.core.errors import InvalidValueError, ShapeError, UnsupportedError
from dynajit.ops.calls.arguments import with_integers
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.functions.creation.creation import randn
from dynajit.ops.functions.matrices.linalg import SVD as Factors
from dynajit.ops.functions.matrices.linalg import cholesky, eigh, qr, solve_triangular, svd
from dynajit.ops.functions.matrices.matrix import matmul
from dynajit.ops.functions.reductions.reduction import mean
from dynajit.ops.functions.shapes.shape import flip, sliced, transpose
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


@autocast(cpu=Autocast.FULL)
@with_integers
def svd_lowrank(
    A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None
) -> tuple[Any, Any, Any]:
    """U, S and V with U diag(S) V^H near A - M.

    Args:
        A: matrices, shape (*, m, n).
        q: how many columns to try; at most min(m, n) come back.
        niter: how often the subspace is improved.
        M: subtracted from A, broadcast to its shape; None: nothing.
    """
    if M is not None:
        A = TABLE.sub(A, M)
    m, n = A.shape[-2:]
    if m < n:
        v, s, u = _tall(_adjoint(A), q, niter)
        return u, s, v
    return _tall(A, q, niter)


def _tall(A: Any, q: int | None, niter: int | None) -> tuple[Any, Any, Any]:
    start = randn(A.shape[-1], 6 if q is None else q, dtype=A.dtype, device=A.device)
    basis = qr(matmul(A, start)).Q
    for _ in range(2 if niter is None else niter):
        basis = qr(matmul(_adjoint(A), basis)).Q
        basis = qr(matmul(A, basis)).Q
    found: Factors = svd(matmul(_adjoint(basis), A), full_matrices=False)
    return matmul(basis, found.U), found.S, _adjoint(found.Vh)


@with_integers
def pca_lowrank(
    A: Any, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Any, Any, Any]:
    """U, S and V of `svd_lowrank`, of the matrices with columns of mean 0: principal components.

    Args:
        A: matrices, shape (*, m, n).
        q: how many columns to try; by default 6, or the smaller of m and n.
        center: subtract the means; else they are 0 already.
        niter: how often the subspace is improved.

    Raises:
        InvalidValueError: q is negative or beyond the sizes, or niter is negative.
    """
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise InvalidValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise InvalidValueError(f"niter(={niter}) must be non-negative integer")
    centred = TABLE.sub(A, mean(A, -2, keepdim=True)) if center else A
    return svd_lowrank(centred, q, niter)


@autocast(cpu=Autocast.FULL)
@with_integers
def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Any, Any]:
    """The k largest (`largest=False`: smallest) eigenvalues of A x = e B x, and eigenvectors.

    Args:
        A: symmetric matrices, shape (*, m, m).
        k: how many; by default as many as `X` has columns, or 1.
        B: symmetric positive-definite matrices of A's shape, or None for the identity.
        X: a first approximation, of which the number of columns counts.
        tracker: None.
        others: accepted; they say how iterations would go.

    Returns:
        Eigenvalues, shape (*, k), the largest (smallest) first, and eigenvectors, (*, m, k), with
        X^T B X = I.

    Raises:
        ShapeError: m is less than 3 k, as in PyTorch.
        UnsupportedError: `tracker` is given.
    """
    if tracker is not None:
        raise UnsupportedError("lobpcg(tracker=...): there are no iterations.  Expected None.")
    m = A.shape[-1]
    count = k if k is not None else 1 if X is None else X.shape[-1]
    if m < 3 * count:
        raise ShapeError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than "
            f"3 x the number of requested eigenpairs (={count})"
        )
    if B is None:
        values, vectors = eigh(A)
    else:
        factor = cholesky(B)
        half = solve_triangular(factor, A, upper=False)
        values, turned = eigh(solve_triangular(factor, _adjoint(half), upper=False))
        vectors = solve_triangular(_adjoint(factor), turned, upper=True)
    if largest is None or largest:
        values, vectors = flip(values, -1), flip(vectors, -1)
    return (
        sliced(values, len(values.shape) - 1, 0, count),
        sliced(vectors, len(vectors.shape) - 1, 0, count),
    )


def _adjoint(x: "TensorMethods") -> Any:
    turned = transpose(x, -2, -1)
    return TABLE.conj(turned) if x.dtype.is_complex else turned
