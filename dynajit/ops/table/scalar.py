"""Scalar functions: the few names that differ between NumPy, C and CUDA.

A row body is written with Python operators and with these functions on a namespace `m`. Each
function is one frozen `Scalar` row: how many operands it takes, what category its result has, its
NumPy function, and its C and CUDA spelling. The rules for NaN, inf, -0 and integers stand in the
docstring of the NumPy function and hold for every spelling.

Spelling: `spell(name, dtype, target, *operands)` fills the template for the operands' dtype. Where
plain C has no exact expression the template is a call of `dj_<name>_<suffix>` with the suffix of
`SUFFIX` (`dj_exp_f32`, `dj_remainder_i64`); code generation defines those functions in its
headers, for C with the polynomials of its vector maths. bool is 0 or 1 in `uint8_t`; 16-bit
floats never reach a scalar function (bodies compute in float32).

`NumpyScalars` is the namespace for arrays; it keeps dtypes (float32 in, float32 out). Its functions
are NumPy's, or ufuncs of NumPy's names with the bits of generated C (`ops.native._vecmath`). Both
hand arrays of CuPy over to CuPy's functions of the same names (NEP 13 and 18):
`np.ndarray` stands for those, too, and for scalars of NumPy, all of which have the same methods.
Python operators on body values mean: `+ - *` and comparisons as in C on the compute dtype (integers
wrap; on bool, `+` is or and `*` is and), `/` on floating values only (IEEE), unary `-`, and
`& | ^ ~` on bool and integers.
"""

import enum
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.arrays.selection import select
from dynajit.core.errors import BoundsError, DivisionError, InternalError
from dynajit.core.process.optional import load
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.short_floats import is_short, shortened
from dynajit.ops.native import _vecmath
from dynajit.ops.native._vecmath import erf as erf_of_array
from dynajit.ops.native._vecmath import fma as fma_of_arrays
from dynajit.ops.native._vecmath import whole_power

SUFFIX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32",
        "int64": "i64", "float32": "f32", "float64": "f64",
    }
)  # fmt: skip
"""dtype name -> suffix of helper functions in the generated headers."""


class Result(enum.Enum):
    """Category of a scalar function's result."""

    SAME = "same"  # dtype of the operands (of `where`: of the last two)
    BOOL = "bool"
    GIVEN = "given"  # named by an argument (`cast`), or int64 (`index`)


class Effort(enum.Enum):
    """How much work one element is."""

    FEW = "one or two instructions"
    DIVISION = "a division or a root"
    SOME = "more, or not known: a function of the program's own"
    MANY = "a polynomial or a loop: worth storing instead of computing twice"


@record
class Scalar:
    """One scalar function.

    Args:
        name: as in `m.<name>`.
        arity: number of value operands.
        result: dtype rule of the result.
        numpy: the function on NumPy arrays and scalars.
        floating, integer: C template for float32/float64 operands and for bool/integers, with
            `{0}`, `{1}`, ... the operands, `{f}` = "f" for float32 and "" for float64, `{s}` =
            the suffix, `{t}` = the C type. None: not defined there.
        cuda: CUDA template for floating operands.
        document: rules for NaN, inf, -0 and integers.
        kernels: names of the dtypes of which generated C has it; None: all. A row of the same name
            is computed by itself, as library calls are, in other dtypes, and on a GPU without a
            template.
        effort: of one element.
        commutes: its two operands may be exchanged, to the last bit.
        far: C template of a condition, for floating operands. Where it does not hold,
            `dj_<name>_near_<s>` of the headers is the same in fewer instructions; `{most}` is the
            largest quotient of which every integer below it is a floating number.
    """

    name: str
    arity: int
    result: Result
    numpy: Callable[..., Any]
    floating: str | None
    integer: str | None
    cuda: str | None
    document: str
    kernels: frozenset[str] | None = None
    effort: Effort = Effort.SOME
    commutes: bool = False
    far: str | None = None


_rows: dict[str, Scalar] = {}
SCALARS: Final[Mapping[str, Scalar]] = MappingProxyType(_rows)
"""Every scalar function by name; closed after import, but for `enter`."""


