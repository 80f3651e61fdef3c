"""NumPy's linear algebra, over tensors: results lie row by row, in NumPy's named tuples."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import agree, is_at_least
from dynajit.ops.functions.arrays.table import left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, common, in_dtype
from dynajit.ops.functions.matrices import linalg
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


def _result(name: str) -> Any:
    return getattr(np.linalg._linalg, name)


def _in_rows(x: "TensorMethods") -> Any:
    return TABLE.laid_out(x, order=tuple(range(len(x.shape))))


def _matrix(a: Any, is_square: bool = True) -> Any:
    """A matrix of floats; errors of others are NumPy's to tell."""
    a = as_tensor(a)
    if a.dtype.category in (Category.BOOL, Category.INTEGER):
        a = in_dtype(a, np.float64)
    if a.dtype.name not in ("float32", "float64") or len(a.shape) != 2:
        raise left("numpy.linalg of this dtype, or of other than matrices,")
    if not all(is_at_least(size, 1) for size in a.shape):
        raise left("numpy.linalg of no elements")
    if is_square and not agree(*a.shape):
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return a


@stands_for(np.linalg.inv)
def inv(a: Any) -> Any:
    """The inverse."""
    return _in_rows(linalg.inv(_matrix(a)))


@stands_for(np.linalg.solve)
def solve(a: Any, b: Any) -> Any:
    """What the matrix makes `b` of."""
    a, b = as_tensor(a), as_tensor(b)
    kind = common((_matrix(a), b))
    if len(b.shape) not in (1, 2) or kind.kind != "f":
        raise left("numpy.linalg.solve of this")
    found = linalg.solve(in_dtype(_matrix(a), kind), in_dtype(b, kind))
    return _in_rows(found)


@stands_for(np.linalg.det)
def det(a: Any) -> Any:
    """The determinant."""
    return linalg.det(_matrix(a))


@stands_for(np.linalg.slogdet)
def slogdet(a: Any) -> Any:
    """Sign and logarithm of the determinant."""
    return _result("SlogdetResult")(*linalg.slogdet(_matrix(a)))


@stands_for(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The lower triangular factor."""
    if upper:
        raise left("numpy.linalg.cholesky of the upper factor")
    return _in_rows(linalg.cholesky(_matrix(a)))


@stands_for(np.linalg.eigh)
def eigh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues and vectors of a symmetric matrix."""
    values, vectors = linalg.eigh(_matrix(a), UPLO)
    return _result("EighResult")(values, _in_rows(vectors))


@stands_for(np.linalg.eigvalsh)
def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of a symmetric matrix."""
    return linalg.eigvalsh(_matrix(a), UPLO)


@stands_for(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True,
        hermitian: bool = False) -> Any:  # fmt: skip
    """Singular values and vectors."""
    if hermitian:
        raise left("numpy.linalg.svd of a symmetric matrix")
    if not compute_uv:
        return linalg.svdvals(_matrix(a, False))
    u, values, vh = linalg.svd(_matrix(a, False), full_matrices)
    return _result("SVDResult")(_in_rows(u), values, _in_rows(vh))


@stands_for(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """An orthogonal and a triangular factor."""
    if mode != "reduced":
        raise left(f"numpy.linalg.qr in mode {mode!r}")
    q, r = linalg.qr(_matrix(a, False))
    return _result("QRResult")(_in_rows(q), _in_rows(r))


@stands_for(np.linalg.pinv)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Any:
    """The pseudo-inverse."""
    if rcond is not None or hermitian or rtol is not np._NoValue:
        raise left("numpy.linalg.pinv by a tolerance, or of a symmetric matrix,")
    a = _matrix(a, False)
    return _in_rows(linalg.pinv(a, rtol=1e-15))
