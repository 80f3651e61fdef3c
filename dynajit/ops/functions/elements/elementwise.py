"""Library functions on elements: arithmetic, comparison, rounding, conversion.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too.
Functions that need nothing but a row are made by `_unary` and `_binary`, with the row's
documentation. Nothing writes in place.
"""

import warnings
from collections.abc import Callable
from numbers import Number
from typing import TYPE_CHECKING, Any, Final

from dynajit.core.arrays import any_arrays
from dynajit.core.arrays.gpu import runtime as gpu
from dynajit.core.errors import (
    ArgumentError,
    ArgumentRuntimeError,
    DTypeError,
    DTypeNotImplementedError,
    InvalidValueRuntimeError,
)
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU, Device
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.memory_format import order_in
from dynajit.core.types.tensor_layouts import strided
from dynajit.ops.calls import arguments, contents
from dynajit.ops.calls.arguments import (
    cast,
    category_of,
    common_dtype,
    constant,
    fitting,
    is_tensor,
    operand,
    rounded_once,
)
from dynajit.ops.calls.autocast import for_row
from dynajit.ops.calls.placing import as_computed, formatted
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.rows.pointwise import number_power
from dynajit.ops.table.families import broadcast_shapes
from dynajit.ops.table.op_table import TABLE, Op

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods

# ---------------------------------------------------------------------------------------------
# functions that are rows


def _unary(name: str) -> Callable[[Any], Any]:
    row = TABLE[name]

    def function(input: Any) -> Any:
        if is_tensor(input):
            return row(input)
        raise ArgumentError(
            f"{name}(): argument 'input' must be a tensor, not {type(input).__name__}.  Make one "
            "with dynajit.tensor(...)."
        )

    return named(function, name, row)


def _binary(name: str, takes_numbers: bool = False) -> Callable[[Any, Any], Any]:
    row = TABLE[name]

    def function(input: Any, other: Any) -> Any:
        if is_tensor(input) or is_tensor(other):
            return row(operand(input), operand(other))
        if takes_numbers and _are_numbers(input, other):
            return row(_of_number(input), other)
        raise ArgumentError(
            f"{name}(): one argument must be a tensor, not {type(input).__name__} and "
            f"{type(other).__name__}."
        )

    return named(function, name, row)


def _are_numbers(input: Any, other: Any) -> bool:
    return isinstance(input, Number) and isinstance(other, Number)


def _of_number(value: Any) -> Any:
    """A zero-dim tensor of a number, which PyTorch's arithmetic functions make of their first."""
    return TABLE.full(value, shape=(), dtype=dtypes.of_number(value), device=CPU)


