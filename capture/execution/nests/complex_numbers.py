"""Complex numbers in a loop nest: pairs of floats, with Python's and NumPy's rules, as steps.

Contract: as of `operators`. Products are the plain formula, without the recovery of infinities of
C99's Annex G, and quotients are by R. L. Smith ("Algorithm 116: Complex division", CACM 5, 1962),
as in Python and in NumPy, which divides once, and multiplies by the reciprocal. The absolute value
is `hypot` of the C library, as in both. What Python's versions compute differently is found out by
asking this one (`IS_MIXED` and its kin).
"""

import cmath
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.nests.operators import Operators
from dynajit.capture.execution.nests.values import (
    COMPLEX_DTYPES,
    PYTHON_DTYPES,
    WHOLE,
    Array,
    Complex,
    Group,
    Literal,
    NotNest,
    Number,
    as_number,
)
from dynajit.capture.tensors.intervals import EXACT
from dynajit.capture.values.numbers import OPERATORS
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ir.nests import Register

#: Whether a real number beside a complex one has no imaginary part at all, rather than 0.
IS_MIXED: Final = not math.isnan((2.0 * complex(math.inf, 1.0)).imag)

#: Whether infinities are recovered where both parts of a product or a quotient are NaN.
IS_RECOVERING: Final = not cmath.isnan(complex(1e300, 1.0) * complex(math.nan, math.inf))

#: Whether a square is 1 times the square, which decides about the sign of a zero.
IS_TIMES_ONE: Final = math.copysign(1.0, (complex(1.0, -0.0) ** 2).imag) > 0

#: Up to which real part the exponential is that of the parts' functions: the product does not
#: overflow before its factors do.
_MOST_EXPONENT: Final[dict[DType, float]] = {dtypes.float64: 708.0, dtypes.float32: 88.0}

_LEAST: Final[dict[DType, float]] = {
    dtype: float(np.finfo(dtype.numpy).tiny) for dtype in _MOST_EXPONENT
}
"""Of floats, but for those with fewer digits."""

_SUMS: Final = {"+": "add", "-": "sub"}


def is_complex(value: Any) -> bool:
    """Whether a value is a complex number, known or not."""
    return isinstance(value, Complex) or (
        isinstance(value, Literal) and type(value.value) is complex
    )


