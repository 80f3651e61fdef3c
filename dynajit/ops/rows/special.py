"""Rows of special functions: gamma functions and their derivatives, error and Bessel functions.

Contract: bool and integers give float32; 16-bit floats round once. Rows with a scalar function are
pointwise, so they fuse; in dtypes and on devices for which generated code lacks the function
(`Scalar.kernels`) they are library calls. The others are calls of `scipy.special` in float64,
broadcast and rounded once, and calls of NumPy. Source of formulas: NIST Digital Library of
Mathematical Functions (DLMF), chapter 5 for gamma functions, 7 for error functions, 8 for
incomplete gamma functions, 10 for Bessel functions, 25 for zeta functions.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import DTypeNotImplementedError
from dynajit.core.process.optional import load
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType, ValueType
from dynajit.ops.native import _vecmath
from dynajit.ops.rows.pointwise import RefusedDerivative
from dynajit.ops.table import result_layouts, sample_rules
from dynajit.ops.table.families import (
    REAL_FLOATING,
    DTypeRule,
    Formulas,
    broadcast_shapes,
    common_device,
    describe,
    extern,
    floating_of,
    pointwise,
    promoted_dtype,
)
from dynajit.ops.table.op_table import Autocast, Op
from dynajit.ops.table.scalar import FAR_ANGLE, Effort, InPython, Scalar, is_on_gpu, scalar

_TWO_OVER_SQRT_PI: Final = 2.0 / math.sqrt(math.pi)
_REAL: Final = frozenset({"float32", "float64"})


def _by_library(name: str, own: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function of arrays: of float32 `own`, that of kernels, else SciPy's or CuPy's.

    Args:
        name: SciPy's.
        own: the function of this name in the vector mathematics of kernels, by default.
    """
    single = own or getattr(_vecmath, name)

    def compute(x: np.ndarray) -> Any:
        if gpu.is_gpu_array(x):
            return getattr(gpu.special_functions(), name)(x)
        if x.dtype == np.float32:
            return single(x)
        module = load("scipy.special", needed_for=f"the function {name} on arrays", install="scipy")
        return getattr(module, name)(x)

    return compute


def _in_single(
    name: str, own: Callable[..., Any] | None = None, far: str | None = None
) -> Callable[[str, int], Scalar]:
    """The scalar function of `_by_library` that kernels have of float32 alone; on a GPU arrays are
    computed in float64."""
    function = _by_library(name, own)

    def compute(x: np.ndarray) -> Any:
        return function(x.astype(np.float64) if gpu.is_gpu_array(x) else x)

    kernels = frozenset({"float32"})
    return scalar(compute, cuda=None, kernels=kernels, effort=Effort.MANY, far=far)


_lgamma_of_library: Final = _by_library("gammaln", _vecmath.lgamma)


# ---------------------------------------------------------------------------------------------
# gamma functions


def _lgamma_of_array(xp: Any, x: Any) -> Any:
    """The loop of float32 has the value at infinities, which those of libraries may lack."""
    if xp is np and x.dtype == np.float32:
        return _vecmath.lgamma(x)
    value = _lgamma_of_library(x)
    if isinstance(value, np.ndarray):
        np.copyto(value, math.inf, where=np.isinf(x))
        return value
    return np.where(np.isinf(x), math.inf, value)


@pointwise(
    dtype=REAL_FLOATING,
    array=_lgamma_of_array,
    vjp={"x": lambda ops, g, x: g * ops.polygamma(x, n=0)},
    domain=(0.2, 4),
    scalar=scalar(_lgamma_of_library, effort=Effort.MANY),
)
def lgamma(m: Any, x: Any) -> Any:
    """Logarithm of the magnitude of the gamma function; inf at 0 and negative integers.

    Shape: as x. Dtype: floating.
    """
    return m.where(m.isinf(x), math.inf, m.lgamma(x))


_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
)  # fmt: skip
"""B_2, B_4, ..., B_16."""


