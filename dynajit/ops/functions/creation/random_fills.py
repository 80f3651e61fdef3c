"""What the in-place methods that draw write: `uniform_`, `normal_`, `exponential_`, ...

Contract: each function takes the tensor's dtype and `draw(name, dtype)`, which gives an array of
the tensor's shape by one of the rows `rand` and `randn`; it returns what is to be written, which
the caller casts. Eager execution (`eager.operations.writes`) and capture
(`capture.python.tensors.mutation`) call the same functions, so they draw the same numbers. A number
that is not known while a graph is recorded is refused where it would have to be checked.

16-bit floats are drawn and computed with as float32, except by `uniform` and `normal`.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.core.errors import DTypeError, DTypeNotImplementedError, ShapeError, UnsupportedError
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import SymInt
from dynajit.ops.calls.arguments import float_operand, operand, size
from dynajit.ops.calls.contents import are_probabilities
from dynajit.ops.table.op_table import TABLE

Draw = Callable[[str, DType], Any]


def uniform(draw: Draw, dtype: DType, from_: float = 0.0, to: float = 1.0) -> Any:
    """Uniform in [from_, to).

    Raises:
        ShapeError: from_ is above to, as PyTorch's RuntimeError.
        UnsupportedError: of a dtype that is not floating.
    """
    if not (_is_finite(from_) and _is_finite(to)):
        raise ShapeError(f"uniform_: from={from_} or to={to} is out of bounds for {dtype.name}")
    if _are_known(from_, to) and from_ > to:
        raise ShapeError(
            f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}"
        )
    _refuse_others(dtype, "uniform_", "random_ fills integers")
    if _are_known(from_, to) and to - from_ > _LARGEST[dtype]:
        raise ShapeError(
            f"uniform_ expects to-from <= the largest {dtype.name}, but found to={to} and "
            f"from={from_}"
        )
    drawn = draw("rand", dtype)
    return TABLE.add(TABLE.mul(drawn, to - from_), from_)


def normal(draw: Draw, dtype: DType, mean: float = 0.0, std: float = 1.0) -> Any:
    """Normal.

    Raises:
        ShapeError: std is negative, as PyTorch's RuntimeError.
        UnsupportedError: of a dtype that is not floating.
    """
    if not _known(std, "std") >= 0:
        raise ShapeError(f"normal_ expects std >= 0.0, but found std {std}")
    _refuse_others(dtype, "normal_", "randn gives complex numbers, too")
    drawn = draw("randn", dtype)
    return TABLE.add(TABLE.mul(drawn, std), mean)


def bernoulli(draw: Draw, dtype: DType, p: Any = 0.5) -> Any:
    """1 with probability `p` (a number or tensor), else 0.

    Raises:
        ShapeError: one is outside of [0, 1], as PyTorch's RuntimeError.
        UnsupportedError: of a complex dtype.
    """
    check_probabilities(p, "bernoulli_")
    if dtype.is_complex:
        _refuse_others(dtype, "bernoulli_", "convert the result")
    drawn = draw("rand", dtype if dtype.is_floating_point else dtypes.float32)
    is_recorded = hasattr(p, "dtype") and p.dtype.is_floating_point
    return TABLE.is_drawn(drawn, p) if is_recorded else TABLE.lt(drawn, p)


def random(draw: Draw, dtype: DType, *ends: int | None) -> Any:
    """Integers in [low, high) for two ends, in [0, high) for one, else from 0 on; without `high`,
    to the largest that `dtype` holds, or up to where floats have all integers.

    Raises:
        ShapeError: there are none, or `dtype` does not hold them, as PyTorch's RuntimeError.
    """
    first, last = ends if len(ends) == 2 else (None, *ends, None)[:2]
    low = 0 if first is None else size(first, "random_")
    high = _last(dtype) + 1 if last is None else size(last, "random_")
    if not _known(low, "from") < _known(high, "to"):
        raise ShapeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    check_bounds(low, high, dtype)
    return integers(draw, int(low), int(high))


def integers(draw: Draw, low: Any, high: Any) -> Any:
    """int64 in [low, high), whose bounds fit.

    From 53 uniform bits where there are at most as many numbers, so that the bias is at most
    (high - low) / 2**53; else from 64, with PyTorch's bias, that of a remainder.
    """
    span = high - low
    if not isinstance(span, int) or span <= 1 << 53:
        width = float(span) if isinstance(span, int) else float_operand(span)
        steps = TABLE.floor(TABLE.mul(draw("rand", dtypes.float64), width))
        first = low if isinstance(low, int) else TABLE.integer(value=low)
        return TABLE.add(TABLE.cast(steps, dtype=dtypes.int64), first)
    words = [
        TABLE.cast(TABLE.mul(draw("rand", dtypes.float64), 2.0**32), dtype=dtypes.int64)
        for _ in range(2)
    ]
    bits = TABLE.add(TABLE.mul(TABLE.sub(words[0], 1 << 31), 1 << 32), words[1])
    half = TABLE.bitwise_and(bits, (1 << 63) - 1)
    if span < 1 << 63:
        return TABLE.add(TABLE.remainder(half, span), low)
    outside = TABLE.lt(bits, low)
    if high < 1 << 63:
        outside = TABLE.logical_or(outside, TABLE.ge(bits, high))
    return TABLE.where(outside, TABLE.add(half, low), bits)


def check_probabilities(p: Any, function: str) -> None:
    """Refuse what is no probability.

    Raises:
        ShapeError: one is NaN, or outside of [0, 1], as PyTorch's RuntimeError.
    """
    if not are_probabilities(p):
        raise ShapeError(f"{function} expects p to be in [0, 1], but got p={p}")


def check_count(count: int, dtype: DType, function: str) -> None:
    """Refuse more integers from 0 on than `dtype` tells apart.

    Raises:
        DTypeError: there are more.
        DTypeNotImplementedError: the dtype is bool or complex.
    """
    if dtype is dtypes.bool_ or dtype.is_complex:
        raise DTypeNotImplementedError(
            f"{function}: not implemented for {dtype.name}.  Expected integers or floats."
        )
    most = _last(dtype) + 1
    if isinstance(count, int) and count > most:
        raise DTypeError(
            f"{function}: n={count} cannot be greater than {most} for {dtype.name}.  Ask for a "
            "wider dtype."
        )


def check_bounds(low: Any, high: Any, dtype: DType) -> None:
    """Refuse integers in [low, high) that `dtype` does not hold.

    Raises:
        ShapeError: the first or the last lies outside, as PyTorch's RuntimeError.
    """
    # Sizes that vary fit 64 bits, and are compared with what they may fail to fit only.
    is_narrow = dtype.category is not Category.FLOATING and dtype is not dtypes.int64
    is_varying = is_narrow and all(isinstance(end, (int, SymInt)) for end in (low, high))
    if dtype.is_complex or not (is_varying or _are_known(low, high)):
        return
    smallest, largest = _limits(dtype)
    for name, number in (("from", low), ("to - 1", high - 1)):
        if not smallest <= number <= largest:
            raise ShapeError(f"random_: {name} is out of bounds for {dtype.name}, got {number}")


def exponential(draw: Draw, dtype: DType, lambd: float = 1.0) -> Any:
    """Exponential with mean 1 / lambd; never 0 unless the quotient underflows, so that programs
    may divide by it.

    Raises:
        DTypeError: of a dtype that is not floating.
        ShapeError: lambd is not positive, as PyTorch's RuntimeError.

    Source: the inverse of the distribution function, 1 - exp(-lambd * x).
    """
    _refuse_discrete(dtype, "Exponential")
    if not _known(lambd, "lambd") > 0:
        raise ShapeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    compute = _compute_type(dtype)
    drawn = TABLE.clamp_min(draw("rand", compute), _SMALLEST[dtype])
    return TABLE.div(TABLE.neg(TABLE.log1p(TABLE.neg(drawn))), lambd)


def geometric(draw: Draw, dtype: DType, p: float) -> Any:
    """The number of the first success, from 1 on, when each has probability p.

    Drawn as float64 for every dtype: a small p asks for many different numbers.

    Raises:
        UnsupportedError: of bool or a complex dtype.
        ShapeError: p is outside of (0, 1), as PyTorch's RuntimeError.

    Source: L. Devroye, "Non-Uniform Random Variate Generation", Springer 1986, X.2.
    """
    if not 0 < _known(p, "p") < 1:
        raise ShapeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    if dtype.is_complex or dtype.category is Category.BOOL:
        raise UnsupportedError(
            f"geometric_ is not implemented for {dtype.name}.  Expected an integer or floating "
            "dtype; convert the result."
        )
    drawn = TABLE.clamp_min(draw("rand", dtypes.float64), _SMALLEST[dtypes.float64])
    return TABLE.ceil(TABLE.div(TABLE.log(drawn), math.log1p(-p)))


def cauchy(draw: Draw, dtype: DType, median: float = 0.0, sigma: float = 1.0) -> Any:
    """Cauchy; drawn as float64 for every dtype, since the tails are what is asked for.

    Raises:
        DTypeError: of a dtype that is not floating.
        ShapeError: sigma is not positive, as PyTorch's RuntimeError.

    Source: the inverse of the distribution function, 1/2 + atan((x - median) / sigma) / pi.
    """
    _refuse_discrete(dtype, "Cauchy")
    if not _known(sigma, "sigma") > 0:
        raise ShapeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    angle = TABLE.mul(TABLE.sub(draw("rand", dtypes.float64), 0.5), math.pi)
    return TABLE.add(TABLE.mul(TABLE.tan(angle), sigma), median)


def log_normal(draw: Draw, dtype: DType, mean: float = 1.0, std: float = 2.0) -> Any:
    """exp of normal numbers with this mean and deviation.

    Raises:
        UnsupportedError: of a dtype that is not floating.
        ShapeError: std is not positive, as PyTorch's RuntimeError.
    """
    if not _known(std, "std") > 0:
        raise ShapeError(f"log_normal_ expects std > 0.0, but found std={std}")
    if not dtype.is_floating_point:
        raise UnsupportedError(
            f"log_normal_ is not implemented for {dtype.name}.  Expected a floating dtype; convert "
            "the result."
        )
    drawn = draw("randn", _compute_type(dtype))
    return TABLE.exp(TABLE.add(TABLE.mul(drawn, std), mean))


# A uniform number of 0 stands for those below the smallest one: it counts as half of a step, or as
# the smallest number of a dtype that has none in between.
_SMALLEST: Final = {
    dtypes.float64: 2.0**-54, dtypes.float32: 2.0**-25, dtypes.bfloat16: 2.0**-25,
    dtypes.float16: 2.0**-24,
}  # fmt: skip


def _compute_type(dtype: DType) -> DType:
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


# Floats have all integers up to this power of two.
_DIGITS: Final = {
    dtypes.float64: 53, dtypes.float32: 24, dtypes.float16: 11, dtypes.bfloat16: 8,
}  # fmt: skip


def _last(dtype: DType) -> int:
    """The largest integer that `random` draws by itself."""
    return 1 << _DIGITS.get(dtype, 24) if dtype.category >= Category.FLOATING else _limits(dtype)[1]


def _limits(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest integer of a real dtype."""
    if dtype.category is Category.BOOL:
        return 0, 1
    if dtype.category is Category.INTEGER:
        return int(np.iinfo(dtype.numpy).min), int(np.iinfo(dtype.numpy).max)
    largest = int(_LARGEST[dtype])
    return -largest, largest