class ComplexNumbers(Operators):
    """See the module's text. Mutable: steps are appended."""

    # -- conversions

    def as_complex(self, value: Any, dtype: DType) -> Complex:
        """A number as one of a complex dtype, a real one with the imaginary part 0.

        Raises:
            NotNest: it is none.
        """
        real = dtypes.real_of(dtype)
        if isinstance(value, Literal) and type(value.value) is complex:
            value = as_complex_number(value)
        if not isinstance(value, Complex):
            value = Complex(as_number(value), Number(0.0, dtypes.float64, True))
        return Complex(*(self._as_part(part, real) for part in (value.real, value.imag)))

    def _as_part(self, part: Number, dtype: DType) -> Number:
        if part.dtype.category < Category.FLOATING:  # NumPy takes it for a double first
            part = Number(self.cast(part, dtypes.float64), dtypes.float64, part.is_python)
        return Number(self.cast(part, dtype), dtype, part.is_python)

    def stored(self, value: Any, dtype: DType) -> Any:
        """What an element of a dtype holds after `array[...] = value`: an operand, or a Complex."""
        if dtype.is_complex:
            return self.as_complex(value, dtype)
        return self.converted(as_number(value), dtype)

    def to_numpy(self, value: Any, dtype: DType) -> Any:
        """`np.complex128(x)` and the like."""
        if not dtype.is_complex:
            return super().to_numpy(value, dtype)
        found = self.as_complex(value, dtype)
        return _as_of(found, is_python=False)

    def to_complex(self, values: Sequence[Any]) -> Complex:
        """`complex(x)` or `complex(real, imag)`."""
        if len(values) == 1:
            return _as_of(self.as_complex(values[0], dtypes.complex128), is_python=True)
        if len(values) != 2:
            raise NotNest
        real, imag = (as_number(self.to_float(value)) for value in values)
        return Complex(real, imag)

    def part_of_number(self, value: Any, name: str) -> Any:
        """`value.real` or `value.imag`."""
        if isinstance(value, Literal):
            value = as_complex_number(value) if is_complex(value) else as_number(value)
        if isinstance(value, Complex):
            return getattr(value, name)
        if name == "real" and value.dtype is not dtypes.bool_:
            return value
        raise NotNest

    def conjugate(self, value: Any) -> Any:
        """`value.conjugate()`."""
        if isinstance(value, Literal) and is_complex(value):
            return Literal(value.value.conjugate())
        if not isinstance(value, Complex):
            return self.unary("+", value)
        return Complex(value.real, self._negated(value.imag))

    # -- arithmetic

    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """`a symbol b`."""
        if not (is_complex(a) or is_complex(b)):
            return super().binary(symbol, a, b)
        symbol = symbol.removesuffix("=")
        if isinstance(a, Literal) and isinstance(b, Literal):
            return _folded(symbol, a.value, b.value)
        b = _as_float(a, b)
        if symbol == "**":
            return self._power_of_complex(a, b)
        if symbol not in ("+", "-", "*", "/"):
            raise NotNest
        dtype = common_complex(a, b)
        if IS_MIXED and _is_python(a) and _is_python(b) and is_complex(a) is not is_complex(b):
            return self._mixed(symbol, a, b)
        x, y = self.as_complex(a, dtype), self.as_complex(b, dtype)
        is_python = _is_python(a) and _is_python(b)
        x, y = (_as_of(value, is_python) for value in (x, y))
        if symbol in _SUMS:
            return self._by_parts(_SUMS[symbol], x, y)
        found = self._product(x, y) if symbol == "*" else self._quotient(x, y)
        if is_python and IS_RECOVERING:
            self._require_a_number(found)
        return found

    def _mixed(self, symbol: str, a: Any, b: Any) -> Complex:
        """A real and a complex number of Python's."""
        if is_complex(b):
            if symbol == "/":
                raise NotNest
            z = self.as_complex(b, dtypes.complex128)
            if symbol == "-":
                z, symbol = Complex(self._negated(z.real), self._negated(z.imag)), "+"
            other = a
        else:
            z, other = self.as_complex(a, dtypes.complex128), b
        x = Number(self.cast(as_number(other), dtypes.float64), dtypes.float64, True)
        if symbol in _SUMS:
            return Complex(self._of(_SUMS[symbol], z.real, x), z.imag)
        if symbol == "*":
            return Complex(self._of("mul", z.real, x), self._of("mul", z.imag, x))
        self._require_divisor(x)
        return Complex(self._of("div", z.real, x), self._of("div", z.imag, x))

    def _of(self, operation: str, a: Number, b: Number) -> Number:
        """A step of two floats of one dtype."""
        found = self.emit(operation, a.dtype, a.operand, b.operand, dtype=a.dtype)
        return Number(found, a.dtype, a.is_python)

    def _negated(self, a: Number) -> Number:
        return Number(self.emit("neg", a.dtype, a.operand, dtype=a.dtype), a.dtype, a.is_python)

    def _by_parts(self, operation: str, a: Complex, b: Complex) -> Complex:
        return Complex(self._of(operation, a.real, b.real), self._of(operation, a.imag, b.imag))

    def _product(self, a: Complex, b: Complex) -> Complex:
        of = self._of
        real = of("sub", of("mul", a.real, b.real), of("mul", a.imag, b.imag))
        imag = of("add", of("mul", a.real, b.imag), of("mul", a.imag, b.real))
        return Complex(real, imag)

    def _quotient(self, a: Complex, b: Complex) -> Complex:
        of, dtype = self._of, a.real.dtype
        real, imag = self._size_of(b.real), self._size_of(b.imag)
        is_zero = self.both(self._are("eq", real, 0.0), self._are("eq", imag, 0.0))
        if a.is_python:
            self.require(self.inverted(is_zero).operand)
        is_real = self.compared("ge", dtype, real.operand, imag.operand)
        larger = self.selected(is_real, b.real, b.imag)
        lesser = self.selected(is_real, b.imag, b.real)
        ratio = of("div", lesser, larger)
        scale = of("add", larger, of("mul", lesser, ratio))
        first, second = (
            self.selected(is_real, *pair) for pair in ((a.real, a.imag), (a.imag, a.real))
        )
        upper = of("add", first, of("mul", second, ratio))
        lower = self.selected(
            is_real,
            of("sub", a.imag, of("mul", a.real, ratio)),
            of("sub", of("mul", a.imag, ratio), a.real),
        )
        if a.is_python:
            return Complex(of("div", upper, scale), of("div", lower, scale))
        one = Number(1.0, dtype, False)
        scale = of("div", one, scale)
        parts = zip((upper, lower), (a.real, a.imag), strict=True)
        return Complex(*(
            self.selected(is_zero.operand, of("div", given, real), of("mul", found, scale))
            for found, given in parts
        ))  # fmt: skip

    def _size_of(self, a: Number) -> Number:
        found = self.emit("call", a.dtype, a.operand, dtype=a.dtype, name="abs")
        return Number(found, a.dtype, a.is_python)

    def _are(self, comparison: str, a: Number, b: float) -> Number:
        return Number(self.compared(comparison, a.dtype, a.operand, b), dtypes.bool_, True)

    def _is(self, function: str, a: Number) -> Number:
        found = self.emit("call", dtypes.bool_, a.operand, dtype=a.dtype, name=function)
        return Number(found, dtypes.bool_, True)

    def _require_a_number(self, value: Complex) -> None:
        """Refuse where both parts are NaN."""
        is_nan = self.both(self._is("isnan", value.real), self._is("isnan", value.imag))
        self.require(self.inverted(is_nan).operand)

    def _require_finite_parts(self, value: Complex) -> None:
        for part in (value.real, value.imag):
            self._require_finite(part.operand, part.dtype)

    def _power_of_complex(self, a: Any, exponent: Any) -> Complex:
        """`a ** 2` or `a ** 3`."""
        literal = exponent.value if isinstance(exponent, Literal) else None
        if not isinstance(a, Complex) or type(literal) is not int or literal not in (2, 3):
            raise NotNest
        square = self._product(a, a)
        if not a.is_python:
            return self._power_of_numpy(a, square if literal == 2 else self._product(a, square))
        one = Complex(Number(1.0, dtypes.float64, True), Number(0.0, dtypes.float64, True))
        if literal == 2:
            found = self._product(one, square) if IS_TIMES_ONE else square
        else:
            found = self._product(self._product(one, a) if IS_TIMES_ONE else a, square)
        self._require_finite_parts(found)
        return found

    def _power_of_numpy(self, a: Complex, found: Complex) -> Complex:
        """NumPy gives 0 without a sign for 0."""
        is_zero = self.both(self._are("eq", a.real, 0.0), self._are("eq", a.imag, 0.0)).operand
        zero = Number(0.0, a.real.dtype, False)
        return Complex(*(self.selected(is_zero, zero, part) for part in (found.real, found.imag)))

    # -- one operand, and comparisons

    def unary(self, symbol: str, value: Any) -> Any:
        """`-x` or `+x`."""
        if not is_complex(value):
            return super().unary(symbol, value)
        if symbol == "~":
            raise NotNest
        if isinstance(value, Literal):
            return Literal(-value.value if symbol == "-" else value.value)
        if symbol == "+":
            return value
        return Complex(self._negated(value.real), self._negated(value.imag))

    def absolute(self, value: Any) -> Any:
        """`abs(x)`."""
        if not is_complex(value):
            return super().absolute(value)
        if isinstance(value, Literal):
            return Literal(abs(value.value))
        found = self._distance(value)
        if value.is_python:  # Python raises where it overflows
            of_infinity = self.inverted(
                self.both(self._is("isfinite", value.real), self._is("isfinite", value.imag))
            )
            self.require(self.either(self._is("isfinite", found), of_infinity).operand)
        return found

    def _distance(self, value: Complex) -> Number:
        """From 0."""
        dtype, parts = value.real.dtype, (value.real.operand, value.imag.operand)
        found = self.emit("library", dtype, *parts, dtype=dtype, name="hypot")
        return Number(found, dtype, value.is_python)

    def truth(self, value: Any) -> Any:
        """Whether a number is true."""
        if not isinstance(value, Complex):
            return super().truth(value)
        return self.either(self._are("ne", value.real, 0.0), self._are("ne", value.imag, 0.0))

    def compare(self, symbol: str, a: Any, b: Any) -> Any:
        """`a == b` or `a != b`."""
        if not (is_complex(a) or is_complex(b)):
            return super().compare(symbol, a, b)
        if symbol not in ("==", "!="):
            raise NotNest
        if isinstance(a, Literal) and isinstance(b, Literal):
            return _folded(symbol, a.value, b.value)
        b = _as_float(a, b)
        is_python = _is_python(a) and _is_python(b)
        for number in (a, b):
            is_int = isinstance(number, Number) and number.dtype is dtypes.int64
            if is_python and is_int and number.extent is WHOLE:  # it is compared exactly
                self.require_between(number, -EXACT, EXACT)
        dtype = common_complex(a, b)
        x, y = self.as_complex(a, dtype), self.as_complex(b, dtype)
        pairs = ((x.real, y.real), (x.imag, y.imag))
        name, join = ("eq", self.both) if symbol == "==" else ("ne", self.either)
        truths = [self._of_truth(name, *pair) for pair in pairs]
        return Number(join(*truths).operand, dtypes.bool_, is_python)

    def _of_truth(self, comparison: str, a: Number, b: Number) -> Number:
        found = self.compared(comparison, a.dtype, a.operand, b.operand)
        return Number(found, dtypes.bool_, True)

    def chosen(self, truth: Register, a: Any, b: Any, dtype: DType) -> Complex:
        """Either of two numbers, as one of NumPy's of a complex dtype."""
        x, y = (self.to_numpy(value, dtype) for value in (a, b))
        pairs = ((x.real, y.real), (x.imag, y.imag))
        return Complex(*(self.selected(truth, *pair) for pair in pairs))

    # -- functions

    def of_numpy(self, name: str, values: Sequence[Any]) -> Any:
        """`np.name(*values)`."""
        if name == "conjugate" and len(values) == 1:
            return self.conjugate(self.numpy_number(values[0]))
        if not any(map(is_complex, values)):
            return super().of_numpy(name, values)
        function = _NUMPY_FUNCTIONS.get(name)
        if function is None or len(values) != 1:
            raise NotNest
        return function(self, self.numpy_number(values[0]))

    def numpy_number(self, value: Any) -> Any:
        """A complex number as NumPy's: a double if it is Python's; another value itself."""
        if not is_complex(value):
            return value
        dtype = value.dtype if isinstance(value, Complex) else dtypes.complex128
        return self.to_numpy(value, dtype)

    def square_of(self, value: Complex) -> Complex:
        """`np.square(value)`."""
        return self._product(value, value)

    def exponential(self, value: Complex) -> Complex:
        """`exp(value)`: of parts that are finite, and of no result that overflows."""
        self._require_finite_parts(value)
        dtype = value.real.dtype
        self.require_compared("le", dtype, value.real.operand, _MOST_EXPONENT[dtype])
        size = self._function("exp", value.real)
        real, imag = (self._function(name, value.imag) for name in ("cos", "sin"))
        found = Complex(self._of("mul", size, real), self._of("mul", size, imag))
        if value.is_python:
            self._require_finite_parts(found)
        return found

    def root_of(self, value: Complex) -> Complex:
        """`sqrt(value)`, as Python computes it: of parts that are finite, and not both tiny."""
        self._require_finite_parts(value)
        of, dtype = self._of, value.real.dtype
        real, imag = self._size_of(value.real), self._size_of(value.imag)
        is_zero = self.both(self._are("eq", real, 0.0), self._are("eq", imag, 0.0))
        is_large = self.either(
            self._are("ge", real, _LEAST[dtype]), self._are("ge", imag, _LEAST[dtype])
        )
        self.require(self.either(is_zero, is_large).operand)
        eighth, two = (Number(number, dtype, value.is_python) for number in (0.125, 2.0))
        scaled = Complex(of("mul", real, eighth), of("mul", imag, eighth))
        total = of("add", scaled.real, self._distance(scaled))
        larger = of("mul", two, self._function("sqrt", total))
        lesser = of("div", imag, of("mul", two, larger))
        is_right = self.compared("ge", dtype, value.real.operand, 0.0)
        zero = Number(0.0, dtype, value.is_python)
        left = self._signed(larger, value.imag)
        right = self._signed(lesser, value.imag)
        return Complex(
            self.selected(is_zero.operand, zero, self.selected(is_right, larger, lesser)),
            self.selected(is_zero.operand, value.imag, self.selected(is_right, right, left)),
        )

    def _signed(self, size: Number, sign: Number) -> Number:
        operands = size.operand, sign.operand
        found = self.emit("library", size.dtype, *operands, dtype=size.dtype, name="copysign")
        return Number(found, size.dtype, size.is_python)

    def angle(self, value: Complex) -> Number:
        """`phase(value)`."""
        if value.is_python:
            return self.of_python("atan2", (value.imag, value.real))
        return self.of_numpy("arctan2", (value.imag, value.real))  # type: ignore[no-any-return]

    def _function(self, name: str, a: Number) -> Number:
        """A function of floats, of `math` or of NumPy."""
        if a.is_python:
            return self.of_python(name, (a,))
        return self.of_numpy(name, (a,))  # type: ignore[no-any-return]

    def of_cmath(self, function: Any, values: Sequence[Any]) -> Any:
        """`cmath.function(*values)`."""
        if id(function) == id(cmath.rect) and len(values) == 2:
            size, angle = (as_number(self.to_float(value)) for value in values)
            self._require_finite_parts(Complex(size, angle))
            real, imag = (self._function(name, angle) for name in ("cos", "sin"))
            return Complex(self._of("mul", size, real), self._of("mul", size, imag))
        if len(values) != 1:
            raise NotNest
        given = _as_of(self.as_complex(values[0], dtypes.complex128), is_python=True)
        return CMATH[id(function)](self, given)

    def polar(self, value: Complex) -> Group:
        """`cmath.polar(value)`."""
        return Group((self.absolute(value), self.angle(value)))


