"""Elementary functions as pointwise rows: roots, exponentials, logarithms, angles.

Contract: as `ops.rows.pointwise`: names, edge values and derivatives are PyTorch's; bool and
integers give float32; 16-bit floats compute in float32 and round once. Source: the PyTorch 2.x
documentation of `torch.<name>`; derivatives from calculus.
"""

import math
from typing import Any, Final

import numpy as np

from dynajit.ops.native import _vecmath
from dynajit.ops.table.families import FLOATING, REAL_FLOATING, pointwise, scalar_operand
from dynajit.ops.table.op_table import Autocast
from dynajit.ops.table.scalar import FAR_ANGLE, FINITE, Effort, InPython, scalar

LN_2: Final = math.log(2.0)
LN_10: Final = math.log(10.0)


# ---------------------------------------------------------------------------------------------
# roots, exponentials, logarithms


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g / (2 * out)},
    domain=(0.1, 4.0),
    keeps_zero=True,
    scalar=scalar(
        np.sqrt,
        floating="sqrt{f}({0})",
        effort=Effort.DIVISION,
        math=InPython(where=(("ge", 0.0),)),
    ),
)
def sqrt(m: Any, x: Any) -> Any:
    """Square root; NaN below 0; sqrt(-0) is -0. Shape: as x. Dtype: floating."""
    return m.sqrt(x)


def _inverse_root(x: np.ndarray) -> Any:
    return np.reciprocal(np.sqrt(x))


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: -0.5 * g * (out * out * out)},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
    scalar=scalar(
        _inverse_root, floating="(1 / sqrt{f}({0}))", cuda="rsqrt{f}({0})", effort=Effort.DIVISION
    ),
)
def rsqrt(m: Any, x: Any) -> Any:
    """1 / sqrt(x); inf at 0, -inf at -0, 0 at inf, NaN below 0. Shape: as x. Dtype: floating."""
    return m.rsqrt(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g * out},
    autocast=Autocast.FULL,
    scalar=scalar(_vecmath.exp, effort=Effort.MANY, math=InPython(is_finite=True)),
)
def exp(m: Any, x: Any) -> Any:
    """e to the power x; 0 at -inf, inf at inf. Shape: as x. Dtype: floating."""
    return m.exp(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g * out * LN_2},
    scalar=scalar(_vecmath.exp2, effort=Effort.MANY, math=InPython(is_finite=True)),
)
def exp2(m: Any, x: Any) -> Any:
    """2 to the power x; exact at integers. Shape: as x. Dtype: floating."""
    return m.exp2(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g * (out + 1)},
    autocast=Autocast.FULL,
    keeps_zero=True,
    scalar=scalar(_vecmath.expm1, effort=Effort.MANY, math=InPython(is_finite=True)),
)
def expm1(m: Any, x: Any) -> Any:
    """exp(x) - 1, accurate near 0; -1 at -inf; keeps -0. Shape: as x. Dtype: floating."""
    return m.expm1(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / x},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
    scalar=scalar(_vecmath.log, effort=Effort.MANY, math=InPython(where=(("gt", 0.0),))),
)
def log(m: Any, x: Any) -> Any:
    """Natural logarithm; -inf at 0, NaN below 0, inf at inf. Shape: as x. Dtype: floating."""
    return m.log(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x * LN_2)},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
    scalar=scalar(_vecmath.log2, effort=Effort.MANY, math=InPython(where=(("gt", 0.0),))),
)
def log2(m: Any, x: Any) -> Any:
    """Base-2 logarithm; edges as log. Shape: as x. Dtype: floating."""
    return m.log2(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x * LN_10)},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
    scalar=scalar(_vecmath.log10, effort=Effort.MANY, math=InPython(where=(("gt", 0.0),))),
)
def log10(m: Any, x: Any) -> Any:
    """Base-10 logarithm; edges as log. Shape: as x. Dtype: floating."""
    return m.log10(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x + 1)},
    domain=(-0.7, 3.0),
    autocast=Autocast.FULL,
    keeps_zero=True,
    scalar=scalar(_vecmath.log1p, effort=Effort.MANY, math=InPython(where=(("gt", -1.0),))),
)
def log1p(m: Any, x: Any) -> Any:
    """log(1 + x), accurate near 0; -inf at -1, NaN below; keeps -0.

    Shape: as x. Dtype: floating.
    """
    return m.log1p(x)


