"""`dynajit.linalg`: solutions and factorizations of (batches of) matrices.

Contract: the last two dims are matrices, the dims before them batches. Factorizations take apart
what the rows of `factorizations` give.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from dynajit.core.errors import (
    ArgumentRuntimeError,
    BoundsRuntimeError,
    ShapeError,
    UnsupportedError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.symint import agree, equals
from dynajit.core.types.value_types import numel
from dynajit.ops.calls.arguments import (
    cast,
    float_operand,
    is_tensor,
    unchanged_by,
    with_integers,
)
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.contents import occurs
from dynajit.ops.calls.dtypes_of_operands import require_category
from dynajit.ops.calls.placing import by_columns, contiguous, copied_by_columns, copied_by_rows
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.creation.creation import eye
from dynajit.ops.functions.elements.complex import adjoint as adjoint_of
from dynajit.ops.functions.matrices.matrix import matmul
from dynajit.ops.functions.shapes.shape import diagonal as diagonal_of
from dynajit.ops.functions.shapes.shape import movedim, reshape, squeeze, transpose, unsqueeze
from dynajit.ops.rows.factorizations import part, rounding_of
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


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
    """Result of `eigh` and `eig`."""

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


def require_square(A: Any, name: str) -> None:
    """Raises:
    ShapeError: A are no square matrices.
    """
    if len(A.shape) < 2 or not agree(A.shape[-1], A.shape[-2]):
        raise ShapeError(
            f"{name}: A must be batches of square matrices, but they are {list(A.shape)}"
        )


@public("linalg")
@with_integers
def matrix_power(A: Any, n: int) -> Any:
    """A multiplied with itself n times; with a negative n its inverse."""
    require_square(A, "linalg.matrix_power")
    if n == 0:
        unit = eye(A.shape[-1], dtype=A.dtype, device=A.device)
        return unchanged_by(TABLE.clone(TABLE.expand(unit, shape=tuple(A.shape))), A)
    base, power, result = inv(A) if n < 0 else A, abs(n), None
    while power:
        if power & 1:
            result = base if result is None else matmul(result, base)
        power >>= 1
        base = matmul(base, base) if power else base
    return copied_by_rows(A) if n == 1 else result


@public(also=("linalg.matrix_exp",), out=Out.ABSENT, method=True)
def matrix_exp(A: Any) -> Any:
    """Exponential of square matrices; of bfloat16 computed in float32."""
    if A.dtype is dtypes.bfloat16:
        return cast(TABLE.matrix_exponential(cast(A, dtypes.float32)), A.dtype)
    return TABLE.matrix_exponential(A)


@public("linalg", out=Out.ABSENT)
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """A diagonal of the last two dims, as the last dim."""
    return diagonal_of(A, offset, dim1, dim2)


# ---------------------------------------------------------------------------------------------
# inverses and solutions


@public("linalg", out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.FULL)
def inv(A: Any) -> Any:
    """Inverse of square matrices.

    Raises:
        LinAlgError: a matrix is singular.
    """
    return by_columns(TABLE.inverse(A))


def is_vector(A: Any, B: Any) -> bool:
    """Whether B is a (batch of) vectors, by PyTorch's rule."""
    return len(B.shape) == 1 or (
        len(A.shape) - 1 == len(B.shape) and all(map(equals, B.shape, A.shape[:-1]))
    )


@public("linalg", out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.FULL)
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """x with A x = B (`left=False`: x A = B); B holds matrices or vectors.

    Raises:
        LinAlgError: a matrix is singular.
        ShapeError: shapes that do not fit.
    """
    vector = is_vector(A, B)
    if vector and not left:
        raise ShapeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported for "
            "left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    if not left:
        turned = TABLE.linear_solve(transpose(A, -2, -1), transpose(B, -2, -1))
        return contiguous(transpose(turned, -2, -1))
    if not vector:
        return by_columns(TABLE.linear_solve(A, B))
    result = TABLE.linear_solve(A, unsqueeze(B, -1))
    result = reshape(result, tuple(result.shape[:-1]))
    return by_columns(result) if len(result.shape) > 1 else result


@public("linalg")
@autocast(cpu=Autocast.FULL)
@with_integers
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


@public("linalg")
@autocast(cpu=Autocast.FULL)
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