def _as_of(value: Complex, is_python: bool) -> Complex:
    """The same number as one of Python's, or of NumPy's."""
    real, imag = (Number(p.operand, p.dtype, is_python) for p in (value.real, value.imag))
    return Complex(real, imag)


def as_complex_number(value: Any) -> Complex:
    """A complex number, also for a literal one."""
    if isinstance(value, Complex):
        return value
    parts = (value.value.real, value.value.imag)
    return Complex(*(Number(part, dtypes.float64, True) for part in parts))


def as_python(value: Number | Complex) -> Number | Complex:
    """A number of NumPy's as the one of Python's."""
    return _as_of(value, True) if isinstance(value, Complex) else replace(value, is_python=True)


def _as_float(a: Any, b: Any) -> Any:
    """The second of two operands as the first takes it: a complex number of Python's takes a
    double of NumPy's for the float of Python's that it is, too."""
    is_double = isinstance(b, Number) and b.dtype is dtypes.float64
    return as_python(b) if is_double and is_complex(a) and _is_python(a) else b


def _is_python(value: Any) -> bool:
    return isinstance(value, Literal) or bool(value.is_python)


def _folded(symbol: str, a: Any, b: Any) -> Literal:
    kinds = {*PYTHON_DTYPES, complex}
    if type(a) not in kinds or type(b) not in kinds or symbol not in OPERATORS:
        raise NotNest
    try:
        return Literal(OPERATORS[symbol](a, b))
    except (ArithmeticError, TypeError):
        raise NotNest from None


