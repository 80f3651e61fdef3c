"""Sums of rows at computed places, on NumPy's arrays: `_scatter` where it takes the operands.

Contract: nothing is written where the answer is no; the caller then computes, or refuses, by other
means. Sums have the bits of `numpy.add.at`.
"""

from typing import Any, Final

import numpy as np

from dynajit.ops.native._scatter import add_rows, add_scaled_rows

_TYPES: Final = "fdl"
"""Type characters of float32, float64 and int64."""


def rows_added(target: Any, places: Any, rows: Any) -> bool:
    """Do target[places[i]] += rows[i] for each i in order, if that can be done here.

    Args:
        target: (n, *rest), written in place.
        places: integers (m); where one is no row of the target, the answer is no.
        rows: (m, *rest) of the target's dtype.
    """
    is_taken = target.dtype.char in _TYPES and target.flags.c_contiguous and rows.ndim > 0
    if not is_taken or not rows.size:
        return False
    width = rows.size // rows.shape[0]
    matrix = np.ascontiguousarray(rows).reshape(rows.shape[0], width)
    return add_rows(target.reshape(target.shape[0], width), _positions(places), matrix)


def sum_of_scaled_rows(places: Any, chosen: Any, factors: Any, matrix: Any, count: int) -> Any:
    """(count, d): the sums of factors[i] * matrix[chosen[i]] at row places[i]; or NotImplemented.

    Args:
        places, chosen: integers (m).
        factors: (m) of the dtype of `matrix`.
        matrix: (n, d).
    """
    is_taken = (
        matrix.dtype.char in _TYPES and matrix.dtype == factors.dtype
        and matrix.ndim == 2 and factors.ndim == places.ndim == chosen.ndim == 1
    )  # fmt: skip
    if not is_taken:
        return NotImplemented
    target = np.zeros((count, matrix.shape[1]), matrix.dtype)
    operands = (np.ascontiguousarray(factors), np.ascontiguousarray(matrix))
    is_done = add_scaled_rows(target, _positions(places), _positions(chosen), *operands)
    return target if is_done else NotImplemented


def _positions(index: Any) -> Any:
    return np.ascontiguousarray(index, np.int64)
