"""Pointwise rows: the value at an index depends on the inputs' values at that index only.

Contract: names, promotion, edge values and derivatives are PyTorch's. Shapes broadcast. Unless a
docstring says otherwise the *Dtype* line means: "promoted" the dtype in which the operands meet
(`core.types.dtypes.result_type`), "floating" the same with float32 for bool and integers. 16-bit
floats compute in float32 and round once. Source of names and edge values: the PyTorch 2.x
documentation of `torch.<name>`; of the derivatives: calculus, with PyTorch's choices at kinks and
ties.
"""

import cmath
import math
import operator
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.selection import select
from dynajit.core.errors import DTypeError, DTypeNotImplementedError, NoDerivativeError
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.short_floats import is_short, shortened
from dynajit.core.types.value_types import Shape, Size, TensorType, ValueType
from dynajit.ops.native import _native_forms, _vecmath
from dynajit.ops.table import identities, intervals, result_layouts, sample_rules
from dynajit.ops.table.families import (
    FLOATING,
    FLOATING_ONLY,
    MAGNITUDE,
    NUMERIC,
    REAL,
    REAL_FLOATING,
    REAL_FLOATING_ONLY,
    REAL_NUMERIC,
    as_tensor_type,
    broadcast_shapes,
    common_device,
    describe,
    pointwise,
    promoted_dtype,
    scalar_operand,
)
from dynajit.ops.table.op_table import Autocast
from dynajit.ops.table.scalar import (
    Effort,
    InPython,
    NumpyScalars,
    Result,
    is_integer,
    is_on_gpu,
    is_whole_power,
    scalar,
)


def zero_slope(ops: Any, g: Any) -> Any:
    """The gradient of a step function: zero, and differentiable again."""
    return ops.full(0.0, shape=tuple(g.shape), dtype=g.dtype, device=g.device)


@dataclass(frozen=True)
class RefusedDerivative:
    """A formula in the place of one that nobody has: backward raises NoDerivativeError, where
    PyTorch's raises, instead of leaving the gradient out.

    Attributes:
        name: the function, and the input where another input has a formula: "igamma: input".
    """

    name: str

    def __call__(self, g: Any) -> Any:
        raise NoDerivativeError(
            f"the derivative for {self.name!r} is not implemented.  Call it with a detached tensor."
        )


def _beside_vjp(ops: Any, g: Any, y_type: TensorType, refused: str) -> Any:
    if refused:
        return RefusedDerivative(refused)(g)
    return ops.full(0.0, shape=y_type.shape, dtype=y_type.dtype, device=g.device)


def _is_number(operand: Any) -> bool:
    return isinstance(operand, (bool, int, float, complex))


# ---------------------------------------------------------------------------------------------
# arithmetic


@pointwise(
    vjp={"x": lambda g: g, "y": lambda g: g},
    analytic=False,
    rounds=True,
    numpy_name="add",
    operator="add",
    of_bools="logical_or",
    interval=intervals.of_ends(operator.add),
    neutral={"x": identities.added_nothing, "y": identities.added_nothing},
)
def add(m: Any, x: Any, y: Any) -> Any:
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


@pointwise(
    infer=_sub_infer,
    vjp={"x": lambda g: g, "y": lambda g: -g},
    analytic=False,
    rounds=True,
    numpy_name="subtract",
    operator="sub",
    interval=intervals.of_ends(operator.sub),
    neutral={"y": identities.subtracted_nothing},
)
def sub(m: Any, x: Any, y: Any) -> Any:
    """Difference. Shape: broadcast. Dtype: promoted; bool operands are refused."""
    return x - y


@pointwise(
    vjp={"x": lambda g, y: g * y, "y": lambda g, x: g * x},
    takes=dtypes.UNSIGNED,
    numpy_name="multiply",
    operator="mul",
    of_bools="logical_and",
    interval=intervals.of_ends(operator.mul),
    neutral={"x": identities.one, "y": identities.one},
)
def mul(m: Any, x: Any, y: Any) -> Any:
    """Product. Shape: broadcast. Dtype: promoted; on bool it is logical and."""
    return x * y


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, y: g / y, "y": lambda g, x, y: -g * ((x / y) / y)},
    domain=(0.5, 3.0),
    numpy_name="divide",
    operator="truediv",
    neutral={"y": identities.one},
)
def div(m: Any, x: Any, y: Any) -> Any:
    """True quotient, IEEE at 0. Shape: broadcast. Dtype: floating."""
    return x / y