def _far_polygamma(m: Any, w: Any, n: int) -> Any:
    """The n-th derivative of digamma at w of at least 10, up to its sign (-1)^(n+1) for n > 0.

    Source: DLMF 5.11.2 and 5.15.8, the asymptotic expansions.
    """
    inverse = 1.0 / w
    square = inverse * inverse
    terms: Any = 0.0
    for k in range(len(_BERNOULLI), 0, -1):
        factor = math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        terms = (terms + _BERNOULLI[k - 1] * factor) * square
    if n == 0:
        return m.log(w) - 0.5 * inverse - terms
    power = inverse
    for _ in range(n - 1):
        power = power * inverse
    head = math.factorial(n - 1) + 0.5 * math.factorial(n) * inverse
    return (head + terms) * power


def _cotangent_polynomial(n: int) -> list[int]:
    """Coefficients of P with d^n/du^n cot(u) = P(cot(u)), constant first."""
    p = [0, 1]
    for _ in range(n):
        slope = [i * c for i, c in enumerate(p)][1:]
        p = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return p


def _wide(dtype: dtypes.DType) -> dtypes.DType:
    return dtypes.float64


@pointwise(
    dtype=REAL_FLOATING,
    compute=_wide,
    vjp={"x": lambda ops, g, x, n: g * ops.polygamma(x, n=n + 1)},
    domain=(0.2, 4.0),
)
def polygamma(m: Any, x: Any, *, n: int = 0) -> Any:
    """n-th derivative of digamma, itself for n = 0. Shape: as x. Dtype: floating.

    Below 1/2 by reflection (DLMF 5.15.6), else by recurrence to where the expansion holds.
    """
    near = x < 0.5
    z = m.where(near, 1.0 - x, x)
    total: Any = 0.0
    shifts = 10 + n
    for i in range(shifts):
        inverse = 1.0 / (z + float(i))
        power = inverse
        for _ in range(n):
            power = power * inverse
        total = total + power
    if n == 0:
        value = _far_polygamma(m, z + float(shifts), 0) - total
    else:
        value = _far_polygamma(m, z + float(shifts), n) + math.factorial(n) * total
        value = value if n % 2 else -value
    rest = x - m.round(x)
    cotangent = 1.0 / m.tan(math.pi * rest)
    coefficients = _cotangent_polynomial(n)
    polynomial: Any = float(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        polynomial = polynomial * cotangent + float(c)
    other = value if n % 2 == 0 else -value
    reflected = other - math.pi ** (n + 1) * polynomial
    if n == 0:
        reflected = m.where(rest == 0.0, m.where(x == 0.0, -1.0 / x, math.nan), reflected)
    return m.where(near, reflected, value)


_FLOATING_NOT_COMPLEX = DTypeRule(
    "floating, not complex",
    lambda dtype: dtype if dtype.is_floating_point else None,
    dtypes.compute_dtype,
    "a floating dtype",
)


@pointwise(
    dtype=_FLOATING_NOT_COMPLEX,
    vjp={
        "x": lambda g, x, out: g * (x / out),
        "y": lambda g, y, out: g * (y / out),
    },
    numpy_name="hypot",
)
def hypot(m: Any, x: Any, y: Any) -> Any:
    """sqrt(x^2 + y^2) without overflow. Shape: broadcast. Dtype: promoted, floating."""
    a, b = m.abs(x), m.abs(y)
    high, low = m.maximum(a, b), m.minimum(a, b)
    # Not `high == 0`: GCC makes a choice between truth values of that, and no vector loop.
    ratio = low / m.where(a + b == 0, 1.0, high)
    result = high * m.sqrt(ratio * ratio + 1.0)
    return m.where(m.logical_or(m.isinf(x), m.isinf(y)), math.inf, result)


# ---------------------------------------------------------------------------------------------
# error and Bessel functions


def _at_zero(ops: Any, x: Any, value: float, formula: Callable[[Any], Any]) -> Any:
    """A formula of x that divides by x, and its limit at 0 and where x has lost its last bits."""
    is_zero = ops.lt(ops.abs(x), 1e-30)
    return ops.where(is_zero, value, formula(ops.where(is_zero, 1, x)))


def _erf_of_array(x: np.ndarray) -> Any:
    return gpu.special_functions().erf(x) if gpu.is_gpu_array(x) else _vecmath.erf(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": lambda ops, g, x: g * (ops.exp(-(x * x)) * _TWO_OVER_SQRT_PI)},
    scalar=scalar(_erf_of_array, effort=Effort.MANY, math=InPython()),
)
def erf(m: Any, x: Any) -> Any:
    """Error function; +-1 at infinities; keeps -0. Shape: as x. Dtype: floating."""
    return m.erf(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": lambda ops, g, x: g * (ops.exp(-(x * x)) * -_TWO_OVER_SQRT_PI)},
    scalar=scalar(_by_library("erfc"), effort=Effort.MANY, math=InPython()),
)
def erfc(m: Any, x: Any) -> Any:
    """1 - erf(x), accurate for large x; 2 at -inf, 0 at inf. Shape: as x. Dtype: floating."""
    return m.erfc(x)


def _erfinv_of_array(x: np.ndarray) -> Any:
    if gpu.is_gpu_array(x):
        return gpu.special_functions().erfinv(x.astype(np.float64))
    return _vecmath.erfinv(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": lambda ops, g, out: g * (0.5 * math.sqrt(math.pi)) * ops.exp(out * out)},
    domain=(-0.9, 0.9),
    autocast=Autocast.FULL,
    scalar=scalar(_erfinv_of_array, cuda=None, kernels=_REAL, effort=Effort.MANY),
)
def erfinv(m: Any, x: Any) -> Any:
    """Inverse of erf; infinite at -1 and 1, NaN outside. Shape: as x. Dtype: floating."""
    return m.erfinv(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": lambda ops, g, out: g * math.sqrt(2 * math.pi) * ops.exp(0.5 * out * out)},
    domain=(0.1, 0.9),
    scalar=_in_single("ndtri"),
)
def ndtri(m: Any, x: Any) -> Any:
    """Inverse of the normal distribution function; infinite at 0 and 1, NaN beyond.

    Shape: as x. Dtype: floating.
    """
    return m.ndtri(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={
        "x": lambda ops, g, x, out: (
            g * (1 / math.sqrt(2 * math.pi)) * ops.exp(ops.neg(out) - 0.5 * x * x)
        )
    },
    scalar=_in_single("log_ndtr"),
)
def log_ndtr(m: Any, x: Any) -> Any:
    """Logarithm of the normal distribution function; -inf at -inf, 0 at inf.

    Shape: as x. Dtype: floating.
    """
    return m.log_ndtr(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": lambda ops, g, x: g * ops.i1(x)},
    scalar=_in_single("i0"),
)
def i0(m: Any, x: Any) -> Any:
    """Modified Bessel function of the first kind of order 0; NaN at infinities, as in PyTorch.

    Shape: as x. Dtype: floating.
    """
    return m.i0(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={
        "x": lambda ops, g, x, out: g * _at_zero(ops, x, 0.5, lambda safe: ops.i0(x) - out / safe)
    },
    scalar=_in_single("i1"),
)
def i1(m: Any, x: Any) -> Any:
    """Modified Bessel function of the first kind of order 1; odd; NaN at infinities.

    Shape: as x. Dtype: floating.
    """
    return m.i1(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={"x": lambda ops, g, x, out: g * (ops.i1e(x) - ops.sign(x) * out)},
    scalar=_in_single("i0e"),
)
def i0e(m: Any, x: Any) -> Any:
    """exp(-|x|) * i0(x); 0 at infinities. Shape: as x. Dtype: floating."""
    return m.i0e(x)


@pointwise(
    dtype=REAL_FLOATING,
    vjp={
        "x": lambda ops, g, x, out: (
            g * _at_zero(ops, x, 0.5, lambda safe: ops.i0e(x) - out * ops.sign(x) - out / safe)
        )
    },
    scalar=_in_single("i1e"),
)
def i1e(m: Any, x: Any) -> Any:
    """exp(-|x|) * i1(x); odd, 0 at infinities. Shape: as x. Dtype: floating."""
    return m.i1e(x)


@pointwise(
    dtype=REAL_FLOATING,
    domain=(0.1, 4.0),
    scalar=_in_single("j0", _vecmath.bessel_j0, FAR_ANGLE),
)
def bessel_j0(m: Any, x: Any) -> Any:
    """The Bessel function j0, without a derivative; NaN at infinities, as in PyTorch.

    Shape: as x. Dtype: floating.
    """
    return m.bessel_j0(x)


@pointwise(
    dtype=REAL_FLOATING,
    domain=(0.1, 4.0),
    scalar=_in_single("j1", _vecmath.bessel_j1, FAR_ANGLE),
)
def bessel_j1(m: Any, x: Any) -> Any:
    """The Bessel function j1, without a derivative; odd; NaN at infinities.

    Shape: as x. Dtype: floating.
    """
    return m.bessel_j1(x)


# ---------------------------------------------------------------------------------------------
# functions of SciPy


def _elementwise_infer(name: str, inputs: tuple[str, ...]) -> Callable[..., TensorType]:
    def infer(*types: ValueType) -> TensorType:
        call = describe(name, inputs, types)
        promoted = promoted_dtype(types)
        if promoted.is_complex:
            raise DTypeNotImplementedError(
                f"{call}: complex numbers are refused.  Expected a real dtype."
            )
        shape = broadcast_shapes([type.shape for type in types], call)
        return TensorType(shape, floating_of(promoted), common_device(types, call))

    return infer


def _by_scipy(name: str, function: str) -> Callable[..., Any]:
    """A function of `scipy.special` of arrays, computed in float64."""

    def compute(xp: Any, *arrays: Any) -> Any:
        if xp is np:
            module = load("scipy.special", needed_for=name, install="scipy")
        else:
            module = gpu.special_functions()
        return getattr(module, function)(*(xp.asarray(x, np.float64) for x in arrays))

    return compute


def _from_scipy(
    name: str,
    function: str,
    vjp: Formulas,
    document: str,
    inputs: tuple[str, ...] = ("x",),
    domain: tuple[float, float] = (-3.0, 3.0),
) -> Op:
    """The row of a function of `scipy.special`, computed in float64."""

    compute = _by_scipy(name, function)

    if len(inputs) == 1:

        def array(xp: Any, x: Any) -> Any:
            return compute(xp, x)
    else:

        def array(xp: Any, x: Any, y: Any) -> Any:  # type: ignore[misc]
            return compute(xp, x, y)

    array.__doc__ = document
    row = extern(
        infer=_elementwise_infer(name, inputs), vjp=vjp, domain=domain, name=name, widens=True,
        layout=result_layouts.iterated, samples=sample_rules.pointwise,
    )  # fmt: skip
    return row(array)


_from_scipy(
    "erfcx", "erfcx",
    {"x": lambda g, x, out: g * (2 * x * out - 2 / math.sqrt(math.pi))},
    "exp(x^2) * erfc(x).",
)  # fmt: skip

for _name, _function in (
    ("bessel_y0", "y0"), ("bessel_y1", "y1"),
    ("modified_bessel_k0", "k0"), ("modified_bessel_k1", "k1"),
    ("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e"),
):  # fmt: skip
    _from_scipy(
        _name, _function, {}, f"The Bessel function {_function}; without a derivative.",
        domain=(0.1, 4.0),
    )  # fmt: skip


def _incomplete_gamma_vjp(sign: int) -> Callable[..., Any]:
    def formula(ops: Any, g: Any, x: Any, y: Any) -> Any:
        density = ops.exp((x - 1) * ops.log(y) - y - ops.lgamma(x))
        return g * density * sign

    return formula


_from_scipy(
    "igamma", "gammainc",
    {"x": RefusedDerivative("igamma: input"), "y": _incomplete_gamma_vjp(1)},
    "Regularized lower incomplete gamma function P(x, y); no derivative by x.", ("x", "y"),
    domain=(0.2, 4.0),
)  # fmt: skip
_from_scipy(
    "igammac", "gammaincc",
    {"x": RefusedDerivative("igammac: input"), "y": _incomplete_gamma_vjp(-1)},
    "Regularized upper incomplete gamma function Q(x, y); no derivative by x.", ("x", "y"),
    domain=(0.2, 4.0),
)  # fmt: skip


@extern(
    infer=_elementwise_infer("zeta", ("x", "y")),
    vjp={
        "x": RefusedDerivative("zeta"),
        "y": lambda ops, g, x, y: g * ops.neg(x) * ops.zeta(x + 1, y),
    },
    domain=(1.5, 4.0),
    widens=True,
    layout=result_layouts.iterated,
    samples=sample_rules.pointwise,
)
def zeta(xp: Any, x: Any, y: Any) -> Any:
    """Hurwitz zeta function of exponent x > 1 from y > 0 on; no derivative by x.

    float32 by the vector mathematics of kernels where x and y are usual, all else in float64.
    """
    is_single = xp is np and x.dtype == y.dtype == np.float32
    if is_single and np.all((y > 0) & (y < math.inf)) and np.all(x < 1e30):
        return _vecmath.zeta(x, y)
    return _by_scipy("zeta", "zeta")(xp, x, y)


# ---------------------------------------------------------------------------------------------
# functions of NumPy


def _whole_infer(name: str) -> Callable[..., TensorType]:
    def infer(x: ValueType, y: ValueType) -> TensorType:
        call = describe(name, ("x", "y"), (x, y))
        promoted = promoted_dtype((x, y))
        if promoted.category is not Category.INTEGER:
            raise DTypeNotImplementedError(
                f"{call}: {promoted.name} is refused.  Expected integers."
            )
        shape = broadcast_shapes([x.shape, y.shape], call)
        return TensorType(shape, promoted, common_device((x, y), call))

    return infer


@extern(
    infer=_whole_infer("gcd"),
    layout=result_layouts.iterated,
    samples=sample_rules.pointwise,
    numpy_name="gcd",
)
def gcd(xp: Any, x: Any, y: Any) -> Any:
    """Greatest common divisor, not negative. Shape: broadcast. Dtype: promoted, integer."""
    return xp.gcd(x, y)


@extern(
    infer=_whole_infer("lcm"),
    layout=result_layouts.iterated,
    samples=sample_rules.pointwise,
    numpy_name="lcm",
)
def lcm(xp: Any, x: Any, y: Any) -> Any:
    """Least common multiple, not negative. Shape: broadcast. Dtype: promoted, integer."""
    return xp.lcm(x, y)


def _nextafter_infer(x: ValueType, y: ValueType) -> TensorType:
    call = describe("nextafter", ("x", "y"), (x, y))
    promoted = promoted_dtype((x, y))
    if not promoted.is_floating_point:
        raise DTypeNotImplementedError(
            f"{call}: {promoted.name} is refused.  Expected a floating dtype."
        )
    shape = broadcast_shapes([x.shape, y.shape], call)
    return TensorType(shape, promoted, common_device((x, y), call))


def _next_of_arrays(x: np.ndarray, y: np.ndarray) -> Any:
    is_own = x.dtype in (np.float32, np.float64) and not is_on_gpu(x, y)
    return _vecmath.nextafter(x, y) if is_own else np.nextafter(x, y)


@pointwise(
    infer=_nextafter_infer,
    compute=lambda dtype: dtype,
    vjp={
        "x": lambda ops, g, x, y: ops.where(ops.eq(x, y), 0, g),
        "y": lambda ops, g: ops.mul(g, 0),
    },
    scalar=scalar(_next_of_arrays, cuda=None, kernels=_REAL, effort=Effort.SOME),
    numpy_name="nextafter",
)
def nextafter(m: Any, x: Any, y: Any) -> Any:
    """The next number of the dtype after x towards y. Shape: broadcast.

    Slopes are 1 for x, 0 where it equals y, and 0 for y, as in PyTorch.
    """
    return m.nextafter(x, y)
