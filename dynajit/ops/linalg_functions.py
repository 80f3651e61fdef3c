"""`dynajit.linalg`: solutions and factorizations of (batches of) matrices.

Contract: the last two dims are matrices, the dims before them batches. Factorizations take apart
what the rows of `factorizations` give. Complex results (`eig`, `eigvals`) are refused by name.
"""

from typing import Any, NamedTuple

import numpy as np

from dynajit.core import any_arrays, dtypes
from dynajit.core.errors import ArgumentError, LinAlgError, ShapeError, UnsupportedError
from dynajit.core.types import numel
from dynajit.ops.arguments import cast, constant, is_tensor
from dynajit.ops.autocast import full_precision
from dynajit.ops.creation_functions import eye
from dynajit.ops.factorizations import part
from dynajit.ops.matrix_functions import matmul
from dynajit.ops.shape_functions import diagonal as diagonal_of
from dynajit.ops.shape_functions import movedim, reshape, sliced, transpose, unsqueeze
from dynajit.ops.table import TABLE


class QR(NamedTuple):
    """Result of `qr`."""

    Q: Any
    R: Any


class SVD(NamedTuple):
    """Result of `svd`."""

    U: Any
    S: Any
    Vh: Any


class Eigen(NamedTuple):
    """Result of `eigh`."""

    eigenvalues: Any
    eigenvectors: Any


class SignLogDet(NamedTuple):
    """Result of `slogdet`."""

    sign: Any
    logabsdet: Any


class LU(NamedTuple):
    """Result of `lu_factor`: both triangles in one matrix, and pivots counted from 1."""

    LU: Any
    pivots: Any


class PLU(NamedTuple):
    """Result of `lu`."""

    P: Any
    L: Any
    U: Any


class LeastSquares(NamedTuple):
    """Result of `lstsq`."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


class LUInfo(NamedTuple):
    """Result of `lu_factor_ex`: info is 0 where no pivot is 0."""

    LU: Any
    pivots: Any
    info: Any


class CholeskyInfo(NamedTuple):
    """Result of `cholesky_ex`: info is 0 where the method succeeded."""

    L: Any
    info: Any


class InverseInfo(NamedTuple):
    """Result of `inv_ex`: info is 0 where the method succeeded."""

    inverse: Any
    info: Any


def matrix_power(A: Any, n: int) -> Any:
    """A multiplied with itself n times; with a negative n its inverse."""
    if len(A.shape) < 2 or A.shape[-1] != A.shape[-2]:
        raise ShapeError(
            "linalg.matrix_power: A must be batches of square matrices, but they are "
            f"{list(A.shape)}"
        )
    if n == 0:
        unit = eye(A.shape[-1], dtype=A.dtype, device=A.device)
        return TABLE.clone(TABLE.expand(unit, shape=tuple(A.shape)))
    base, power, result = inv(A) if n < 0 else A, abs(n), None
    while power:
        if power & 1:
            result = base if result is None else matmul(result, base)
        power >>= 1
        base = matmul(base, base) if power else base
    return TABLE.clone(A) if n == 1 else result


def matrix_exp(A: Any) -> Any:
    """Exponential of square matrices."""
    return TABLE.matrix_exponential(A)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A diagonal of the last two dims, as the last dim."""
    return diagonal_of(A, offset, dim1, dim2)


# ---------------------------------------------------------------------------------------------
# inverses and solutions


@full_precision
def inv(A: Any) -> Any:
    """Inverse of square matrices.

    Raises:
        LinAlgError: a matrix is singular.
    """
    return TABLE.inverse(A)


def _no_errors(A: Any) -> Any:
    return TABLE.full(0, shape=tuple(A.shape[:-2]), dtype=dtypes.int32, device=A.device)


@full_precision
def inv_ex(A: Any, *, check_errors: bool = False) -> InverseInfo:
    """(inverse, info): per matrix 0, or the number of the first pivot that is 0, where the inverse
    is NaN. In a graph such a matrix raises.

    Raises:
        LinAlgError: a matrix is singular, and `check_errors`.
    """
    try:
        return InverseInfo(inv(A), _no_errors(A))
    except LinAlgError:
        if check_errors:
            raise
    info = constant(_per_matrix(_zero_pivot, A), A.device)
    found, fails = _where_it_succeeds(inv, A, info)
    return InverseInfo(TABLE.where(fails, float("nan"), found), info)