@pointwise(
    dtype=NUMERIC,
    vjp={"x": lambda g: -g},
    analytic=False,
    scalar=scalar(np.negative, floating="(-({0}))", integer="(({t})(-({0})))"),
    operator="neg",
    interval=lambda a: (-a[1], -a[0]),
    twice=identities.undone,
)
def neg(m: Any, x: Any) -> Any:
    """Negation; unsigned integers wrap. Shape: as x. Dtype: as x; bool is refused."""
    return -x


def _abs_vjp(ops: Any, g: Any, x: Any) -> Any:
    """The direction of x; 0 at 0."""
    return g * (ops.sgn(x) if x.dtype.is_complex else ops.sign(x))


@pointwise(
    dtype=MAGNITUDE,
    vjp={"x": _abs_vjp},
    analytic=False,
    keeps_zero=True,
    scalar=scalar(np.abs, floating="fabs{f}({0})", integer="", math=InPython("fabs")),
    operator="abs",
    interval=intervals.of_magnitude,
    twice=identities.the_later,
)
def abs(m: Any, x: Any) -> Any:
    """Magnitude; NaN stays; the most negative integer is its own. The derivative is 0 at 0.

    Shape: as x. Dtype: as x, of complex x that of its parts; bool is refused.
    """
    return m.abs(x)


def _sign_of_arrays(x: np.ndarray) -> Any:
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind == "f":
        return ((x > 0).astype(np.int8) - (x < 0)).astype(x.dtype)
    return np.sign(x)


@pointwise(
    dtype=REAL,
    vjp={"x": lambda ops, g: zero_slope(ops, g)},
    keeps_zero=True,
    scalar=scalar(_sign_of_arrays, floating="dj_sign_{s}({0})", integer="dj_sign_{s}({0})"),
    numpy_name="sign",
)
def sign(m: Any, x: Any) -> Any:
    """-1, 0 or 1; 0 for -0 and, as in PyTorch, for NaN. bool is its own sign.

    Shape, dtype: as x.
    """
    return m.sign(x)


@pointwise(
    dtype=FLOATING,
    vjp={"x": lambda g, out: -g * out * out},
    domain=(0.5, 3.0),
    autocast=Autocast.FULL,
    scalar=scalar(np.reciprocal, floating="(1 / ({0}))", effort=Effort.DIVISION),
)
def reciprocal(m: Any, x: Any) -> Any:
    """1 / x; signed inf at signed 0. Shape: as x. Dtype: floating."""
    return m.reciprocal(x)


def _square_dtype(promoted: DType) -> DType:
    return dtypes.int64 if promoted is dtypes.bool_ else promoted


@pointwise(
    dtype=_square_dtype,
    compute=lambda dtype: dtypes.compute_dtype(_square_dtype(dtype)),
    vjp={"x": lambda g, x: g * (2 * x)},
    autocast=Autocast.FULL,
    keeps_zero=True,
)
def square(m: Any, x: Any) -> Any:
    """x * x. Shape: as x. Dtype: as x; bool gives int64."""
    return x * x


_ROWS_OF_POWERS: Final[Mapping[float, str]] = MappingProxyType(
    {2.0: "square", 0.5: "sqrt", -0.5: "rsqrt"}
)


def number_power(ops: Any, x: Any, y: Any) -> Any:
    """A floating tensor to the power of a number: a product or root where PyTorch takes one.

    The third power of float16 is rounded once, as there.
    """
    row = _ROWS_OF_POWERS.get(y)
    if row is not None:
        return getattr(ops, row)(x)
    if y != 3:
        return ops.pow(x, y)
    if x.dtype is dtypes.float16:
        wide = ops.cast(x, dtype=dtypes.float32)
        return ops.cast(wide * wide * wide, dtype=dtypes.float16)
    return x * x * x