def named(function: Callable[..., Any], name: str, row: Op) -> Callable[..., Any]:
    """The function that calls a row, under a public name, with the row's docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = row.document
    return function


abs = public(out=Out.SAME_DTYPE, in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(
    _unary("abs")
)
absolute = public(
    name="absolute", out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True, sparse=True
)(abs)
acos = public(also=("arccos",), in_place=InPlace.BOTH, foreach=True, method=True)(_unary("acos"))
acosh = public(also=("arccosh",), in_place=InPlace.BOTH, method=True)(_unary("acosh"))
asin = public(also=("arcsin",), in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(
    _unary("asin")
)
asinh = public(also=("arcsinh",), in_place=InPlace.BOTH, method=True, sparse=True)(_unary("asinh"))
atan = public(also=("arctan",), in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(
    _unary("atan")
)
atanh = public(also=("arctanh",), in_place=InPlace.BOTH, method=True, sparse=True)(_unary("atanh"))
bitwise_not = public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)(
    _unary("bitwise_not")
)
ceil = public(out=Out.SAME_DTYPE, in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(
    _unary("ceil")
)
cos = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("cos"))
cosh = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("cosh"))
erf = public(also=("special.erf",), in_place=InPlace.BOTH, foreach=True, method=True)(_unary("erf"))
erfc = public(also=("special.erfc",), in_place=InPlace.BOTH, foreach=True, method=True)(
    _unary("erfc")
)
exp = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("exp"))
exp2 = public(also=("special.exp2",), in_place=InPlace.BOTH, method=True)(_unary("exp2"))
expm1 = public(
    also=("special.expm1",), in_place=InPlace.BOTH, foreach=True, method=True, sparse=True
)(_unary("expm1"))
floor = public(out=Out.SAME_DTYPE, in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(
    _unary("floor")
)
isfinite = public(out=Out.ABSENT, method=True)(_unary("isfinite"))
isinf = public(out=Out.ABSENT, method=True)(_unary("isinf"))
isnan = public(out=Out.ABSENT, method=True)(_unary("isnan"))
log = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("log"))
log10 = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("log10"))
log1p = public(
    also=("special.log1p",), in_place=InPlace.BOTH, foreach=True, method=True, sparse=True
)(_unary("log1p"))
log2 = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("log2"))
logical_not = public(in_place=InPlace.METHOD, method=True)(_unary("logical_not"))
neg = public(
    also=("negative",),
    out=Out.SAME_DTYPE,
    in_place=InPlace.BOTH,
    foreach=True,
    method=True,
    sparse=True,
)(_unary("neg"))
reciprocal = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("reciprocal"))
relu = public(out=Out.ABSENT, in_place=InPlace.BOTH, method=True, sparse=True)(_unary("relu"))
public("nn.functional", inplace_argument=True, in_place=InPlace.FUNCTION)(relu)
rsqrt = public(in_place=InPlace.BOTH, foreach=True, method=True)(_unary("rsqrt"))
sigmoid = public(also=("special.expit",), in_place=InPlace.BOTH, foreach=True, method=True)(
    _unary("sigmoid")
)
public("nn.functional")(sigmoid)
sign = public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, foreach=True, method=True, sparse=True)(
    _unary("sign")
)
sin = public(in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(_unary("sin"))
sinh = public(in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(_unary("sinh"))
sqrt = public(in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(_unary("sqrt"))
square = public(in_place=InPlace.BOTH, method=True, sparse=True)(_unary("square"))
tan = public(in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(_unary("tan"))
tanh = public(in_place=InPlace.BOTH, foreach=True, method=True, sparse=True)(_unary("tanh"))
public("nn.functional")(tanh)
trunc = public(
    also=("fix",), out=Out.SAME_DTYPE, in_place=InPlace.BOTH, foreach=True, method=True, sparse=True
)(_unary("trunc"))
detach = public(out=Out.ABSENT, method=True, sparse=True)(_unary("detach"))

atan2 = public(also=("arctan2",), in_place=InPlace.METHOD, method=True)(_binary("atan2"))
bitwise_and = public(in_place=InPlace.METHOD, method=True)(_binary("bitwise_and"))
bitwise_left_shift = public(name="bitwise_left_shift", in_place=InPlace.METHOD, method=True)(
    _binary("left_shift")
)
bitwise_or = public(in_place=InPlace.METHOD, method=True)(_binary("bitwise_or"))
bitwise_right_shift = public(name="bitwise_right_shift", in_place=InPlace.METHOD, method=True)(
    _binary("right_shift")
)
bitwise_xor = public(in_place=InPlace.METHOD, method=True)(_binary("bitwise_xor"))
eq = public(in_place=InPlace.METHOD, method=True)(_binary("eq"))
floor_divide = public(in_place=InPlace.METHOD, method=True)(
    _binary("floor_divide", takes_numbers=True)
)
fmod = public(in_place=InPlace.METHOD, method=True)(_binary("fmod"))
ge = public(also=("greater_equal",), in_place=InPlace.METHOD, method=True)(_binary("ge"))
gt = public(also=("greater",), in_place=InPlace.METHOD, method=True)(_binary("gt"))
le = public(also=("less_equal",), in_place=InPlace.METHOD, method=True)(_binary("le"))
logical_and = public(in_place=InPlace.METHOD, method=True)(_binary("logical_and"))
logical_or = public(in_place=InPlace.METHOD, method=True)(_binary("logical_or"))
logical_xor = public(in_place=InPlace.METHOD, method=True)(_binary("logical_xor"))
lt = public(also=("less",), in_place=InPlace.METHOD, method=True)(_binary("lt"))
maximum = public(foreach=True, method=True)(_binary("maximum"))
minimum = public(foreach=True, method=True)(_binary("minimum"))
mul = public(also=("multiply",), in_place=InPlace.METHOD, foreach=True, method=True, sparse=True)(
    _binary("mul", takes_numbers=True)
)
ne = public(also=("not_equal",), in_place=InPlace.METHOD, method=True)(_binary("ne"))
remainder = public(in_place=InPlace.METHOD, method=True)(_binary("remainder"))


@public(out=Out.ABSENT, method=True, sparse=True)
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy of input in a memory format, by default that of input; gradients flow through."""
    order = order_in(memory_format, len(input.shape))
    return TABLE.clone(input) if order is None else TABLE.laid_out(input, order=order)