@public("linalg")
def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """x with T x = B (`left=False`: x T = B), T the upper or lower triangle of A."""
    if left:
        return by_columns(TABLE.triangular_solve(A, B, upper=upper, unit=unitriangular))
    turned = TABLE.triangular_solve(
        transpose(A, -2, -1), transpose(B, -2, -1), upper=not upper, unit=unitriangular
    )
    return contiguous(transpose(turned, -2, -1))


def _tolerance(rtol: Any, atol: Any, name: str) -> tuple[float | None, float]:
    """Relative (None: it follows from the sizes) and absolute tolerance, by PyTorch's defaults."""
    for tolerance in (rtol, atol):
        if is_tensor(tolerance):
            raise UnsupportedError(
                f"linalg.{name}: a tensor as tolerance is not available.  Give a number."
            )
    if rtol is None and atol:
        rtol = 0.0
    return None if rtol is None else float(rtol), float(atol or 0.0)


@public("linalg")
def pinv(
    A: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None, atol: Any = None
) -> Any:
    """Pseudo-inverse (Moore-Penrose); small singular values count as 0."""
    relative, absolute = _tolerance(rcond if rtol is None else rtol, atol, "pinv")
    return TABLE.pseudo_inverse(A, rtol=relative, atol=absolute, hermitian=hermitian)


@public("linalg")
@autocast(cpu=Autocast.FULL)
def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None, atol: Any = None
) -> Any:
    """Number of singular values above max(atol, rtol * the largest), int64."""
    if numel(tuple(A.shape)) == 0 and len(A.shape) > 1:
        return TABLE.full(0, shape=tuple(A.shape[:-2]), dtype=dtypes.int64, device=A.device)
    atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
    default = float_operand(max(A.shape[-2:])) * rounding_of(A.dtype)
    if is_tensor(rtol) or is_tensor(atol):
        if rtol is None:
            rtol = TABLE.where(TABLE.gt(atol, 0), 0.0, default)
        relative, absolute = (
            unsqueeze(given, -1) if is_tensor(given) else float(given or 0.0)
            for given in (rtol, atol)
        )
    else:
        relative, absolute = _tolerance(rtol, atol, "matrix_rank")
        relative = default if relative is None else relative
    values = TABLE.abs(eigvalsh(A)) if hermitian else svdvals(A)
    last = len(values.shape) - 1
    largest = TABLE.amax(values, dim=(last,), keepdim=True)
    least = TABLE.maximum(TABLE.mul(largest, relative), absolute)
    above = TABLE.gt(values, least)
    return TABLE.sum(above, dim=(len(above.shape) - 1,), keepdim=False)


@public("linalg")
@autocast(cpu=Autocast.FULL)
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
    if len(A.shape) < 2:
        raise ShapeError("linalg.lstsq: A must have at least 2 dimensions.")
    if not B.shape:
        raise ShapeError("linalg.lstsq: B must have at least 1 dimension.")
    vector = len(A.shape) - 1 == len(B.shape)
    columns = unsqueeze(B, -1) if vector else B
    if not agree(A.shape[-2], columns.shape[-2]):
        raise ShapeError("torch.linalg.lstsq: input.size(-2) should match other.size(-2)")
    solution = TABLE.matmul(pinv(A, rtol=rcond), columns)
    empty = TABLE.full(0, shape=(0,), dtype=A.dtype, device=A.device)
    values = TABLE.real(empty) if A.dtype.is_complex else empty
    residuals = TABLE.clone(values)
    if driver == "gels":
        ranks, has_residuals = cast(values, dtypes.int64), True
    else:
        ranks, has_residuals = matrix_rank(TABLE.detach(A), rtol=rcond), False
    if driver in ("gelsd", "gelss"):
        values = svdvals(TABLE.detach(A))
        is_full = TABLE.eq(ranks, A.shape[-1])
        has_residuals = bool(TABLE.all(is_full, dim=tuple(range(len(ranks.shape))), keepdim=False))
    if has_residuals and A.shape[-2] > A.shape[-1]:
        errors = TABLE.square(TABLE.abs(TABLE.sub(TABLE.matmul(A, solution), columns)))
        residuals = TABLE.sum(errors, dim=(len(errors.shape) - 2,), keepdim=False)
    solution = squeeze(solution, -1) if vector else by_columns(solution)
    return LeastSquares(solution, residuals, ranks, values)