def _pow_base_vjp(ops: Any, g: Any, x: Any, y: Any, y_type: ValueType) -> Any:
    """y * x ** (y - 1), and 0 where y is 0 (x ** -1 would be inf at x = 0)."""
    y = scalar_operand(ops, y, y_type, g)
    if _is_number(y):
        if y == 0:
            return zero_slope(ops, g)
        return g * x * 2 if y == 2 else g * (y * number_power(ops, x, y - 1))
    less = y + -1  # of truth values, too, which have no difference
    return ops.where(ops.eq(y, 0), 0.0, g * (y * ops.pow(x, less)))


def _pow_exponent_vjp(ops: Any, g: Any, x: Any, x_type: ValueType, y: Any, out: Any) -> Any:
    """out * log(x), and 0 where x is 0 and (the real part of) y is not negative."""
    x = scalar_operand(ops, x, x_type, g)
    order = ops.real(y) if y.dtype.is_complex else y
    if not _is_number(x):
        safe = ops.logical_and(ops.eq(x, 0), ops.ge(order, 0))
        if out.dtype.is_complex and not x.dtype.is_complex:
            x = ops.cast(x, dtype=out.dtype)  # negative bases have complex logarithms
        return g * ops.where(safe, 0.0, out * ops.log(x))
    if x == 0:
        return g * ops.where(ops.ge(order, 0), 0.0, out * -math.inf)
    if out.dtype.is_complex:
        return g * (out * cmath.log(x))
    return g * (out * (math.log(x) if x > 0 else math.nan))


def _pow_array(xp: Any, x: Any, y: Any) -> Any:
    """Squares are products: `power` is ten times slower and no better rounded."""
    if y.ndim == 0 and y == 2:
        return x * x
    return NumpyScalars().pow(x, y)


def _power_by_number(x: np.ndarray, y: np.ndarray) -> Any:
    """A floating x on the CPU to the power of one number."""
    if y in (-1, -2):
        return np.reciprocal(x if y == -1 else x * x)
    is_fast = isinstance(x, np.ndarray) and x.dtype == np.float32
    if is_fast and is_whole_power(float(y)):
        return _vecmath.whole_power(x, y)
    return _vecmath.power(x, y)


def _power_of_arrays(x: np.ndarray, y: Any) -> Any:
    """A whole number as the exponent of float32 gives PyTorch's bits, at most 1 ULP from the exact
    value; -1 and -2 divide. A tensor without dims is no number."""
    if not is_integer(x):
        is_number = not isinstance(y, np.ndarray) and not is_on_gpu(x, y)
        return _power_by_number(x, y) if is_number else _vecmath.power(x, y)
    negative = y < 0
    if not np.any(negative):
        return np.power(x, y)
    unit = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
    return np.where(negative, unit, np.power(x, np.where(negative, 0, y))).astype(x.dtype)


@pointwise(
    dtype=NUMERIC,
    array=_pow_array,
    vjp={"x": _pow_base_vjp, "y": _pow_exponent_vjp},
    domain=(0.3, 3.0),
    autocast=Autocast.FULL,
    rounds=True,
    scalar=scalar(
        _power_of_arrays,
        integer="",
        effort=Effort.MANY,
        math=InPython(where=(("gt", 0.0),), is_finite=True),
    ),
    numpy_name="power",
    operator="pow",
    neutral={"y": identities.one},
)
def pow(m: Any, x: Any, y: Any) -> Any:
    """x to the power y. Shape: broadcast. Dtype: promoted; bool with bool is refused.

    C99 edges for floats. Integers wrap; a negative exponent gives 0 (1 for the base 1, +-1 for
    -1); the `**` operator refuses a negative Python number as the exponent of integers.
    """
    return m.pow(x, y)


@pointwise(
    dtype=FLOATING_ONLY,
    vjp={
        "x": lambda g, weight: g - g * weight,
        "end": lambda g, weight: g * weight,
        "weight": lambda g, x, end: g * end - g * x,
    },
)
def lerp(m: Any, x: Any, end: Any, weight: Any) -> Any:
    """x + weight * (end - x). Shape: broadcast. Dtype: promoted, floating only.

    Exact at weight 0 and 1. Source: PyTorch's `lerp`, which changes its form at 0.5.
    """
    span = end - x
    low = m.abs(weight) < 0.5
    return m.where(low, x + weight * span, end - span * (1 - weight))