_LARGEST: Final = {
    dtypes.float64: (2.0 - 2.0**-52) * 2.0**1023,
    dtypes.float32: (2.0 - 2.0**-23) * 2.0**127,
    dtypes.bfloat16: (2.0 - 2.0**-7) * 2.0**127,
    dtypes.float16: (2.0 - 2.0**-10) * 2.0**15,
}


def _is_finite(number: Any) -> bool:
    """False for infinities and NaN; True where the number is not known now."""
    return not _are_known(number) or math.isfinite(number)


def _are_known(*numbers: Any) -> bool:
    return all(isinstance(number, (int, float)) for number in numbers)


def _known(number: Any, name: str) -> Any:
    """A number that can be compared now.

    Raises:
        DTypeError: it is none.
    """
    number = operand(number)
    if not _are_known(number):
        raise DTypeError(f"{name}={number!r}: expected a number that is known.")
    return number


def _refuse_others(dtype: DType, name: str, instead: str) -> None:
    if not dtype.is_floating_point:
        raise UnsupportedError(
            f"{name} is not implemented for {dtype.name}.  Expected a floating dtype; {instead}."
        )


def _refuse_discrete(dtype: DType, name: str) -> None:
    if not dtype.is_floating_point:
        raise DTypeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {dtype.name}"
        )


FILLS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__: function
    for function in (
        uniform, normal, bernoulli, random, exponential, geometric, cauchy, log_normal,
    )
}  # fmt: skip
"""The functions by the names of the methods, without the underscore."""
