"""The matrix product: the extern row on which all linear algebra functions build.

Contract: both operands of the row have at least two dims and one dtype; batch dims broadcast.
Vectors, `linear`, `einsum` and the like are composites and library functions over it. 16-bit
floats are multiplied in float32 and rounded once. Code generation finds its native lowering by
the row's name.
"""

import math
from typing import Any

import numpy as np

from dynajit.core.arrays import products
from dynajit.core.errors import DTypeError, ShapeError
from dynajit.core.types.symint import agree
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.table import sample_rules
from dynajit.ops.table.families import (
    broadcast_shapes,
    common_device,
    describe,
    extern,
    require_tensor,
)


def _matmul_infer(a: ValueType, b: ValueType) -> TensorType:
    call = describe("matmul", ("a", "b"), (a, b))
    left, right = require_tensor(a, call, "a"), require_tensor(b, call, "b")
    if left.rank < 2 or right.rank < 2:
        raise ShapeError(f"{call}: expected at least two dimensions each.")
    if not agree(left.shape[-1], right.shape[-2]):
        raise ShapeError(
            f"{call}: inner sizes differ, {left.shape[-1]} and {right.shape[-2]}.  Expected "
            "a.shape[-1] == b.shape[-2].  Transpose one operand or reshape a."
        )
    if left.dtype is not right.dtype:
        raise DTypeError(
            f"{call}: expected both operands to have the same dtype, but got {left.dtype.name} "
            f"and {right.dtype.name}.  Cast one with .to(dtype)."
        )
    batch = broadcast_shapes([left.shape[:-2], right.shape[:-2]], call)
    shape = (*batch, left.shape[-2], right.shape[-1])
    return TensorType(shape, left.dtype, common_device((left, right), call))


def transposed(ops: Any, x: Any) -> Any:
    """x with its last two dims swapped, by the row `permute`."""
    rank = len(x.shape)
    return ops.permute(x, dims=(*range(rank - 2), rank - 1, rank - 2))


def product_of(xp: Any, *operands: Any) -> Any:
    """The array function that multiplies arrays."""
    return products.matmul if xp is np else xp.matmul


def _matmul_of_pairs(ops: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Four real products, two where an operand is real."""
    if not isinstance(a, tuple):
        return ops.matmul(a, b[0]), ops.matmul(a, b[1])
    if not isinstance(b, tuple):
        return ops.matmul(a[0], b), ops.matmul(a[1], b)
    return (
        ops.matmul(a[0], b[0]) - ops.matmul(a[1], b[1]),
        ops.matmul(a[0], b[1]) + ops.matmul(a[1], b[0]),
    )


@extern(
    infer=_matmul_infer,
    vjp={
        "a": lambda ops, g, b: ops.matmul(g, transposed(ops, b)),
        "b": lambda ops, g, a: ops.matmul(transposed(ops, a), g),
    },
    direct=product_of,
    pairs=_matmul_of_pairs,
    factors=("a", "b"),
    flops=lambda out, a, b: 2 * math.prod(out) * a[-1],
    samples=sample_rules.product,
    operator="matmul",
)
def matmul(xp: Any, a: Any, b: Any) -> Any:
    """Matrix product of the last two dims, shapes (..., n, k) and (..., k, m); batch dims
    broadcast. One dtype; integers wrap; bool is "any and"."""
    return product_of(xp)(a, b)