@public("linalg", out=Out.SAME_DTYPE)
def det(A: Any) -> Any:
    """Determinants of square matrices."""
    return TABLE.determinant(A)


@public("linalg")
def slogdet(A: Any) -> SignLogDet:
    """(sign, logarithm of the magnitude) of determinants; 0 and -inf of singular matrices."""
    return SignLogDet(TABLE.determinant_sign(A), TABLE.log_determinant(A))


# ---------------------------------------------------------------------------------------------
# factorizations


@public("linalg")
@autocast(cpu=Autocast.FULL)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """Lower triangular L with L L^H = A (`upper=True`: L^H).

    Raises:
        LinAlgError: a matrix is not positive-definite.
    """
    lower = by_columns(TABLE.cholesky(adjoint_of(A) if upper else A))
    return by_columns(adjoint_of(lower)) if upper else lower


@public("linalg")
@autocast(cpu=Autocast.FULL)
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
    factor = copied_by_columns(part(TABLE, both, -1, m, m + n))
    if mode == "r":
        return QR(TABLE.full(0, shape=(0,), dtype=A.dtype, device=A.device), factor)
    return QR(copied_by_columns(transpose(part(TABLE, both, -1, 0, m), -2, -1)), factor)


def _symmetric(A: Any, UPLO: str) -> Any:
    if UPLO.upper() not in ("L", "U"):
        raise ArgumentRuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return TABLE.symmetric_eigen(A, upper=UPLO.upper() == "U")


@public("linalg")
@autocast(cpu=Autocast.FULL)
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
    return Eigen(TABLE.clone(values), copied_by_columns(part(TABLE, both, -1, 0, n)))


