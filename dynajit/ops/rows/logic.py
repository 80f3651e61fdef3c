"""Comparison, logic and bits as pointwise rows: results are bool, or bits.

Contract: as `ops.rows.pointwise`. Operands of a comparison meet in their promoted dtype; a Python
integer that does not fit wraps into it, as in PyTorch. None has a derivative. Source: the PyTorch
2.x documentation of `torch.<name>`.
"""

from typing import Any, Final

import numpy as np

from dynajit.core.types import dtypes
from dynajit.ops.table import identities, intervals
from dynajit.ops.table.families import (
    COMPARISON,
    INTEGRAL,
    INTEGRAL_NUMERIC,
    LOGICAL,
    ORDERING,
    pointwise,
)
from dynajit.ops.table.scalar import InPython, Result, is_on_gpu, scalar

#: C templates.
_BOTH: Final = "((({0}) != 0) & (({1}) != 0))"
_EITHER: Final = "((({0}) != 0) | (({1}) != 0))"
_ONE: Final = "((({0}) != 0) ^ (({1}) != 0))"


@pointwise(dtype=COMPARISON, takes=dtypes.STORED, rounds=True, numpy_name="equal", operator="eq")
def eq(m: Any, x: Any, y: Any) -> Any:
    """x == y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x == y


@pointwise(
    dtype=COMPARISON, takes=dtypes.STORED, rounds=True, numpy_name="not_equal", operator="ne"
)
def ne(m: Any, x: Any, y: Any) -> Any:
    """x != y; True with NaN. Shape: broadcast. Dtype: bool."""
    return x != y


@pointwise(dtype=ORDERING, rounds=True, numpy_name="less", operator="lt")
def lt(m: Any, x: Any, y: Any) -> Any:
    """x < y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x < y


@pointwise(dtype=ORDERING, rounds=True, numpy_name="less_equal", operator="le")
def le(m: Any, x: Any, y: Any) -> Any:
    """x <= y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x <= y


@pointwise(dtype=ORDERING, rounds=True, numpy_name="greater", operator="gt")
def gt(m: Any, x: Any, y: Any) -> Any:
    """x > y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x > y


@pointwise(dtype=ORDERING, rounds=True, numpy_name="greater_equal", operator="ge")
def ge(m: Any, x: Any, y: Any) -> Any:
    """x >= y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x >= y


@pointwise(
    dtype=LOGICAL,
    scalar=scalar(np.logical_and, result=Result.BOOL, floating=_BOTH, integer=_BOTH, commutes=True),
)
def logical_and(m: Any, x: Any, y: Any) -> Any:
    """Both are true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_and(x, y)


@pointwise(
    dtype=LOGICAL,
    scalar=scalar(
        np.logical_or, result=Result.BOOL, floating=_EITHER, integer=_EITHER, commutes=True
    ),
)
def logical_or(m: Any, x: Any, y: Any) -> Any:
    """Either is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_or(x, y)


@pointwise(
    dtype=LOGICAL,
    scalar=scalar(np.logical_xor, result=Result.BOOL, floating=_ONE, integer=_ONE, commutes=True),
)
def logical_xor(m: Any, x: Any, y: Any) -> Any:
    """Exactly one is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_xor(x, y)


@pointwise(
    dtype=LOGICAL,
    scalar=scalar(
        np.logical_not, result=Result.BOOL, floating="(({0}) == 0)", integer="(({0}) == 0)"
    ),
    twice=identities.undone,
)
def logical_not(m: Any, x: Any) -> Any:
    """x is 0. Shape: as x. Dtype: bool."""
    return m.logical_not(x)


@pointwise(
    dtype=INTEGRAL,
    takes=dtypes.UNSIGNED,
    scalar=scalar(np.bitwise_and, floating=None, integer="(({t})(({0}) & ({1})))", commutes=True),
    operator="and",
    of_bools="logical_and",
    interval=intervals.of_bits,
)
def bitwise_and(m: Any, x: Any, y: Any) -> Any:
    """Bits set in both. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_and(x, y)


@pointwise(
    dtype=INTEGRAL,
    takes=dtypes.UNSIGNED,
    scalar=scalar(np.bitwise_or, floating=None, integer="(({t})(({0}) | ({1})))", commutes=True),
    operator="or",
    of_bools="logical_or",
    interval=intervals.of_bits,
)
def bitwise_or(m: Any, x: Any, y: Any) -> Any:
    """Bits set in either. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_or(x, y)


