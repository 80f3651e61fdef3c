"""Comparison, logic and bits as pointwise rows: results are bool, or bits.

Contract: as `ops.rows.pointwise`. Operands of a comparison meet in their promoted dtype; a Python
integer that does not fit wraps into it, as in PyTorch. None has a derivative. Source: the PyTorch
2.x documentation of `torch.<name>`.
"""

from typing import Any

import numpy as np

from dynajit.core.types import dtypes
from dynajit.ops.table import identities, intervals
from dynajit.ops.table.families import (
    COMPARISON,
    INTEGRAL,
    INTEGRAL_NUMERIC,
    LOGICAL,
    ORDERING,
    Decorator,
    pointwise,
)
from dynajit.ops.table.scalar import InPython, Result, is_on_gpu, scalar


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


def _truth(function: np.ufunc, operator: str) -> Decorator:
    """A row of two truth values, with the operator by which C combines them."""
    text = f"((({{0}}) != 0) {operator} (({{1}}) != 0))"
    return pointwise(
        dtype=LOGICAL,
        scalar=scalar(function, result=Result.BOOL, floating=text, integer=text, commutes=True),
    )


@_truth(np.logical_and, "&")
def logical_and(m: Any, x: Any, y: Any) -> Any:
    """Both are true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_and(x, y)


@_truth(np.logical_or, "|")
def logical_or(m: Any, x: Any, y: Any) -> Any:
    """Either is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_or(x, y)


@_truth(np.logical_xor, "^")
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


def _bits(operator: str, text: str) -> Decorator:
    """A row of the bits of two integers: an operator of Python's, and how C writes it."""
    return pointwise(
        dtype=INTEGRAL,
        takes=dtypes.UNSIGNED,
        scalar=scalar(
            getattr(np, f"bitwise_{operator}"),
            floating=None,
            integer=f"(({{t}})(({{0}}) {text} ({{1}})))",
            commutes=True,
        ),
        operator=operator,
        of_bools=f"logical_{operator}",
        interval=intervals.of_bits,
    )


@_bits("and", "&")
def bitwise_and(m: Any, x: Any, y: Any) -> Any:
    """Bits set in both. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_and(x, y)


@_bits("or", "|")
def bitwise_or(m: Any, x: Any, y: Any) -> Any:
    """Bits set in either. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_or(x, y)


@_bits("xor", "^")
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


def _of_floats(function: np.ufunc, floating: str, integer: str) -> Decorator:
    """A row that tells floats apart, with C templates; integers are all alike."""
    return pointwise(
        dtype=COMPARISON,
        takes=dtypes.STORED,
        scalar=scalar(
            function, result=Result.BOOL, floating=floating, integer=integer, math=InPython()
        ),
    )


@_of_floats(np.isnan, "(({0}) != ({0}))", "0")
def isnan(m: Any, x: Any) -> Any:
    """True at NaN; False for integers. Shape: as x. Dtype: bool."""
    return m.isnan(x)


@_of_floats(np.isinf, "(fabs{f}({0}) == (({t})INFINITY))", "0")
def isinf(m: Any, x: Any) -> Any:
    """True at both infinities; False for integers. Shape: as x. Dtype: bool."""
    return m.isinf(x)


@_of_floats(np.isfinite, "(fabs{f}({0}) < (({t})INFINITY))", "1")
def isfinite(m: Any, x: Any) -> Any:
    """False at NaN and the infinities; True for integers. Shape: as x. Dtype: bool."""
    return m.isfinite(x)
