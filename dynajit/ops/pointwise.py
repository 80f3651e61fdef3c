"""Pointwise rows: the value at an index depends on the inputs' values at that index only.

Contract: names, promotion, edge values and derivatives are PyTorch's. Shapes broadcast. Unless a
docstring says otherwise the *Dtype* line means: "promoted" the dtype in which the operands meet
(`core.dtypes.result_type`), "floating" the same with float32 for bool and integers. 16-bit floats
compute in float32 and round once. Source of names and edge values: the PyTorch 2.x documentation
of `torch.<name>`; of the derivatives: calculus, with PyTorch's choices at kinks and ties.
"""

import math
from typing import Any, Final

from dynajit.core import dtypes
from dynajit.core.device import CPU
from dynajit.core.dtypes import Category, DType
from dynajit.core.errors import DTypeError
from dynajit.core.types import ScalarType, Shape, Size, TensorType, ValueType
from dynajit.ops.families import (
    COMPARISON,
    FLOATING,
    FLOATING_ONLY,
    INTEGRAL,
    INTEGRAL_NUMERIC,
    LOGICAL,
    NUMERIC,
    ORDERING,
    PROMOTED,
    REAL,
    REAL_NUMERIC,
    as_tensor_type,
    broadcast_shapes,
    common_device,
    describe,
    pointwise,
    promoted_dtype,
)
from dynajit.ops.scalar import NumpyScalars

LN_2: Final = math.log(2.0)
LN_10: Final = math.log(10.0)
TWO_OVER_SQRT_PI: Final = 2.0 / math.sqrt(math.pi)


def _zeros(ops: Any, g: Any) -> Any:
    """The gradient of a step function: zero, and differentiable again."""
    return ops.full(0.0, shape=tuple(g.shape), dtype=g.dtype, device=g.device)


def _is_number(operand: Any) -> bool:
    return isinstance(operand, (bool, int, float))


# ---------------------------------------------------------------------------------------------
# arithmetic


@pointwise(vjp={"x": lambda g: g, "y": lambda g: g})
def add(m, x, y):
    """Sum. Shape: broadcast. Dtype: promoted; on bool it is logical or."""
    return x + y


def _sub_infer(x: ValueType, y: ValueType) -> TensorType:
    call = describe("sub", ("x", "y"), (x, y))
    for type in (x, y):
        is_bool = (
            type.dtype is dtypes.bool_
            if isinstance(type, TensorType)
            else type.category is Category.BOOL
        )
        if is_bool:
            raise DTypeError(
                f"{call}: subtraction with a bool operand is not supported.  Expected integers "
                "or floats.  Use ~, ^, logical_not or logical_xor for masks."
            )
    shape = broadcast_shapes([x.shape, y.shape], call)
    return TensorType(shape, promoted_dtype((x, y)), common_device((x, y), call))


@pointwise(infer=_sub_infer, vjp={"x": lambda g: g, "y": lambda g: -g})
def sub(m, x, y):
    """Difference. Shape: broadcast. Dtype: promoted; bool operands are refused."""
    return x - y


@pointwise(vjp={"x": lambda g, y: g * y, "y": lambda g, x: g * x})
def mul(m, x, y):
    """Product. Shape: broadcast. Dtype: promoted; on bool it is logical and."""
    return x * y


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, y: g / y, "y": lambda g, x, y: -g * ((x / y) / y)},
    domain=(0.5, 3.0),
)
def div(m, x, y):
    """True quotient, IEEE at 0. Shape: broadcast. Dtype: floating."""
    return x / y


@pointwise(dtype=NUMERIC, vjp={"x": lambda g: -g})
def neg(m, x):
    """Negation; unsigned integers wrap. Shape: as x. Dtype: as x; bool is refused."""
    return -x


@pointwise(dtype=REAL_NUMERIC, vjp={"x": lambda ops, g, x: g * ops.sign(x)})
def abs(m, x):
    """Magnitude; derivative 0 at 0. Shape: as x. Dtype: as x; bool is refused."""
    return m.abs(x)