# ---------------------------------------------------------------------------------------------
# arithmetic with more arguments


def _scaled(other: Any, alpha: Any, beside: Any) -> Any:
    """alpha * other, which meets `beside`.

    Raises:
        ArgumentRuntimeError: alpha is of a wider kind than the result.
    """
    if type(alpha) is int and alpha == 1:
        return other
    dtype = common_dtype((other, beside))
    kind = alpha.dtype.category if is_tensor(alpha) else category_of(alpha)
    if kind is Category.BOOL and dtype.category is not Category.BOOL:
        raise ArgumentRuntimeError("Boolean alpha only supported for Boolean results.")
    if kind is Category.FLOATING and dtype.category < Category.FLOATING:
        raise ArgumentRuntimeError(
            "For integral input tensors, argument alpha must not be a floating point number."
        )
    if kind is Category.COMPLEX and dtype.category < Category.COMPLEX:
        raise ArgumentRuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )
    if not is_tensor(other) and not is_tensor(alpha):
        return other * alpha
    scaled = TABLE.mul(other, alpha)
    return cast(scaled, dtype) if dtype.category is Category.BOOL else scaled


def _is_fused(input: Any, other: Any, alpha: Any) -> bool:
    """True where PyTorch's loops for CPUs round input + alpha * other once."""
    if is_tensor(alpha) and not arguments.is_of_graph(alpha):
        return False
    if isinstance(alpha, (bool, complex)) or _is_literal(alpha, 1):
        return False
    if not is_tensor(input) or not is_tensor(other):
        return False
    if any(getattr(x, "layout", strided) is not strided for x in (input, other)):
        return False
    dtype = input.dtype
    fits = other.dtype is dtype and input.device == other.device == CPU
    return fits and (dtype is dtypes.float32 or dtype is dtypes.float64)


def _is_literal(value: Any, number: float) -> bool:
    return not is_tensor(value) and bool(value == number)


