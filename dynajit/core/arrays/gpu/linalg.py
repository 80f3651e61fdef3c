"""Linear algebra of GPU arrays: CuPy's, with NumPy's errors and broadcasting.

Contract: the functions of `numpy.linalg` that rows call, for float32 and float64; a matrix that is
singular or not positive-definite raises `numpy.linalg.LinAlgError`, as it does on the CPU (CuPy
reports it only when asked, since that waits for the GPU). Called through `core.arrays.gpu.arrays`.
"""

from typing import Any

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu


class GpuLinearAlgebra:
    """`xp.linalg`. Immutable.

    Args:
        cupy: the module.
    """

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cupy.linalg, name)

    def _checked(self, name: str, *operands: Any) -> Any:
        with gpu.extensions().errstate(linalg="raise"):
            return getattr(self._cupy.linalg, name)(*operands)

    def cholesky(self, a: Any) -> Any:
        """Lower triangular factors."""
        return self._checked("cholesky", a)

    def inv(self, a: Any) -> Any:
        """Inverses of square matrices."""
        return self._checked("inv", a)

    def solve(self, a: Any, b: Any) -> Any:
        """x with a x = b; batch dims broadcast."""
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        a = self._cupy.broadcast_to(a, (*batch, *a.shape[-2:]))
        b = self._cupy.broadcast_to(b, (*batch, *b.shape[-2:]))
        if b.size == 0:
            return b.copy()
        return self._checked("solve", a, b)

    def eigh(self, a: Any, uplo: str = "L") -> Any:
        """(eigenvalues in rising order, eigenvectors as columns)."""
        return self._checked("eigh", a, uplo)

    def svd(self, a: Any, full_matrices: bool = True) -> Any:
        """(U, singular values, V^T)."""
        return self._checked("svd", a, full_matrices)

    def qr(self, a: Any, mode: str = "reduced") -> Any:
        """(Q, R)."""
        return self._checked("qr", a, mode)