@pointwise(dtype=REAL, vjp={"x": lambda ops, g: _zeros(ops, g)})
def sign(m, x):
    """-1, 0 or 1; 0 for NaN and -0. Shape, dtype: as x."""
    return m.sign(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: -g * out * out}, domain=(0.5, 3.0))
def reciprocal(m, x):
    """1 / x. Shape: as x. Dtype: floating."""
    return m.reciprocal(x)


def _square_dtype(promoted: DType) -> DType:
    return dtypes.int64 if promoted is dtypes.bool_ else promoted


@pointwise(
    dtype=_square_dtype,
    compute=lambda dtype: dtypes.compute_dtype(_square_dtype(dtype)),
    vjp={"x": lambda g, x: g * (2 * x)},
)
def square(m, x):
    """x * x. Shape: as x. Dtype: as x; bool gives int64."""
    return x * x


def _pow_base_vjp(ops: Any, g: Any, x: Any, y: Any) -> Any:
    """y * x ** (y - 1), and 0 where y is 0 (x ** -1 would be inf at x = 0)."""
    if _is_number(y):
        if y == 0:
            return _zeros(ops, g)
        return g * x * 2 if y == 2 else g * (y * ops.pow(x, y - 1))
    return ops.where(ops.eq(y, 0), 0.0, g * (y * ops.pow(x, y - 1)))


def _pow_exponent_vjp(ops: Any, g: Any, x: Any, y: Any, out: Any) -> Any:
    """out * log(x), and 0 where x is 0 and y is not negative."""
    if not _is_number(x):
        safe = ops.logical_and(ops.eq(x, 0), ops.ge(y, 0))
        return g * ops.where(safe, 0.0, out * ops.log(x))
    if x == 0:
        return g * ops.where(ops.ge(y, 0), 0.0, out * -math.inf)
    return g * (out * (math.log(x) if x > 0 else math.nan))


def _pow_array(xp: Any, x: Any, y: Any) -> Any:
    """Squares are products: `power` is ten times slower and no better rounded."""
    if y.ndim == 0 and y == 2:
        return x * x
    return NumpyScalars.pow(x, y)


@pointwise(
    dtype=REAL_NUMERIC,
    array=_pow_array,
    vjp={"x": _pow_base_vjp, "y": _pow_exponent_vjp},
    domain=(0.3, 3.0),
)
def pow(m, x, y):
    """x to the power y. Shape: broadcast. Dtype: promoted; bool with bool is refused.

    C99 edges for floats. Integers wrap; a negative exponent gives 0 (1 for the base 1, +-1 for
    -1); the `**` operator refuses a negative Python number as the exponent of integers.
    """
    return m.pow(x, y)


@pointwise(
    dtype=FLOATING_ONLY,
    vjp={
        "x": lambda g, weight: g * (1 - weight),
        "end": lambda g, weight: g * weight,
        "weight": lambda g, x, end: g * (end - x),
    },
)
def lerp(m, x, end, weight):
    """x + weight * (end - x). Shape: broadcast. Dtype: promoted, floating only.

    Exact at weight 0 and 1. Source: PyTorch's `lerp`, which changes its form at 0.5.
    """
    span = end - x
    low = m.abs(weight) < 0.5
    return m.where(low, x + weight * span, end - span * (1 - weight))


# ---------------------------------------------------------------------------------------------
# roots, exponentials, logarithms


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g / (2 * out)}, domain=(0.1, 4.0))
def sqrt(m, x):
    """Square root; NaN below 0. Shape: as x. Dtype: floating."""
    return m.sqrt(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda g, out: -0.5 * g * (out * out * out)}, domain=(0.1, 4.0)
)
def rsqrt(m, x):
    """1 / sqrt(x). Shape: as x. Dtype: floating."""
    return m.rsqrt(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * out})
