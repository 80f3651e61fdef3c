"""Factorizations that say which matrices failed instead of raising: `linalg.inv_ex` and its kin.

Contract: `info` (int32, one per matrix) is 0 where the method succeeded; else it says where it
failed, counted from 1, and the result of that matrix is NaN. Gradients flow through the matrices
that succeeded. Which ones failed is looked up in the contents, so these functions break graphs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import LinAlgError
from dynajit.core.types.symint import agree
from dynajit.ops.calls.arguments import constant
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.public import public
from dynajit.ops.functions.creation.creation import eye
from dynajit.ops.functions.matrices.linalg import cholesky, inv, is_vector, lu_factor, solve
from dynajit.ops.functions.shapes.shape import reshape
from dynajit.ops.table.op_table import TABLE, Autocast


class InverseInfo(NamedTuple):
    """Result of `inv_ex`."""

    inverse: Any
    info: Any


class CholeskyInfo(NamedTuple):
    """Result of `cholesky_ex`."""

    L: Any
    info: Any


class SolutionInfo(NamedTuple):
    """Result of `solve_ex`."""

    result: Any
    info: Any


class LUInfo(NamedTuple):
    """Result of `lu_factor_ex`: as of `lu_factor`, and the info."""

    LU: Any
    pivots: Any
    info: Any


@public("linalg")
@autocast(cpu=Autocast.FULL)
def inv_ex(A: Any, *, check_errors: bool = False) -> InverseInfo:
    """Inverses of square matrices, and the infos: the first pivot of LU that is 0.

    Raises:
        LinAlgError: `check_errors`, and a matrix is singular.
        ShapeError: A are no square matrices.
    """
    info, failed = _failures(A, np.linalg.inv, _zero_pivot, lambda: inv(A))
    if check_errors and info.any():
        raise LinAlgError(
            f"linalg.inv_ex: The diagonal element {_first(info)} is zero, the inversion could not "
            "be completed because the input matrix is singular."
        )
    result = inv(A) if failed is None else _filled(inv(_mended(A, failed)), failed)
    return InverseInfo(result, constant(info, A.device))


@public("linalg")
@autocast(cpu=Autocast.FULL)
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> CholeskyInfo:
    """Lower (`upper`: upper) triangular factors, and the infos: the first leading minor that is not
    positive.

    Raises:
        LinAlgError: `check_errors`, and a matrix is not positive-definite.
        ShapeError: A are no square matrices.
    """

    def attempt(matrix: Any) -> Any:
        return np.linalg.cholesky(np.conj(matrix.T) if upper else matrix)

    info, failed = _failures(A, attempt, _bad_minor, lambda: cholesky(A, upper=upper))
    if check_errors and info.any():
        raise LinAlgError(
            "linalg.cholesky_ex: The factorization could not be completed because the input is not "
            f"positive-definite (the leading minor of order {_first(info)} is not "
            "positive-definite)."
        )
    if failed is None:
        return CholeskyInfo(cholesky(A, upper=upper), constant(info, A.device))
    result = cholesky(_mended(A, failed), upper=upper)
    return CholeskyInfo(_filled(result, failed), constant(info, A.device))


@public("linalg")
@autocast(cpu=Autocast.FULL)
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> SolutionInfo:
    """As `linalg.solve`, and the infos: the first pivot of LU that is 0.

    Raises:
        LinAlgError: `check_errors`, and a matrix is singular.
        ShapeError: shapes that do not fit.
    """
    info, failed = _failures(A, np.linalg.inv, _zero_pivot, lambda: solve(A, B, left=left))
    if check_errors and info.any():
        raise LinAlgError(
            "torch.linalg.solve_ex: The solver failed because the input matrix is singular."
        )
    if failed is None:
        return SolutionInfo(solve(A, B, left=left), constant(info, A.device))
    result = solve(_mended(A, failed), B, left=left)
    marks = reshape(failed, tuple(failed.shape[:-1])) if is_vector(A, B) else failed
    return SolutionInfo(_filled(result, marks), constant(info, A.device))


@public("linalg")
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> LUInfo:
    """As `linalg.lu_factor`, and the infos: the first element on U's diagonal that is 0.

    Raises:
        LinAlgError: `check_errors`, and there is one.
        UnsupportedError: `pivot` is False.
    """
    factors, pivots = lu_factor(A, pivot=pivot)
    zero = np.diagonal(any_arrays.as_numpy(factors.detach().array), 0, -2, -1) == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0) if zero.shape[-1] else zero.any(-1)
    info = np.asarray(info).astype(np.int32)
    if check_errors and info.any():
        n = _first(info)
        raise LinAlgError(
            f"torch.linalg.lu_factor_ex: U[{n},{n}] is zero and using it on lu_solve would result "
            "in a division by zero."
        )
    return LUInfo(factors, pivots, constant(info, A.device))


def _failures(
    A: Any,
    attempt: Callable[[Any], Any],
    place: Callable[[Any], int],
    refuse: Callable[[], Any],
) -> tuple[np.ndarray, Any]:
    """The infos of matrices, and None, or which failed as bools with two dims of size 1 behind.

    Args:
        attempt: raises `np.linalg.LinAlgError` for a stack of which one matrix fails.
        place: where a matrix fails.
        refuse: raises for what are no square matrices.
    """
    kind = A.dtype
    has_entries = (kind.is_floating_point or kind.is_complex) and kind.itemsize > 2
    if len(A.shape) < 2 or not agree(A.shape[-1], A.shape[-2]) or not has_entries:
        refuse()
    arrays = any_arrays.as_numpy(A.detach().array)
    info = np.zeros(arrays.shape[:-2], np.int32)
    for index in np.ndindex(info.shape):
        try:
            attempt(arrays[index])
        except np.linalg.LinAlgError:
            info[index] = place(arrays[index])
    if not info.any():
        return info, None
    return info, constant((info > 0)[..., None, None], A.device)


def _zero_pivot(matrix: np.ndarray) -> int:
    """The step of Gauss' elimination, with the largest pivots, that finds only zeros; from 1 on."""
    left = matrix.astype(np.result_type(matrix.dtype, np.float32))
    for step in range(len(left)):
        best = step + int(np.abs(left[step:, step]).argmax())
        if left[best, step] == 0:
            return step + 1
        left[[step, best]] = left[[best, step]]
        factors = left[step + 1 :, step] / left[step, step]
        left[step + 1 :, step:] -= np.outer(factors, left[step, step:])
    return len(left)


def _bad_minor(matrix: np.ndarray) -> int:
    """The order of the first leading minor that is not positive-definite."""
    for order in range(1, len(matrix)):
        try:
            np.linalg.cholesky(matrix[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return len(matrix)


def _first(info: np.ndarray) -> int:
    return int(info[info > 0].flat[0])


def _mended(A: Any, failed: Any) -> Any:
    """Matrices with the identity in the place of those that failed."""
    return TABLE.where(failed, eye(A.shape[-1], dtype=A.dtype, device=A.device), A)


def _filled(result: Any, failed: Any) -> Any:
    """Results with NaN in the place of those that failed."""
    return TABLE.where(failed, float("nan"), result)


__all__ = ["cholesky_ex", "inv_ex", "lu_factor_ex", "solve_ex"]