@public(in_place=InPlace.METHOD, foreach=True, method=True, sparse=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other. Shape: broadcast. Dtype: promoted."""
    if _are_numbers(input, other):
        input = _of_number(input)
    if _is_fused(input, other, alpha):
        return as_computed(TABLE.fma(other, alpha, input), input, other)
    return TABLE.add(operand(input), _scaled(operand(other), alpha, input))


@public(
    name="sub", also=("subtract",), in_place=InPlace.METHOD, foreach=True, method=True, sparse=True
)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other. Shape: broadcast. Dtype: promoted; bool is refused."""
    if _are_numbers(input, other):
        input = _of_number(input)
    if _is_fused(input, other, alpha):
        if is_tensor(alpha):  # a number of a graph has no dtype of its own in which to be negated
            return as_computed(TABLE.fma(TABLE.neg(other), alpha, input), input, other)
        return as_computed(TABLE.fma(other, -operand(alpha), input), input, other)
    return TABLE.sub(operand(input), _scaled(operand(other), alpha, input))


@public(out=Out.ABSENT)
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input."""
    return TABLE.sub(operand(other), _scaled(input, alpha, other))


@public(
    also=(
        "divide",
        "true_divide",
    ),
    in_place=InPlace.METHOD,
    foreach=True,
    method=True,
    sparse=True,
)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    """Quotient: true, or rounded to zero ("trunc") or down ("floor") in the promoted dtype."""
    x, y = operand(input), operand(other)
    if _are_numbers(x, y):
        x = _of_number(x)
    if rounding_mode is None:
        return TABLE.div(x, y)
    if rounding_mode == "floor":
        return TABLE.floored_quotient(x, y)
    if rounding_mode != "trunc":
        raise ArgumentRuntimeError(
            f"div(rounding_mode={rounding_mode!r}): expected None, 'trunc' or 'floor'."
        )
    dtype = common_dtype((x, y))
    if dtype.category >= Category.FLOATING:
        return TABLE.truncated_quotient(x, y)
    # The exact quotient of integers: what is left after the remainder divides evenly.
    return TABLE.floor_divide(TABLE.sub(x, TABLE.fmod(x, y)), y)


@public(in_place=InPlace.METHOD, foreach=True, method=True, sparse=True)
def pow(input: Any, exponent: Any) -> Any:
    """input to the power exponent. Shape: broadcast. Dtype: promoted.

    Exponents 2, 3, 0.5 and -0.5 of floating tensors become products and roots.

    Raises:
        DTypeError: an integer tensor to a negative integer number.
    """
    x, y = operand(input), operand(exponent)
    if is_tensor(x) and x.dtype.category is Category.INTEGER and _is_negative_int(y):
        raise DTypeError(
            "pow: integers to negative integer powers are not allowed.  Convert the base "
            "with .float()."
        )
    if not is_tensor(x) or is_tensor(y) or isinstance(y, complex):
        return TABLE.pow(x, y)
    if not x.dtype.is_floating_point:
        return TABLE.pow(x, y)
    if y == 3:
        (x,) = for_row(TABLE.pow, (x,))
    return number_power(TABLE, x, y)


def _is_negative_int(number: Any) -> bool:
    """True for a negative int of Python's; a run-time one that is refuses the launch's values."""
    if not arguments.is_run_time_number(number):
        return isinstance(number, int) and number < 0
    if number.type.category is not Category.INTEGER:
        return False
    held = TABLE.full(number, shape=(), dtype=dtypes.int64, device=CPU)
    return not contents.holds(TABLE.ge(held, 0))


def _wide(value: Any) -> Any:
    if not is_tensor(value):
        return value
    return cast(value, dtypes.complex128 if value.dtype.is_complex else dtypes.float64)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
def float_power(input: Any, exponent: Any) -> Any:
    """Power in float64, or complex128."""
    base = _wide(input)
    power = _wide(exponent)
    return pow(base, power)


_FITS: Final = 2.0**127
"""A magnitude that float32 holds: what is as small need not be asked."""


def _limit(value: Any, other: Any, function: str) -> Any:
    """A number that has to fit the dtype of the tensor it is combined with, if it does not
    raise its category."""
    if type(value) is float and other.dtype is dtypes.float32 and -_FITS <= value <= _FITS:
        return value
    if value is None or not arguments.is_number(value):
        return value
    if category_of(value) > other.dtype.category:
        return operand(value)
    return fitting(value, other.dtype, function)


@public(also=("clip",), in_place=InPlace.BOTH, method=True)
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """input cut to [min, max]; either bound may be None, a number or a tensor."""
    if min is None and max is None:
        raise ArgumentRuntimeError("clamp: at least one of 'min' or 'max' must not be None.")
    low, high = _limit(min, input, "clamp"), _limit(max, input, "clamp")
    if low is None:
        return TABLE.clamp_max(input, high)
    if high is None:
        return TABLE.clamp_min(input, low)
    return TABLE.clamp(input, low, high)


@public(in_place=InPlace.BOTH, foreach=True, method=True)
def clamp_min(input: Any, min: Any) -> Any:
    """input, at least `min`."""
    return TABLE.clamp_min(input, _limit(min, input, "clamp_min"))


@public(in_place=InPlace.BOTH, foreach=True, method=True)
def clamp_max(input: Any, max: Any) -> Any:
    """input, at most `max`."""
    return TABLE.clamp_max(input, _limit(max, input, "clamp_max"))


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input).

    Raises:
        DTypeError: the tensors have several dtypes.
    """
    _require_dtype("lerp", "end", end, input.dtype)
    _require_dtype("lerp", "weight", weight, input.dtype)
    return TABLE.lerp(input, end, operand(weight))


def _require_dtype(function: str, name: str, value: Any, dtype: DType) -> None:
    """Refuse a tensor of another dtype, where PyTorch promotes none."""
    if is_tensor(value) and value.dtype is not dtype:
        raise DTypeError(
            f"{function}: expected dtype {dtype.name} for `{name}` but got dtype "
            f"{value.dtype.name}.  Cast one of them with .to(dtype)."
        )


@public(in_place=InPlace.METHOD, foreach=True, method=True)
@rounded_once
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2; of integers, value loses its fraction."""
    product = TABLE.mul(tensor1, tensor2)
    return add(input, product, alpha=_factor(value, input, product))


def _factor(value: Any, *operands: Any) -> Any:
    """`value` as a factor of what these operands meet in."""
    return value if is_tensor(value) else arguments.coefficient(value, common_dtype(operands))


@public(in_place=InPlace.METHOD, foreach=True, method=True)
@rounded_once
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2.

    Raises:
        DTypeError: both are integers.
    """
    if all(is_tensor(x) and x.dtype.category < Category.FLOATING for x in (tensor1, tensor2)):
        raise DTypeError(
            "Integer division with addcdiv is no longer supported.  Cast tensor1 or tensor2 to a "
            "floating dtype, or use addcmul with a rounded quotient."
        )
    quotient = TABLE.div(tensor1, tensor2)
    return add(input, quotient, alpha=_factor(value, input, quotient))


@public(
    also=("special.round",),
    out=Out.SAME_DTYPE,
    in_place=InPlace.BOTH,
    foreach=True,
    method=True,
    sparse=True,
)
def round(input: Any, *, decimals: int = 0) -> Any:
    """Nearest integer (halves to even), or nearest multiple of 10 ** -decimals.

    Raises:
        DTypeNotImplementedError: decimals of integers.
    """
    if type(decimals) is not int:
        decimals = arguments.size(decimals, "round")
    if decimals == 0:
        return TABLE.round(input)
    if is_tensor(input) and input.dtype.category < Category.FLOATING:
        raise DTypeNotImplementedError(
            f'"round(decimals=)" not implemented for {input.dtype.name}.  Convert it to floats.'
        )
    scale = 10.0**decimals
    return cast(TABLE.div(TABLE.round(TABLE.mul(input, scale)), scale), input.dtype)


@public(out=Out.SAME_DTYPE, in_place=InPlace.BOTH, foreach=True, method=True)
def frac(input: Any) -> Any:
    """What trunc cuts off, with the sign of input."""
    return TABLE.sub(input, TABLE.trunc(input))


@public(method=True)
@rounded_once
def logaddexp(input: Any, other: Any) -> Any:
    """log(exp(input) + exp(other)), without overflow."""
    if any(is_tensor(x) and x.dtype.is_complex for x in (input, other)):
        return _complex_logaddexp(input, other)
    return TABLE.logaddexp(input, other)


def _complex_logaddexp(x: "TensorMethods | complex", y: Any) -> Any:
    """z + log(1 + exp(w - z)) with z the one of the larger real part: its angle is kept whole."""
    is_first = TABLE.ge(_real_part(x), _real_part(y))
    larger, smaller = TABLE.where(is_first, x, y), TABLE.where(is_first, y, x)
    is_nothing = TABLE.eq(TABLE.abs(_real_part(larger)), float("inf"))
    apart = TABLE.where(is_nothing, 0.0, TABLE.sub(smaller, larger))
    return TABLE.add(larger, TABLE.log(TABLE.add(TABLE.exp(apart), 1)))


def _real_part(x: "TensorMethods | complex") -> Any:
    return TABLE.real(x) if is_tensor(x) and x.dtype.is_complex else x


@public(also=("special.logit",), in_place=InPlace.BOTH, method=True)
def logit(input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)), of input cut to [eps, 1 - eps]."""
    return TABLE.logit(
        arguments.require_tensor(input, "logit"), eps=None if eps is None else float(eps)
    )


@public(out=Out.SAME_DTYPE, in_place=InPlace.BOTH, method=True)
def nan_to_num(
    input: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """input with NaN and infinities replaced; by default by 0 and the largest finite numbers. In
    complex numbers, parts are."""
    if input.dtype.is_complex:
        parts = (nan_to_num(part(input), nan, posinf, neginf) for part in (TABLE.real, TABLE.imag))
        return TABLE.complex(*parts)
    if not input.dtype.is_floating_point:
        return TABLE.clone(input)
    largest = _largest(input.dtype)
    high = largest if posinf is None else posinf
    low = -largest if neginf is None else neginf
    x = TABLE.where(TABLE.isnan(input), nan, input)
    if posinf is None and neginf is None and -largest <= nan <= largest:
        return TABLE.clamp(x, -largest, largest)
    x = TABLE.where(TABLE.eq(input, float("inf")), high, x)
    return TABLE.where(TABLE.eq(input, float("-inf")), low, x)


def _largest(dtype: DType) -> float:
    return {
        "float16": 65504.0,
        "bfloat16": 3.3895313892515355e38,
        "float32": 3.4028234663852886e38,
        "float64": 1.7976931348623157e308,
    }[dtype.name]


@public(out=Out.SAME_DTYPE)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """input where the bool condition holds, else other; with one argument the positions of True.

    A condition of uint8 holds where it is not 0; that is deprecated, with a warning.

    Raises:
        DTypeError: the condition is neither.
    """
    if input is None and other is None:
        return tuple(nonzero(condition, as_tuple=True))
    if input is None or other is None:
        raise ArgumentError("where: expected a condition alone, or with input and other.")
    if arguments.is_number(other) and not arguments.is_number(input):
        other = _limit(other, input, "where")
    elif arguments.is_number(input) and not arguments.is_number(other):
        input = _limit(input, other, "where")
    if is_tensor(condition) and condition.dtype is dtypes.uint8:
        message = "where received a uint8 condition tensor. This is deprecated: use a bool one."
        warnings.warn(message, UserWarning, stacklevel=2)
        condition = TABLE.ne(condition, 0)
    return TABLE.where(condition, operand(input), operand(other))


@public(out=Out.SAME_DTYPE, method=True)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not 0, int64 (n, rank); needs the contents."""
    array = arguments.require_tensor(input, "nonzero").array
    with any_arrays.on_device_of(array):
        found = array.reshape(1).nonzero() if array.ndim == 0 else array.nonzero()
        if array.ndim and not as_tuple:
            return constant(any_arrays.module_of(array).stack(found, axis=1), input.device)
    if as_tuple:
        return tuple(constant(column, input.device) for column in found)
    count = len(found[0])
    return TABLE.full(0, shape=(count, 0), dtype=dtypes.int64, device=input.device)