def exp(m, x):
    """e to the power x. Shape: as x. Dtype: floating."""
    return m.exp(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * out * LN_2})
def exp2(m, x):
    """2 to the power x. Shape: as x. Dtype: floating."""
    return m.exp2(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * (out + 1)})
def expm1(m, x):
    """exp(x) - 1, accurate near 0. Shape: as x. Dtype: floating."""
    return m.expm1(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / x}, domain=(0.1, 4.0))
def log(m, x):
    """Natural logarithm. Shape: as x. Dtype: floating."""
    return m.log(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / (x * LN_2)}, domain=(0.1, 4.0))
def log2(m, x):
    """Base-2 logarithm. Shape: as x. Dtype: floating."""
    return m.log2(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / (x * LN_10)}, domain=(0.1, 4.0))
def log10(m, x):
    """Base-10 logarithm. Shape: as x. Dtype: floating."""
    return m.log10(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / (x + 1)}, domain=(-0.7, 3.0))
def log1p(m, x):
    """log(1 + x), accurate near 0. Shape: as x. Dtype: floating."""
    return m.log1p(x)


# ---------------------------------------------------------------------------------------------
# trigonometric and hyperbolic functions


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.cos(x)})
def sin(m, x):
    """Sine of radians. Shape: as x. Dtype: floating."""
    return m.sin(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: -g * ops.sin(x)})
def cos(m, x):
    """Cosine of radians. Shape: as x. Dtype: floating."""
    return m.cos(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * (1 + out * out)}, domain=(-1.2, 1.2))
def tan(m, x):
    """Tangent of radians. Shape: as x. Dtype: floating."""
    return m.tan(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.rsqrt(1 - x * x)}, domain=(-0.8, 0.8)
)
def asin(m, x):
    """Inverse sine; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
    return m.asin(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda ops, g, x: -g * ops.rsqrt(1 - x * x)}, domain=(-0.8, 0.8)
)
def acos(m, x):
    """Inverse cosine; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
    return m.acos(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / (x * x + 1)})
def atan(m, x):
    """Inverse tangent. Shape: as x. Dtype: floating."""
    return m.atan(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.cosh(x)})
def sinh(m, x):
    """Hyperbolic sine. Shape: as x. Dtype: floating."""
    return m.sinh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.sinh(x)})
def cosh(m, x):
    """Hyperbolic cosine. Shape: as x. Dtype: floating."""
    return m.cosh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * (1 - out * out)})
def tanh(m, x):
    """Hyperbolic tangent. Shape: as x. Dtype: floating."""
    return m.tanh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.rsqrt(x * x + 1)})
def asinh(m, x):
    """Inverse hyperbolic sine. Shape: as x. Dtype: floating."""
    return m.asinh(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda ops, g, x: g * ops.rsqrt(x * x - 1)}, domain=(1.3, 4.0)
)
def acosh(m, x):
    """Inverse hyperbolic cosine; NaN below 1. Shape: as x. Dtype: floating."""
    return m.acosh(x)


@pointwise(dtype=FLOATING, vjp={"x": lambda g, x: g / (1 - x * x)}, domain=(-0.8, 0.8))
def atanh(m, x):
    """Inverse hyperbolic tangent; NaN outside [-1, 1]. Shape: as x. Dtype: floating."""
    return m.atanh(x)


def _atan2_vjp(ops: Any, numerator: Any, y: Any, x: Any) -> Any:
    """Divided by the squared radius; 0 at the origin."""
    square = x * x + y * y
    return ops.where(ops.eq(square, 0), 0.0, numerator / square)


@pointwise(
    dtype=FLOATING,
    vjp={
        "y": lambda ops, g, y, x: _atan2_vjp(ops, g * x, y, x),
        "x": lambda ops, g, y, x: _atan2_vjp(ops, -g * y, y, x),
    },
    domain=(0.3, 3.0),
)
def atan2(m, y, x):
    """Angle of the point (x, y) in radians, C99 edges. Shape: broadcast. Dtype: floating."""
    return m.atan2(y, x)


