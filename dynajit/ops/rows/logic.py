"""Comparison, logic and bits as pointwise rows: results are bool, or bits.

Contract: as `ops.rows.pointwise`. Operands of a comparison meet in their promoted dtype; a Python
integer that does not fit wraps into it, as in PyTorch. None has a derivative. Source: the PyTorch
2.x documentation of `torch.<name>`.
"""

from typing import Any

from dynajit.core.types import dtypes
from dynajit.ops.table.families import (
    COMPARISON,
    INTEGRAL,
    INTEGRAL_NUMERIC,
    LOGICAL,
    ORDERING,
    pointwise,
)


@pointwise(dtype=COMPARISON, takes=dtypes.STORED, rounds=True)
def eq(m: Any, x: Any, y: Any) -> Any:
    """x == y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x == y


@pointwise(dtype=COMPARISON, takes=dtypes.STORED, rounds=True)
def ne(m: Any, x: Any, y: Any) -> Any:
    """x != y; True with NaN. Shape: broadcast. Dtype: bool."""
    return x != y


@pointwise(dtype=ORDERING, rounds=True)
def lt(m: Any, x: Any, y: Any) -> Any:
    """x < y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x < y


@pointwise(dtype=ORDERING, rounds=True)
def le(m: Any, x: Any, y: Any) -> Any:
    """x <= y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x <= y


@pointwise(dtype=ORDERING, rounds=True)
def gt(m: Any, x: Any, y: Any) -> Any:
    """x > y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x > y


@pointwise(dtype=ORDERING, rounds=True)
def ge(m: Any, x: Any, y: Any) -> Any:
    """x >= y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x >= y


@pointwise(dtype=LOGICAL)
def logical_and(m: Any, x: Any, y: Any) -> Any:
    """Both are true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_and(x, y)


@pointwise(dtype=LOGICAL)
def logical_or(m: Any, x: Any, y: Any) -> Any:
    """Either is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_or(x, y)


@pointwise(dtype=LOGICAL)
def logical_xor(m: Any, x: Any, y: Any) -> Any:
    """Exactly one is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_xor(x, y)


@pointwise(dtype=LOGICAL)
def logical_not(m: Any, x: Any) -> Any:
    """x is 0. Shape: as x. Dtype: bool."""
    return m.logical_not(x)


@pointwise(dtype=INTEGRAL, takes=dtypes.UNSIGNED)
def bitwise_and(m: Any, x: Any, y: Any) -> Any:
    """Bits set in both. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_and(x, y)


@pointwise(dtype=INTEGRAL, takes=dtypes.UNSIGNED)
def bitwise_or(m: Any, x: Any, y: Any) -> Any:
    """Bits set in either. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_or(x, y)


@pointwise(dtype=INTEGRAL, takes=dtypes.UNSIGNED)
def bitwise_xor(m: Any, x: Any, y: Any) -> Any:
    """Bits set in one only. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_xor(x, y)


@pointwise(dtype=INTEGRAL)
def bitwise_not(m: Any, x: Any) -> Any:
    """Every bit flipped; for bool the negation. Shape, dtype: as x, bool or integer."""
    return m.bitwise_not(x)


@pointwise(dtype=INTEGRAL_NUMERIC)
def left_shift(m: Any, x: Any, y: Any) -> Any:
    """x * 2**y, wrapped; 0 if y is out of range. Shape: broadcast. Dtype: promoted, integer."""
    return m.left_shift(x, y)


@pointwise(dtype=INTEGRAL_NUMERIC)
def right_shift(m: Any, x: Any, y: Any) -> Any:
    """floor(x / 2**y); 0 or -1 if y is out of range. Shape: broadcast. Dtype: promoted, integer."""
    return m.right_shift(x, y)


@pointwise(dtype=COMPARISON, takes=dtypes.STORED)
def isnan(m: Any, x: Any) -> Any:
    """True at NaN. Shape: as x. Dtype: bool."""
    return m.isnan(x)


@pointwise(dtype=COMPARISON, takes=dtypes.STORED)
def isinf(m: Any, x: Any) -> Any:
    """True at both infinities. Shape: as x. Dtype: bool."""
    return m.isinf(x)


@pointwise(dtype=COMPARISON, takes=dtypes.STORED)
def isfinite(m: Any, x: Any) -> Any:
    """False at NaN and the infinities. Shape: as x. Dtype: bool."""
    return m.isfinite(x)