@public("linalg", out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.FULL)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of symmetric or Hermitian matrices, in rising order."""
    return eigh(A, UPLO).eigenvalues


@public("linalg")
@autocast(cpu=Autocast.FULL)
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """U, singular values from the largest to the smallest, and V^H, with U diag(S) V^H = A.

    Of complex matrices a column of U and the row of V^H may be multiplied by a number of absolute
    value 1 and its conjugate: gradients are those of what does not depend on it.
    """
    both = TABLE.singular_values(A, full=full_matrices)
    m, n = A.shape[-2:]
    k = min(m, n)
    values = part(TABLE, part(TABLE, both, -1, m, m + 1), -2, 0, k)
    u = part(TABLE, part(TABLE, both, -1, 0, m), -2, 0, m if full_matrices else k)
    vh = part(TABLE, part(TABLE, both, -1, m + 1, m + 1 + n), -2, 0, n if full_matrices else k)
    values = TABLE.real(values) if values.dtype.is_complex else values
    values = TABLE.clone(reshape(values, (*A.shape[:-2], k)))
    return SVD(copied_by_columns(transpose(u, -2, -1)), values, copied_by_columns(vh))


@public("linalg", out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.FULL)
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """Singular values, from the largest to the smallest."""
    return svd(A, False).S


@public("linalg")
def lu_factor(A: Any, *, pivot: bool = True) -> LU:
    """L (without its diagonal of ones) and U in one matrix, and int32 pivots counted from 1."""
    if not pivot:
        raise UnsupportedError(
            "linalg.lu_factor: pivot=False is not available.  Leave pivot at True."
        )
    both = TABLE.pivoted_lu(A)
    m, n = A.shape[-2:]
    k = min(m, n)
    pivots = part(TABLE, part(TABLE, both, -1, n, n + 1), -2, 0, k)
    pivots = TABLE.detach(reshape(pivots, (*A.shape[:-2], k)))
    pivots = cast(TABLE.real(pivots) if A.dtype.is_complex else pivots, dtypes.int32)
    return LU(copied_by_columns(part(TABLE, both, -1, 0, n)), pivots)


def given_permutation(pivots: Any, m: int, dtype: dtypes.DType) -> Any:
    """`permutation` of pivots that a program gives.

    Raises:
        ArgumentRuntimeError: these are not int32.
        BoundsRuntimeError: one is no row.
    """
    if pivots.dtype is not dtypes.int32:
        raise ArgumentRuntimeError(
            f"pivots of dtype {pivots.dtype.name}.  Expected those that lu_factor gives, in int32."
        )
    if occurs(TABLE.logical_or(TABLE.lt(pivots, 1), TABLE.gt(pivots, m))):
        raise BoundsRuntimeError(
            f"a pivot is none of the rows, which count from 1 to {m}.  Expected what lu_factor "
            "gives."
        )
    return permutation(pivots, m, dtype)


def permutation(pivots: Any, m: int, dtype: dtypes.DType) -> Any:
    """The matrix P with P L U = A, of pivots."""
    numbers = TABLE.arange(0, 1, size=m, dtype=dtypes.int64, device=pivots.device)
    order = TABLE.pivot_order(pivots, rows=m)
    return cast(TABLE.eq(unsqueeze(order, -2), unsqueeze(numbers, -1)), dtype)


def triangles_of(factors: Any) -> tuple[Any, Any]:
    m, n = factors.shape[-2:]
    k = min(m, n)
    lower = TABLE.tril(part(TABLE, factors, -1, 0, k), diagonal=-1)
    unit = eye(m, k, dtype=factors.dtype, device=factors.device)
    upper = TABLE.triu(part(TABLE, factors, -2, 0, k), diagonal=0)
    return TABLE.add(lower, unit), upper


@public("linalg", numpy_names=False)
def lu(A: Any, *, pivot: bool = True) -> PLU:
    """P, L and U with P L U = A."""
    factors, pivots = lu_factor(A, pivot=pivot)
    return PLU(permutation(pivots, A.shape[-2], A.dtype), *triangles_of(factors))


@public("linalg")
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """x with A x = B of the factors of A; `left=False`: x A = B; `adjoint`: of A^H."""
    if not left:
        return contiguous(adjoint_of(lu_solve(LU, pivots, adjoint_of(B), adjoint=not adjoint)))
    places = given_permutation(pivots, LU.shape[-1], LU.dtype)
    if adjoint:
        turned = adjoint_of(LU)
        inner = TABLE.triangular_solve(turned, B, upper=False, unit=False)
        outer = TABLE.triangular_solve(turned, inner, upper=True, unit=True)
        return by_columns(TABLE.matmul(places, outer))
    inner = TABLE.matmul(transpose(places, -2, -1), B)
    outer = TABLE.triangular_solve(LU, inner, upper=False, unit=True)
    return by_columns(TABLE.triangular_solve(LU, outer, upper=True, unit=False))


@public("linalg", out=Out.ABSENT)
@with_integers
def vander(x: "TensorMethods", *, N: int | None = None) -> Any:
    """Powers 0, 1, ..., N - 1 of each element, N being the size of the last dim by default.

    Shape: (*x.shape, N), (1, N) of a number. (`dynajit.vander` has the highest power first.)

    Raises:
        ShapeError: N is less than 2, or x is a number and N not given.
        DTypeError: x holds bools.
    """
    require_category("linalg.vander", dtypes.Category.INTEGER, x=x)
    is_number = not x.shape
    x = reshape(x, (1,)) if is_number else x
    count = x.shape[-1] if N is None else N
    if isinstance(count, int) and count < 2 and (N is not None or is_number):
        raise ShapeError(f"linalg.vander: N must be greater than 1, but got {N}.")
    powers = TABLE.arange(0, 1, size=count, dtype=dtypes.int64, device=x.device)
    return contiguous(TABLE.pow(TABLE.reshape(x, shape=(*x.shape, 1)), powers))


@public("linalg")
@autocast(cpu=Autocast.FULL)
def eig(A: Any) -> Eigen:
    """Complex eigenvalues, in LAPACK's order, and eigenvectors (columns of length 1).

    An eigenvector may be multiplied by any number of absolute value 1: gradients are those of what
    does not depend on it.
    """
    both = TABLE.general_eigen(A)
    n = A.shape[-1]
    values = reshape(part(TABLE, both, -1, n, n + 1), tuple(A.shape[:-1]))
    return Eigen(TABLE.clone(values), copied_by_columns(part(TABLE, both, -1, 0, n)))


@public("linalg")
@autocast(cpu=Autocast.FULL)
def eigvals(A: Any) -> Any:
    """Complex eigenvalues of square matrices, in LAPACK's order."""
    return eig(A).eigenvalues