# ---------------------------------------------------------------------------------------------
# trigonometric and hyperbolic functions


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.cos(x)},
    keeps_zero=True,
    scalar=scalar(_vecmath.sin, effort=Effort.MANY, far=FAR_ANGLE, math=InPython(where=FINITE)),
)
def sin(m: Any, x: Any) -> Any:
    """Sine of radians; NaN at infinities; keeps -0. Shape: as x. Dtype: floating."""
    return m.sin(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: -g * ops.sin(x)},
    scalar=scalar(_vecmath.cos, effort=Effort.MANY, far=FAR_ANGLE, math=InPython(where=FINITE)),
)
def cos(m: Any, x: Any) -> Any:
    """Cosine of radians; NaN at infinities. Shape: as x. Dtype: floating."""
    return m.cos(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g * (1 + out * out)},
    domain=(-1.2, 1.2),
    autocast=Autocast.FULL,
    keeps_zero=True,
    scalar=scalar(_vecmath.tan, effort=Effort.MANY, far=FAR_ANGLE, math=InPython(where=FINITE)),
)
def tan(m: Any, x: Any) -> Any:
    """Tangent of radians; NaN at infinities; keeps -0. Shape: as x. Dtype: floating."""
    return m.tan(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.rsqrt(1 - x * x)},
    domain=(-0.8, 0.8),
    autocast=Autocast.FULL,
    keeps_zero=True,
    scalar=scalar(
        _vecmath.arcsin, effort=Effort.MANY, math=InPython(where=(("ge", -1.0), ("le", 1.0)))
    ),
)
def asin(m: Any, x: Any) -> Any:
    """Inverse sine; NaN outside [-1, 1]; keeps -0. Shape: as x. Dtype: floating."""
    return m.asin(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: -g * ops.rsqrt(1 - x * x)},
    domain=(-0.8, 0.8),
    autocast=Autocast.FULL,
    scalar=scalar(
        _vecmath.arccos, effort=Effort.MANY, math=InPython(where=(("ge", -1.0), ("le", 1.0)))
    ),
)
def acos(m: Any, x: Any) -> Any:
    """Inverse cosine; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
    return m.acos(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x * x + 1)},
    keeps_zero=True,
    scalar=scalar(_vecmath.arctan, effort=Effort.MANY, math=InPython()),
)
def atan(m: Any, x: Any) -> Any:
    """Inverse tangent; +-pi/2 at infinities; keeps -0. Shape: as x. Dtype: floating."""
    return m.atan(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.cosh(x)},
    autocast=Autocast.FULL,
    keeps_zero=True,
    scalar=scalar(_vecmath.sinh, effort=Effort.MANY, math=InPython(is_finite=True)),
)
def sinh(m: Any, x: Any) -> Any:
    """Hyperbolic sine; keeps -0. Shape: as x. Dtype: floating."""
    return m.sinh(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.sinh(x)},
    autocast=Autocast.FULL,
    scalar=scalar(_vecmath.cosh, effort=Effort.MANY, math=InPython(is_finite=True)),
)
def cosh(m: Any, x: Any) -> Any:
    """Hyperbolic cosine; inf at infinities. Shape: as x. Dtype: floating."""
    return m.cosh(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g * (1 - out * out)},
    keeps_zero=True,
    scalar=scalar(_vecmath.tanh, effort=Effort.MANY, math=InPython()),
)
def tanh(m: Any, x: Any) -> Any:
    """Hyperbolic tangent; +-1 at infinities; keeps -0. Shape: as x. Dtype: floating."""
    return m.tanh(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.rsqrt(x * x + 1)},
    keeps_zero=True,
    scalar=scalar(_vecmath.arcsinh, effort=Effort.MANY, math=InPython()),
)
def asinh(m: Any, x: Any) -> Any:
    """Inverse hyperbolic sine; keeps -0. Shape: as x. Dtype: floating."""
    return m.asinh(x)


def _acosh_vjp(ops: Any, g: Any, x: Any) -> Any:
    """Of complex numbers the roots are taken apart, so that they keep their half planes."""
    if x.dtype.is_complex:
        return g * (ops.rsqrt(x - 1) * ops.rsqrt(x + 1))
    return g * ops.rsqrt(x * x - 1)


@pointwise(
    dtype=FLOATING,
    vjp={"x": _acosh_vjp},
    domain=(1.3, 4.0),
    scalar=scalar(_vecmath.arccosh, effort=Effort.MANY, math=InPython(where=(("ge", 1.0),))),
)
def acosh(m: Any, x: Any) -> Any:
    """Inverse hyperbolic cosine; NaN below 1. Shape: as x. Dtype: floating."""
    return m.acosh(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (1 - x * x)},
    domain=(-0.8, 0.8),
    keeps_zero=True,
    scalar=scalar(
        _vecmath.arctanh, effort=Effort.MANY, math=InPython(where=(("gt", -1.0), ("lt", 1.0)))
    ),
)
def atanh(m: Any, x: Any) -> Any:
    """Inverse hyperbolic tangent; +-inf at +-1, NaN beyond; keeps -0.

    Shape: as x. Dtype: floating.
    """
    return m.atanh(x)


def _atan2_vjp(ops: Any, numerator: Any, y: Any, x: Any) -> Any:
    """Divided by the squared radius; 0 at the origin."""
    square = x * x + y * y
    return ops.where(ops.eq(square, 0), 0.0, numerator / square)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={
        "y": lambda ops, g, y, x, x_type: _atan2_vjp(
            ops, g * x, y, scalar_operand(ops, x, x_type, g)
        ),
        "x": lambda ops, g, y, x, y_type: _atan2_vjp(
            ops, -g * y, scalar_operand(ops, y, y_type, g), x
        ),
    },
    domain=(0.3, 3.0),
    autocast=Autocast.WIDEST,
    scalar=scalar(_vecmath.arctan2, effort=Effort.MANY, math=InPython()),
)
def atan2(m: Any, y: Any, x: Any) -> Any:
    """Angle of the point (x, y) in radians, C99 edges. Shape: broadcast. Dtype: floating."""
    return m.atan2(y, x)