def enter(row: Scalar) -> None:
    """Add a function that a program brings as text (`dynajit.library`).

    Args:
        row: its name is not taken. Row bodies call it in generated code only.
    """
    if row.name in _rows:
        raise InternalError(f"two scalar functions are called {row.name!r}")
    _rows[row.name] = row


def spell(name: str, dtype: DType, target: str, *operands: str) -> str:
    """The C or CUDA expression of `m.<name>(*operands)` on operands of `dtype`.

    Args:
        name: a key of `SCALARS`.
        dtype: bool, an integer dtype, float32 or float64.
        target: "c" or "cuda".
        operands: C expressions; they are put in parentheses by the templates where needed.

    Raises:
        InternalError: the function is not defined for the dtype.
    """
    row = SCALARS[name]
    floating = row.cuda if target == "cuda" else row.floating
    template = floating if dtype.is_floating_point else row.integer
    is_missing = target == "c" and row.kernels is not None and dtype.name not in row.kernels
    if template is None or is_missing or dtype.name not in SUFFIX:
        raise InternalError(f"the scalar function {name} is not defined for {dtype.name}")
    narrow = "f" if dtype is dtypes.float32 else ""
    return template.format(*operands, f=narrow, s=SUFFIX[dtype.name], t=dtype.c)


def near_form(name: str, dtype: DType, text: str, *operands: str) -> tuple[str, str] | None:
    """`text`, the C of a function on floating operands, for ordinary ones, and when they are not;
    None for a function without such a form. See `Scalar.far`."""
    row = SCALARS.get(name)
    if row is None or row.far is None:
        return None
    is_single = dtype is dtypes.float32
    narrow, most = ("f", "0x1p24f") if is_single else ("", "0x1p53")
    suffix = SUFFIX[dtype.name]
    near = text.replace(f"_{suffix}(", f"_near_{suffix}(", 1)
    return near, row.far.format(*operands, f=narrow, most=most)


_FAR_ANGLE: Final = "(fabs{f}({0}) > DJ_NEAR)"
_FAR_QUOTIENT: Final = "!(fabs{f}({0}) < {most} * fabs{f}({1}))"


