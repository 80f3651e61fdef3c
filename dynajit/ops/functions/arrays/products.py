"""NumPy's products of matrices and vectors, over tensors."""

from typing import Any

import numpy as np

from dynajit.core.types.dtypes import Category
from dynajit.ops.calls.arguments import is_tensor
from dynajit.ops.functions.arrays.reductions import sum_
from dynajit.ops.functions.arrays.table import left, stands_for
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
    if len(x.shape) != 1 or len(y.shape) != 1:
        raise left("numpy.inner of matrices")
    return matmul_of(x, y)


@stands_for(np.vdot)
def vdot(a: Any, b: Any, /) -> Any:
    """The product of all elements."""
    x, y = _pair(a, b)
    if x.dtype.category is Category.COMPLEX:
        raise left("numpy.vdot of complex numbers")
    return matmul_of(TABLE.reshape(x, shape=(x.numel(),)), TABLE.reshape(y, shape=(y.numel(),)))


@stands_for(np.outer)
def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Products of every element with every other."""
    refuse_given("outer", out=out)
    x, y = as_tensor(a), as_tensor(b)
    x = TABLE.reshape(x, shape=(x.numel(), 1))
    return apply("multiply", x, TABLE.reshape(y, shape=(1, y.numel())))


@stands_for(np.einsum, needs_rows=True)
def einsum(*operands: Any, out: Any = None, optimize: Any = False) -> Any:
    """Sums of products by an equation."""
    refuse_given("einsum", out=out)
    if not operands or not isinstance(operands[0], str) or "..." in operands[0]:
        raise left("numpy.einsum without an equation of letters")
    equation, *given = operands
    tensors = [as_tensor(x) for x in given]
    kind = common(tensors)
    if kind.kind == "b" or len(tensors) < 2:
        raise left("numpy.einsum of one operand, or of truth values,")
    if not _keeps_order(equation):
        raise left("numpy.einsum with dims of the result in another order than the operands'")
    return einsum_of(equation, *(in_dtype(x, kind) for x in tensors))


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
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
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
