"""NumPy's products of matrices and vectors, over tensors."""

import string
from typing import Any

import numpy as np

from dynajit.core.types.device import CPU
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import SymInt, is_at_least
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.functions.arrays.reductions import BY_ROW, sum_
from dynajit.ops.functions.arrays.table import Order, left, stands_for
from dynajit.ops.functions.arrays.types import as_tensor, axes_of, common, in_dtype, refuse_given
from dynajit.ops.functions.arrays.ufuncs import apply
from dynajit.ops.functions.matrices.matrix import einsum as einsum_of
from dynajit.ops.functions.matrices.matrix import matmul as matmul_of
from dynajit.ops.table.op_table import TABLE


def _pair(a: Any, b: Any) -> tuple[Any, Any]:
    a, b = as_tensor(a), as_tensor(b)
    kind = common((a, b))
    if kind.kind == "b":
        raise left("a product of truth values")
    return in_dtype(a, kind), in_dtype(b, kind)


@stands_for(np.matmul)
def matmul(x1: Any, x2: Any, /, out: Any = None) -> Any:
    """Matrix products."""
    refuse_given("matmul", out=out)
    x, y = _pair(x1, x2)
    if not x.shape or not y.shape:
        raise ValueError("matmul: an operand has no dims")
    return matmul_of(x, y)


