"""Norms and condition numbers of `dynajit.linalg`, and its products.

Contract: as in `ops.functions.matrices.linalg`; vectors lie along `dim`.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dynajit.core.errors import ArgumentRuntimeError, DTypeError, ShapeError
from dynajit.core.types.dtypes import Category, promote
from dynajit.core.types.symint import equals
from dynajit.ops.calls import arguments
from dynajit.ops.calls.arguments import cast
from dynajit.ops.calls.autocast import autocast
from dynajit.ops.calls.dtypes_of_operands import require_category, require_same_dtype
from dynajit.ops.calls.public import Out, public
from dynajit.ops.functions.elements.complex import conj
from dynajit.ops.functions.matrices.linalg import inv, require_square, svdvals
from dynajit.ops.functions.matrices.reported_failures import inv_ex
from dynajit.ops.functions.reductions.reduction import norm as norm_of_elements
from dynajit.ops.functions.shapes.shape import movedim, reshape, sliced, unsqueeze
from dynajit.ops.table import dispatch
from dynajit.ops.table.families import broadcast_shapes, normalize_dim
from dynajit.ops.table.op_table import TABLE, Autocast

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


def _floating(name: str, x: Any, dtype: Any = None) -> Any:
    """x, in the dtype that is asked for, which has to hold all that x's holds.

    Raises:
        DTypeError: it does not, or x is neither floating nor complex.
    """
    kind = None if dtype is None else arguments.dtype_of(dtype)
    if not x.dtype.is_floating_point and not x.dtype.is_complex:
        raise DTypeError(
            f"linalg.{name}: Expected a floating point or complex tensor as input. Got "
            f"{x.dtype.name}.  Cast it with .float()."
        )
    if kind is None:
        return x
    if kind.is_complex is not x.dtype.is_complex or promote(kind, x.dtype) is not kind:
        raise DTypeError(
            f"linalg.{name}(dtype={kind.name}): the input is {x.dtype.name}.  Expected a dtype as "
            "wide, complex for a complex input and for no other."
        )
    return cast(x, kind)


def _refuse_empty(x: "TensorMethods", ord: float, dim: Any) -> None:
    """
    Raises:
        ShapeError: a norm without identity is asked of dims without elements.
    """
    rank = len(x.shape)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        if ord < 0 and any(isinstance(n, int) and n == 0 for n in x.shape):
            raise ShapeError(f"linalg.vector_norm: the norm of order {ord} of no elements.")
        return
    for d in dim if isinstance(dim, (tuple, list)) else (dim,):
        n = x.shape[normalize_dim(d, rank, "linalg.vector_norm")] if rank else 1
        if isinstance(n, int) and n == 0:
            raise ShapeError(
                f"linalg.vector_norm: the norm of order {ord} along dim {d}, which has no elements."
            )


@public("linalg", out=Out.SAME_DTYPE)
def vector_norm(
    x: "TensorMethods", ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Norm of order `ord` of the elements along `dim` (all of them by default).

    Raises:
        ArgumentRuntimeError: the order is complex.
        ShapeError: it is negative or infinite, and there are no elements.
    """
    if isinstance(ord, complex):
        raise ArgumentRuntimeError("linalg.vector_norm: expected a real number as the order.")
    if isinstance(ord, (int, float)) and (ord < 0 or ord == math.inf):
        _refuse_empty(x, ord, dim)
    return norm_of_elements(_floating("vector_norm", x, dtype), ord, dim, keepdim)


