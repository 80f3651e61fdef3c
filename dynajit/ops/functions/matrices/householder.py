"""Products of Householder reflectors: `geqrf`, `ormqr`, `linalg.householder_product`.

Contract: reflector i of a matrix of reflectors is I - tau[i] v v^H, where v is 0 above row i, 1 in
row i, and column i of the matrix below. Products are composed of rows, so they have derivatives;
`geqrf` has none, as in PyTorch, and needs the contents.

Source: LAPACK's geqrf, orgqr and ormqr; E. Anderson et al., "LAPACK Users' Guide", SIAM 1999.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import DTypeError, ShapeError, UnsupportedError
from dynajit.core.types.dtypes import int64
from dynajit.core.types.symint import agree, shapes_agree
from dynajit.ops.calls.arguments import constant, is_followed
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.placing import by_columns
from dynajit.ops.calls.public import public
from dynajit.ops.functions.creation.creation import eye
from dynajit.ops.functions.shapes.shape import sliced, unsqueeze
from dynajit.ops.functions.shapes.shape import transpose as exchanged
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


class Reflectors(NamedTuple):
    """Result of `geqrf`: R above and on the diagonal, the reflectors below it; their factors."""

    a: Any
    tau: Any


def geqrf(input: Any) -> Reflectors:
    """The QR factorization of matrices (*, m, n) as reflectors; needs the contents.

    Returns:
        a, shape (*, m, n), and tau, shape (*, min(m, n)).

    Raises:
        ShapeError: there are less than two dims.
        UnsupportedError: the dtype is neither float32, float64 nor complex, or the input requires a
            gradient, which is not available.
    """
    if len(input.shape) < 2:
        raise ShapeError("torch.geqrf: input must have at least 2 dimensions.")
    if not (input.dtype.is_floating_point or input.dtype.is_complex) or input.dtype.itemsize < 4:
        raise UnsupportedError(
            f'"geqrf_cpu" not implemented for {input.dtype.name}.  Convert with float().'
        )
    if is_followed(input):
        raise UnsupportedError(
            "the derivative for geqrf is not implemented.  Call linalg.qr, or detach()."
        )
    array = any_arrays.as_numpy(input.array)
    m, n = array.shape[-2:]
    a = np.empty(array.shape, array.dtype)
    tau = np.zeros((*array.shape[:-2], min(m, n)), array.dtype)
    for index in np.ndindex(array.shape[:-2]):
        if min(m, n):
            found, factors = np.linalg.qr(array[index], mode="raw")
            a[index], tau[index] = found.T, factors
    return Reflectors(constant(a, input.device), constant(tau, input.device))


@public("linalg")
@autocast(cpu=Autocast.FULL)
def householder_product(A: Any, tau: Any) -> Any:
    """The first n columns of the product of reflectors.

    Args:
        A: reflectors, shape (*, m, n) with m at least n.
        tau: their factors, shape (*, k) with k at most n.

    Raises:
        ShapeError: sizes do not go together.
        DTypeError: dtypes differ.
    """
    name = "torch.linalg.householder_product"
    if len(A.shape) < 2:
        raise ShapeError(f"{name}: input must have at least 2 dimensions.")
    if A.shape[-2] < A.shape[-1]:
        raise ShapeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    _check_factors(A, tau, name)
    m, n = A.shape[-2:]
    start = TABLE.expand(eye(m, n, dtype=A.dtype, device=A.device), shape=tuple(A.shape))
    return by_columns(_applied(A, tau, start, reversed(range(tau.shape[-1])), False))


def orgqr(input: Any, input2: Any) -> Any:
    """See `linalg.householder_product`."""
    return householder_product(input, input2)


@autocast(cpu=Autocast.FULL)
def ormqr(input: Any, input2: Any, input3: Any, left: bool = True, transpose: bool = False) -> Any:
    """Q times a matrix, where Q is the whole product of reflectors, (*, m, m).

    Args:
        input: reflectors, shape (*, m, k).
        input2: their factors, shape (*, k).
        input3: matrices, shape (*, m, n), or (*, n, m) if not `left`.
        left: Q stands on the left.
        transpose: take the conjugate transpose of Q.

    Raises:
        ShapeError: sizes do not go together.
        DTypeError: dtypes differ.
    """
    if len(input.shape) < 2 or len(input3.shape) < 2:
        raise ShapeError("torch.ormqr: input and other must have at least 2 dimensions.")
    if tuple(input.shape[:-2]) != tuple(input3.shape[:-2]):
        raise ShapeError(
            f"torch.ormqr: other has batch dims {list(input3.shape[:-2])}.  Expected those of "
            f"input, {list(input.shape[:-2])}."
        )
    dim = -2 if left else -1
    if not agree(input3.shape[dim], input.shape[-2]):
        raise ShapeError(f"torch.ormqr: other.shape[{dim}] must be equal to input.shape[-2]")
    _check_factors(input, input2, "torch.ormqr")
    if input3.dtype is not input.dtype:
        raise DTypeError(
            f"torch.ormqr: other dtype {input3.dtype.name} does not match input dtype "
            f"{input.dtype.name}"
        )
    count = input2.shape[-1]
    if left:  # Q C = H1 (H2 (... C)), Q^H C = ... H2^H (H1^H C)
        order = range(count) if transpose else reversed(range(count))
        return _applied(input, input2, input3, order, transpose)
    # C Q is the adjoint of Q^H C^H.
    order = reversed(range(count)) if transpose else range(count)
    return _adjoint(_applied(input, input2, _adjoint(input3), order, not transpose))


def _check_factors(A: Any, tau: Any, name: str) -> None:
    if A.shape[-1] < tau.shape[-1]:
        raise ShapeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if not shapes_agree(A.shape[:-2], tau.shape[:-1]):
        raise ShapeError(
            f"{name}: Expected batch dimensions of tau to be equal to those of input, "
            f"{tuple(A.shape[:-2])}, but got {tuple(tau.shape[:-1])}"
        )
    if tau.dtype is not A.dtype:
        raise DTypeError(
            f"{name}: tau dtype {tau.dtype.name} does not match input dtype {A.dtype.name}"
        )


def _applied(A: Any, tau: Any, x: Any, order: Any, is_conjugated: bool) -> Any:
    """x behind the reflectors in this order; `is_conjugated`: their adjoints."""
    last = len(A.shape) - 1
    vectors = TABLE.tril(A, diagonal=-1)
    places = TABLE.arange(0, 1, size=A.shape[-2], dtype=int64, device=A.device)
    for i in order:
        column = sliced(vectors, last, i, i + 1)
        unit = unsqueeze(TABLE.cast(TABLE.eq(places, i), dtype=A.dtype), -1)
        v = TABLE.add(column, unit)
        factor = unsqueeze(sliced(tau, len(tau.shape) - 1, i, i + 1), -1)
        if is_conjugated and A.dtype.is_complex:
            factor = TABLE.conj(factor)
        x = TABLE.sub(x, TABLE.mul(factor, TABLE.matmul(v, TABLE.matmul(_adjoint(v), x))))
    return x if tau.shape[-1] else TABLE.clone(x)


def _adjoint(x: "TensorMethods") -> Any:
    turned = exchanged(x, -2, -1)
    return TABLE.conj(turned) if x.dtype.is_complex else turned