@pointwise(dtype=FLOATING, vjp={"x": lambda ops, g, x: g * (ops.exp(-(x * x)) * TWO_OVER_SQRT_PI)})
def erf(m, x):
    """Error function. Shape: as x. Dtype: floating."""
    return m.erf(x)


@pointwise(
    dtype=FLOATING, vjp={"x": lambda ops, g, x: g * (ops.exp(-(x * x)) * -TWO_OVER_SQRT_PI)}
)
def erfc(m, x):
    """1 - erf(x), accurate for large x. Shape: as x. Dtype: floating."""
    return m.erfc(x)


# ---------------------------------------------------------------------------------------------
# activations, choosing, rounding


@pointwise(dtype=FLOATING, vjp={"x": lambda g, out: g * (out * (1 - out))}, domain=(-20.0, 20.0))
def sigmoid(m, x):
    """Logistic function 1 / (1 + exp(-x)), never overflowing. Shape: as x. Dtype: floating."""
    e = m.exp(-m.abs(x))
    return m.where(x >= 0, 1 / (1 + e), e / (1 + e))


@pointwise(dtype=REAL_NUMERIC, vjp={"x": lambda ops, g, out: ops.where(ops.le(out, 0), 0.0, g)})
def relu(m, x):
    """max(x, 0); NaN stays; derivative 0 at 0. Shape, dtype: as x; bool is refused."""
    return m.maximum(x, 0)


def _halved_at_ties(ops: Any, g: Any, x: Any, y: Any, loses: Any) -> Any:
    return ops.where(loses, 0.0, ops.where(ops.eq(x, y), g * 0.5, g))


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.lt(x, y)),
        "y": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.gt(x, y)),
    },
)
def maximum(m, x, y):
    """The larger; NaN if either is. Ties share the gradient. Shape: broadcast. Dtype: promoted."""
    return m.maximum(x, y)


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.gt(x, y)),
        "y": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.lt(x, y)),
    },
)
def minimum(m, x, y):
    """The smaller; NaN if either is. Ties share the gradient. Shape: broadcast. Dtype: promoted."""
    return m.minimum(x, y)


def _inside(ops: Any, x: Any, min: Any, max: Any) -> Any:
    return ops.logical_and(ops.ge(x, min), ops.le(x, max))


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, min, max: ops.where(_inside(ops, x, min, max), g, 0.0),
        "min": lambda ops, g, x, min, max: ops.where(
            ops.logical_and(ops.lt(min, max), ops.lt(x, min)), g, 0.0
        ),
        "max": lambda ops, g, x, min, max: ops.where(
            ops.logical_or(ops.gt(x, max), ops.lt(max, min)), g, 0.0
        ),
    },
)
def clamp(m, x, min, max):
    """min(max(x, min), max): max wins if min > max; NaN anywhere gives NaN.

    x gets the gradient on the closed interval. Shape: broadcast. Dtype: promoted, bounds included.
    """
    return m.minimum(m.maximum(x, min), max)


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, min: ops.where(ops.ge(x, min), g, 0.0),
        "min": lambda ops, g, x, min: ops.where(ops.lt(x, min), g, 0.0),
    },
)
def clamp_min(m, x, min):
    """max(x, min); x gets the whole gradient at a tie. Shape: broadcast. Dtype: promoted."""
    return m.maximum(x, min)


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, max: ops.where(ops.le(x, max), g, 0.0),
        "max": lambda ops, g, x, max: ops.where(ops.gt(x, max), g, 0.0),
    },
)
def clamp_max(m, x, max):
    """min(x, max); x gets the whole gradient at a tie. Shape: broadcast. Dtype: promoted."""
    return m.minimum(x, max)


@pointwise(dtype=REAL_NUMERIC, vjp={"x": lambda ops, g: _zeros(ops, g)})
def floor(m, x):
    """Largest integer not above x. Shape, dtype: as x; bool is refused."""
    return m.floor(x)


