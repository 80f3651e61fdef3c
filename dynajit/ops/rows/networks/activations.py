"""Activation functions and elementwise losses: rows of kind POINTWISE with attributes.

Contract: floating inputs only; 16-bit floats compute in float32 and round once. Each has its own
derivative, so it is one node of the tape and nothing but x is saved.
"""

import math
from typing import Any, Final

from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.ops.native import _native_forms
from dynajit.ops.rows.composites import narrow, wide
from dynajit.ops.table.families import DTypeRule, pointwise
from dynajit.ops.table.op_table import Autocast

SQRT_HALF: Final = math.sqrt(0.5)
SQRT_TWO_OVER_PI: Final = math.sqrt(2.0 / math.pi)
INVERSE_SQRT_TWO_PI: Final = 1.0 / math.sqrt(2.0 * math.pi)
GELU_CUBIC: Final = 0.044715


def _floating_only(dtype: DType) -> DType | None:
    return dtype if dtype.is_floating_point else None


FLOATING_INPUT: Final = DTypeRule(
    "floating input", _floating_only, dtypes.compute_dtype, "a floating dtype"
)


def _gelu_vjp(ops: Any, g: Any, x: Any, approximate: str) -> Any:
    slope = _gelu_slope(ops, wide(ops, x), approximate)
    return narrow(ops, wide(ops, g) * slope, x.dtype)


def _gelu_slope(ops: Any, x: Any, approximate: str) -> Any:
    if approximate == "none":
        cdf = 0.5 * (1.0 + ops.erf(x * SQRT_HALF))
        pdf = ops.exp(-0.5 * x * x) * INVERSE_SQRT_TWO_PI
        return cdf + x * pdf
    inner = SQRT_TWO_OVER_PI * (x + GELU_CUBIC * x * x * x)
    slope = SQRT_TWO_OVER_PI * (1.0 + 3.0 * GELU_CUBIC * x * x)
    t = ops.tanh(inner)
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * slope