@stands_for(np.dot, method="dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Products over the last dim and the one before it."""
    refuse_given("dot", out=out)
    x, y = _pair(a, b)
    if not x.shape or not y.shape:
        return apply("multiply", x, y)
    if len(y.shape) > 2 or (len(y.shape) == 1 and len(x.shape) > 2):
        raise left("numpy.dot of many dims")
    if len(x.shape) > 2:
        raise left("numpy.dot of many dims")
    return matmul_of(x, y)


@stands_for(np.inner)
def inner(a: Any, b: Any, /) -> Any:
    """Products over the last dims."""
    x, y = _pair(a, b)
    if not 1 <= len(x.shape) <= 2 or not 1 <= len(y.shape) <= 2:
        raise left("numpy.inner of many dims")
    return matmul_of(x, TABLE.permute(y, dims=(1, 0)) if len(y.shape) == 2 else y)


@stands_for(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The product of all elements; complex ones of `a` are conjugated."""
    x, y = _pair(a, b)
    x = TABLE.conj(x) if x.dtype.category is Category.COMPLEX else x
    return matmul_of(TABLE.reshape(x, shape=(x.numel(),)), TABLE.reshape(y, shape=(y.numel(),)))


@stands_for(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Products of every element with every other."""
    refuse_given("outer", out=out)
    x, y = as_tensor(a), as_tensor(b)
    x = TABLE.reshape(x, shape=(x.numel(), 1))
    return apply("multiply", x, TABLE.reshape(y, shape=(1, y.numel())))


@stands_for(np.vander)
def vander(x: object, N: Any = None, increasing: Any = False) -> Any:
    """Powers of every element, by products one after the other."""
    x = as_tensor(x)
    if len(x.shape) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    rows, columns = x.shape[0], x.shape[0] if N is None else N
    kind = np.promote_types(x.dtype.numpy, int)
    if not isinstance(columns, (int, SymInt)) or not is_at_least(columns, 2):
        raise left("numpy.vander of so few columns")
    wide = TABLE.expand(
        TABLE.reshape(in_dtype(x, kind), shape=(rows, 1)), shape=(rows, columns - 1)
    )
    powers = BY_ROW[TABLE.cumprod](wide, 1, kind)
    ones = TABLE.full(in_dtype(1, kind), shape=(rows, 1), dtype=powers.dtype, device=CPU)
    if increasing:
        return TABLE.cat(ones, powers, dim=1)
    return TABLE.cat(TABLE.flip(powers, dims=(1,)), ones, dim=1)


@stands_for(np.einsum, needs_rows=Order.NOT_KNOWN)
def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> Any:
    """Sums of products by an equation."""
    refuse_given("einsum", out=out)
    if not operands or not isinstance(operands[0], str):
        raise left("numpy.einsum without an equation of letters")
    equation, *given = operands
    tensors = [as_tensor(x) for x in given]
    if "..." in equation:
        equation = _in_letters(equation, [len(x.shape) for x in tensors])
    kind = common(tensors)
    if kind.kind == "b":
        raise left("numpy.einsum of truth values")
    if len(tensors) == 1:
        return _einsum_of_one(equation, tensors[0])
    if not _keeps_order(equation):
        raise left("numpy.einsum with dims of the result in another order than the operands'")
    return einsum_of(equation, *(in_dtype(x, kind) for x in tensors))


def _in_letters(equation: str, ranks: list[int]) -> str:
    """An equation with letters for `...`, which stands for equally many dims everywhere."""
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    counts = {rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)}
    if not arrow or len(counts) != 1 or not all("..." in term for term in (*terms, result)):
        raise left("numpy.einsum with `...` of different dims")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    dims = "".join(free[: counts.pop()])
    return equation.replace("...", dims)


def _einsum_of_one(equation: str, x: Any) -> Any:
    """Diagonals and permuted dims are views of NumPy's: sums are left."""
    letters, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow:
        result = "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    if len(letters) != len(x.shape):
        raise ValueError("einstein sum subscripts string")
    if letters[:1] * 2 == letters and not result:
        return sum_(TABLE.diagonal(x, offset=0, dim1=0, dim2=1), None, x.dtype.numpy)
    kept = [letter for letter in letters if letter in result]
    is_sum = len(kept) < len(letters) and len(set(letters)) == len(letters)
    if is_sum and kept == list(result):
        dims = tuple(d for d, letter in enumerate(letters) if letter not in result)
        return sum_(x, dims, x.dtype.numpy)
    raise left("numpy.einsum that gives a view")


def _keeps_order(equation: str) -> bool:
    """Whether the dims of the result come in the order in which operands have them first: NumPy
    arranges others in memory by the operands' strides.
    """
    given, arrow, result = equation.replace(" ", "").partition("->")
    letters = given.replace(",", "")
    if not arrow:
        result = "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    places = [letters.find(letter) for letter in result]
    return places == sorted(places)


@stands_for(np.linalg.norm)
def norm(x: object, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Euclidean norms."""
    x = as_tensor(x)
    if x.dtype.category is Category.COMPLEX or x.dtype.name == "float16":
        raise left("numpy.linalg.norm of complex numbers or of halves")
    dims = axes_of(x, axis)
    is_euclidean = ord is None or (ord == 2 and not is_tensor(ord) and len(dims) == 1)
    if not is_euclidean or (axis is not None and len(dims) > 2):
        raise left("numpy.linalg.norm of this order")
    if x.dtype.category is not Category.FLOATING:
        x = in_dtype(x, np.float64)
    return TABLE.sqrt(sum_(TABLE.mul(x, x), axis, None, None, keepdims))


def _enter_products_of_vectors() -> None:
    """Of later versions of NumPy's: `x` and `y` are vectors in the last dims, `a` matrices."""

    def vecdot(x1: Any, x2: Any, /) -> Any:
        x, y = _pair(x1, x2)
        x = TABLE.conj(x) if x.dtype.category is Category.COMPLEX else x
        if len(x.shape) == len(y.shape) == 1:
            return matmul_of(x, y)
        raise left("numpy.vecdot of many vectors")

    def matvec(x1: Any, x2: Any, /) -> Any:
        a, x = _pair(x1, x2)
        if len(a.shape) != 2 or len(x.shape) != 1:
            raise left("numpy.matvec of many matrices or vectors")
        return matmul_of(a, x)

    def vecmat(x1: Any, x2: Any, /) -> Any:
        x, a = _pair(x1, x2)
        if len(a.shape) != 2 or len(x.shape) != 1:
            raise left("numpy.vecmat of many matrices or vectors")
        return matmul_of(TABLE.conj(x) if x.dtype.category is Category.COMPLEX else x, a)

    for function in (vecdot, matvec, vecmat):
        if hasattr(np, function.__name__):
            stands_for(getattr(np, function.__name__))(function)


_enter_products_of_vectors()
