"""Floating-point operations of the rows that are products: two per multiplication and addition.

Contract: the composites among them have array functions that multiply matrices out of dispatch's
sight, so they are counted whole; all other products (`einsum`, attention, ...) come down to the row
`matmul`. What is not a product does not count, nor does a bias.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.ops.table.op_table import Op


def is_product(op: Op) -> bool:
    """Whether `flops_of` knows the row."""
    return op.flops is not None


def flops_of(op: Op, inputs: Sequence[Any], result: Any) -> int:
    """What one call of a row computed.

    Args:
        op: a row that is a product.
        inputs: tensors, or None where the row takes None.
        result: its tensor.
    """
    shapes = [None if x is None else tuple(x.shape) for x in inputs]
    assert op.flops is not None
    found: int = op.flops(tuple(result.shape), *shapes)
    return found
