"""Complex numbers as pairs of real graph values, for row bodies to run on.

Contract: a `Pair` has the operators that row bodies use on numbers, and `PairScalars` the functions
of the scalar namespace `m` that mean something for complex numbers; both record rows on real
values. So the body that defines an operation for NumPy's complex arrays is also what defines it for
pairs. Parts may be Python floats, and need not have the full shape: who keeps a result expands it.
What no complex number has, or nobody wrote down here, raises NotPaired. Source of the formulas: C99
Annex G for products; for quotients R. L. Smith, "Algorithm 116: Complex division", CACM 5 (1962),
as in NumPy.
"""

import math
from collections.abc import Callable
from typing import Any

from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ir.graph import Value
from dynajit.ops.table.op_table import TABLE


class NotPaired(Exception):
    """Something that complex numbers have no pairs for; says what.

    Attributes:
        node: of the graph, if it is one.
    """

    node: Any = None


@record(eq=False)
class Pair:
    """A complex number at each index.

    Args:
        re, im: real values of one dtype, or Python floats.
    """

    re: Any
    im: Any

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Any) -> "Pair":
        other = paired(other)
        return Pair(self.re + other.re, self.im + other.im)

    def __radd__(self, other: Any) -> "Pair":
        return paired(other) + self

    def __sub__(self, other: Any) -> "Pair":
        other = paired(other)
        return Pair(self.re - other.re, self.im - other.im)

    def __rsub__(self, other: Any) -> "Pair":
        return paired(other) - self

    def __mul__(self, other: Any) -> "Pair":
        other = paired(other)
        return Pair(
            self.re * other.re - self.im * other.im,
            self.re * other.im + self.im * other.re,
        )

    def __rmul__(self, other: Any) -> "Pair":
        return paired(other) * self

    def __truediv__(self, other: Any) -> "Pair":
        return _quotient(self, paired(other))

    def __rtruediv__(self, other: Any) -> "Pair":
        return _quotient(paired(other), self)

    def __neg__(self) -> "Pair":
        return Pair(-self.re, -self.im)

    def __eq__(self, other: object) -> Any:
        other = paired(other)
        return TABLE.logical_and(_compared("eq", self, other, 0), _compared("eq", self, other, 1))

    def __ne__(self, other: object) -> Any:
        other = paired(other)
        return TABLE.logical_or(_compared("ne", self, other, 0), _compared("ne", self, other, 1))


def paired(number: Any) -> Pair:
    """A number or real value as a pair, with the imaginary part 0."""
    if isinstance(number, Pair):
        return number
    if isinstance(number, complex):
        return Pair(number.real, number.imag)
    if isinstance(number, (bool, int, float)):
        return Pair(float(number), 0.0)
    return Pair(number, 0.0)


def _compared(row: str, a: Pair, b: Pair, part: int) -> Any:
    first, second = ((a.re, b.re), (a.im, b.im))[part]
    if isinstance(first, float) and isinstance(second, float):
        return (first == second) if row == "eq" else (first != second)
    return TABLE[row](first, second)


def _quotient(a: Pair, b: Pair) -> Pair:
    """Scaled by the larger part of the divisor, so that its square does not overflow."""
    is_real = abs_(b.re) >= abs_(b.im)
    large, small = where(is_real, b.re, b.im), where(is_real, b.im, b.re)
    ratio = small / large
    scale = large + small * ratio
    re = where(is_real, a.re + a.im * ratio, a.re * ratio + a.im) / scale
    im = where(is_real, a.im - a.re * ratio, a.im * ratio - a.re) / scale
    is_zero = TABLE.eq(large, 0.0)
    return Pair(where(is_zero, a.re / abs_(b.re), re), where(is_zero, a.im / abs_(b.re), im))


def abs_(x: Value | float) -> Any:
    """|x| of a real value or number."""
    return abs(x) if isinstance(x, float) else TABLE.abs(x)


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, else y: real values or numbers, of which one is a value."""
    return TABLE.where(condition, x, y)


def _of_values(row: str) -> Callable[[Any], Any]:
    """A row on a real value, or on a number in float64."""
    exact: Callable[[float], float] = getattr(math, row)
    return lambda x: exact(x) if isinstance(x, float) else TABLE[row](x)


_exp, _sin, _cos = map(_of_values, ("exp", "sin", "cos"))


class PairScalars:
    """The namespace `m` of row bodies for pairs; on real operands it records the row itself.

    Args:
        real: dtype of the parts of the result.
    """

    def __init__(self, real: DType) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        raise NotPaired(f"{name} of complex numbers")

    @staticmethod
    def where(condition: Any, x: Any, y: Any) -> Any:
        """By parts."""
        x, y = paired(x), paired(y)
        return Pair(where(condition, x.re, y.re), where(condition, x.im, y.im))

    def cast(self, x: Any, dtype: DType) -> Any:
        """To complex numbers by parts; to real ones without the imaginary part, as in NumPy."""
        pair = paired(x)
        if dtype is dtypes.bool_:
            return pair != Pair(0.0, 0.0)
        if dtype.is_complex:
            real = dtypes.real_of(dtype)
            return Pair(_cast(pair.re, real), _cast(pair.im, real))
        if dtype.category is Category.INTEGER:
            raise NotPaired(f"a cast of complex numbers to {dtype.name}")
        return _cast(pair.re, dtype)

    @staticmethod
    def real(x: Pair) -> Any:
        """The real part."""
        return x.re

    @staticmethod
    def imag(x: Pair) -> Any:
        """The imaginary part."""
        return x.im

    @staticmethod
    def complex(re: Any, im: Any) -> Pair:
        """Of two real values."""
        return Pair(re, im)

    @staticmethod
    def neg(x: Pair) -> Pair:
        """-x."""
        return -x

    @staticmethod
    def reciprocal(x: Pair) -> Pair:
        """1 / x."""
        return Pair(1.0, 0.0) / x

    @staticmethod
    def abs(x: Pair) -> Any:
        """The magnitude, without overflow of the squares."""
        return TABLE.hypot(x.re, x.im)

    @staticmethod
    def isnan(x: Pair) -> Any:
        """One part is."""
        return TABLE.logical_or(TABLE.isnan(x.re), TABLE.isnan(x.im))

    @staticmethod
    def isinf(x: Pair) -> Any:
        """One part is."""
        return TABLE.logical_or(TABLE.isinf(x.re), TABLE.isinf(x.im))

    @staticmethod
    def isfinite(x: Pair) -> Any:
        """Both parts are."""
        return TABLE.logical_and(TABLE.isfinite(x.re), TABLE.isfinite(x.im))

    @staticmethod
    def exp(x: Pair) -> Pair:
        """e^re (cos im + i sin im); where im is 0, or re is -inf, so is the product with e^re."""
        size = _exp(x.re)
        vanishes = TABLE.eq(size, 0.0)
        re = where(vanishes, 0.0, size * _cos(x.im))
        im = where(TABLE.logical_or(vanishes, TABLE.eq(x.im, 0.0)), 0.0, size * _sin(x.im))
        return Pair(re, im)


def _cast(x: Value | float, dtype: DType) -> Any:
    return x if isinstance(x, float) or x.dtype is dtype else TABLE.cast(x, dtype=dtype)
