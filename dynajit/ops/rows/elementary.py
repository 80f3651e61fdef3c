"""Elementary functions as pointwise rows: roots, exponentials, logarithms, angles, erf.

Contract: as `ops.rows.pointwise`: names, edge values and derivatives are PyTorch's; bool and
integers give float32; 16-bit floats compute in float32 and round once. Source: the PyTorch 2.x
documentation of `torch.<name>`; derivatives from calculus.
"""

import math
from typing import Any, Final

from dynajit.ops.table.families import FLOATING, REAL_FLOATING, pointwise, scalar_operand
from dynajit.ops.table.op_table import Autocast

LN_2: Final = math.log(2.0)
LN_10: Final = math.log(10.0)
TWO_OVER_SQRT_PI: Final = 2.0 / math.sqrt(math.pi)


# ---------------------------------------------------------------------------------------------
# roots, exponentials, logarithms


@pointwise(
    dtype=FLOATING, vjp={"x": lambda g, out: g / (2 * out)}, domain=(0.1, 4.0), keeps_zero=True
)
def sqrt(m: Any, x: Any) -> Any:
    """Square root; NaN below 0. Shape: as x. Dtype: floating."""
    return m.sqrt(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: -0.5 * g * (out * out * out)},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
)
def rsqrt(m: Any, x: Any) -> Any:
    """1 / sqrt(x). Shape: as x. Dtype: floating."""
    return m.rsqrt(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * out}, autocast=Autocast.FULL)
def exp(m: Any, x: Any) -> Any:
    """e to the power x. Shape: as x. Dtype: floating."""
    return m.exp(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * out * LN_2})
def exp2(m: Any, x: Any) -> Any:
    """2 to the power x. Shape: as x. Dtype: floating."""
    return m.exp2(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda g, out: g * (out + 1)}, autocast=Autocast.FULL, keeps_zero=True
)
def expm1(m: Any, x: Any) -> Any:
    """exp(x) - 1, accurate near 0. Shape: as x. Dtype: floating."""
    return m.expm1(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / x}, domain=(0.1, 4.0), autocast=Autocast.FULL)
def log(m: Any, x: Any) -> Any:
    """Natural logarithm. Shape: as x. Dtype: floating."""
    return m.log(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x * LN_2)},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
)
def log2(m: Any, x: Any) -> Any:
    """Base-2 logarithm. Shape: as x. Dtype: floating."""
    return m.log2(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x * LN_10)},
    domain=(0.1, 4.0),
    autocast=Autocast.FULL,
)
def log10(m: Any, x: Any) -> Any:
    """Base-10 logarithm. Shape: as x. Dtype: floating."""
    return m.log10(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, x: g / (x + 1)},
    domain=(-0.7, 3.0),
    autocast=Autocast.FULL,
    keeps_zero=True,
)
def log1p(m: Any, x: Any) -> Any:
    """log(1 + x), accurate near 0. Shape: as x. Dtype: floating."""
    return m.log1p(x)


# ---------------------------------------------------------------------------------------------
# trigonometric and hyperbolic functions


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.cos(x)}, keeps_zero=True)
def sin(m: Any, x: Any) -> Any:
    """Sine of radians. Shape: as x. Dtype: floating."""
    return m.sin(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: -g * ops.sin(x)})
def cos(m: Any, x: Any) -> Any:
    """Cosine of radians. Shape: as x. Dtype: floating."""
    return m.cos(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: g * (1 + out * out)},
    domain=(-1.2, 1.2),
    autocast=Autocast.FULL,
    keeps_zero=True,
)
def tan(m: Any, x: Any) -> Any:
    """Tangent of radians. Shape: as x. Dtype: floating."""
    return m.tan(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.rsqrt(1 - x * x)},
    domain=(-0.8, 0.8),
    autocast=Autocast.FULL,
    keeps_zero=True,
)
def asin(m: Any, x: Any) -> Any:
    """Inverse sine; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
    return m.asin(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: -g * ops.rsqrt(1 - x * x)},
    domain=(-0.8, 0.8),
    autocast=Autocast.FULL,
)
def acos(m: Any, x: Any) -> Any:
    """Inverse cosine; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
    return m.acos(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / (x * x + 1)}, keeps_zero=True)
def atan(m: Any, x: Any) -> Any:
    """Inverse tangent. Shape: as x. Dtype: floating."""
    return m.atan(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.cosh(x)},
    autocast=Autocast.FULL,
    keeps_zero=True,
)
def sinh(m: Any, x: Any) -> Any:
    """Hyperbolic sine. Shape: as x. Dtype: floating."""
    return m.sinh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.sinh(x)}, autocast=Autocast.FULL)
def cosh(m: Any, x: Any) -> Any:
    """Hyperbolic cosine. Shape: as x. Dtype: floating."""
    return m.cosh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * (1 - out * out)}, keeps_zero=True)
def tanh(m: Any, x: Any) -> Any:
    """Hyperbolic tangent. Shape: as x. Dtype: floating."""
    return m.tanh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.rsqrt(x * x + 1)}, keeps_zero=True)
def asinh(m: Any, x: Any) -> Any:
    """Inverse hyperbolic sine. Shape: as x. Dtype: floating."""
    return m.asinh(x)


def _acosh_vjp(ops: Any, g: Any, x: Any) -> Any:
    """Of complex numbers the roots are taken apart, so that they keep their half planes."""
    if x.dtype.is_complex:
        return g * (ops.rsqrt(x - 1) * ops.rsqrt(x + 1))
    return g * ops.rsqrt(x * x - 1)


@pointwise(dtype=FLOATING, vjp={"x": _acosh_vjp}, domain=(1.3, 4.0))
def acosh(m: Any, x: Any) -> Any:
    """Inverse hyperbolic cosine; NaN below 1. Shape: as x. Dtype: floating."""
    return m.acosh(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda g, x: g / (1 - x * x)}, domain=(-0.8, 0.8), keeps_zero=True
)
def atanh(m: Any, x: Any) -> Any:
    """Inverse hyperbolic tangent; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
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
)
def atan2(m: Any, y: Any, x: Any) -> Any:
    """Angle of the point (x, y) in radians, C99 edges. Shape: broadcast. Dtype: floating."""
    return m.atan2(y, x)


@pointwise(
    dtype=REAL_FLOATING, vjp={"x": lambda ops, g, x: g * (ops.exp(-(x * x)) * TWO_OVER_SQRT_PI)}
)
def erf(m: Any, x: Any) -> Any:
    """Error function. Shape: as x. Dtype: floating."""
    return m.erf(x)


@pointwise(
    dtype=REAL_FLOATING, vjp={"x": lambda ops, g, x: g * (ops.exp(-(x * x)) * -TWO_OVER_SQRT_PI)}
)
def erfc(m: Any, x: Any) -> Any:
    """1 - erf(x), accurate for large x. Shape: as x. Dtype: floating."""
    return m.erfc(x)