def _fma_of_arrays(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Any:
    """On arrays of CuPy: rounded once but for float32 values next to a tie, twice for float64."""
    arrays = [operand for operand in (x, y, z) if gpu.is_gpu_array(operand)]
    if not arrays:
        return _vecmath.fma(x, y, z)
    dtype = arrays[0].dtype
    wide = np.float64(x) if x is not arrays[0] else x.astype(np.float64)
    return (wide * y + z).astype(dtype)


@pointwise(
    dtype=REAL_FLOATING_ONLY,
    vjp={"x": lambda g, y: g * y, "y": lambda g, x: g * x, "z": lambda g: g},
    scalar=scalar(
        _fma_of_arrays, floating="__builtin_fma{f}({0}, {1}, {2})", cuda="fma{f}({0}, {1}, {2})"
    ),
)
def fma(m: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once. Shape: broadcast. Dtype: promoted, floating and real only."""
    return m.fma(x, y, z)


# ---------------------------------------------------------------------------------------------
# activations, choosing, rounding


def _sigmoid_array(xp: Any, x: Any) -> Any:
    """Complex numbers have no sign to keep the exponential small by."""
    if x.dtype.kind == "c":
        return 1 / (1 + _vecmath.exp(-x))
    return sigmoid.rule.body(NumpyScalars(), x)


@pointwise(
    dtype=FLOATING,
    array=_sigmoid_array,
    vjp={"x": lambda g, out: g * (out * (1 - out))},
    domain=(-20.0, 20.0),
    native=_native_forms.sigmoid,
)
def sigmoid(m: Any, x: Any) -> Any:
    """Logistic function 1 / (1 + exp(-x)), never overflowing. Shape: as x. Dtype: floating."""
    e = m.exp(-m.abs(x))
    return m.where(x >= 0, 1.0, e) / (1 + e)


@pointwise(
    dtype=REAL_NUMERIC,
    vjp={"x": lambda ops, g, out: ops.where(ops.le(out, 0), 0.0, g)},
    bends=True,
    native=_native_forms.relu,
    keeps_zero=True,
    twice=identities.the_later,
)
def relu(m: Any, x: Any) -> Any:
    """max(x, 0); NaN stays; derivative 0 at 0. Shape, dtype: as x; bool is refused."""
    return m.maximum(x, 0)


def _halved_at_ties(ops: Any, g: Any, x: Any, y: Any, loses: Any) -> Any:
    return ops.where(loses, 0.0, ops.where(ops.eq(x, y), g * 0.5, g))


LONG_CUT: Final = 4096
"""Elements from which the call of `np.clip` is paid back."""


def _is_cut(x: np.ndarray, y: np.ndarray) -> bool:
    """True for a long float array beside a number: NumPy has a vector loop for that in `clip` only,
    which takes 28 us where `minimum` takes 75 (200 thousand floats). Of zeros of both signs they
    take others."""
    if not isinstance(x, np.ndarray) or gpu.is_gpu_array(y) or np.ndim(y) != 0:
        return False
    is_float = x.dtype in (np.float32, np.float64)
    return x.size >= LONG_CUT and is_float and bool(y != 0)


def _larger_of_arrays(x: np.ndarray, y: np.ndarray) -> Any:
    return np.clip(x, y, np.inf) if _is_cut(x, y) else np.maximum(x, y)


def _smaller_of_arrays(x: np.ndarray, y: np.ndarray) -> Any:
    return np.clip(x, -np.inf, y) if _is_cut(x, y) else np.minimum(x, y)


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.lt(x, y)),
        "y": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.gt(x, y)),
    },
    scalar=scalar(_larger_of_arrays, integer="(({0}) > ({1}) ? ({0}) : ({1}))", cuda="dj"),
    numpy_name="maximum",
    of_bools="logical_or",
)
def maximum(m: Any, x: Any, y: Any) -> Any:
    """The larger; NaN if either is; of -0 and 0 either. Ties share the gradient.

    Shape: broadcast. Dtype: promoted.
    """
    return m.maximum(x, y)


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.gt(x, y)),
        "y": lambda ops, g, x, y: _halved_at_ties(ops, g, x, y, ops.lt(x, y)),
    },
    scalar=scalar(_smaller_of_arrays, integer="(({0}) < ({1}) ? ({0}) : ({1}))", cuda="dj"),
    numpy_name="minimum",
    of_bools="logical_and",
)
def minimum(m: Any, x: Any, y: Any) -> Any:
    """The smaller; NaN if either is; of -0 and 0 either. Ties share the gradient.

    Shape: broadcast. Dtype: promoted.
    """
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
    native=_native_forms.clamp,
)
def clamp(m: Any, x: Any, min: Any, max: Any) -> Any:
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
    native=_native_forms.clamp_min,
)
def clamp_min(m: Any, x: Any, min: Any) -> Any:
    """max(x, min); x gets the whole gradient at a tie. Shape: broadcast. Dtype: promoted."""
    return m.maximum(x, min)


@pointwise(
    dtype=REAL,
    vjp={
        "x": lambda ops, g, x, max: ops.where(ops.le(x, max), g, 0.0),
        "max": lambda ops, g, x, max: ops.where(ops.gt(x, max), g, 0.0),
    },
    native=_native_forms.clamp_max,
)
def clamp_max(m: Any, x: Any, max: Any) -> Any:
    """min(x, max); x gets the whole gradient at a tie. Shape: broadcast. Dtype: promoted."""
    return m.minimum(x, max)


def _beside_infer(x: ValueType, y: ValueType, *, refused: str) -> TensorType:
    call = describe("unchanged_by", ("x", "y"), (x, y))
    shape = broadcast_shapes([x.shape, y.shape], call)
    return TensorType(shape, as_tensor_type(x).dtype, common_device((x, y), call))


@pointwise(
    infer=_beside_infer,
    compute=dtypes.compute_dtype,
    uncast=("x", "y"),
    vjp={"x": lambda g: g, "y": _beside_vjp},
    analytic=False,
    same=identities.always,
)
def unchanged_by(m: Any, x: Any, y: Any, *, refused: str = "") -> Any:
    """x. It is what a function of y gives that y changes in steps only: y's derivative is 0.

    Args:
        refused: the name of a function whose derivative nobody has: backward raises.

    Shape: broadcast. Dtype: as x.
    """
    return m.where(y == y, x, x)


def _as_tensor(ops: Any, g: Any, operand: Any, type: ValueType) -> Any:
    """A number as a tensor of g's precision: a row on a number alone computes in float32."""
    if isinstance(type, TensorType):
        return operand
    return ops.full(operand, shape=(), dtype=dtypes.compute_dtype(g.dtype), device=g.device)


def _without_mass(ops: Any, x: Any, y: Any, least: int) -> Any:
    return ops.logical_and(ops.eq(x, 0), ops.le(y, least))


@pointwise(
    dtype=REAL_FLOATING,
    vjp={
        "x": lambda ops, g, x, y, y_type: ops.where(
            _without_mass(ops, x, y, 0), 0.0, g * ops.log(_as_tensor(ops, g, y, y_type))
        ),
        "y": lambda g, x, y: g * x / y,
    },
    domain=(0.2, 3.0),
)
def xlogy(m: Any, x: Any, y: Any) -> Any:
    """x * log(y), 0 where x is 0 and y is a number. Shape: broadcast. Dtype: floating."""
    value = x * m.log(y)
    return m.where(m.logical_and(x == 0, m.logical_not(m.isnan(y))), 0.0, value)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={
        "x": lambda ops, g, x, y, y_type: ops.where(
            _without_mass(ops, x, y, -1), 0.0, g * ops.log1p(_as_tensor(ops, g, y, y_type))
        ),
        "y": lambda g, x, y: g * x / (y + 1),
    },
    domain=(0.2, 3.0),
)
def xlog1py(m: Any, x: Any, y: Any) -> Any:
    """x * log1p(y), 0 where x is 0 and y is a number. Shape: broadcast. Dtype: floating."""
    value = x * m.log1p(y)
    return m.where(m.logical_and(x == 0, m.logical_not(m.isnan(y))), 0.0, value)


@pointwise(
    dtype=REAL_FLOATING_ONLY,
    vjp={
        # no differences: a truth value may be added to, and no more
        "x": lambda ops, g, x, y: g / (1 + ops.exp2(y + -x)),
        "y": lambda ops, g, x, y: g / (1 + ops.exp2(x + -y)),
    },
    numpy_name="logaddexp2",
)
def logaddexp2(m: Any, x: Any, y: Any) -> Any:
    """log2(2^x + 2^y), without overflow. Shape: broadcast. Dtype: floating only."""
    top = m.maximum(x, y)
    finite = m.where(m.isfinite(top), top, 0.0)
    return m.log2(m.exp2(x - finite) + m.exp2(y - finite)) + finite


@pointwise(
    dtype=REAL_FLOATING_ONLY,
    vjp={
        "x": lambda ops, g, x, y: g / (1 + ops.exp(y + -x)),
        "y": lambda ops, g, x, y: g / (1 + ops.exp(x + -y)),
    },
    numpy_name="logaddexp",
)
def logaddexp(m: Any, x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y)), without overflow. Shape: broadcast. Dtype: floating only."""
    top = m.maximum(x, y)
    finite = m.where(m.isfinite(top), top, 0.0)
    return m.log(m.exp(x - finite) + m.exp(y - finite)) + finite


def _logit_vjp(ops: Any, g: Any, x: Any, eps: float | None) -> Any:
    """NaN outside of [0, 1]; 0 where x was cut."""
    low, beyond = (0.0, math.nan) if eps is None else (eps, 0.0)
    outside = ops.logical_or(ops.lt(x, low), ops.gt(x, 1.0 - low))
    return ops.where(outside, beyond, g / (x * (1.0 - x)))


@pointwise(dtype=REAL_FLOATING, vjp={"x": _logit_vjp}, domain=(0.1, 0.9))
def logit(m: Any, x: Any, *, eps: float | None = None) -> Any:
    """log(x / (1 - x)), of x cut to [eps, 1 - eps]. Shape: as x. Dtype: floating."""
    if eps is not None:
        x = m.minimum(m.maximum(x, eps), 1.0 - eps)
    return m.log(x / (1.0 - x))


@pointwise(
    dtype=REAL_FLOATING, vjp={"x": lambda ops, g, x: g * (-1.0 - ops.log(x))}, domain=(0.1, 3.0)
)
def entr(m: Any, x: Any) -> Any:
    """-x * log(x); 0 at 0, -inf below. Shape: as x. Dtype: floating."""
    value = m.where(x == 0, 0.0, -x * m.log(x))
    return m.where(x < 0, -math.inf, value)


def _copysign_vjp(ops: Any, g: Any, x: Any, out: Any) -> Any:
    """The sign that x was multiplied with, 0 at 0."""
    return g * ops.where(ops.eq(x, 0), 0.0, out / x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": _copysign_vjp, "y": lambda ops, g: zero_slope(ops, g)},
    numpy_name="copysign",
)
def copysign(m: Any, x: Any, y: Any) -> Any:
    """The magnitude of x with the sign of y, also of -0. Shape: broadcast. Dtype: floating."""
    size = m.abs(x)
    is_negative = m.logical_or(y < 0, m.logical_and(y == 0, 1.0 / y < 0))
    return m.where(is_negative, -size, size)


@pointwise(
    dtype=REAL_FLOATING_ONLY, vjp={"p": lambda ops, g: zero_slope(ops, g)}, domain=(0.0, 1.0)
)
def is_drawn(m: Any, uniform: Any, p: Any) -> Any:
    """1 where a uniform number is below the probability p, else 0; the derivative is 0.

    Shape: broadcast. Dtype: promoted, floating and real only.
    """
    return m.where(uniform < p, 1.0, 0.0)


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
    analytic=False,
    takes=dtypes.STORED,
    scalar=scalar(select, floating="(({0}) ? ({1}) : ({2}))", integer="(({0}) ? ({1}) : ({2}))"),
)
def where(m: Any, condition: Any, x: Any, y: Any) -> Any:
    """x where the bool condition holds, else y. Shape: broadcast. Dtype: promoted of x and y."""
    return m.where(condition, x, y)


# ---------------------------------------------------------------------------------------------
# dtype and creation


def _cast_infer(x: ValueType, *, dtype: DType) -> TensorType:
    return as_tensor_type(x).with_dtype(dtype)


def _cast_of_arrays(x: np.ndarray, dtype: DType) -> Any:
    target = dtype.numpy
    if x.dtype == target:
        return x
    if x.dtype.kind == "c" and dtype.category in (Category.INTEGER, Category.FLOATING):
        warnings.warn(
            "Casting complex values to real discards the imaginary part", UserWarning, stacklevel=2
        )
        x = x.real
    if x.dtype.kind == "f" and dtype.category is Category.INTEGER and dtype.itemsize < 4:
        x = x.astype(np.int64 if dtype is dtypes.uint8 else np.int32)
    return shortened(x, target) if is_short(target) else x.astype(target)


@pointwise(
    infer=_cast_infer,
    compute=dtypes.compute_dtype,
    uncast=("x",),
    vjp={"x": lambda g: g},
    analytic=False,
    takes=dtypes.STORED,
    scalar=scalar(_cast_of_arrays, result=Result.GIVEN, floating=None),
    same=identities.always,
)
def cast(m: Any, x: Any, *, dtype: DType) -> Any:
    """x in another dtype. Shape: as x. Dtype: `dtype`.

    Complex numbers lose their imaginary part, with a warning, where the dtype is real. Floats to
    integers truncate; to bool: not equal 0 (NaN is True). Out of range is undefined in C: floats
    become uint8 through int64, and int8 and int16 through int32, which wraps small excesses as
    PyTorch does on x86. Integers to narrower integers wrap.
    """
    return m.cast(x, dtype)


def _full_infer(value: ValueType, *, shape: Shape, dtype: DType, device: Any) -> TensorType:
    return TensorType(tuple(shape), dtype, device)


@pointwise(
    infer=_full_infer,
    uncast=("value",),
    vjp={"value": lambda g: g},
    analytic=False,
    native=_native_forms.full,
    layout=result_layouts.row_major,
    takes=dtypes.STORED,
    samples=sample_rules.filled,
    interval=intervals.unchanged,
)
def full(m: Any, value: Any, *, shape: Shape, dtype: DType, device: Device = CPU) -> Any:
    """One number everywhere. value: a number or zero-dim tensor. Shape, dtype: as given."""
    return m.cast(value, dtype)


def _integer_infer(*, value: Size) -> TensorType:
    return TensorType((), dtypes.int64)


@pointwise(infer=_integer_infer, layout=result_layouts.row_major)
def integer(m: Any, *, value: Size) -> Any:
    """A size, or an expression of sizes, as a number: known when the graph runs.

    Shape: (). Dtype: int64.
    """
    return m.integer(value)


def _arange_infer(
    start: ValueType, step: ValueType, *, size: Size, dtype: DType, device: Any
) -> TensorType:
    if dtype is dtypes.bool_:
        raise DTypeNotImplementedError(
            "arange(dtype=bool): bool has no steps.  Expected a numeric dtype."
        )
    return TensorType((size,), dtype, device)


def _arange_compute(promoted: DType) -> DType:
    """Integers stay exact; floats step in float64 and round once, as in PyTorch."""
    return dtypes.int64 if promoted.category <= Category.INTEGER else dtypes.float64


@pointwise(
    infer=_arange_infer,
    compute=_arange_compute,
    native=_native_forms.arange,
    layout=result_layouts.row_major,
    samples=sample_rules.each,
)
def arange(m: Any, start: Any, step: Any, *, size: Size, dtype: DType, device: Device = CPU) -> Any:
    """start + i * step for i in 0 .. size - 1. Shape: (size,). Dtype: `dtype`.

    start, step: numbers. Source: PyTorch's CPU kernel, which accumulates in double.
    """
    return m.cast(start + m.index(0) * step, dtype)