@pointwise(dtype=FLOATING_INPUT, vjp={"x": _gelu_vjp}, domain=(-6.0, 6.0))
def gelu(m: Any, x: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x; or its "tanh" approximation.

    Source: D. Hendrycks and K. Gimpel, "Gaussian Error Linear Units", arXiv:1606.08415.
    """
    if approximate == "none":
        return 0.5 * x * (1.0 + m.erf(x * SQRT_HALF))
    inner = SQRT_TWO_OVER_PI * (x + GELU_CUBIC * x * x * x)
    return 0.5 * x * (1.0 + m.tanh(inner))


def _logistic(m: Any, x: Any) -> Any:
    e = m.exp(-m.abs(x))
    return m.where(x >= 0, 1.0, e) / (1.0 + e)


def _silu_vjp(ops: Any, g: Any, x: Any) -> Any:
    value = wide(ops, x)
    s = ops.sigmoid(value)
    return narrow(ops, wide(ops, g) * (s * (1.0 + value * (1.0 - s))), x.dtype)


@pointwise(
    dtype=FLOATING_INPUT,
    vjp={"x": _silu_vjp},
    domain=(-20.0, 20.0),
    native=_native_forms.silu,
)
def silu(m: Any, x: Any) -> Any:
    """x * sigmoid(x), also called swish."""
    return x * _logistic(m, x)


def _softplus_vjp(ops: Any, g: Any, x: Any, beta: float, threshold: float) -> Any:
    return ops.where(ops.gt(x * beta, threshold), g, g * ops.sigmoid(x * beta))


@pointwise(
    dtype=FLOATING_INPUT, vjp={"x": _softplus_vjp}, domain=(-10.0, 10.0), autocast=Autocast.FULL
)
def softplus(m: Any, x: Any, *, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta x)) / beta, and x itself where beta x exceeds `threshold`."""
    z = x * beta
    smooth = (m.maximum(z, 0.0) + m.log1p(m.exp(-m.abs(z)))) / beta
    return m.where(z > threshold, x, smooth)


@pointwise(
    dtype=FLOATING_INPUT,
    vjp={"x": lambda ops, g, x: g * ops.sigmoid(-x)},
    domain=(-20.0, 20.0),
)
def log_sigmoid(m: Any, x: Any) -> Any:
    """log(sigmoid(x)), without overflow."""
    return m.minimum(x, 0.0) - m.log1p(m.exp(-m.abs(x)))


@pointwise(
    dtype=FLOATING_INPUT,
    vjp={"x": lambda ops, g, x, negative_slope: ops.where(ops.gt(x, 0), g, g * negative_slope)},
    bends=True,
    native=_native_forms.leaky_relu,
)
def leaky_relu(m: Any, x: Any, *, negative_slope: float = 0.01) -> Any:
    """x where positive, else negative_slope * x."""
    return m.where(x > 0, x, x * negative_slope)


def _elu_vjp(ops: Any, g: Any, x: Any, alpha: float, scale: float) -> Any:
    return ops.where(ops.gt(x, 0), g * scale, g * (scale * alpha) * ops.exp(x))


@pointwise(dtype=FLOATING_INPUT, vjp={"x": _elu_vjp})
def elu(m: Any, x: Any, *, alpha: float = 1.0, scale: float = 1.0) -> Any:
    """scale * x where positive, else scale * alpha * (exp(x) - 1)."""
    return m.where(x > 0, x * scale, m.expm1(x) * (scale * alpha))


@pointwise(
    dtype=FLOATING_INPUT,
    vjp={
        "x": lambda ops, g, x, low, high: ops.where(
            ops.logical_or(ops.le(x, low), ops.ge(x, high)), 0.0, g
        )
    },
    domain=(-5.0, 5.0),
    bends=True,
)
def hardtanh(m: Any, x: Any, *, low: float = -1.0, high: float = 1.0) -> Any:
    """x cut to [low, high]; NaN stays, and passes its gradient; none at and beyond the ends."""
    return m.minimum(m.maximum(x, low), high)


@pointwise(
    dtype=FLOATING_INPUT,
    vjp={
        "x": lambda ops, g, x: ops.where(
            ops.logical_and(ops.gt(x, -3.0), ops.lt(x, 3.0)), g / 6.0, 0.0
        )
    },
    domain=(-5.0, 5.0),
    bends=True,
)
def hardsigmoid(m: Any, x: Any) -> Any:
    """(x + 3 cut to [0, 6]) / 6; no gradient at and beyond the ends, nor at NaN."""
    return m.minimum(m.maximum(x + 3.0, 0.0), 6.0) / 6.0


def _hardswish_vjp(ops: Any, g: Any, x: Any) -> Any:
    value, whole = wide(ops, x), wide(ops, g)
    rising = ops.where(ops.lt(value, 3.0), whole * (value / 3.0 + 0.5), whole)
    return narrow(ops, ops.where(ops.le(value, -3.0), 0.0, rising), x.dtype)


@pointwise(dtype=FLOATING_INPUT, vjp={"x": _hardswish_vjp}, domain=(-5.0, 5.0), bends=True)
def hardswish(m: Any, x: Any) -> Any:
    """x * (x + 3 cut to [0, 6]) / 6, in this order; NaN passes its gradient.

    Source: A. Howard et al., "Searching for MobileNetV3", arXiv:1905.02244.
    """
    return x * m.minimum(m.maximum(x + 3.0, 0.0), 6.0) / 6.0


def _mish_vjp(ops: Any, g: Any, x: Any) -> Any:
    value = wide(ops, x)
    t = ops.tanh(ops.softplus(value))
    slope = t + value * (1.0 - t * t) * ops.sigmoid(value)
    return narrow(ops, wide(ops, g) * slope, x.dtype)


@pointwise(dtype=FLOATING_INPUT, vjp={"x": _mish_vjp}, domain=(-20.0, 20.0))
def mish(m: Any, x: Any) -> Any:
    """x * tanh(log(1 + exp(x)))."""
    return x * m.tanh(m.maximum(x, 0.0) + m.log1p(m.exp(-m.abs(x))))


def _huber_vjp(ops: Any, g: Any, difference: Any, delta: float) -> Any:
    return g * ops.clamp(difference, -delta, delta)


@pointwise(dtype=FLOATING_INPUT, vjp={"difference": _huber_vjp})
def huber(m: Any, difference: Any, *, delta: float = 1.0) -> Any:
    """Half the square up to `delta`, beyond it linear with the same slope.

    Source: P. J. Huber, Annals of Mathematical Statistics 35 (1964).
    """
    size = m.abs(difference)
    return m.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))


# PyTorch cuts the logarithms at -100 and the derivative's denominator at 1e-12, so that a
# probability of exactly 0 or 1 gives a finite loss and gradient.
LOWEST_LOG: Final = -100.0
LEAST_VARIANCE: Final = 1e-12


@pointwise(
    dtype=FLOATING_INPUT,
    vjp={
        "x": lambda ops, g, x, target: (
            g * ((x - target) / ops.clamp_min((1.0 - x) * x, LEAST_VARIANCE))
        ),
        "target": lambda ops, g, x: g * (ops.log1p(-x) - ops.log(x)),
    },
    domain=(0.1, 0.9),
)
def binary_entropy(m: Any, x: Any, target: Any) -> Any:
    """-(target log x + (1 - target) log(1 - x)) of a probability x, logarithms at least -100."""
    hit = m.maximum(m.log(x), LOWEST_LOG)
    miss = m.maximum(m.log1p(-x), LOWEST_LOG)
    return (target - 1.0) * miss - target * hit