@public(out=Out.SAME_DTYPE, method=True)
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where the bool mask holds, in one dimension; needs the contents.

    Raises:
        DTypeError: the mask is of another dtype.
    """
    if mask.dtype is not dtypes.bool_:
        raise DTypeError(f"masked_select: expected BoolTensor for mask, but got {mask.dtype.name}.")
    shape = broadcast_shapes([tuple(input.shape), tuple(mask.shape)], "masked_select")
    wide = TABLE.expand(input, shape=shape)
    found = nonzero(TABLE.expand(mask, shape=shape), as_tuple=True)
    if not shape:
        return TABLE.index_select(TABLE.reshape(wide, shape=(1,)), found[0], dim=0)
    return TABLE.index(wide, TABLE.stack(*found, dim=0), dims=tuple(range(len(shape))))


@public(out=Out.ABSENT, method=True)
def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """|input - other| <= atol + rtol * |other|, elementwise; infinities only if equal.

    Raises:
        DTypeError: the tensors have two dtypes.
        InvalidValueError: a tolerance is negative.
    """
    _require_dtype("isclose", "other", other, input.dtype)
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance < 0:
            raise InvalidValueRuntimeError(
                f"isclose: {name} must be greater than or equal to zero, but got {tolerance}."
            )
    same = TABLE.eq(input, other)
    if equal_nan:
        both = TABLE.logical_and(TABLE.isnan(input), TABLE.isnan(other))
        same = TABLE.logical_or(same, both)
    if input.dtype.category <= Category.INTEGER:
        input, other = cast(input, dtypes.float64), cast(other, dtypes.float64)
    gap = TABLE.abs(TABLE.sub(input, other))
    allowed = TABLE.add(TABLE.mul(TABLE.abs(other), rtol), atol)
    near = TABLE.logical_and(TABLE.isfinite(gap), TABLE.le(gap, allowed))
    return TABLE.logical_or(same, near)


@public(out=Out.ABSENT)
def result_type(first: Any, second: Any) -> DType:
    """The dtype in which two tensors or numbers meet."""
    return arguments.common_dtype((operand(first), operand(second)))


@public(out=Out.ABSENT)
def can_cast(from_: DType, to: DType) -> bool:
    """Whether promotion allows the conversion: the category does not fall."""
    if not (isinstance(from_, DType) and isinstance(to, DType)):
        raise ArgumentError(f"can_cast({from_!r}, {to!r}): expected two dtypes.")
    if to is dtypes.bool_:
        return from_ is dtypes.bool_
    return from_.category <= to.category


# ---------------------------------------------------------------------------------------------
# conversion


def to(input: Any, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
       copy: bool = False, memory_format: Any = None, **ignored: Any) -> Any:  # fmt: skip
    """input in another dtype, or on another device (or those of another tensor).

    Accepts `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`. With
    `memory_format=channels_last` the result lies in memory that way.

    Raises:
        DeviceError: there is no such device.
    """
    for value in args:
        if isinstance(value, bool) or value is None:
            continue
        if is_tensor(value):
            dtype, device = value.dtype, value.device
        elif isinstance(value, (str, Device, int)):
            device = value
        else:
            dtype = value
    result = cast(input, None if dtype is None else arguments.dtype_of(dtype))
    if device is not None:
        resolve = getattr(input, "resolve_device", gpu.resolve)
        place = resolve(arguments.device_of(device), "to")
        if place is not input.device:
            result = TABLE.to_device(result, device=place, non_blocking=bool(non_blocking))
    return formatted(input, result, memory_format, copy)


def type_as(input: Any, other: Any) -> Any:
    """input in the dtype of other, on its device."""
    arguments.require_tensor(other, "type_as", "other")
    return to(input, other.dtype, device=other.device)


def _conversion(name: str, dtype: DType) -> Callable[..., Any]:
    def function(input: Any, memory_format: Any = None) -> Any:
        if memory_format is not None:
            return to(input, dtype, memory_format=memory_format)
        return cast(input, dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"input as {dtype.name}; itself if it is that already."
    return function


to_float = _conversion("float", dtypes.float32)
to_double = _conversion("double", dtypes.float64)
to_half = _conversion("half", dtypes.float16)
to_bfloat16 = _conversion("bfloat16", dtypes.bfloat16)
to_int = _conversion("int", dtypes.int32)
to_long = _conversion("long", dtypes.int64)
to_short = _conversion("short", dtypes.int16)
to_char = _conversion("char", dtypes.int8)
to_byte = _conversion("byte", dtypes.uint8)
to_bool = _conversion("bool", dtypes.bool_)
to_cfloat = _conversion("cfloat", dtypes.complex64)
to_cdouble = _conversion("cdouble", dtypes.complex128)

# PyTorch's other names for the same functions.
negative, subtract, multiply, divide = neg, sub, mul, div
true_divide = div
arccos, arcsin, arctan, arctan2, clip = acos, asin, atan, atan2, clamp
arcsinh, arccosh, arctanh, fix = asinh, acosh, atanh, trunc
greater, greater_equal, less, less_equal, not_equal = gt, ge, lt, le, ne