@pointwise(
    dtype=INTEGRAL,
    takes=dtypes.UNSIGNED,
    scalar=scalar(np.bitwise_xor, floating=None, integer="(({t})(({0}) ^ ({1})))", commutes=True),
    operator="xor",
    of_bools="logical_xor",
    interval=intervals.of_bits,
)
def bitwise_xor(m: Any, x: Any, y: Any) -> Any:
    """Bits set in one only. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_xor(x, y)


@pointwise(
    dtype=INTEGRAL,
    scalar=scalar(np.bitwise_not, floating=None, integer="dj_bitwise_not_{s}({0})"),
    operator="invert",
    of_bools="logical_not",
    interval=lambda a: (~a[1], ~a[0]),
    twice=identities.undone,
)
def bitwise_not(m: Any, x: Any) -> Any:
    """Every bit flipped; for bool the negation. Shape, dtype: as x, bool or integer."""
    return m.bitwise_not(x)


def _is_shift(x: np.ndarray, y: np.ndarray) -> Any:
    """Where a GPU shifts as said: what it does beyond the width of x is left open."""
    return (y >= 0) & (y < 8 * x.dtype.itemsize)


def _shifted_left(x: np.ndarray, y: np.ndarray) -> Any:
    if not is_on_gpu(x, y):
        return np.left_shift(x, y)
    fits = _is_shift(x, y)
    return np.where(fits, np.left_shift(x, y * fits), x.dtype.type(0))


@pointwise(
    dtype=INTEGRAL_NUMERIC,
    scalar=scalar(_shifted_left, floating=None, integer=""),
    numpy_name="left_shift",
    operator="lshift",
)
def left_shift(m: Any, x: Any, y: Any) -> Any:
    """x * 2**y, wrapped; 0 if y is out of range. Shape: broadcast. Dtype: promoted, integer."""
    return m.left_shift(x, y)


def _shifted_right(x: np.ndarray, y: np.ndarray) -> Any:
    if not is_on_gpu(x, y):
        return np.right_shift(x, y)
    fits = _is_shift(x, y)
    number = x.dtype.type
    is_signed = x.dtype.kind == "i"
    beyond = np.right_shift(x, number(8 * x.dtype.itemsize - 1)) if is_signed else number(0)
    return np.where(fits, np.right_shift(x, y * fits), beyond)


@pointwise(
    dtype=INTEGRAL_NUMERIC,
    scalar=scalar(_shifted_right, floating=None, integer=""),
    numpy_name="right_shift",
    operator="rshift",
)
def right_shift(m: Any, x: Any, y: Any) -> Any:
    """floor(x / 2**y); 0 or -1 if y is out of range. Shape: broadcast. Dtype: promoted, integer."""
    return m.right_shift(x, y)


@pointwise(
    dtype=COMPARISON,
    takes=dtypes.STORED,
    scalar=scalar(
        np.isnan, result=Result.BOOL, floating="(({0}) != ({0}))", integer="0", math=InPython()
    ),
)
def isnan(m: Any, x: Any) -> Any:
    """True at NaN; False for integers. Shape: as x. Dtype: bool."""
    return m.isnan(x)


@pointwise(
    dtype=COMPARISON,
    takes=dtypes.STORED,
    scalar=scalar(
        np.isinf,
        result=Result.BOOL,
        floating="(fabs{f}({0}) == (({t})INFINITY))",
        integer="0",
        math=InPython(),
    ),
)
def isinf(m: Any, x: Any) -> Any:
    """True at both infinities; False for integers. Shape: as x. Dtype: bool."""
    return m.isinf(x)


@pointwise(
    dtype=COMPARISON,
    takes=dtypes.STORED,
    scalar=scalar(
        np.isfinite,
        result=Result.BOOL,
        floating="(fabs{f}({0}) < (({t})INFINITY))",
        integer="1",
        math=InPython(),
    ),
)
def isfinite(m: Any, x: Any) -> Any:
    """False at NaN and the infinities; True for integers. Shape: as x. Dtype: bool."""
    return m.isfinite(x)