def _scalar(
    arity: int,
    result: Result = Result.SAME,
    floating: str | None = "",
    integer: str | None = None,
    cuda: str | None = "",
    kernels: frozenset[str] | None = None,
    effort: Effort = Effort.FEW,
    commutes: bool = False,
    far: str | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter the decorated NumPy function; an empty template means the helper `dj_<name>_<s>`.

    An empty `cuda` is the CUDA library function of the same name if `floating` is a helper, else
    `floating` itself.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__.rstrip("_")
        operands = ", ".join(f"{{{i}}}" for i in range(arity))
        helper = f"dj_{name}_{{s}}({operands})"
        library = f"{name}{{f}}({operands})"
        c = helper if floating == "" else floating
        gpu = (library if floating == "" else floating) if cuda == "" else cuda
        whole = helper if integer == "" else integer
        gpu = helper if gpu == "dj" else gpu
        document = (function.__doc__ or "").strip()
        _rows[name] = Scalar(
            name, arity, result, function, c, whole, gpu, document, kernels, effort, commutes, far
        )
        return function

    return decorate


def _is_integer(x: np.ndarray) -> bool:
    return x.dtype.kind in "iub" if hasattr(x, "dtype") else isinstance(x, int)


# ---------------------------------------------------------------------------------------------
# signs, roots, exponentials


@_scalar(1, floating="fabs{f}({0})", integer="")
def abs_(x: np.ndarray) -> Any:
    """Magnitude; NaN stays, abs(-0) is 0; the most negative integer is its own magnitude."""
    return np.abs(x)


@_scalar(1, floating="(-({0}))", integer="(({t})(-({0})))")
def neg(x: np.ndarray) -> Any:
    """Negation; flips the sign of 0 and NaN; unsigned and most negative integers wrap."""
    return np.negative(x)


@_scalar(1, floating="dj_sign_{s}({0})", integer="dj_sign_{s}({0})")
def sign(x: np.ndarray) -> Any:
    """-1, 0 or 1; 0 for -0 and, as in PyTorch, for NaN. bool is its own sign."""
    if x.dtype.kind == "b":
        return x
    if x.dtype.kind == "f":
        return ((x > 0).astype(np.int8) - (x < 0)).astype(x.dtype)
    return np.sign(x)


@_scalar(1, floating="sqrt{f}({0})", effort=Effort.DIVISION)
def sqrt(x: np.ndarray) -> Any:
    """Square root, correctly rounded; NaN below 0; sqrt(-0) is -0."""
    return np.sqrt(x)


@_scalar(1, floating="(1 / sqrt{f}({0}))", cuda="rsqrt{f}({0})", effort=Effort.DIVISION)
def rsqrt(x: np.ndarray) -> Any:
    """1 / sqrt(x); inf at 0, -inf at -0, 0 at inf, NaN below 0."""
    return np.reciprocal(np.sqrt(x))


@_scalar(1, floating="(1 / ({0}))", effort=Effort.DIVISION)
def reciprocal(x: np.ndarray) -> Any:
    """1 / x; signed inf at signed 0."""
    return np.reciprocal(x)


@_scalar(1, effort=Effort.MANY)
def exp(x: np.ndarray) -> Any:
    """Exponential; 0 at -inf, inf at inf."""
    return _vecmath.exp(x)


@_scalar(1, effort=Effort.MANY)
def exp2(x: np.ndarray) -> Any:
    """2 to the power x; exact at integers."""
    return _vecmath.exp2(x)


@_scalar(1, effort=Effort.MANY)
def expm1(x: np.ndarray) -> Any:
    """exp(x) - 1 without cancellation; -1 at -inf; keeps -0."""
    return _vecmath.expm1(x)


@_scalar(1, effort=Effort.MANY)
def log(x: np.ndarray) -> Any:
    """Natural logarithm; -inf at 0, NaN below 0, inf at inf."""
    return _vecmath.log(x)


@_scalar(1, effort=Effort.MANY)
def log2(x: np.ndarray) -> Any:
    """Base-2 logarithm; edges as log."""
    return _vecmath.log2(x)


@_scalar(1, effort=Effort.MANY)
def log10(x: np.ndarray) -> Any:
    """Base-10 logarithm; edges as log."""
    return _vecmath.log10(x)


@_scalar(1, effort=Effort.MANY)
def log1p(x: np.ndarray) -> Any:
    """log(1 + x) without cancellation; -inf at -1, NaN below; keeps -0."""
    return _vecmath.log1p(x)


# ---------------------------------------------------------------------------------------------
# trigonometric and hyperbolic functions


@_scalar(1, effort=Effort.MANY, far=_FAR_ANGLE)
def sin(x: np.ndarray) -> Any:
    """Sine of radians; NaN at infinities; keeps -0."""
    return _vecmath.sin(x)


@_scalar(1, effort=Effort.MANY, far=_FAR_ANGLE)
def cos(x: np.ndarray) -> Any:
    """Cosine of radians; NaN at infinities."""
    return _vecmath.cos(x)


@_scalar(1, effort=Effort.MANY, far=_FAR_ANGLE)
def tan(x: np.ndarray) -> Any:
    """Tangent of radians; NaN at infinities; keeps -0."""
    return _vecmath.tan(x)


@_scalar(1, effort=Effort.MANY)
def asin(x: np.ndarray) -> Any:
    """Inverse sine; NaN outside [-1, 1]; keeps -0."""
    return _vecmath.arcsin(x)


@_scalar(1, effort=Effort.MANY)
def acos(x: np.ndarray) -> Any:
    """Inverse cosine; NaN outside [-1, 1]."""
    return _vecmath.arccos(x)


@_scalar(1, effort=Effort.MANY)
def atan(x: np.ndarray) -> Any:
    """Inverse tangent; +-pi/2 at infinities; keeps -0."""
    return _vecmath.arctan(x)


@_scalar(1, effort=Effort.MANY)
def sinh(x: np.ndarray) -> Any:
    """Hyperbolic sine; keeps -0."""
    return _vecmath.sinh(x)


@_scalar(1, effort=Effort.MANY)
def cosh(x: np.ndarray) -> Any:
    """Hyperbolic cosine; inf at infinities."""
    return _vecmath.cosh(x)


@_scalar(1, effort=Effort.MANY)
def asinh(x: np.ndarray) -> Any:
    """Inverse hyperbolic sine; keeps -0."""
    return _vecmath.arcsinh(x)


@_scalar(1, effort=Effort.MANY)
def acosh(x: np.ndarray) -> Any:
    """Inverse hyperbolic cosine; NaN below 1."""
    return _vecmath.arccosh(x)


@_scalar(1, effort=Effort.MANY)
def atanh(x: np.ndarray) -> Any:
    """Inverse hyperbolic tangent; +-inf at +-1, NaN beyond; keeps -0."""
    return _vecmath.arctanh(x)


@_scalar(1, effort=Effort.MANY)
def tanh(x: np.ndarray) -> Any:
    """Hyperbolic tangent; +-1 at infinities; keeps -0."""
    return _vecmath.tanh(x)


@_scalar(2, effort=Effort.MANY)
def atan2(y: np.ndarray, x: np.ndarray) -> Any:
    """Angle of the point (x, y), C99 rules for signed zeros and infinities."""
    return _vecmath.arctan2(y, x)


# ---------------------------------------------------------------------------------------------
# special functions


def _special(name: str, x: Any) -> Any:
    """A function of float32 by the vector mathematics of kernels, else SciPy's or CuPy's."""
    if gpu.is_gpu_array(x):
        return getattr(gpu.special_functions(), name)(x)
    if x.dtype == np.float32:
        return getattr(_vecmath, _OWN_NAMES.get(name, name))(x)
    module = load("scipy.special", needed_for=f"the function {name} on arrays", install="scipy")
    return getattr(module, name)(x)


_OWN_NAMES: Final = {"gammaln": "lgamma", "j0": "bessel_j0", "j1": "bessel_j1"}
"""Those of functions that SciPy calls otherwise."""


def _special_in_double(name: str, x: Any) -> Any:
    """As `_special`; on a GPU in float64."""
    return _special(name, x.astype(np.float64) if gpu.is_gpu_array(x) else x)


@_scalar(1, effort=Effort.MANY)
def erf(x: np.ndarray) -> Any:
    """Error function; +-1 at infinities; keeps -0."""
    return _special("erf", x) if gpu.is_gpu_array(x) else erf_of_array(x)


@_scalar(1, effort=Effort.MANY)
def erfc(x: np.ndarray) -> Any:
    """1 - erf(x) without cancellation; 2 at -inf, 0 at inf."""
    return _special("erfc", x)


@_scalar(1, effort=Effort.MANY)
def lgamma(x: np.ndarray) -> Any:
    """Logarithm of the magnitude of the gamma function; inf at 0 and negative integers."""
    return _special("gammaln", x)


_SINGLE: Final = frozenset({"float32"})
_REAL: Final = frozenset({"float32", "float64"})


@_scalar(1, cuda=None, kernels=_REAL, effort=Effort.MANY)
def erfinv(x: np.ndarray) -> Any:
    """Inverse of erf; infinite at -1 and 1, NaN beyond; keeps -0."""
    return _special_in_double("erfinv", x) if gpu.is_gpu_array(x) else _vecmath.erfinv(x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY)
def ndtri(x: np.ndarray) -> Any:
    """Inverse of the normal distribution function; infinite at 0 and 1, NaN beyond."""
    return _special_in_double("ndtri", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY)
def log_ndtr(x: np.ndarray) -> Any:
    """Logarithm of the normal distribution function; -inf at -inf, 0 at inf."""
    return _special_in_double("log_ndtr", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY)
def i0(x: np.ndarray) -> Any:
    """Modified Bessel function of the first kind of order 0; NaN at infinities, as in PyTorch."""
    return _special_in_double("i0", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY)
def i0e(x: np.ndarray) -> Any:
    """exp(-|x|) * i0(x); 0 at infinities."""
    return _special_in_double("i0e", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY)
def i1(x: np.ndarray) -> Any:
    """Modified Bessel function of the first kind of order 1; odd; NaN at infinities."""
    return _special_in_double("i1", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY)
def i1e(x: np.ndarray) -> Any:
    """exp(-|x|) * i1(x); odd, 0 at infinities."""
    return _special_in_double("i1e", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY, far=_FAR_ANGLE)
def bessel_j0(x: np.ndarray) -> Any:
    """Bessel function of the first kind of order 0; NaN at infinities, as in PyTorch."""
    return _special_in_double("j0", x)


@_scalar(1, cuda=None, kernels=_SINGLE, effort=Effort.MANY, far=_FAR_ANGLE)
def bessel_j1(x: np.ndarray) -> Any:
    """Bessel function of the first kind of order 1; odd; NaN at infinities."""
    return _special_in_double("j1", x)


@_scalar(2, cuda=None, kernels=_REAL, effort=Effort.SOME)
def nextafter(x: np.ndarray, y: np.ndarray) -> Any:
    """The next number after x towards y; y where they are equal."""
    is_own = x.dtype in (np.float32, np.float64) and not _is_on_gpu(x, y)
    return _vecmath.nextafter(x, y) if is_own else np.nextafter(x, y)


# ---------------------------------------------------------------------------------------------
# powers and division


MOST_WHOLE_POWER: Final = 2.0**16


def is_whole_power(y: float) -> bool:
    """True for exponents that `whole_power` takes (dj_whole_pow_f32 in C)."""
    return y.is_integer() and abs(y) <= MOST_WHOLE_POWER


def _power_by_number(x: np.ndarray, y: np.ndarray) -> Any:
    """A floating x on the CPU to the power of one number; see `pow_`."""
    if y in (-1, -2):
        return np.reciprocal(x if y == -1 else x * x)
    is_fast = isinstance(x, np.ndarray) and x.dtype == np.float32
    return whole_power(x, y) if is_fast and is_whole_power(float(y)) else _vecmath.power(x, y)


@_scalar(2, integer="", effort=Effort.MANY)
def pow_(x: np.ndarray, y: Any) -> Any:
    """x to the power y; C99 rules for floats (pow(x, 0) and pow(1, y) are 1, NaN included).

    A whole number as the exponent of float32 gives PyTorch's bits, at most 1 ULP from the exact
    value; -1 and -2 divide. A tensor without dims is no number.

    Integers wrap; a negative exponent gives 0, except 1 for the base 1 and +-1 for -1.
    """
    if not _is_integer(x):
        is_number = not isinstance(y, np.ndarray) and not any(map(gpu.is_gpu_array, (x, y)))
        return _power_by_number(x, y) if is_number else _vecmath.power(x, y)
    negative = y < 0
    if not np.any(negative):
        return np.power(x, y)
    unit = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0))
    return np.where(negative, unit, np.power(x, np.where(negative, 0, y))).astype(x.dtype)


