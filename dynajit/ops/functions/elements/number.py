"""Library functions on single numbers that are not rows: signs, angles, divisors, parts of floats.

Contract: the first parameter is the tensor, so each function is a method of `TensorMethods`, too.
"""

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynajit.core.arrays import any_arrays
from dynajit.core.errors import DTypeError, DTypeNotImplementedError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import equals
from dynajit.ops.calls.arguments import (  # fmt: skip
    cast,
    common_dtype,
    constant,
    is_tensor,
    rounded_once,
    unchanged_by,
)
from dynajit.ops.calls.dtypes_of_operands import refuse_complex_dtype
from dynajit.ops.calls.public import InPlace, Out, public
from dynajit.ops.functions.elements.elementwise import pow
from dynajit.ops.rows.composites import wide
from dynajit.ops.table.families import floating_of
from dynajit.ops.table.op_table import TABLE

if TYPE_CHECKING:
    from dynajit.ops.methods.methods import TensorMethods


class MantissaExponent(NamedTuple):
    """Result of `frexp`: two tensors."""

    mantissa: Any
    exponent: Any


def pair(input: Any, other: Any) -> tuple[Any, Any]:
    """Both operands as tensors; a number takes the dtype in which the two meet."""
    kind = common_dtype((input, other))
    like = input if is_tensor(input) else other
    first, second = (
        value if is_tensor(value) else TABLE.full(value, shape=(), dtype=kind, device=like.device)
        for value in (input, other)
    )
    return first, second


def floating(x: "TensorMethods") -> Any:
    """x, bool and integers in the default dtype."""
    return cast(x, floating_of(x.dtype))


# ---------------------------------------------------------------------------------------------
# signs and comparisons


@public(out=Out.SAME_DTYPE, method=True)
def signbit(input: Any) -> Any:
    """True where the sign is negative, as of -0."""
    if input.dtype is dtypes.bool_:
        return TABLE.full(False, shape=tuple(input.shape), dtype=input.dtype, device=input.device)
    below = TABLE.lt(input, 0)
    if not input.dtype.is_floating_point:
        return below
    minus_zero = TABLE.logical_and(TABLE.eq(input, 0), TABLE.lt(TABLE.reciprocal(input), 0))
    return TABLE.logical_or(below, minus_zero)


@public(in_place=InPlace.METHOD, method=True)
def copysign(input: Any, other: Any) -> Any:
    """The magnitude of input with the sign of other."""
    x, y = pair(input, other)
    if x.dtype.is_complex:
        raise DTypeNotImplementedError("copysign is not available for complex numbers.")
    return TABLE.copysign(x, y)


@public(out=Out.ABSENT, method=True)
def positive(input: Any) -> Any:
    """input itself.

    Raises:
        DTypeError: bool has no sign.
    """
    if input.dtype is dtypes.bool_:
        raise DTypeError("The `+` operator, on a bool tensor is not supported.")
    return input


@public(out=Out.SAME_DTYPE, method=True)
def isposinf(input: Any) -> Any:
    """True where input is inf."""
    refuse_complex_dtype("isposinf", input)
    return _is_infinity(input, math.inf)


@public(out=Out.SAME_DTYPE, method=True)
def isneginf(input: Any) -> Any:
    """True where input is -inf."""
    refuse_complex_dtype("isneginf", input)
    return _is_infinity(input, -math.inf)


def _is_infinity(x: "TensorMethods", value: float) -> Any:
    if x.dtype.is_floating_point:
        return TABLE.eq(x, value)
    return TABLE.full(False, shape=tuple(x.shape), dtype=dtypes.bool_, device=x.device)


@public(out=Out.ABSENT, method=True)
def is_nonzero(input: Any) -> bool:
    """Whether the only element is not 0; needs the contents."""
    return bool(input)


@public(out=Out.ABSENT, method=True, sparse=True)
def is_signed(input: Any) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.is_signed  # type: ignore[no-any-return]