@pointwise(dtype=REAL_NUMERIC, vjp={"x": lambda ops, g: _zeros(ops, g)})
def ceil(m, x):
    """Smallest integer not below x. Shape, dtype: as x; bool is refused."""
    return m.ceil(x)


@pointwise(dtype=REAL_NUMERIC, vjp={"x": lambda ops, g: _zeros(ops, g)})
def trunc(m, x):
    """Integer part. Shape, dtype: as x; bool is refused."""
    return m.trunc(x)


@pointwise(dtype=REAL_NUMERIC, vjp={"x": lambda ops, g: _zeros(ops, g)})
def round(m, x):
    """Nearest integer, halves to even. Shape, dtype: as x; bool is refused."""
    return m.round(x)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": lambda g: g, "y": lambda ops, g, x, y: -g * ops.floor_divide(x, y)},
    domain=(0.6, 3.0),
)
def remainder(m, x, y):
    """x - floor(x / y) * y, sign of y; float by 0 is NaN, integer by 0 raises DivisionError.

    Shape: broadcast. Dtype: promoted; bool is refused.
    """
    return m.remainder(x, y)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": lambda g: g, "y": lambda ops, g, x, y: -g * ops.trunc(ops.div(x, y))},
    domain=(0.6, 3.0),
)
def fmod(m, x, y):
    """x - trunc(x / y) * y, sign of x; float by 0 is NaN, integer by 0 raises DivisionError.

    Shape: broadcast. Dtype: promoted; bool is refused.
    """
    return m.fmod(x, y)


@pointwise(dtype=REAL_NUMERIC, domain=(0.6, 3.0))
def floor_divide(m, x, y):
    """Quotient rounded to -inf; floats by 0 as x / 0, integers by 0 raise DivisionError.

    Shape: broadcast. Dtype: promoted; bool is refused. No derivative, as in PyTorch.
    """
    return m.floor_divide(x, y)


def _where_infer(condition: ValueType, x: ValueType, y: ValueType) -> TensorType:
    call = describe("where", ("condition", "x", "y"), (condition, x, y))
    if as_tensor_type(condition).dtype is not dtypes.bool_:
        raise DTypeError(
            f"{call}: the condition is {as_tensor_type(condition).dtype.name}.  Expected bool.  "
            "Compare with 0 to make one."
        )
    shape = broadcast_shapes([condition.shape, x.shape, y.shape], call)
    return TensorType(shape, promoted_dtype((x, y)), common_device((condition, x, y), call))


@pointwise(
    infer=_where_infer,
    uncast=("condition",),
    vjp={
        "x": lambda ops, g, condition: ops.where(condition, g, 0.0),
        "y": lambda ops, g, condition: ops.where(condition, 0.0, g),
    },
)
def where(m, condition, x, y):
    """x where the bool condition holds, else y. Shape: broadcast. Dtype: promoted of x and y."""
    return m.where(condition, x, y)


# ---------------------------------------------------------------------------------------------
# comparison, logic, bits


@pointwise(dtype=COMPARISON)
def eq(m, x, y):
    """x == y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x == y


@pointwise(dtype=COMPARISON)
def ne(m, x, y):
    """x != y; True with NaN. Shape: broadcast. Dtype: bool."""
    return x != y


@pointwise(dtype=ORDERING)
def lt(m, x, y):
    """x < y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x < y


@pointwise(dtype=ORDERING)
def le(m, x, y):
    """x <= y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x <= y


@pointwise(dtype=ORDERING)
def gt(m, x, y):
    """x > y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x > y


@pointwise(dtype=ORDERING)
def ge(m, x, y):
    """x >= y; False with NaN. Shape: broadcast. Dtype: bool."""
    return x >= y


@pointwise(dtype=LOGICAL)
def logical_and(m, x, y):
    """Both are true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_and(x, y)


@pointwise(dtype=LOGICAL)
def logical_or(m, x, y):
    """Either is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_or(x, y)