def _refuse_zero(name: str, y: Any) -> None:
    if not np.all(y):
        raise DivisionError(
            f"{name}: integer division by zero.  Expected a divisor without zeros; convert an "
            "operand to floating point for inf and nan."
        )


@_scalar(2, integer="", cuda="fmod{f}({0}, {1})", effort=Effort.MANY, far=_FAR_QUOTIENT)
def fmod(x: np.ndarray, y: np.ndarray) -> Any:
    """Remainder with the sign of x (C); NaN if y is 0 or x infinite; integers by 0 are refused."""
    if _is_integer(y):
        _refuse_zero("fmod", y)
    return np.fmod(x, y)


@_scalar(2, integer="", cuda="dj", effort=Effort.MANY, far=_FAR_QUOTIENT)
def remainder(x: np.ndarray, y: np.ndarray) -> Any:
    """Remainder with the sign of y (Python); NaN if y is 0; integers by 0 are refused.

    For floats: r = fmod(x, y), plus y if r is not 0 and its sign differs from y's.
    """
    if _is_integer(y):
        _refuse_zero("remainder", y)
        return np.remainder(x, y)
    rest = np.fmod(x, y)
    return np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@_scalar(2, integer="", cuda="dj", effort=Effort.MANY, far=_FAR_QUOTIENT)