def common_complex(a: Any, b: Any) -> DType:
    """The complex dtype of a result of two numbers.

    Raises:
        NotNest: there is none.
    """
    given = [x if isinstance(x, Complex) or is_complex(x) else as_number(x) for x in (a, b)]
    strong = [x for x in given if not _is_python(x)]
    if not strong:
        return dtypes.complex128
    if len(strong) == 2:
        found = dtypes.from_numpy(np.result_type(*(x.dtype.numpy for x in strong)))
    else:
        dtype = strong[0].dtype
        found = dtypes.complex128
        if dtype.category >= Category.FLOATING:
            found = dtypes.complex_of(dtype)
    if found.name not in COMPLEX_DTYPES:
        raise NotNest
    return found


def real_view(array: Array) -> Array:
    """`array.real`, of complex numbers."""
    return Array(array.slot, dtypes.real_of(array.dtype), array.sizes, array.places, array.flipped)


#: Functions of NumPy of complex numbers.
_NUMPY_FUNCTIONS: Final[dict[str, Callable[[ComplexNumbers, Complex], Any]]] = {
    "absolute": ComplexNumbers.absolute,
    "exp": ComplexNumbers.exponential,
    "sqrt": ComplexNumbers.root_of,
    "square": ComplexNumbers.square_of,
}

#: Functions of `cmath`, by id.
CMATH: Final[dict[int, Any]] = {
    id(cmath.exp): ComplexNumbers.exponential,
    id(cmath.sqrt): ComplexNumbers.root_of,
    id(cmath.phase): ComplexNumbers.angle,
    id(cmath.polar): ComplexNumbers.polar,
    id(cmath.rect): None,
}


__all__ = [
    "CMATH",
    "ComplexNumbers",
    "as_complex_number",
    "as_python",
    "common_complex",
    "is_complex",
    "real_view",
]
