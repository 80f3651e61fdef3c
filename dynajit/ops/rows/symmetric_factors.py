"""Factors of symmetric matrices that may be indefinite: `linalg.ldl_factor` and its kin.

Contract: P L D L^T P^T of batches of matrices, of which the lower triangle is read, with blocks of
one and two rows in D; as LAPACK gives them, through SciPy. Contents are needed, so graphs break;
there are no derivatives, as in PyTorch.

Source: J. Bunch, L. Kaufman, "Some stable methods for calculating inertia and solving symmetric
linear systems", Mathematics of Computation 31 (1977).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import DTypeError, LinAlgError, ShapeError, UnsupportedError
from dynajit.core.process.optional import load
from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import constant, is_followed
from dynajit.ops.calls.public import public

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


class LDL(NamedTuple):
    """Result of `ldl_factor`: L below the diagonal, D's blocks on it, and LAPACK's pivots."""

    LD: Any
    pivots: Any


class LDLInfo(NamedTuple):
    """Result of `ldl_factor_ex`: info is 0, or the first row of D that is 0, from 1 on."""

    LD: Any
    pivots: Any
    info: Any


@public("linalg")
def ldl_factor(A: Any, *, hermitian: bool = False) -> LDL:
    """The factors of symmetric (`hermitian`: Hermitian) matrices.

    Raises:
        LinAlgError: D is singular.
        others: as of `ldl_factor_ex`.
    """
    found = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return LDL(found.LD, found.pivots)


@public("linalg")
def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> LDLInfo:
    """The factors, and which are singular.

    Raises:
        ShapeError: A are no square matrices.
        DTypeError: of integers.
        UnsupportedError: of 16-bit floats; SciPy is not installed; A requires a gradient.
        LinAlgError: `check_errors`, and D is singular.
    """
    name = "torch.linalg.ldl_factor_ex"
    if len(A.shape) < 2:
        raise ShapeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    m, n = A.shape[-2:]
    if m != n:
        raise ShapeError(
            f"{name}: A must be batches of square matrices, but they are {m} by {n} matrices"
        )
    _check_dtype(A, name)
    array = any_arrays.as_numpy(A.array)
    factorize = _lapack("hetrf" if hermitian and A.dtype.is_complex else "sytrf", array)
    factors = np.zeros_like(array)
    pivots = np.zeros(array.shape[:-1], np.int32)
    info = np.zeros(array.shape[:-2], np.int32)
    for index in np.ndindex(info.shape):
        if n:
            both, pivots[index], info[index] = factorize(array[index], lower=1)
            factors[index] = np.tril(both)
    if check_errors and info.any():
        raise LinAlgError(
            f"{name}: the block of D in row {info[info > 0].flat[0]} is zero, so the matrix is "
            "singular."
        )
    return LDLInfo(*(constant(part, A.device) for part in (factors, pivots, info)))


@public("linalg")
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """x with A x = B, of the factors of A.

    Args:
        LD, pivots: of `ldl_factor`, shapes (*, n, n) and (*, n).
        B: matrices, shape (*, n, k); the dims before them broadcast.
        hermitian: as `ldl_factor` was told.

    Raises:
        ShapeError: sizes do not go together.
        DTypeError: dtypes differ, or the pivots are no integers.
        UnsupportedError: SciPy is not installed, or something requires a gradient.
    """
    name = "torch.linalg.ldl_solve"
    if len(B.shape) < 2:
        raise ShapeError(f"{name}: B must have at least 2 dimensions, got {len(B.shape)}")
    if LD.dtype is not B.dtype:
        raise DTypeError(
            f"Expected b and A to have the same dtype, but found b of type {B.dtype.name} and A of "
            f"type {LD.dtype.name} instead."
        )
    if pivots.dtype.category is not Category.INTEGER:
        raise DTypeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype.name}")
    n = LD.shape[-1]
    if B.shape[-2] != n:
        raise ShapeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {n} by {n} but each b matrix "
            f"is {B.shape[-2]} by {B.shape[-1]}"
        )
    _check_dtype(LD, name)
    _check_dtype(B, name)
    factors, places, right = (any_arrays.as_numpy(x.array) for x in (LD, pivots, B))
    batch = np.broadcast_shapes(factors.shape[:-2], right.shape[:-2])
    factors = np.broadcast_to(factors, (*batch, n, n))
    places = np.broadcast_to(places, (*batch, n)).astype(np.int32)
    right = np.broadcast_to(right, (*batch, *right.shape[-2:]))
    solve = _lapack("hetrs" if hermitian and LD.dtype.is_complex else "sytrs", factors)
    result = np.zeros_like(right)
    for index in np.ndindex(batch):
        if right[index].size:
            result[index], _ = solve(factors[index], places[index], right[index], lower=1)
    return constant(result, B.device)


def _check_dtype(x: "TensorMethods", name: str) -> None:
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise DTypeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {x.dtype.name}"
        )
    if x.dtype.itemsize < 4:
        raise UnsupportedError(f"{name}: not implemented for {x.dtype.name}.  Convert it first.")
    if is_followed(x):
        raise UnsupportedError(f"{name}: the derivative is not implemented.  detach() it.")


def _lapack(name: str, array: np.ndarray) -> Any:
    module = load("scipy.linalg", needed_for="linalg.ldl_factor", install="scipy")
    (function,) = module.get_lapack_funcs((name,), (np.empty(0, array.dtype),))
    return function


__all__ = ["ldl_factor", "ldl_factor_ex", "ldl_solve"]