@public(out=Out.ABSENT, method=True, sparse=True)
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have one shape."""
    ours, others = tuple(input.shape), tuple(other.shape)
    return len(ours) == len(others) and all(map(equals, ours, others))


@public(method=True)
def fmax(input: Any, other: Any) -> Any:
    """The larger of two elements; a number where the other is NaN."""
    chosen = TABLE.logical_or(TABLE.ge(input, other), TABLE.isnan(other))
    return TABLE.where(chosen, input, other)


@public(method=True)
def fmin(input: Any, other: Any) -> Any:
    """The smaller of two elements; a number where the other is NaN."""
    chosen = TABLE.logical_or(TABLE.le(input, other), TABLE.isnan(other))
    return TABLE.where(chosen, input, other)


@public(out=Out.SAME_DTYPE, in_place=InPlace.METHOD, method=True)
def heaviside(input: Any, values: Any) -> Any:
    """0 below 0, 1 above, and `values` at 0.

    Raises:
        DTypeError: the dtypes differ.
    """
    if input.dtype is not values.dtype:
        raise DTypeError("heaviside is not yet implemented for tensors with different dtypes.")
    step = cast(TABLE.gt(input, 0), input.dtype)
    found = TABLE.where(TABLE.eq(input, 0), TABLE.detach(values), step)
    return unchanged_by(unchanged_by(found, input, "heaviside"), values, "heaviside")


# ---------------------------------------------------------------------------------------------
# angles, logarithms, quotients


@public(in_place=InPlace.BOTH, method=True)
def deg2rad(input: Any) -> Any:
    """Degrees as radians."""
    refuse_complex_dtype("deg2rad", input)
    return TABLE.mul(floating(input), math.pi / 180)


@public(in_place=InPlace.BOTH, method=True)
def rad2deg(input: Any) -> Any:
    """Radians as degrees."""
    refuse_complex_dtype("rad2deg", input)
    return TABLE.mul(floating(input), 180 / math.pi)


@public(in_place=InPlace.METHOD, method=True)
def hypot(input: Any, other: Any) -> Any:
    """sqrt(input^2 + other^2) without overflow."""
    return TABLE.hypot(input, other)


@public(method=True)
@rounded_once
def logaddexp2(input: Any, other: Any) -> Any:
    """log2(2^input + 2^other), without overflow."""
    return TABLE.logaddexp2(input, other)


@public(also=("special.xlogy",), in_place=InPlace.BOTH, method=True)
def xlogy(input: Any, other: Any) -> Any:
    """input * log(other), 0 where input is 0 and other is a number."""
    return TABLE.xlogy(*_floating_pair(input, other))


@public("special")
def xlog1py(input: Any, other: Any) -> Any:
    """input * log1p(other), 0 where input is 0 and other is a number."""
    return TABLE.xlog1py(*_floating_pair(input, other))


def _floating_pair(input: Any, other: Any) -> tuple[Any, Any]:
    """Both operands, in a floating dtype where neither has one."""
    one, two = pair(input, other)
    if common_dtype((one, two)).is_floating_point:
        return one, two
    return floating(one), floating(two)


@public(also=("special.sinc",), in_place=InPlace.BOTH, method=True)
def sinc(input: Any) -> Any:
    """sin(pi * x) / (pi * x), 1 at 0."""
    value = floating(input)
    x = wide(TABLE, value)
    is_flat = TABLE.lt(TABLE.abs(x), 1e-20)  # 1 to the last bit; the slope's parts would overflow
    angle = TABLE.where(is_flat, 1, TABLE.mul(x, math.pi))
    return cast(TABLE.where(is_flat, 1, TABLE.div(TABLE.sin(angle), angle)), value.dtype)


@public(in_place=InPlace.BOTH, method=True)
def gcd(input: Any, other: Any) -> Any:
    """Greatest common divisor of integers."""
    return TABLE.gcd(input, other)


@public(in_place=InPlace.BOTH, method=True)
def lcm(input: Any, other: Any) -> Any:
    """Least common multiple of integers."""
    return TABLE.lcm(input, other)


# ---------------------------------------------------------------------------------------------
# parts of floats


@public(in_place=InPlace.METHOD, method=True)
def nextafter(input: Any, other: Any) -> Any:
    """The next number after input towards other."""
    return TABLE.nextafter(input, other)


@public(in_place=InPlace.BOTH, method=True)
def ldexp(input: Any, other: Any) -> Any:
    """input * 2^other; a floating input keeps its dtype beside integers."""
    scaled = TABLE.mul(input, pow(2.0, other))
    is_whole = is_tensor(other) and other.dtype.category < Category.FLOATING
    keeps = is_tensor(input) and input.dtype.is_floating_point and is_whole
    return cast(scaled, input.dtype) if keeps else scaled


@public(method=True)
def frexp(input: Any) -> MantissaExponent:
    """(mantissa in [0.5, 1), int32 exponent) with input = mantissa * 2^exponent.

    Needs the contents.

    Raises:
        DTypeError: input is not floating.
    """
    if not input.dtype.is_floating_point:
        raise DTypeError("torch.frexp() only supports floating-point dtypes")
    with any_arrays.on_device_of(input.array):
        _, exponents = np.frexp(input.array.astype(np.float64))
        exponent = constant(exponents.astype(np.int32), input.device)
    # Two factors: 2^-exponent alone may overflow.
    half = TABLE.floor_divide(exponent, 2)
    scaled = cast(input, dtypes.float64)
    for part in (half, TABLE.sub(exponent, half)):
        scaled = TABLE.mul(scaled, TABLE.pow(2.0, TABLE.neg(cast(part, dtypes.float64))))
    return MantissaExponent(cast(scaled, input.dtype), exponent)
