"""Rows of linear algebra that LAPACK computes: factorizations, solutions, inverses, determinants.

Contract: operands are float32 or float64, or complex, the last two dims are matrices, the dims
before them batches (which broadcast where there are two operands). A factorization has one result:
its factors side by side, one row per column of the first; `ops.functions.matrices.linalg` takes it
apart, so that all factors cost one call and derivatives see the gradients of all of them. What is
singular raises LinAlgError. Compiled graphs with such a row run on NumPy.

Source of derivatives: M. Giles, "Collected matrix derivative results" (2008); for the
pseudo-inverse G. Golub, V. Pereyra (1973).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import (
    AutogradError,
    DTypeError,
    DTypeNotImplementedError,
    LinAlgError,
    ShapeError,
)
from dynajit.core.process.optional import load
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import agree, known_comparison
from dynajit.core.types.value_types import Size, TensorType, ValueType
from dynajit.ops.rows.linear_algebra import transposed
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import (
    broadcast_shapes,
    composite,
    describe,
    extern,
    require_tensor,
)

_REAL = (dtypes.float32, dtypes.float64)
_ANY = (*_REAL, dtypes.complex64, dtypes.complex128)


def _matrices(
    name: str, x: ValueType, square: bool = True, accepted: tuple[DType, ...] = _REAL
) -> TensorType:
    """The type of a batch of matrices.

    Raises:
        ShapeError: fewer than two dims, or not square where that is needed.
        DTypeError: the dtype is none of `accepted`.
    """
    call = describe(f"linalg.{name}", ("A",), (x,))
    type = require_tensor(x, call, "A")
    if type.rank < 2:
        raise ShapeError(f"{call}: The input tensor A must have at least 2 dimensions.")
    if square and not agree(type.shape[-1], type.shape[-2]):
        raise ShapeError(
            f"{call}: A must be batches of square matrices, but they are {type.shape[-2]} by "
            f"{type.shape[-1]} matrices"
        )
    if type.dtype not in accepted:
        names = ", ".join(dtype.name for dtype in accepted)
        raise DTypeNotImplementedError(
            f"{call}: Expected a tensor of one of {names} as input. Got {type.dtype.name}.  Cast "
            "real numbers with .float()."
        )
    return type


def _guarded(message: str, function: Callable[[], Any]) -> Any:
    """What a function of NumPy gives; its error is LinAlgError."""
    try:
        return function()
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{message} ({error})") from None


def _same(name: str) -> Callable[..., TensorType]:
    def infer(x: ValueType, **attributes: Any) -> TensorType:
        type = _matrices(name, x, accepted=_ANY)
        return type.with_shape(type.shape)

    return infer


def _adjoint(ops: Any, x: Any) -> Any:
    """x^H, which is x^T of real numbers."""
    turned = transposed(ops, x)
    return ops.conj(turned) if x.dtype.is_complex else turned


# ---------------------------------------------------------------------------------------------
# Cholesky and triangular systems


def _cholesky_vjp(ops: Any, g: Any, out: Any) -> Any:
    """L^-H S L^-1, S being half of the lower triangle of L^H g and of what mirrors it.

    Diagonals of complex gradients stay complex, as in PyTorch.
    """
    upper = _adjoint(ops, out)
    inner = ops.tril(ops.matmul(upper, ops.tril(g, diagonal=0)), diagonal=0)
    inner = (inner + _adjoint(ops, ops.tril(inner, diagonal=-1))) * 0.5
    left = ops.triangular_solve(upper, inner, upper=True, unit=False)
    return _adjoint(ops, ops.triangular_solve(upper, _adjoint(ops, left), upper=True, unit=False))


@extern(
    infer=_same("cholesky"),
    vjp={"x": _cholesky_vjp},
    analytic=False,
    refuses=True,
    samples=sample_rules.leading,
)
def cholesky(xp: Any, x: Any) -> Any:
    """Lower triangular L with L L^H = x, of the lower triangles of positive-definite matrices."""
    return _guarded(
        "linalg.cholesky: The factorization could not be completed because the input is not "
        "positive-definite.",
        lambda: xp.linalg.cholesky(x),
    )


def _pair_infer(name: str) -> Callable[..., TensorType]:
    def infer(a: ValueType, b: ValueType, **attributes: Any) -> TensorType:
        left = _matrices(name, a, accepted=_ANY)
        right = _matrices(name, b, square=False, accepted=_ANY)
        call = describe(f"linalg.{name}", ("A", "B"), (a, b))
        if left.dtype is not right.dtype:
            raise DTypeError(f"{call}: Expected A and B to have the same dtype.")
        if not agree(left.shape[-1], right.shape[-2]):
            raise ShapeError(
                f"{call}: Incompatible shapes of A and B for the equation AX = B: "
                f"({left.shape[-2]}x{left.shape[-1]} and {right.shape[-2]}x{right.shape[-1]})"
            )
        batch = broadcast_shapes([left.shape[:-2], right.shape[:-2]], call)
        return right.with_shape((*batch, *right.shape[-2:]))

    return infer


def _triangular_vjp(ops: Any, g: Any, a: Any, out: Any, upper: bool, unit: bool) -> Any:
    back = ops.triangular_solve(transposed(ops, a), g, upper=not upper, unit=unit)
    whole = ops.neg(ops.matmul(back, transposed(ops, out)))
    if upper:
        return ops.triu(whole, diagonal=int(unit))
    return ops.tril(whole, diagonal=-int(unit))


@extern(
    infer=_pair_infer("solve_triangular"),
    vjp={
        "a": _triangular_vjp,
        "b": lambda ops, g, a, upper, unit: ops.triangular_solve(
            transposed(ops, a), g, upper=not upper, unit=unit
        ),
    },
    linear=("b",),
    samples=sample_rules.solved,
)
def triangular_solve(xp: Any, a: Any, b: Any, *, upper: bool, unit: bool) -> Any:
    """x with T x = b, T the upper or lower triangle of a (with ones on its diagonal if `unit`).

    A zero on the diagonal gives infinities or NaN.
    """
    n = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x = xp.array(xp.broadcast_to(b, (*batch, *b.shape[-2:])))
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        row = x[..., i : i + 1, :] - a[..., i : i + 1, known] @ x[..., known, :]
        x[..., i : i + 1, :] = row if unit else row / a[..., i : i + 1, i : i + 1]
    return x


# ---------------------------------------------------------------------------------------------
# general systems


def _solve_vjp(ops: Any, g: Any, a: Any, out: Any) -> Any:
    back = ops.linear_solve(transposed(ops, a), g)
    return ops.neg(ops.matmul(back, transposed(ops, out)))


@extern(
    infer=_pair_infer("solve"),
    vjp={"a": _solve_vjp, "b": lambda ops, g, a: ops.linear_solve(transposed(ops, a), g)},
    refuses=True,
    linear=("b",),
    samples=sample_rules.solved,
)
def linear_solve(xp: Any, a: Any, b: Any) -> Any:
    """x with a x = b for matrices b."""
    return _guarded(
        "torch.linalg.solve: The solver failed because the input matrix is singular.",
        lambda: xp.linalg.solve(a, b),
    )


def _inverse_vjp(ops: Any, g: Any, out: Any) -> Any:
    back = transposed(ops, out)
    return ops.neg(ops.matmul(ops.matmul(back, g), back))


@extern(infer=_same("inv"), vjp={"x": _inverse_vjp}, refuses=True, samples=sample_rules.leading)
def inverse(xp: Any, x: Any) -> Any:
    """The inverse of square matrices."""
    return _guarded(
        "linalg.inv: The inversion could not be completed because the input matrix is singular.",
        lambda: xp.linalg.inv(x),
    )


def _pseudo_infer(x: ValueType, *, rtol: float, atol: float, hermitian: bool) -> TensorType:
    type = _matrices("pinv", x, square=hermitian, accepted=_ANY)
    return type.with_shape((*type.shape[:-2], type.shape[-1], type.shape[-2]))


def _pseudo_vjp(ops: Any, g: Any, x: Any, out: Any, hermitian: bool) -> Any:
    """The adjoint of dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P."""
    back, turned = _adjoint(ops, out), _adjoint(ops, g)
    left = ops.matmul(ops.matmul(turned, out), back)
    right = ops.matmul(back, ops.matmul(out, turned))
    result = ops.neg(ops.matmul(ops.matmul(back, g), back))
    result = result + left - ops.matmul(x, ops.matmul(out, left))
    result = result + right - ops.matmul(ops.matmul(right, out), x)
    return result


def rounding_of(dtype: DType) -> float:
    """The distance from 1 to the next number, for the precision that matrices are computed in."""
    return 2.0**-52 if dtypes.real_of(dtype) is dtypes.float64 else 2.0**-23


@extern(
    infer=_pseudo_infer,
    vjp={"x": _pseudo_vjp},
    analytic=False,
    refuses=True,
    samples=sample_rules.leading,
)
def pseudo_inverse(
    xp: Any, x: Any, *, rtol: float | None, atol: float, hermitian: bool = False
) -> Any:
    """The Moore-Penrose inverse; singular values up to max(atol, rtol * the largest) count as 0.

    rtol is by default `rounding_of` the dtype times the larger size.
    Of `hermitian` matrices the lower triangles are read, and of complex diagonals the real parts.
    """
    if hermitian:
        lower = xp.tril(x, -1)
        x = xp.where(xp.eye(x.shape[-1], dtype=bool), x.real, lower)
        x = x + xp.swapaxes(lower, -1, -2).conj()
    u, s, vh = xp.linalg.svd(x, full_matrices=False)
    if rtol is None:
        rtol = max(x.shape[-2:]) * rounding_of(dtypes.from_numpy(x.dtype))
    least = xp.maximum(atol, rtol * s[..., :1])  # they fall; none, where there is no element
    scaled = xp.where(s > least, 1, 0) / xp.where(s > least, s, 1)
    turned = xp.swapaxes(vh, -1, -2).conj() * scaled[..., None, :]
    return (turned @ xp.swapaxes(u, -1, -2).conj()).astype(x.dtype)


# ---------------------------------------------------------------------------------------------
# determinants


def _reduced(name: str, accepted: tuple[DType, ...] = _REAL) -> Callable[..., TensorType]:
    def infer(x: ValueType) -> TensorType:
        type = _matrices(name, x, accepted=accepted)
        return type.with_shape(type.shape[:-2])

    return infer


def _spread(ops: Any, value: Any) -> Any:
    """One number per matrix, to multiply matrices with."""
    return ops.reshape(value, shape=(*value.shape, 1, 1))


@extern(
    infer=_reduced("det", _ANY),
    vjp={"x": lambda ops, g, x: _spread(ops, g) * ops.cofactors(x)},
    samples=sample_rules.leading,
)
def determinant(xp: Any, x: Any) -> Any:
    """The determinant of square matrices."""
    return xp.linalg.det(x)


def _cofactors_vjp(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The derivative of det(x) x^-T."""
    back = transposed(ops, ops.inverse(x))
    total = ops.sum(g * out, dim=(len(x.shape) - 2, len(x.shape) - 1), keepdim=True)
    inner = ops.matmul(ops.matmul(back, transposed(ops, g)), back)
    return back * total - inner * _spread(ops, ops.determinant(x))


