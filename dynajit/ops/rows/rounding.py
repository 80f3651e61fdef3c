"""Rounding, and division to whole quotients, as pointwise rows.

Contract: as `ops.rows.pointwise`. Rounding is a step function: its derivative is 0. Integers are
not divided by 0: a DivisionError is raised where PyTorch raises. Source of the quotients of
floats: CPython's `float_floor_div`, as in PyTorch and NumPy.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dynajit.core.errors import DivisionError
from dynajit.ops.rows.pointwise import RefusedDerivative, zero_slope
from dynajit.ops.table import intervals
from dynajit.ops.table.families import REAL_FLOATING_ONLY, REAL_NUMERIC, Decorator, pointwise
from dynajit.ops.table.scalar import (
    FAR_QUOTIENT,
    FINITE,
    Effort,
    InPython,
    is_integer,
    is_on_gpu,
    scalar,
)


def _whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that rounds floats, of arrays; integers stay."""

    def rounded(x: np.ndarray) -> Any:
        return x if is_integer(x) else function(x)

    return rounded


def _rounding(function: np.ufunc, math: InPython | None = None) -> Decorator:
    """A row that rounds as NumPy's function does, and C's of the same name."""
    name = function.__name__
    return pointwise(
        dtype=REAL_NUMERIC,
        vjp={"x": lambda ops, g: zero_slope(ops, g)},
        keeps_zero=True,
        scalar=scalar(_whole(function), floating=f"{name}{{f}}({{0}})", integer="({0})", math=math),
        numpy_name=name,
    )


@_rounding(np.floor, InPython(is_finite=True))
def floor(m: Any, x: Any) -> Any:
    """Largest integer not above x; keeps -0, NaN and infinities; integers stay.

    Shape, dtype: as x; bool is refused.
    """
    return m.floor(x)


@_rounding(np.ceil, InPython(is_finite=True))
def ceil(m: Any, x: Any) -> Any:
    """Smallest integer not below x; ceil(-0.5) is -0; integers stay.

    Shape, dtype: as x; bool is refused.
    """
    return m.ceil(x)


@_rounding(np.trunc, InPython(is_finite=True))
def trunc(m: Any, x: Any) -> Any:
    """Integer part; trunc(-0.5) is -0; integers stay. Shape, dtype: as x; bool is refused."""
    return m.trunc(x)


@_rounding(np.rint)
def round(m: Any, x: Any) -> Any:
    """Nearest integer, halves to even; keeps -0; integers stay.

    Shape, dtype: as x; bool is refused.
    """
    return m.round(x)


def _refuse_zero(name: str, y: Any) -> None:
    if not np.all(y):
        raise DivisionError(
            f"{name}: integer division by zero.  Expected a divisor without zeros; convert an "
            "operand to floating point for inf and nan."
        )


def _remainder_of_arrays(x: np.ndarray, y: np.ndarray) -> Any:
    """For floats: r = fmod(x, y), plus y if r is not 0 and its sign differs from y's."""
    if is_integer(y):
        _refuse_zero("remainder", y)
        return np.remainder(x, y)
    rest = np.fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": lambda g: g, "y": lambda ops, g, x, y: -g * ops.floored_quotient(x, y)},
    domain=(0.6, 3.0),
    divides=True,
    rounds=True,
    scalar=scalar(
        _remainder_of_arrays, integer="", cuda="dj", effort=Effort.MANY, far=FAR_QUOTIENT
    ),
    numpy_name="remainder",
    operator="mod",
    interval=intervals.of_rest,
)
def remainder(m: Any, x: Any, y: Any) -> Any:
    """x - floor(x / y) * y, sign of y; float by 0 is NaN, integer by 0 raises DivisionError.

    Shape: broadcast. Dtype: promoted; bool is refused.
    """
    return m.remainder(x, y)


def _fmod_of_arrays(x: np.ndarray, y: np.ndarray) -> Any:
    if is_integer(y):
        _refuse_zero("fmod", y)
    return np.fmod(x, y)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": lambda g: g, "y": lambda ops, g, x, y: -g * ops.trunc(ops.div(x, y))},
    domain=(0.6, 3.0),
    divides=True,
    rounds=True,
    scalar=scalar(
        _fmod_of_arrays,
        integer="",
        cuda="fmod{f}({0}, {1})",
        effort=Effort.MANY,
        far=FAR_QUOTIENT,
        math=InPython(where=FINITE, is_finite=True),
    ),
    numpy_name="fmod",
)
def fmod(m: Any, x: Any, y: Any) -> Any:
    """x - trunc(x / y) * y, sign of x; float by 0 is NaN, integer by 0 raises DivisionError.

    Shape: broadcast. Dtype: promoted; bool is refused.
    """
    return m.fmod(x, y)


def _quotient_of_arrays(x: np.ndarray, y: np.ndarray) -> Any:
    if is_integer(y):
        _refuse_zero("floor_divide", y)
    elif is_on_gpu(x, y):
        return _floor_of_quotient(x, y)
    return np.floor_divide(x, y)


def _floor_of_quotient(x: np.ndarray, y: np.ndarray) -> Any:
    """`floor_divide` of floats from other functions: CuPy's own is the floor of the rounded
    quotient, 10 for 1.0 // 0.1 in the place of 9."""
    rest = np.fmod(x, y)
    exact = (x - rest) / y
    exact = np.where((rest != 0) & ((rest < 0) != (y < 0)), exact - 1, exact)
    whole = np.floor(exact)
    whole = np.where(exact - whole > 0.5, whole + 1, whole)
    whole = np.where(exact == 0, np.copysign(whole, x / y), whole)
    return np.where(y == 0, x / y, whole)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": RefusedDerivative("floor_divide"), "y": RefusedDerivative("floor_divide")},
    domain=(0.6, 3.0),
    divides=True,
    scalar=scalar(_quotient_of_arrays, integer="", cuda="dj", effort=Effort.MANY, far=FAR_QUOTIENT),
    numpy_name="floor_divide",
    operator="floordiv",
    interval=intervals.of_quotient,
)
def floor_divide(m: Any, x: Any, y: Any) -> Any:
    """Quotient rounded to -inf; floats by 0 as x / 0, integers by 0 raise DivisionError.

    Shape: broadcast. Dtype: promoted; bool is refused. Its derivative is refused, as in PyTorch.
    """
    return m.floor_divide(x, y)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": lambda ops, g: zero_slope(ops, g), "y": lambda ops, g: zero_slope(ops, g)},
    domain=(0.6, 3.0),
    divides=True,
)
def floored_quotient(m: Any, x: Any, y: Any) -> Any:
    """`floor_divide` with a derivative, which is 0. Shape: broadcast. Dtype: promoted."""
    return m.floor_divide(x, y)


@pointwise(
    dtype=REAL_FLOATING_ONLY,
    vjp={"x": lambda ops, g: zero_slope(ops, g), "y": lambda ops, g: zero_slope(ops, g)},
    domain=(0.6, 3.0),
)
def truncated_quotient(m: Any, x: Any, y: Any) -> Any:
    """x / y rounded to 0; its derivative is 0. Shape: broadcast. Dtype: floating only."""
    return m.trunc(x / y)