def floor_divide(x: np.ndarray, y: np.ndarray) -> Any:
    """Quotient rounded to -inf (Python); floats by 0 give x / 0; integers by 0 are refused.

    Source for floats: CPython's `float_floor_div`, as in PyTorch and NumPy.
    """
    if _is_integer(y):
        _refuse_zero("floor_divide", y)
    elif _is_on_gpu(x, y):
        return _floor_of_quotient(x, y)
    return np.floor_divide(x, y)


def _is_on_gpu(x: np.ndarray, y: np.ndarray) -> bool:
    return gpu.is_gpu_array(x) or gpu.is_gpu_array(y)


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


# ---------------------------------------------------------------------------------------------
# rounding and choosing


@_scalar(1, floating="floor{f}({0})", integer="({0})")
def floor(x: np.ndarray) -> Any:
    """Largest integer not above x; keeps -0, NaN and infinities; integers stay."""
    return x if _is_integer(x) else np.floor(x)


@_scalar(1, floating="ceil{f}({0})", integer="({0})")
def ceil(x: np.ndarray) -> Any:
    """Smallest integer not below x; ceil(-0.5) is -0; integers stay."""
    return x if _is_integer(x) else np.ceil(x)


@_scalar(1, floating="trunc{f}({0})", integer="({0})")
def trunc(x: np.ndarray) -> Any:
    """Integer part; trunc(-0.5) is -0; integers stay."""
    return x if _is_integer(x) else np.trunc(x)