@extern(infer=_same("det"), vjp={"x": _cofactors_vjp}, refuses=True, samples=sample_rules.leading)
def cofactors(xp: Any, x: Any) -> Any:
    """det(x) x^-T, also of singular matrices: by products of all singular values but one."""
    u, s, vh = xp.linalg.svd(x)
    n = x.shape[-1]
    others = xp.where(xp.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
    sign = xp.linalg.det(u) * xp.linalg.det(vh)
    whole = (u * others[..., None, :]) @ vh
    return (whole.conj() * sign[..., None, None]).astype(x.dtype)


def _sign_vjp(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The angle of the determinant changes by Im tr(A^-1 dA), the sign s by i s times as much."""
    if not x.dtype.is_complex:
        return ops.full(0, shape=tuple(x.shape), dtype=x.dtype, device=x.device)
    turn = ops.mul(ops.imag(ops.mul(g, ops.conj(out))), 1j)
    return _spread(ops, turn) * _adjoint(ops, ops.inverse(x))


@extern(
    infer=_reduced("slogdet", _ANY),
    vjp={"x": _sign_vjp},
    analytic=False,
    samples=sample_rules.leading,
)
def determinant_sign(xp: Any, x: Any) -> Any:
    """The sign of the determinant, of absolute value 1, or 0 for singular matrices."""
    return xp.linalg.slogdet(x)[0]


def _logarithm_infer(x: ValueType) -> TensorType:
    type = _matrices("slogdet", x, accepted=_ANY)
    return TensorType(type.shape[:-2], dtypes.real_of(type.dtype), type.device)


@extern(
    infer=_logarithm_infer,
    vjp={"x": lambda ops, g, x: _spread(ops, g) * _adjoint(ops, ops.inverse(x))},
    analytic=False,
    samples=sample_rules.leading,
)
def log_determinant(xp: Any, x: Any) -> Any:
    """The logarithm of the magnitude of the determinant, real, -inf for singular matrices."""
    return xp.linalg.slogdet(x)[1]


# ---------------------------------------------------------------------------------------------
# exponential


def _exponential_vjp(ops: Any, g: Any, x: Any) -> Any:
    """The upper right block of exp([[x^T, g], [0, x^T]])."""
    n, last = x.shape[-1], len(x.shape) - 1
    turned = transposed(ops, x)
    top = ops.cat(turned, g, dim=last)
    bottom = ops.cat(ops.mul(turned, 0), turned, dim=last)
    whole = ops.matrix_exponential(ops.cat(top, bottom, dim=last - 1))
    start = (*(0,) * (last - 1), 0, n)
    stop = (*x.shape[:-2], n, 2 * n)
    return ops.slice(whole, start=start, stop=stop, step=(1,) * (last + 1))


@extern(infer=_same("matrix_exp"), vjp={"x": _exponential_vjp}, samples=sample_rules.leading)
def matrix_exponential(xp: Any, x: Any) -> Any:
    """The exponential of square matrices (N. Higham's scaling and squaring, by SciPy).

    It is computed in double precision: squaring loses digits. Matrices on a GPU are computed on
    the host.
    """
    if x.size == 0:
        return xp.array(x)
    module = load("scipy.linalg", needed_for="matrix_exp", install="scipy")
    flat = any_arrays.as_numpy(x).reshape(-1, *x.shape[-2:])
    flat = flat.astype(np.result_type(x.dtype, np.float64))
    whole = np.stack([module.expm(matrix) for matrix in flat]).reshape(x.shape)
    return xp.asarray(whole.astype(x.dtype))


# ---------------------------------------------------------------------------------------------
# factors side by side


def part(ops: Any, x: Any, dim: int, first: Any, last: Any) -> Any:
    """`x[..., first:last]` along the last dim (`dim=-1`) or the one before it."""
    d = len(x.shape) + dim
    return ops.slice(
        x,
        start=tuple(first if i == d else 0 for i in range(len(x.shape))),
        stop=tuple(last if i == d else n for i, n in enumerate(x.shape)),
        step=(1,) * len(x.shape),
    )


def _eigen_infer(x: ValueType, *, upper: bool) -> TensorType:
    type = _matrices("eigh", x, accepted=_ANY)
    return type.with_shape((*type.shape[:-1], type.shape[-1] + 1))


def _quotient(ops: Any, a: Any, b: Any) -> Any:
    """a / b, 0 where both are 0: gradients that nobody asked for stay 0. Where a alone is 0, as for
    what does not depend on how the factors are turned, the quotient still has a derivative."""
    nothing = ops.logical_and(ops.eq(a, 0), ops.eq(b, 0))
    return ops.where(nothing, 0, ops.div(a, ops.where(nothing, 1, b)))


def _of_real_values(ops: Any, g: Any) -> Any:
    """The gradient of values that are real, whatever the dtype that they are kept in."""
    return ops.cast(ops.real(g), dtype=g.dtype) if g.dtype.is_complex else g


def _as_diagonal(ops: Any, value: Any) -> Any:
    """Diagonal matrices of the vectors in the last dim."""
    n = value.shape[-1]
    wide = ops.expand(
        ops.reshape(value, shape=(*value.shape[:-1], 1, n)), shape=(*value.shape[:-1], n, n)
    )
    return ops.triu(ops.tril(wide, diagonal=0), diagonal=0)


def _diagonal_of(ops: Any, x: Any) -> Any:
    """x with zeros beside its diagonal."""
    rank = len(x.shape)
    return _as_diagonal(ops, ops.diagonal(x, offset=0, dim1=rank - 2, dim2=rank - 1))


def _eigen_vjp(ops: Any, g: Any, out: Any) -> Any:
    """V (diag(g of values) + S / gaps) V^H with S the skew part of V^H (g of V).

    The rest of it says nothing: changes of V are V times something skew. So does the diagonal: an
    eigenvector is known up to a factor of absolute value 1. The result is symmetric.
    """
    n = out.shape[-2]
    vectors, values = part(ops, out, -1, 0, n), part(ops, out, -1, n, n + 1)
    g_vectors = part(ops, g, -1, 0, n)
    g_values = _of_real_values(ops, part(ops, g, -1, n, n + 1))
    gaps = transposed(ops, values) - values
    inner = ops.matmul(_adjoint(ops, vectors), g_vectors)
    inner = (inner - _adjoint(ops, inner)) * 0.5
    inner = inner - _diagonal_of(ops, inner)
    diagonal = _as_diagonal(ops, ops.reshape(g_values, shape=tuple(g.shape[:-1])))
    whole = ops.matmul(vectors, diagonal + _quotient(ops, inner, gaps))
    return ops.matmul(whole, _adjoint(ops, vectors))


@extern(
    infer=_eigen_infer,
    vjp={"x": _eigen_vjp},
    analytic=False,
    refuses=True,
    samples=sample_rules.leading,
)
def symmetric_eigen(xp: Any, x: Any, *, upper: bool = False) -> Any:
    """Eigenvectors as columns, then one column of eigenvalues in rising order, (*, n, n + 1).

    Of symmetric or Hermitian matrices; their lower or upper triangles are read, and of complex
    diagonals the real parts.
    """
    values, vectors = _guarded(
        "linalg.eigh: The algorithm failed to converge.",
        lambda: xp.linalg.eigh(x, "U" if upper else "L"),
    )
    return xp.concatenate([vectors, values[..., None]], -1)


def _general_infer(x: ValueType) -> TensorType:
    type = _matrices("eig", x, accepted=_ANY)
    shape = (*type.shape[:-1], type.shape[-1] + 1)
    return TensorType(shape, dtypes.complex_of(type.dtype), type.device)


def _general_vjp(ops: Any, g: Any, out: Any) -> Any:
    """V^-H (diag(g of values) + S / conj(gaps)) V^H, S being V^H (g of V) without what changes the
    lengths of eigenvectors, V^H V diag(V^H (g of V)); nor says their phase anything.

    Source: C. Boeddeker et al., "On the computation of complex-valued gradients with application to
    statistically optimum beamforming" (2017), for eigenvectors of length 1.
    """
    n = out.shape[-2]
    vectors, values = part(ops, out, -1, 0, n), part(ops, out, -1, n, n + 1)
    g_vectors, g_values = part(ops, g, -1, 0, n), part(ops, g, -1, n, n + 1)
    turned = _adjoint(ops, vectors)
    inner = ops.matmul(turned, g_vectors)
    lengths = _diagonal_of(ops, inner)
    lengths = (lengths + ops.conj(lengths)) * 0.5
    inner = inner - ops.matmul(ops.matmul(turned, vectors), lengths)
    inner = inner - _diagonal_of(ops, inner)
    gaps = ops.conj(transposed(ops, values) - values)
    diagonal = _as_diagonal(ops, ops.reshape(g_values, shape=tuple(g.shape[:-1])))
    return ops.linear_solve(turned, ops.matmul(diagonal + _quotient(ops, inner, gaps), turned))


@extern(
    infer=_general_infer,
    vjp={"x": _general_vjp},
    analytic=False,
    refuses=True,
    samples=sample_rules.leading,
)
def general_eigen(xp: Any, x: Any) -> Any:
    """Eigenvectors of length 1 as columns, then one column of eigenvalues, (*, n, n + 1), complex.

    In LAPACK's order, which is none. Matrices on a GPU are computed on the host.
    """
    host = any_arrays.as_numpy(x)
    values, vectors = _guarded(
        "linalg.eig: The algorithm failed to converge.", lambda: np.linalg.eig(host)
    )
    whole = np.concatenate([vectors, values[..., None]], -1)
    return xp.asarray(whole.astype(np.result_type(x.dtype, np.complex64)))


def _svd_infer(x: ValueType, *, full: bool) -> TensorType:
    type = _matrices("svd", x, square=False, accepted=_ANY)
    m, n = type.shape[-2:]
    rows = max(m, n) if full else min(m, n)
    return type.with_shape((*type.shape[:-2], rows, m + 1 + n))


def _differ(a: Size, b: Size) -> bool:
    """False for sizes that are known to be equal."""
    return known_comparison("==", a, b) is not True


def _svd_vjp(ops: Any, g: Any, x: Any, out: Any, full: bool) -> Any:
    m, n = x.shape[-2:]
    k = out.shape[-2]  # which of the two is not asked for again: sizes may be symbolic
    if full:
        k = n if k is m else m
    (u, s, vh), (gu, gs, gvh) = (
        (
            transposed(ops, part(ops, first, -1, 0, m)),
            part(ops, first, -1, m, m + 1),
            part(ops, first, -1, m + 1, m + 1 + n),
        )
        for first in (part(ops, out, -2, 0, k), part(ops, g, -2, 0, k))
    )
    gs = _of_real_values(ops, gs)
    row = transposed(ops, s)
    gaps = row * row - s * s
    turns = ops.matmul(_adjoint(ops, u), gu)

    def skew(product: Any) -> Any:
        whole = product - _adjoint(ops, product)
        return _quotient(ops, whole - _diagonal_of(ops, whole), gaps)

    core = skew(turns) * row + s * skew(ops.matmul(vh, _adjoint(ops, gvh)))
    core = core + _as_diagonal(ops, ops.reshape(gs, shape=tuple(gs.shape[:-1])))
    if x.dtype.is_complex:  # what turns a column of u and one of v together
        core = core + _quotient(ops, _diagonal_of(ops, turns - _adjoint(ops, turns)), s * 2)
    result = ops.matmul(ops.matmul(u, core), vh)
    if _differ(m, k):
        scaled = _quotient(ops, gu, row)
        rest = scaled - ops.matmul(u, ops.matmul(_adjoint(ops, u), scaled))
        result = result + ops.matmul(rest, vh)
    if _differ(n, k):
        scaled = _quotient(ops, gvh, s)
        rest = scaled - ops.matmul(ops.matmul(scaled, _adjoint(ops, vh)), vh)
        result = result + ops.matmul(u, rest)
    return result


@extern(
    infer=_svd_infer,
    vjp={"x": _svd_vjp},
    analytic=False,
    refuses=True,
    samples=sample_rules.leading,
)
def singular_values(xp: Any, x: Any, *, full: bool = False) -> Any:
    """U^T, the column of singular values, V^H: (*, k, m + 1 + n), k the smaller of m and n.

    `full`: U and V are square; there are as many rows as the larger of m and n, and zeros where a
    factor has fewer.
    """
    u, s, vh = _guarded(
        "linalg.svd: The algorithm failed to converge.",
        lambda: xp.linalg.svd(x, full_matrices=full),
    )
    m, n = x.shape[-2:]
    rows = max(m, n) if full else min(m, n)
    out = xp.zeros((*x.shape[:-2], rows, m + 1 + n), x.dtype)
    out[..., : u.shape[-1], :m] = xp.swapaxes(u, -1, -2)
    out[..., : s.shape[-1], m] = s
    out[..., : vh.shape[-2], m + 1 :] = vh
    return out


def _qr_infer(x: ValueType, *, complete: bool) -> TensorType:
    type = _matrices("qr", x, square=False, accepted=_ANY)
    m, n = type.shape[-2:]
    return type.with_shape((*type.shape[:-2], m if complete else min(m, n), m + n))


def _qr_vjp(ops: Any, g: Any, x: Any, out: Any, complete: bool) -> Any:
    m, n = x.shape[-2:]
    is_tall = not _differ(n, out.shape[-2]) or (complete and m > n)
    if complete and is_tall and _differ(m, n):
        raise AutogradError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    q, r = transposed(ops, part(ops, out, -1, 0, m)), part(ops, out, -1, m, m + n)
    gq, gr = transposed(ops, part(ops, g, -1, 0, m)), part(ops, g, -1, m, m + n)
    if is_tall:
        return _tall_qr_vjp(ops, q, r, gq, gr)
    # x = [a b], r = [s t]: q s = a is square, and t = q^H b.
    b, gt = part(ops, x, -1, m, n), part(ops, gr, -1, m, n)
    gq = gq + ops.matmul(b, _adjoint(ops, gt))
    ga = _tall_qr_vjp(ops, q, part(ops, r, -1, 0, m), gq, part(ops, gr, -1, 0, m))
    return ops.cat(ga, ops.matmul(q, gt), dim=len(x.shape) - 1)


def _tall_qr_vjp(ops: Any, q: Any, r: Any, gq: Any, gr: Any) -> Any:
    inner = ops.matmul(gr, _adjoint(ops, r)) - ops.matmul(_adjoint(ops, q), gq)
    half = ops.triu(inner, diagonal=1) + _diagonal_of(ops, inner) * 0.5
    left = gq + ops.matmul(q, half + _adjoint(ops, half))
    solved = ops.triangular_solve(r, _adjoint(ops, left), upper=True, unit=False)
    return _adjoint(ops, solved)


@extern(infer=_qr_infer, vjp={"x": _qr_vjp}, analytic=False, samples=sample_rules.leading)
def orthogonal_triangular(xp: Any, x: Any, *, complete: bool = False) -> Any:
    """Q^T beside R with Q R = x, (*, k, m + n), the diagonal of R being real: k the smaller of m
    and n, or m if `complete`."""
    q, r = xp.linalg.qr(x, "complete" if complete else "reduced")
    return xp.concatenate([xp.swapaxes(q, -1, -2), r], -1)


def _lu_infer(x: ValueType) -> TensorType:
    type = _matrices("lu_factor", x, square=False, accepted=_ANY)
    m, n = type.shape[-2:]
    return type.with_shape((*type.shape[:-2], m, n + 2))


def _lu_vjp(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """With the first k rows and columns of x, exchanged, equal to l u, l and u square: what is
    right of them is l t, what is below them is b u.

    Source: differentials of l u, l t and b u, solved for those of l, u, t and b.
    """
    m, n = x.shape[-2:]
    k, last = min(m, n), len(x.shape) - 1
    square, grad = (part(ops, part(ops, v, -1, 0, k), -2, 0, k) for v in (out, g))
    lower, upper = transposed(ops, ops.tril(square, diagonal=-1)), transposed(ops, square)
    # diagonals of ones are added as products with the identity would be
    gl, gu = ops.tril(grad, diagonal=-1), ops.triu(grad, diagonal=0)
    left = gl + ops.matmul(lower, gl)
    right = ops.matmul(gu, ops.tril(upper, diagonal=0))
    if n > k:
        t, gt = (part(ops, part(ops, v, -1, k, n), -2, 0, k) for v in (out, g))
        left = left - ops.matmul(gt, transposed(ops, t))
    if m > k:
        b, gb = (part(ops, part(ops, v, -1, 0, k), -2, k, m) for v in (out, g))
        right = right - ops.matmul(transposed(ops, b), gb)
    inner = ops.tril(left, diagonal=-1) + ops.triu(right, diagonal=0)
    above = ops.triangular_solve(lower, inner, upper=True, unit=True)
    found = _behind(ops, above, square)
    if n > k:
        found = ops.cat(found, ops.triangular_solve(lower, gt, upper=True, unit=True), dim=last)
    if m > k:
        found = ops.cat(found, _behind(ops, gb, square), dim=last - 1)
    order = transposed(ops, part(ops, out, -1, n + 1, n + 2))
    order = ops.real(order) if x.dtype.is_complex else order
    rows = ops.arange(0, 1, size=m, dtype=order.dtype, device=x.device)
    rows = ops.reshape(rows, shape=(m, 1))
    return ops.matmul(ops.cast(ops.eq(order, rows), dtype=x.dtype), found)


def _behind(ops: Any, x: Any, u: Any) -> Any:
    """x U^-T, U the upper triangle of u."""
    solved = ops.triangular_solve(u, transposed(ops, x), upper=True, unit=False)
    return transposed(ops, solved)


@extern(infer=_lu_infer, vjp={"x": _lu_vjp}, samples=sample_rules.leading)
def pivoted_lu(xp: Any, x: Any) -> Any:
    """L (below the diagonal) and U in one matrix, a column of pivots, one of rows, (*, m, n + 2).

    Pivot i, counted from 1, is the row that changes places with row i; rows beyond the smaller of
    m and n have none (0). The last column says which row of x row i of L U is. Matrices on a GPU
    are factorized on the host.
    """
    module = load("scipy.linalg", needed_for="linalg.lu_factor", install="scipy")
    m, n = x.shape[-2:]
    x = any_arrays.as_numpy(x)
    out = np.zeros((*x.shape[:-2], m, n + 2), x.dtype)
    out[..., n + 1] = np.arange(m)
    for place in np.ndindex(x.shape[:-2]):
        if min(m, n) == 0:
            continue
        getrf = module.get_lapack_funcs("getrf", (x[place],))
        factors, pivots, _ = getrf(x[place])
        out[place][:, :n] = factors
        out[place][: len(pivots), n] = pivots + 1
        for row, other in enumerate(pivots):
            out[place][[row, other], n + 1] = out[place][[other, row], n + 1]
    return xp.asarray(out)


def _pivots_infer(pivots: ValueType, *, rows: Size) -> TensorType:
    type = require_tensor(pivots, describe("pivot_order", ("pivots",), (pivots,)), "pivots")
    return type.with_shape((*type.shape[:-1], rows)).with_dtype(dtypes.int64)


def _stays_pivots(pivots: TensorType, *, rows: Size) -> bool:
    return not isinstance(pivots.shape[-1], int)


def _pivot_order_array(xp: Any, pivots: Any, *, rows: int) -> Any:
    if xp is not np:
        return NotImplemented
    order = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for place in np.ndindex(pivots.shape[:-1]):
        own = order[place]
        for i, other in enumerate(pivots[place]):
            own[[i, other - 1]] = own[[other - 1, i]]
    return order


@composite(
    infer=_pivots_infer, array=_pivot_order_array, stays=_stays_pivots, samples=sample_rules.leading
)
def pivot_order(ops: Any, pivots: Any, *, rows: int) -> Any:
    """Which row of a matrix each row of its L U is, int64 (*, rows), of pivots (*, k): one after
    the other row i and the row pivots[i], counted from 1, change places."""
    shape = (*pivots.shape[:-1], rows)
    order = ops.expand(
        ops.arange(0, 1, size=rows, dtype=dtypes.int64, device=pivots.device), shape=shape
    )
    last = len(shape) - 1
    for i in range(pivots.shape[-1]):
        at = ops.sub(ops.cast(part(ops, pivots, -1, i, i + 1), dtype=dtypes.int64), 1)
        here, there = part(ops, order, -1, i, i + 1), ops.gather(order, at, dim=last)
        order = ops.scatter(order, at, here, dim=last)
        first = ops.full(i, shape=tuple(at.shape), dtype=dtypes.int64, device=pivots.device)
        order = ops.scatter(order, first, there, dim=last)
    return order
