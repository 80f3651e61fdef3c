"""Linear algebra by the names and results of PyTorch's older functions, outside `dynajit.linalg`.

Contract: as in `ops.functions.matrices.linalg`, on which they build. The first parameter is the
tensor, so they are methods of `TensorMethods`, too.
"""

from typing import Any, NamedTuple

from dynajit.core.errors import UnsupportedError
from dynajit.core.types.symint import equals
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.placing import by_columns, copied_by_columns
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.elements.complex import adjoint
from dynajit.ops.functions.matrices import linalg
from dynajit.ops.functions.matrices.linalg import (
    LU,
    PLU,
    given_permutation,
    lu_factor,
    solve_triangular,
    triangles_of,
)
from dynajit.ops.functions.matrices.linalg import cholesky as lower_cholesky
from dynajit.ops.functions.matrices.linalg import lu_solve as solve_by_factors
from dynajit.ops.functions.matrices.linalg import svd as whole_svd
from dynajit.ops.functions.matrices.norm import cross as cross_products
from dynajit.ops.table.op_table import TABLE, Autocast


class SVD(NamedTuple):
    """Result of `svd`: V, not its transpose."""

    U: Any
    S: Any
    V: Any


class TriangularSolution(NamedTuple):
    """Result of `triangular_solve`."""

    solution: Any
    cloned_coefficient: Any


@public(out=Out.SAME_DTYPE, method=True)
def inverse(input: Any) -> Any:
    """Inverses of square matrices; see `linalg.inv`."""
    return linalg.inv(input)


@public(out=Out.ABSENT, method=True)
@autocast(cpu=Autocast.FULL)
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Pseudo-inverses; singular values of at most `rcond` times the largest count as zero."""
    return linalg.pinv(input, rcond)


@public(out=Out.SAME_DTYPE, method=True)
def det(input: Any) -> Any:
    """Determinants; see `linalg.det`."""
    return linalg.det(input)


@public(method=True)
def slogdet(input: Any) -> Any:
    """(sign, log of the magnitude) of determinants; see `linalg.slogdet`."""
    return linalg.slogdet(input)


@public(method=True)
def matrix_power(input: Any, n: int) -> Any:
    """Square matrices to an integer power; see `linalg.matrix_power`."""
    return linalg.matrix_power(input, n)


@public(method=True)
def qr(input: Any, some: bool = True) -> Any:
    """Q and R with Q R = input; `some`: Q has as many columns as needed, else it is square."""
    return linalg.qr(input, "reduced" if some else "complete")


@public(out=Out.ABSENT, method=True)
def logdet(input: Any) -> Any:
    """Logarithm of determinants; NaN of negative ones, complex of complex ones."""
    sign, size = slogdet(input)
    if sign.dtype.is_complex:
        return TABLE.add(TABLE.log(sign), size)
    return TABLE.where(TABLE.lt(sign, 0), float("nan"), size)


@public(method=True)
@autocast(cpu=Autocast.FULL)
def svd(input: Any, some: bool = True, compute_uv: bool = True) -> SVD:
    """U, singular values and V with U diag(S) V^H = input; `some`: as many columns as needed."""
    u, s, vh = whole_svd(input, not some)
    return SVD(u, s, adjoint(vh))


@public(out=Out.SAME_DTYPE, method=True)
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products along `dim`, by default the first dim of size 3."""
    if dim is None:
        dim = next((d for d, n in enumerate(input.shape) if equals(n, 3)), -1)
    return cross_products(input, other, dim=dim)


@public(method=True)
@autocast(cpu=Autocast.FULL)
def cholesky(input: Any, upper: bool = False) -> Any:
    """Lower (or upper) triangular factor of positive-definite matrices; see `linalg.cholesky`."""
    return lower_cholesky(input, upper=upper)


@public(method=True)
@autocast(cpu=Autocast.FULL)
def cholesky_solve(input: Any, input2: Any, upper: bool = False) -> Any:
    """x with A x = input; `input2` is the Cholesky factor of A."""
    lower = adjoint(input2) if upper else input2
    inner = solve_triangular(lower, input, upper=False)
    return solve_triangular(adjoint(lower), inner, upper=True)


@public(method=True)
@autocast(cpu=Autocast.FULL)
def cholesky_inverse(input: Any, upper: bool = False) -> Any:
    """The inverse of A, of its Cholesky factor."""
    lower = adjoint(input) if upper else input
    half = TABLE.inverse(TABLE.tril(lower, diagonal=0))
    return by_columns(TABLE.matmul(adjoint(half), half))


@public(method=True)
@autocast(cpu=Autocast.FULL)
def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """(x with T x = b, a copy of A), T the triangle of A, or its transpose."""
    if transpose:
        turned = TABLE.permute(
            A, dims=(*range(len(A.shape) - 2), len(A.shape) - 1, len(A.shape) - 2)
        )
        found = solve_triangular(turned, b, upper=not upper, unitriangular=unitriangular)
    else:
        found = solve_triangular(A, b, upper=upper, unitriangular=unitriangular)
    wide = TABLE.expand(A, shape=(*tuple(found.shape)[:-2], *tuple(A.shape)[-2:]))
    return TriangularSolution(found, copied_by_columns(wide))


@public(numpy_names=False, method=True)
def lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """(factors, pivots[, info 0])."""
    found = lu_factor(A, pivot=pivot)
    if not get_infos:
        return LU(*found)
    info = TABLE.full(0, shape=tuple(A.shape[:-2]), dtype=found.pivots.dtype, device=A.device)
    return (*found, info)


@public(method=True)
@autocast(cpu=Autocast.FULL)
def lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """x with A x = b, of the factors of A."""
    return solve_by_factors(LU_data, LU_pivots, b)


@public()
def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> PLU:
    """P, L and U of the factors of a matrix."""
    if not (unpack_data and unpack_pivots):
        raise UnsupportedError(
            "lu_unpack: parts alone are not available.  Leave unpack_data and unpack_pivots True."
        )
    places = given_permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype)
    return PLU(places, *triangles_of(LU_data))