def _where_it_succeeds(method: Any, A: Any, info: Any) -> tuple[Any, Any]:
    """(what the method gives, of unit matrices in the place of those that fail, which those are)"""
    fails = unsqueeze(unsqueeze(TABLE.gt(info, 0), -1), -1)
    unit = eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return method(TABLE.where(fails, unit, A)), fails


def _per_matrix(function: Any, A: Any) -> np.ndarray:
    """A number per matrix of a batch, int32."""
    matrices = any_arrays.as_numpy(A.array)
    found = [function(m) for m in matrices.reshape(-1, *matrices.shape[-2:])]
    return np.array(found, np.int32).reshape(matrices.shape[:-2])


def _zero_pivot(matrix: Any) -> int:
    """By elimination with partial pivoting: which pivot is 0, counted from 1; 0: none."""
    rest = np.array(matrix)
    for k in range(len(rest)):
        best = k + int(np.abs(rest[k:, k]).argmax())
        if rest[best, k] == 0:
            return k + 1
        rest[[k, best]] = rest[[best, k]]
        rest[k + 1 :] -= np.outer(rest[k + 1 :, k] / rest[k, k], rest[k])
    return 0


def _is_vector(A: Any, B: Any) -> bool:
    """Whether B is a (batch of) vectors, by PyTorch's rule."""
    return len(B.shape) == 1 or (
        len(A.shape) - 1 == len(B.shape) and tuple(B.shape) == tuple(A.shape[:-1])
    )


@full_precision
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """x with A x = B (`left=False`: x A = B); B holds matrices or vectors.

    Raises:
        LinAlgError: a matrix is singular.
        ShapeError: shapes that do not fit.
    """
    vector = _is_vector(A, B)
    if vector and not left:
        raise ShapeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    if not left:
        return transpose(TABLE.linear_solve(transpose(A, -2, -1), transpose(B, -2, -1)), -2, -1)
    if vector:
        result = TABLE.linear_solve(A, unsqueeze(B, -1))
        return reshape(result, tuple(result.shape[:-1]))
    return TABLE.linear_solve(A, B)


@full_precision
def tensorinv(input: Any, ind: int = 2) -> Any:
    """Inverse of the map from the dims behind the first `ind` to those first ones.

    Raises:
        ShapeError: `ind` is not positive, or one group of dims has more elements than the other.
    """
    shape = tuple(input.shape)
    first, rest = shape[:ind], shape[ind:]
    if ind <= 0 or numel(first) != numel(rest):
        raise ShapeError(
            f"linalg.tensorinv(ind={ind}): expected a positive ind, with as many elements in "
            f"shape[:ind] as in shape[ind:], but the shape is {list(shape)}."
        )
    return reshape(inv(reshape(input, (numel(first), numel(rest)))), (*rest, *first))


@full_precision
def tensorsolve(input: Any, other: Any, dims: Any = None) -> Any:
    """X with tensordot(input, X, X.ndim) = other; `dims` go behind the other dims first.

    Raises:
        ShapeError: input has not as many elements as the square of other's number.
    """
    if dims is not None:
        input = movedim(input, tuple(dims), tuple(range(-len(dims), 0)))
    shape, count = tuple(input.shape)[len(other.shape) :], numel(tuple(other.shape))
    if numel(shape) != count or numel(tuple(input.shape)) != count * count:
        raise ShapeError(
            f"linalg.tensorsolve: expected input to have {count * count} elements, {count} of them "
            f"in its dims behind the first {len(other.shape)}, but its shape is "
            f"{list(input.shape)}."
        )
    return reshape(solve(reshape(input, (count, count)), reshape(other, (count,))), shape)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """x with T x = B (`left=False`: x T = B), T the upper or lower triangle of A."""
    if left:
        return TABLE.triangular_solve(A, B, upper=upper, unit=unitriangular)
    turned = TABLE.triangular_solve(
        transpose(A, -2, -1), transpose(B, -2, -1), upper=not upper, unit=unitriangular
    )
    return transpose(turned, -2, -1)


def _tolerance(A: Any, rtol: Any, atol: Any, name: str) -> tuple[float, float]:
    """Relative and absolute tolerance, by PyTorch's defaults."""
    for tolerance in (rtol, atol):
        if is_tensor(tolerance):
            raise UnsupportedError(
                f"linalg.{name}: a tensor as tolerance is not available.  Give a number."
            )
    if rtol is None:
        small = 2.0**-52 if A.dtype is dtypes.float64 else 2.0**-23
        rtol = 0.0 if atol else max(A.shape[-2:]) * small
    return float(rtol), float(atol or 0.0)