@pointwise(dtype=LOGICAL)
def logical_xor(m, x, y):
    """Exactly one is true (not 0; NaN is true). Shape: broadcast. Dtype: bool."""
    return m.logical_xor(x, y)


@pointwise(dtype=LOGICAL)
def logical_not(m, x):
    """x is 0. Shape: as x. Dtype: bool."""
    return m.logical_not(x)


@pointwise(dtype=INTEGRAL)
def bitwise_and(m, x, y):
    """Bits set in both. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_and(x, y)


@pointwise(dtype=INTEGRAL)
def bitwise_or(m, x, y):
    """Bits set in either. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_or(x, y)


@pointwise(dtype=INTEGRAL)
def bitwise_xor(m, x, y):
    """Bits set in one only. Shape: broadcast. Dtype: promoted, bool or integer."""
    return m.bitwise_xor(x, y)


@pointwise(dtype=INTEGRAL)
def bitwise_not(m, x):
    """Every bit flipped; for bool the negation. Shape, dtype: as x, bool or integer."""
    return m.bitwise_not(x)


@pointwise(dtype=INTEGRAL_NUMERIC)
def left_shift(m, x, y):
    """x * 2**y, wrapped; 0 if y is out of range. Shape: broadcast. Dtype: promoted, integer."""
    return m.left_shift(x, y)


@pointwise(dtype=INTEGRAL_NUMERIC)
def right_shift(m, x, y):
    """floor(x / 2**y); 0 or -1 if y is out of range. Shape: broadcast. Dtype: promoted, integer."""
    return m.right_shift(x, y)


@pointwise(dtype=COMPARISON)
def isnan(m, x):
    """True at NaN. Shape: as x. Dtype: bool."""
    return m.isnan(x)


@pointwise(dtype=COMPARISON)
def isinf(m, x):
    """True at both infinities. Shape: as x. Dtype: bool."""
    return m.isinf(x)


@pointwise(dtype=COMPARISON)
def isfinite(m, x):
    """False at NaN and the infinities. Shape: as x. Dtype: bool."""
    return m.isfinite(x)


# ---------------------------------------------------------------------------------------------
# dtype and creation


def _cast_infer(x: ValueType, *, dtype: DType) -> TensorType:
    return as_tensor_type(x).with_dtype(dtype)


@pointwise(infer=_cast_infer, compute=dtypes.compute_dtype, uncast=("x",), vjp={"x": lambda g: g})
def cast(m, x, *, dtype):
    """x in another dtype; see `scalar.cast` for float to integer. Shape: as x. Dtype: `dtype`."""
    return m.cast(x, dtype)


def _full_infer(value: ValueType, *, shape: Shape, dtype: DType, device: Any) -> TensorType:
    return TensorType(tuple(shape), dtype, device)


@pointwise(infer=_full_infer, uncast=("value",), vjp={"value": lambda g: g})
def full(m, value, *, shape, dtype, device=CPU):
    """One number everywhere. value: a number or zero-dim tensor. Shape, dtype: as given."""
    return m.cast(value, dtype)


def _arange_infer(
    start: ValueType, step: ValueType, *, size: Size, dtype: DType, device: Any
) -> TensorType:
    return TensorType((size,), dtype, device)


def _arange_compute(promoted: DType) -> DType:
    """Integers stay exact; floats step in float64 and round once, as in PyTorch."""
    return dtypes.int64 if promoted.category <= Category.INTEGER else dtypes.float64


@pointwise(infer=_arange_infer, compute=_arange_compute)
def arange(m, start, step, *, size, dtype, device=CPU):
    """start + i * step for i in 0 .. size - 1. Shape: (size,). Dtype: `dtype`.

    start, step: numbers. Source: PyTorch's CPU kernel, which accumulates in double.
    """
    return m.cast(start + m.index(0) * step, dtype)
