"""The row that multiplies a matrix, given by positions and values, by a dense one.

Contract: positions may come in any order, and more than once; products are added in the order they
are given.
"""

from typing import Any

import numpy as np

from dynajit.ops.rows.scatter_forms import sum_of_scaled_rows
from dynajit.ops.table.families import composite


def _form(xp: Any, rows: Any, columns: Any, values: Any, matrix: Any, *, count: int) -> Any:
    if xp is not np:
        return NotImplemented
    return sum_of_scaled_rows(rows, columns, values, matrix, count)


def _vjp_of_values(ops: Any, g: Any, rows: Any, columns: Any, matrix: Any) -> Any:
    """Per position the product of a row of g and one of the matrix."""
    parts = ops.mul(ops.index_select(g, rows, dim=0), ops.index_select(matrix, columns, dim=0))
    return ops.sum(parts, dim=(1,), keepdim=False)


def _vjp_of_matrix(ops: Any, g: Any, rows: Any, columns: Any, values: Any, matrix_type: Any) -> Any:
    """The transposed matrix, whose positions are the other way round, times g."""
    return ops.sparse_product(columns, rows, values, g, count=matrix_type.shape[0])


@composite(
    array=_form,
    vjp={"values": _vjp_of_values, "matrix": _vjp_of_matrix},
    factors=("values", "matrix"),
)
def sparse_product(
    ops: Any, rows: Any, columns: Any, values: Any, matrix: Any, *, count: int
) -> Any:
    """(count, d): the values (n) at positions (rows, columns), int64 (n) each, times the matrix
    (m, d); d is at least 1."""
    size = values.shape[0]
    parts = ops.mul(ops.reshape(values, shape=(size, 1)), ops.index_select(matrix, columns, dim=0))
    zeros = ops.full(0, shape=(count, matrix.shape[1]), dtype=parts.dtype, device=matrix.device)
    return ops.index_add(zeros, rows, parts, dim=0)