@public("linalg", out=Out.SAME_DTYPE)
def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Norm of matrices: "fro", "nuc", inf, -inf, 1, -1, 2 or -2.

    Raises:
        ShapeError: there are no two different dims.
        ArgumentError: the order is not one of those.
    """
    x = _floating("matrix_norm", A, dtype)
    if len(x.shape) < 2:
        raise ShapeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    rank = len(x.shape)
    if not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise ShapeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {dim}")
    first, second = (normalize_dim(d, rank, "linalg.matrix_norm") for d in dim)
    if first == second:
        raise ShapeError(f"linalg.matrix_norm: dims must be different. Got ({first}, {second})")
    if ord == "fro":
        return norm_of_elements(x, 2, (first, second), keepdim)
    if ord in ("nuc", 2, -2):
        values = svdvals(movedim(x, (first, second), (-2, -1)))
        last = (len(values.shape) - 1,)
        row = TABLE.sum if ord == "nuc" else _largest if ord == 2 else TABLE.amin
        found = row(values, dim=last, keepdim=False)
    elif ord in (1, -1, math.inf, -math.inf):
        summed, chosen = (first, second) if abs(ord) == 1 else (second, first)
        sums = TABLE.sum(TABLE.abs(x), dim=(summed,), keepdim=True)
        row = _largest if ord > 0 else TABLE.amin
        found = row(sums, dim=(chosen,), keepdim=True)
    else:
        raise ArgumentRuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    kept = tuple(1 if d in (first, second) else n for d, n in enumerate(x.shape))
    left = tuple(n for d, n in enumerate(x.shape) if d not in (first, second))
    return reshape(found, kept if keepdim else left)


def _largest(sizes: Any, *, dim: tuple[int, ...], keepdim: bool) -> Any:
    """The largest of numbers that are not negative, 0 where there are none."""
    empty = any(isinstance(n, int) and n == 0 for n in (sizes.shape[d] for d in dim))
    return (TABLE.sum if empty else TABLE.amax)(sizes, dim=dim, keepdim=keepdim)


@public("linalg", out=Out.SAME_DTYPE)
def norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """Norm of a vector or of matrices, by `ord` and the number of dims.

    Without `ord` the 2-norm of all elements along `dim`; with it a matrix norm for two dims.
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    dims = dim
    if dims is None:
        if len(A.shape) not in (1, 2):
            raise ShapeError(
                "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
                f"{len(A.shape)}D."
            )
        dims = tuple(range(len(A.shape)))
    dims = arguments.integers(dims, "normalization")
    if len(dims) == 1 and not isinstance(ord, str):
        return vector_norm(A, ord, dims, keepdim, dtype=dtype)
    if len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    raise ShapeError(f"linalg.norm: If ord={ord!r}, dim must specify 1 or 2 dimensions. Got {dims}")


@public("linalg")
@autocast(cpu=Autocast.FULL)
def cond(A: Any, p: Any = None) -> Any:
    """Condition numbers: by singular values for p 2, -2, "nuc" or None, else norm(A) norm(inv(A)).

    Raises:
        ShapeError: A are no square matrices, and p is none of 2, -2 and None.
    """
    if p == "nuc":
        require_square(A, "linalg.cond")
    if p in (None, 2, -2, "nuc"):
        values = svdvals(A)
        last = len(values.shape) - 1
        if p == "nuc":
            inverse = TABLE.reciprocal(values)
            sums = (TABLE.sum(x, dim=(last,), keepdim=False) for x in (values, inverse))
            return TABLE.mul(*sums)
        if values.shape[last] == 0:
            return TABLE.sum(values, dim=(last,), keepdim=False)
        largest = TABLE.select(values, dim=last, index=0)
        smallest = TABLE.select(values, dim=last, index=values.shape[last] - 1)
        return TABLE.div(smallest, largest) if p == -2 else TABLE.div(largest, smallest)
    if dispatch.is_recording():  # a launch refuses singular matrices, and this runs again
        return TABLE.mul(matrix_norm(A, p), matrix_norm(inv(A), p))
    inverse, info = inv_ex(A)
    is_regular = TABLE.eq(info, 0)
    inverse = TABLE.where(unsqueeze(unsqueeze(is_regular, -1), -1), inverse, 0.0)
    found = TABLE.mul(matrix_norm(A, p), matrix_norm(inverse, p))
    return TABLE.where(is_regular, found, math.inf)


# ---------------------------------------------------------------------------------------------
# products