def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None, atol: Any = None
) -> Any:
    """Pseudo-inverse (Moore-Penrose); small singular values count as 0."""
    relative, absolute = _tolerance(A, rcond if rtol is None else rtol, atol, "pinv")
    return TABLE.pseudo_inverse(A, rtol=relative, atol=absolute, hermitian=hermitian)


@full_precision
def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None, atol: Any = None
) -> Any:
    """Number of singular values above max(atol, rtol * the largest), int64."""
    if numel(tuple(A.shape)) == 0 and len(A.shape) > 1:
        return TABLE.full(0, shape=tuple(A.shape[:-2]), dtype=dtypes.int64, device=A.device)
    atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
    relative, absolute = _tolerance(A, rtol, atol, "matrix_rank")
    values = TABLE.abs(eigvalsh(A)) if hermitian else svdvals(A)
    last = len(values.shape) - 1
    largest = TABLE.amax(values, dim=(last,), keepdim=True)
    least = TABLE.maximum(TABLE.mul(largest, relative), absolute)
    return TABLE.sum(TABLE.gt(values, least), dim=(last,), keepdim=False)


@full_precision
def lstsq(A: Any, B: Any, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """x that makes A x - B smallest, by the pseudo-inverse, which gives the shortest x.

    Returns:
        (solution, residuals, rank, singular_values), by LAPACK's driver, which is "gelsy" where
        none is given: residuals are the squared errors per column, empty for "gelsy", or unless A
        has more rows than columns and, but for "gels", full rank; the rank is empty for "gels";
        singular values are empty unless the driver is "gelss" or "gelsd".
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise ShapeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), "
            f"got {driver}"
        )
    vector = len(A.shape) - 1 == len(B.shape)
    columns = unsqueeze(B, -1) if vector else B
    if A.shape[-2] != columns.shape[-2]:
        raise ShapeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    solution = TABLE.matmul(pinv(A, rtol=rcond), columns)
    empty = TABLE.full(0, shape=(0,), dtype=A.dtype, device=A.device)
    values, residuals = empty, empty
    if driver == "gels":
        ranks, has_residuals = cast(empty, dtypes.int64), True
    else:
        ranks, has_residuals = matrix_rank(TABLE.detach(A), rtol=rcond), False
    if driver in ("gelsd", "gelss"):
        values = svdvals(TABLE.detach(A))
        is_full = TABLE.eq(ranks, A.shape[-1])
        has_residuals = bool(TABLE.all(is_full, dim=tuple(range(len(ranks.shape))), keepdim=False))
    if has_residuals and A.shape[-2] > A.shape[-1]:
        errors = TABLE.square(TABLE.sub(TABLE.matmul(A, solution), columns))
        residuals = TABLE.sum(errors, dim=(len(errors.shape) - 2,), keepdim=False)
    shape = tuple(solution.shape[:-1]) if vector else tuple(solution.shape)
    return LeastSquares(reshape(solution, shape), residuals, ranks, values)


def det(A: Any) -> Any:
    """Determinants of square matrices."""
    return TABLE.determinant(A)


def slogdet(A: Any) -> SignLogDet:
    """(sign, logarithm of the magnitude) of determinants; 0 and -inf of singular matrices."""
    return SignLogDet(TABLE.determinant_sign(A), TABLE.log_determinant(A))


# ---------------------------------------------------------------------------------------------
# factorizations


@full_precision
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """Lower triangular L with L L^T = A (`upper=True`: its transpose).

    Raises:
        LinAlgError: a matrix is not positive-definite.
    """
    lower = TABLE.cholesky(transpose(A, -2, -1) if upper else A)
    return transpose(lower, -2, -1) if upper else lower


@full_precision
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyInfo:
    """(L, info): per matrix 0, or the order of the leading minor that is not positive-definite,
    where L is NaN. In a graph such a matrix raises.

    Raises:
        LinAlgError: a matrix is not positive-definite, and `check_errors`.
    """
    try:
        return CholeskyInfo(cholesky(A, upper=upper), _no_errors(A))
    except LinAlgError:
        if check_errors:
            raise
    info = constant(_per_matrix(_failing_order, transpose(A, -2, -1) if upper else A), A.device)
    factor, fails = _where_it_succeeds(lambda safe: cholesky(safe, upper=upper), A, info)
    return CholeskyInfo(TABLE.where(fails, float("nan"), factor), info)


def _failing_order(matrix: Any) -> int:
    """By columns of the Cholesky factor; the last order where only LAPACK's rounding fails."""
    try:
        np.linalg.cholesky(matrix)
        return 0
    except np.linalg.LinAlgError:
        n = len(matrix)
    lower = np.zeros_like(matrix)
    for k in range(n):
        row = lower[k, :k].conj()
        pivot = (matrix[k, k] - lower[k, :k] @ row).real
        if not pivot > 0:
            return k + 1
        lower[k, k] = np.sqrt(pivot)
        lower[k + 1 :, k] = (matrix[k + 1 :, k] - lower[k + 1 :, :k] @ row) / lower[k, k]
    return n


@full_precision
def qr(A: Any, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and upper triangular R, Q R = A.

    Args:
        mode: "reduced" (Q is m by k), "complete" (m by m), or "r" (Q is empty).
    """
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    both = TABLE.orthogonal_triangular(A, complete=mode == "complete")
    m, n = A.shape[-2:]
    factor = part(TABLE, both, -1, m, m + n)
    if mode == "r":
        return QR(TABLE.full(0, shape=(0,), dtype=A.dtype, device=A.device), factor)
    return QR(transpose(part(TABLE, both, -1, 0, m), -2, -1), factor)


def _symmetric(A: Any, UPLO: str) -> Any:
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return TABLE.symmetric_eigen(A, upper=UPLO.upper() == "U")


@full_precision
def eigh(A: Any, UPLO: str = "L") -> Eigen:
    """Real eigenvalues in rising order and eigenvectors (columns) of symmetric or Hermitian
    matrices.

    A complex eigenvector may be multiplied by any number of absolute value 1: gradients are those
    of what does not depend on it.
    """
    both = _symmetric(A, UPLO)
    n = A.shape[-1]
    values = reshape(part(TABLE, both, -1, n, n + 1), tuple(A.shape[:-1]))
    if values.dtype.is_complex:
        values = TABLE.real(values)
    return Eigen(values, part(TABLE, both, -1, 0, n))


@full_precision
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of symmetric or Hermitian matrices, in rising order."""
    return eigh(A, UPLO).eigenvalues


@full_precision
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U, singular values from the largest to the smallest, and V^T, with U diag(S) V^T = A."""
    both = TABLE.singular_values(A, full=full_matrices)
    m, n = A.shape[-2:]
    k = min(m, n)
    values = part(TABLE, part(TABLE, both, -1, m, m + 1), -2, 0, k)
    u = part(TABLE, part(TABLE, both, -1, 0, m), -2, 0, m if full_matrices else k)
    vh = part(TABLE, part(TABLE, both, -1, m + 1, m + 1 + n), -2, 0, n if full_matrices else k)
    return SVD(transpose(u, -2, -1), reshape(values, (*A.shape[:-2], k)), vh)


@full_precision
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """Singular values, from the largest to the smallest."""
    return svd(A, False).S


def lu_factor(A: Any, *, pivot: bool = True) -> LU:
    """L (without its diagonal of ones) and U in one matrix, and int32 pivots counted from 1."""
    if not pivot:
        raise UnsupportedError(
            "linalg.lu_factor: pivot=False is not available.  Leave pivot at True."
        )
    m, n = A.shape[-2:]
    both = TABLE.pivoted_lu(A)
    k = min(m, n)
    pivots = part(TABLE, part(TABLE, both, -1, n, n + 1), -2, 0, k)
    pivots = cast(TABLE.detach(reshape(pivots, (*A.shape[:-2], k))), dtypes.int32)
    return LU(part(TABLE, both, -1, 0, n), pivots)


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> LUInfo:
    """`lu_factor`, and per matrix the number of the first pivot that is 0, or 0.

    Raises:
        LinAlgError: a pivot is 0, and `check_errors`.
    """
    factors, pivots = lu_factor(A, pivot=pivot)
    diagonal = TABLE.detach(diagonal_of(factors, 0, -2, -1))
    k = diagonal.shape[-1]
    numbers = TABLE.arange(1, 1, size=k, dtype=dtypes.int64, device=A.device)
    zeros = TABLE.where(TABLE.eq(diagonal, 0), numbers, k + 1)
    first = TABLE.amin(zeros, dim=(len(diagonal.shape) - 1,), keepdim=False)
    info = cast(TABLE.where(TABLE.gt(first, k), 0, first), dtypes.int32)
    if check_errors and bool(info.array.any()):
        raise LinAlgError("linalg.lu_factor_ex: U has a zero on its diagonal; see info.")
    return LUInfo(factors, pivots, info)


def permutation(pivots: Any, m: int, dtype: dtypes.DType) -> Any:
    """The matrix P with P L U = A, of pivots."""
    shape = (*pivots.shape[:-1], m)
    numbers = TABLE.arange(0, 1, size=m, dtype=dtypes.int64, device=pivots.device)
    order = TABLE.expand(numbers, shape=shape)
    last = len(shape) - 1
    for i in range(pivots.shape[-1]):
        at = TABLE.sub(cast(sliced(pivots, last, i, i + 1), dtypes.int64), 1)
        here, there = sliced(order, last, i, i + 1), TABLE.gather(order, at, dim=last)
        order = TABLE.scatter(order, at, here, dim=last)
        first = TABLE.full(i, shape=tuple(at.shape), dtype=dtypes.int64, device=pivots.device)
        order = TABLE.scatter(order, first, there, dim=last)
    return cast(TABLE.eq(unsqueeze(order, -2), unsqueeze(numbers, -1)), dtype)


def triangles_of(factors: Any) -> tuple[Any, Any]:
    m, n = factors.shape[-2:]
    k = min(m, n)
    lower = TABLE.tril(part(TABLE, factors, -1, 0, k), diagonal=-1)
    unit = eye(m, k, dtype=factors.dtype, device=factors.device)
    return TABLE.add(lower, unit), TABLE.triu(part(TABLE, factors, -2, 0, k), diagonal=0)


def lu(A: Any, *, pivot: bool = True) -> PLU:
    """P, L and U with P L U = A."""
    factors, pivots = lu_factor(A, pivot=pivot)
    return PLU(permutation(pivots, A.shape[-2], A.dtype), *triangles_of(factors))


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """x with A x = B of the factors of A; `left=False`: x A = B; `adjoint`: of A^T."""
    if not left:
        turned = lu_solve(LU, pivots, transpose(B, -2, -1), adjoint=not adjoint)
        return transpose(turned, -2, -1)
    places = permutation(pivots, LU.shape[-1], LU.dtype)
    if adjoint:
        inner = TABLE.triangular_solve(transpose(LU, -2, -1), B, upper=False, unit=False)
        outer = TABLE.triangular_solve(transpose(LU, -2, -1), inner, upper=True, unit=True)
        return TABLE.matmul(places, outer)
    inner = TABLE.matmul(transpose(places, -2, -1), B)
    outer = TABLE.triangular_solve(LU, inner, upper=False, unit=True)
    return TABLE.triangular_solve(LU, outer, upper=True, unit=False)


def vander(x: Any, *, N: int | None = None) -> Any:
    """Powers 0, 1, ..., N - 1 of each element, N being the size of the last dim by default.

    Shape: (*x.shape, N). (`dynajit.vander` has the highest power first.)

    Raises:
        ShapeError: x has no dims, or N is less than 2.
    """
    if not x.shape:
        raise ShapeError("linalg.vander: x must have at least one dimension.")
    count = x.shape[-1] if N is None else N
    if isinstance(count, int) and count < 2 and N is not None:
        raise ShapeError(f"linalg.vander: N must be greater than 1, but got {N}.")
    powers = TABLE.arange(0, 1, size=count, dtype=dtypes.int64, device=x.device)
    return TABLE.pow(TABLE.reshape(x, shape=(*x.shape, 1)), powers)


@full_precision
def eig(A: Any) -> Any:
    """Refused: eigenvalues of general matrices are complex.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "linalg.eig: general matrices, whose eigenvalues are complex, are not available.  Use "
        "linalg.eigh for symmetric matrices."
    )


@full_precision
def eigvals(A: Any) -> Any:
    """Refused: see `eig`.

    Raises:
        UnsupportedError: always.
    """
    raise UnsupportedError(
        "linalg.eigvals: general matrices, whose eigenvalues are complex, are not available.  Use "
        "linalg.eigvalsh for symmetric matrices."
    )