@_scalar(1, floating="rint{f}({0})", integer="({0})")
def round_(x: np.ndarray) -> Any:
    """Nearest integer, halves to even; keeps -0; integers stay."""
    return x if _is_integer(x) else np.rint(x)


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


@_scalar(2, integer="(({0}) > ({1}) ? ({0}) : ({1}))", cuda="dj")
def maximum(x: np.ndarray, y: np.ndarray) -> Any:
    """The larger; NaN if either is NaN (unlike C's fmax); of -0 and 0 either."""
    return np.clip(x, y, np.inf) if _is_cut(x, y) else np.maximum(x, y)


@_scalar(2, integer="(({0}) < ({1}) ? ({0}) : ({1}))", cuda="dj")
def minimum(x: np.ndarray, y: np.ndarray) -> Any:
    """The smaller; NaN if either is NaN (unlike C's fmin); of -0 and 0 either."""
    return np.clip(x, -np.inf, y) if _is_cut(x, y) else np.minimum(x, y)


@_scalar(3, floating="__builtin_fma{f}({0}, {1}, {2})", cuda="fma{f}({0}, {1}, {2})")
def fma(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> Any:
    """x * y + z, rounded once; NaN where the exact value is none. (On arrays of CuPy: rounded once
    but for float32 values next to a tie, twice for float64.)"""
    arrays = [operand for operand in (x, y, z) if gpu.is_gpu_array(operand)]
    if not arrays:
        return fma_of_arrays(x, y, z)
    dtype = arrays[0].dtype
    wide = np.float64(x) if x is not arrays[0] else x.astype(np.float64)
    return (wide * y + z).astype(dtype)


@_scalar(3, floating="(({0}) ? ({1}) : ({2}))", integer="(({0}) ? ({1}) : ({2}))")
def where(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
    """x where the condition holds, else y; both are evaluated, neither NaN leaks."""
    return select(condition, x, y)


# ---------------------------------------------------------------------------------------------
# predicates, logic, bits


@_scalar(1, Result.BOOL, floating="(({0}) != ({0}))", integer="0")
def isnan(x: np.ndarray) -> Any:
    """True at NaN; False for integers."""
    return np.isnan(x)


@_scalar(1, Result.BOOL, floating="(fabs{f}({0}) == (({t})INFINITY))", integer="0")
def isinf(x: np.ndarray) -> Any:
    """True at both infinities; False for integers."""
    return np.isinf(x)


@_scalar(1, Result.BOOL, floating="(fabs{f}({0}) < (({t})INFINITY))", integer="1")
def isfinite(x: np.ndarray) -> Any:
    """False at NaN and the infinities; True for integers."""
    return np.isfinite(x)


@_scalar(
    2,
    Result.BOOL,
    "((({0}) != 0) & (({1}) != 0))",
    "((({0}) != 0) & (({1}) != 0))",
    commutes=True,
)
def logical_and(x: np.ndarray, y: np.ndarray) -> Any:
    """Both differ from 0 (NaN does)."""
    return np.logical_and(x, y)


@_scalar(
    2,
    Result.BOOL,
    "((({0}) != 0) | (({1}) != 0))",
    "((({0}) != 0) | (({1}) != 0))",
    commutes=True,
)
def logical_or(x: np.ndarray, y: np.ndarray) -> Any:
    """Either differs from 0 (NaN does)."""
    return np.logical_or(x, y)


@_scalar(
    2,
    Result.BOOL,
    "((({0}) != 0) ^ (({1}) != 0))",
    "((({0}) != 0) ^ (({1}) != 0))",
    commutes=True,
)
def logical_xor(x: np.ndarray, y: np.ndarray) -> Any:
    """Exactly one differs from 0 (NaN does)."""
    return np.logical_xor(x, y)


@_scalar(1, Result.BOOL, "(({0}) == 0)", "(({0}) == 0)")
def logical_not(x: np.ndarray) -> Any:
    """True at 0 and -0; False at NaN."""
    return np.logical_not(x)


@_scalar(2, floating=None, integer="(({t})(({0}) & ({1})))", commutes=True)
def bitwise_and(x: np.ndarray, y: np.ndarray) -> Any:
    """Bits set in both."""
    return np.bitwise_and(x, y)


@_scalar(2, floating=None, integer="(({t})(({0}) | ({1})))", commutes=True)
def bitwise_or(x: np.ndarray, y: np.ndarray) -> Any:
    """Bits set in either."""
    return np.bitwise_or(x, y)


@_scalar(2, floating=None, integer="(({t})(({0}) ^ ({1})))", commutes=True)
def bitwise_xor(x: np.ndarray, y: np.ndarray) -> Any:
    """Bits set in one only."""
    return np.bitwise_xor(x, y)


@_scalar(1, floating=None, integer="dj_bitwise_not_{s}({0})")
def bitwise_not(x: np.ndarray) -> Any:
    """Every bit flipped; for bool the negation."""
    return np.bitwise_not(x)


@_scalar(2, floating=None, integer="")
def left_shift(x: np.ndarray, y: np.ndarray) -> Any:
    """x * 2**y, wrapped; 0 if y is negative or at least the width."""
    if not _is_on_gpu(x, y):
        return np.left_shift(x, y)
    fits = _is_shift(x, y)
    return np.where(fits, np.left_shift(x, y * fits), x.dtype.type(0))


def _is_shift(x: np.ndarray, y: np.ndarray) -> Any:
    """Where a GPU shifts as said: what it does beyond the width of x is left open."""
    return (y >= 0) & (y < 8 * x.dtype.itemsize)


@_scalar(2, floating=None, integer="")
def right_shift(x: np.ndarray, y: np.ndarray) -> Any:
    """floor(x / 2**y); 0 or -1 if y is negative or at least the width."""
    if not _is_on_gpu(x, y):
        return np.right_shift(x, y)
    fits = _is_shift(x, y)
    number = x.dtype.type
    is_signed = x.dtype.kind == "i"
    beyond = np.right_shift(x, number(8 * x.dtype.itemsize - 1)) if is_signed else number(0)
    return np.where(fits, np.right_shift(x, y * fits), beyond)


# ---------------------------------------------------------------------------------------------
# complex numbers (no target has them)


@_scalar(1, Result.GIVEN, floating=None, effort=Effort.SOME)
def real(x: np.ndarray) -> Any:
    """The real part of a complex number."""
    return x.real


@_scalar(1, Result.GIVEN, floating=None, effort=Effort.SOME)
def imag(x: np.ndarray) -> Any:
    """The imaginary part of a complex number."""
    return x.imag


@_scalar(2, Result.GIVEN, floating=None, effort=Effort.SOME)
def complex_(real: np.ndarray, imag: np.ndarray) -> Any:
    """The complex number with these parts, which may be infinite."""
    real, imag = np.broadcast_arrays(real, imag)
    result = np.empty_like(real, np.result_type(real.dtype, np.complex64), order="C")
    result.real, result.imag = real, imag
    return result


# ---------------------------------------------------------------------------------------------
# dtype and index


@_scalar(1, Result.GIVEN, floating=None, integer=None)
def cast(x: np.ndarray, dtype: DType) -> Any:
    """x in another dtype.

    Complex numbers lose their imaginary part, with a warning, where the dtype is real. Floats to
    integers truncate; to bool: not equal 0 (NaN is True). Out of range is undefined in C: floats
    become uint8 through int64, and int8 and int16 through int32, which wraps small excesses as
    PyTorch does on x86. Integers to narrower integers wrap.
    """
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


class NumpyScalars:
    """The namespace `m` for arrays and NumPy scalars. Immutable.

    Has every function of `SCALARS`, and, in index maps, `less`, `equal` and `as_index`.

    Args:
        shape: shape of the result, which `index` needs (creation ops only).
        xp: the array module of the result (creation ops only).
    """

    def __init__(self, shape: Sequence[int] = (), xp: Any = np) -> None:
        self._shape = shape
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"m.{name} is not a scalar function; see ops/table/scalar.py")

    def index(self, d: int) -> Any:
        """int64 index along dimension d of the result, shaped to broadcast."""
        trailing = len(self._shape) - d - 1
        return self._xp.arange(self._shape[d], dtype=np.int64).reshape((-1,) + (1,) * trailing)

    @staticmethod
    def integer(value: Any) -> Any:
        """A size as an int64 scalar."""
        return np.int64(value)

    @staticmethod
    def less(i: Any, j: Any) -> Any:
        """i < j, of indices."""
        return np.less(i, j)

    @staticmethod
    def equal(i: Any, j: Any) -> Any:
        """i == j, of indices."""
        return np.equal(i, j)

    @staticmethod
    def as_index(value: Any, size: Any, wrap: bool = True) -> Any:
        """Integers as indices into a dimension of `size`; negative ones count from the end.

        Raises:
            BoundsError: a value is out of range.
        """
        whole = value if hasattr(value, "dtype") else np.asarray(value)
        index = whole.astype(np.int64, copy=False)
        lowest = -size if wrap else 0
        if index.size and not _are_within(index, lowest, size):
            wrong = index.reshape(-1)[((index < lowest) | (index >= size)).reshape(-1)][0]
            raise BoundsError(
                f"index {wrong} is out of range for a dimension of size {size}.  Expected a "
                f"value in [{lowest}, {size - 1}]."
            )
        return np.where(index < 0, index + size, index) if wrap else index


def _are_within(index: Any, lowest: Any, size: Any) -> bool:
    """True if some int64 are in [lowest, size)."""
    if type(index) is np.ndarray and lowest == 0:  # negative ones are the largest without a sign
        return bool(np.maximum.reduce(index.view(np.uint64), axis=None) < size)
    return bool(index.min() >= lowest and index.max() < size)


_rows["index"] = Scalar(
    "index", 0, Result.GIVEN, NumpyScalars.index, None, None, None,
    "int64 index along a dimension of the result.", effort=Effort.FEW,
)  # fmt: skip

for _name, _row in SCALARS.items():
    if _name != "index":
        setattr(NumpyScalars, _name, staticmethod(_row.numpy))

OF_LIBRARY: Final = frozenset(_rows)
"""The names of those that no program has entered."""