@public("linalg", out=Out.SAME_DTYPE)
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def vecdot(x: "TensorMethods", y: Any, *, dim: int = -1) -> Any:
    """Sums of products along `dim`, broadcast; x is conjugated.

    Raises:
        DTypeError: x and y have two dtypes, or one of integers.
    """
    require_category("linalg.vecdot", Category.FLOATING, x=x)
    require_same_dtype("linalg.vecdot", x, y=y)
    product = TABLE.mul(conj(x), y)
    d = normalize_dim(dim, len(product.shape), "linalg.vecdot")
    return cast(TABLE.sum(product, dim=(d,), keepdim=False), product.dtype)


@public("linalg", out=Out.SAME_DTYPE)
@autocast(cuda=Autocast.WIDEST)
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Cross products of vectors of 3 elements along `dim`, broadcast.

    Raises:
        ShapeError: the ranks differ, or there are not 3 elements.
        DTypeError: the dtypes differ.
    """
    require_same_dtype("linalg.cross", input, other=other)
    if len(input.shape) != len(other.shape):
        raise ShapeError("linalg.cross: inputs must have the same number of dimensions.")
    d = normalize_dim(dim, len(input.shape), "linalg.cross")
    if not (equals(input.shape[d], 3) and equals(other.shape[d], 3)):
        raise ShapeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and "
            f"{other.shape[d]}"
        )
    shape = broadcast_shapes([tuple(input.shape), tuple(other.shape)], "linalg.cross")
    a, b = TABLE.expand(input, shape=shape), TABLE.expand(other, shape=shape)

    def turned(x: "TensorMethods", by: int) -> Any:
        """The elements by places further on, from the end to the front."""
        return TABLE.cat(sliced(x, d, by, 3), sliced(x, d, 0, by), dim=d)

    return TABLE.sub(TABLE.mul(turned(a, 1), turned(b, 2)), TABLE.mul(turned(a, 2), turned(b, 1)))


@public("linalg")
@autocast(cpu=Autocast.LOWER, cuda=Autocast.LOWER)
def multi_dot(tensors: Sequence[Any]) -> Any:
    """Product of matrices in the order that needs the fewest multiplications.

    The first and the last may be vectors: a row and a column.

    Raises:
        ShapeError: fewer than two tensors, or shapes that do not fit.
    """
    given = list(tensors)
    if len(given) < 2:
        raise ShapeError(f"multi_dot(): expected at least 2 tensors but got {len(given)}")
    row, column = len(given[0].shape) == 1, len(given[-1].shape) == 1
    given[0] = unsqueeze(given[0], 0) if row else given[0]
    given[-1] = unsqueeze(given[-1], 1) if column else given[-1]
    for i, x in enumerate(given):
        if len(x.shape) != 2:
            raise ShapeError(f"multi_dot(): tensor {i} must be 2D but got {len(x.shape)}D")
    sizes = [given[0].shape[0], *(x.shape[1] for x in given)]
    product = _cheapest(given, sizes, {}, 0, len(given) - 1)[1]
    shape = tuple(product.shape)
    return reshape(product, (() if row else shape[:1]) + (() if column else shape[1:]))


def _cheapest(given: list[Any], sizes: list[Any], known: Any, i: int, j: int) -> tuple[Any, Any]:
    """The number of multiplications of given[i..j] in the best order, and the product."""
    plan = _order(sizes, known, i, j)
    return plan[0], _multiplied(given, known, i, j)


def _order(sizes: list[Any], known: Any, i: int, j: int) -> tuple[Any, int]:
    if i == j:
        return 0, i
    if (i, j) not in known:
        costs = [
            (
                _order(sizes, known, i, k)[0]
                + _order(sizes, known, k + 1, j)[0]
                + sizes[i] * sizes[k + 1] * sizes[j + 1],
                k,
            )
            for k in range(i, j)
        ]
        known[i, j] = min(costs)
    return known[i, j]  # type: ignore[no-any-return]


def _multiplied(given: list[Any], known: Any, i: int, j: int) -> Any:
    if i == j:
        return given[i]
    k = known[i, j][1]
    return TABLE.matmul(_multiplied(given, known, i, k), _multiplied(given, known, k + 1, j))
