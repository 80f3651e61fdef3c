"""Operators and functions of numbers in a loop nest: Python's and NumPy's rules, as steps.

Contract: what a function here gives has the class, the dtype and the value that Python and NumPy
give; where they raise, or give what no register holds (an int beyond int64, a complex number), the
steps refuse. Numbers of Python's beside NumPy's are weak (NEP 50). Nothing warns.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dynajit.capture.execution.nests.values import (
    DTYPES,
    LARGEST_MEDIUM,
    MEDIUM,
    PYTHON_DTYPES,
    SMALL,
    WHOLE,
    Literal,
    NotNest,
    Number,
    as_number,
)
from dynajit.capture.tensors.intervals import EXACT
from dynajit.capture.values.numbers import OPERATORS
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.ir.nests import Register, Step
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.scalar import SCALARS, SUFFIX, Effort, Result, Scalar

_SYMBOLS: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod",
    "&": "bitand", "|": "bitor", "^": "bitxor", "<<": "shl", ">>": "shr",
}  # fmt: skip
_COMPARISONS: Final = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
_BITWISE: Final = frozenset("&|^")
_FOLDED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    symbol: function for symbol, function in OPERATORS.items() if symbol not in ("**", "<<", ">>")
}

#: How the registers are called that hold numbers that a nest is given.
GIVEN: Final = "given"

#: Functions of `math` that give ints.
_TO_WHOLE: Final = ("floor", "ceil", "trunc")

#: Exponents that are multiplied out.
_MOST_FACTORS: Final = 4


class Operators:
    """Steps of the block that is being made. Mutable.

    Attributes:
        steps: of the block at hand; whoever makes blocks puts an empty list here.
        has_python_bits: functions of floats have the bits of `math`, and of `**`.
    """

    has_python_bits = False

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._count = 0
        self._fixed: set[Register] = set()

    # -- steps

    def register(self, dtype: DType) -> Register:
        """A fresh register."""
        self._count += 1
        return Register(f"v{self._count}", dtype)

    def emit(self, operation: str, result: DType, *operands: Any, **facts: Any) -> Register:
        """Append a step with a result."""
        target = self.register(result)
        self.steps.append(Step(operation, target, operands, **facts))
        if operation not in ("load", "draw") and all(map(self.is_fixed, operands)):
            self._fixed.add(target)
        return target

    def is_fixed(self, operand: Any) -> bool:
        """Whether an operand is known to be the same in all turns: computed of what the nest is
        given."""
        is_given = isinstance(operand, Register) and operand.name.startswith(GIVEN)
        return not isinstance(operand, Register) or is_given or operand in self._fixed

    def require(self, truth: Any) -> None:
        """Refuse where a truth is false."""
        self.steps.append(Step("require", operands=(truth,)))

    def compared(self, operation: str, dtype: DType, a: Any, b: Any) -> Register:
        """A truth."""
        return self.emit(operation, dtypes.bool_, a, b, dtype=dtype)

    def require_compared(self, operation: str, dtype: DType, a: Any, b: Any) -> None:
        """Refuse where two operands do not compare so."""
        self.require(self.compared(operation, dtype, a, b))

    def cast(self, number: Number, dtype: DType) -> Any:
        """The operand in another dtype, as C converts it: never a float in an integer's."""
        if number.dtype is dtype:
            return number.operand
        return self.emit("set", dtype, number.operand, dtype=number.dtype)

    # -- arithmetic

    def binary(self, symbol: str, a: Any, b: Any) -> Any:
        """`a symbol b`."""
        symbol = symbol.removesuffix("=") if symbol not in _COMPARISONS else symbol
        if isinstance(a, Literal) and isinstance(b, Literal) and symbol in _FOLDED:
            return _folded(symbol, a.value, b.value)
        if symbol == "**":
            return self.power(as_number(a), b)
        if symbol not in _SYMBOLS:
            raise NotNest
        a, b = as_number(a), as_number(b)
        if a.is_python and b.is_python:
            return self._of_python(symbol, a, b)
        return self._of_numpy(symbol, a, b)

    def _of_python(self, symbol: str, a: Number, b: Number) -> Number:
        is_bools = a.dtype is b.dtype is dtypes.bool_
        if symbol in _BITWISE and is_bools:
            found = self.emit(_SYMBOLS[symbol], dtypes.bool_, a.operand, b.operand,
                              dtype=dtypes.bool_)  # fmt: skip
            return Number(found, dtypes.bool_, True)
        is_float = dtypes.float64 in (a.dtype, b.dtype)
        if not is_float:
            return self._of_ints(symbol, _as_int(a), _as_int(b))
        if symbol in ("/", "//", "%"):
            self._require_divisor(b)
        elif symbol not in "+-*":
            raise NotNest
        operation = _SYMBOLS[symbol]
        found = self.emit(operation, dtypes.float64, a.operand, b.operand, dtype=dtypes.float64)
        return Number(found, dtypes.float64, True)

    def _require_divisor(self, b: Number) -> None:
        if isinstance(b.operand, (int, float)):
            if not b.operand:
                raise NotNest
            return
        self.require_compared("ne", b.dtype, b.operand, 0)

    def _of_ints(self, symbol: str, a: Number, b: Number) -> Number:
        extents = a.extent, b.extent
        if symbol in ("+", "-", "*"):
            is_product = symbol == "*"
            most = SMALL if is_product else MEDIUM
            operation = _SYMBOLS[symbol]
            if max(extents) > most:
                operation += "_whole"
            found = self.emit(operation, dtypes.int64, a.operand, b.operand, dtype=dtypes.int64)
            is_medium = not is_product and extents == (SMALL, SMALL)
            return Number(found, dtypes.int64, True, MEDIUM if is_medium else WHOLE)
        if symbol == "/":
            return self._quotient_of_ints(a, b)
        if symbol in ("//", "%"):
            self._require_divisor(b)
            self._require_no_overflow(a, b)
            found = self.emit(_SYMBOLS[symbol], dtypes.int64, a.operand, b.operand,
                              dtype=dtypes.int64)  # fmt: skip
            return Number(found, dtypes.int64, True, b.extent if symbol == "%" else a.extent)
        if symbol in _BITWISE:
            found = self.emit(_SYMBOLS[symbol], dtypes.int64, a.operand, b.operand,
                              dtype=dtypes.int64)  # fmt: skip
            return Number(found, dtypes.int64, True)
        self.require_between(b, 0, 62)
        if symbol == ">>":
            found = self.emit("shr", dtypes.int64, a.operand, b.operand, dtype=dtypes.int64)
            return Number(found, dtypes.int64, True, a.extent)
        factor = self.emit("shl", dtypes.int64, 1, b.operand, dtype=dtypes.int64)
        found = self.emit("mul_whole", dtypes.int64, a.operand, factor)
        return Number(found, dtypes.int64, True)

    def _require_no_overflow(self, a: Number, b: Number) -> None:
        """The smallest integer by -1 is no integer of the dtype."""
        if a.extent is not WHOLE or (isinstance(b.operand, int) and b.operand != -1):
            return
        other = self.compared("ne", b.dtype, b.operand, -1)
        low = -(1 << (8 * a.dtype.itemsize - 1))
        found = self.emit("either", dtypes.bool_, other,
                          self.compared("ne", a.dtype, a.operand, low))  # fmt: skip
        self.require(found)

    def require_between(self, number: Number, low: int, high: int) -> None:
        if isinstance(number.operand, int):
            if not low <= number.operand <= high:
                raise NotNest
            return
        self.require_compared("ge", number.dtype, number.operand, low)
        self.require_compared("le", number.dtype, number.operand, high)

    def require_medium(self, number: Number) -> None:
        """Refuse an int of Python's that is not small enough for sums of a few."""
        if number.extent is WHOLE:
            self.require_between(number, -LARGEST_MEDIUM, LARGEST_MEDIUM)

    def _quotient_of_ints(self, a: Number, b: Number) -> Number:
        self._require_divisor(b)
        for number in (a, b):
            if number.extent is WHOLE:
                self.require_between(number, -EXACT, EXACT)
        found = self.emit("div", dtypes.float64, a.operand, b.operand, dtype=dtypes.float64)
        return Number(found, dtypes.float64, True)

    def _of_numpy(self, symbol: str, a: Number, b: Number) -> Number:
        dtype = common_dtype(a, b)
        if symbol == "/" and dtype.category < Category.FLOATING:
            dtype = dtypes.float64
        is_float = dtype.category >= Category.FLOATING
        is_bitwise = symbol in _BITWISE or symbol in ("<<", ">>")
        is_bool = dtype is dtypes.bool_
        if (is_float and is_bitwise) or (is_bool and symbol not in _BITWISE):
            raise NotNest
        self.require_weak(a, dtype)
        self.require_weak(b, dtype)
        x, y = self.cast(a, dtype), self.cast(b, dtype)
        if symbol in ("//", "%") and not is_float:
            self.require_compared("ne", dtype, y, 0)
            if dtype.is_signed:
                self._require_no_overflow(Number(x, dtype, False), Number(y, dtype, False))
        if symbol in ("<<", ">>"):
            self.require_between(Number(y, dtype, False), 0, 8 * dtype.itemsize - 1)
        found = self.emit(_SYMBOLS[symbol], dtype, x, y, dtype=dtype)
        return Number(found, dtype, False)

    def require_weak(self, number: Number, dtype: DType) -> None:
        """An int of Python's beside a number of NumPy's fits its dtype."""
        is_int = number.is_python and number.dtype is dtypes.int64
        if not is_int or dtype.category is not Category.INTEGER:
            return
        self._require_fit(number, dtype)

    def _require_fit(self, number: Number, dtype: DType) -> None:
        """An integer that another integer dtype holds. NumPy's versions differ in what they do
        with one that does not fit, and between dtypes."""
        low, high = bounds_of(dtype)
        least, most = bounds_of(number.dtype)
        if isinstance(number.operand, int):
            least = most = number.operand
            if not low <= least <= high:
                raise NotNest
        if least < low:
            self.require_compared("ge", number.dtype, number.operand, low)
        if most > high:
            self.require_compared("le", number.dtype, number.operand, high)

    def power(self, a: Number, exponent: Any) -> Number:
        """`a ** exponent`, of floats, or by a small whole number."""
        b = as_number(exponent)
        literal = exponent.value if isinstance(exponent, Literal) else None
        is_factor = type(literal) is int and 1 <= literal <= _MOST_FACTORS
        if self.has_python_bits and a.dtype is dtypes.float64:
            is_factor = False
        if literal is not None and is_factor and a.dtype is not dtypes.bool_:
            product = self._multiplied(a, int(literal))
            if a.is_python and a.dtype is dtypes.float64:  # Python raises where it overflows
                self._require_finite(product.operand, dtypes.float64)
            return product
        dtype = dtypes.float64 if a.is_python and b.is_python else common_dtype(a, b)
        is_float = dtypes.float64 in (a.dtype, b.dtype) or dtypes.float32 in (a.dtype, b.dtype)
        if not is_float or dtype.category < Category.FLOATING:
            raise NotNest
        x, y = self.cast(a, dtype), self.cast(b, dtype)
        is_whole = type(literal) is int and literal > 0
        if a.is_python and b.is_python and not is_whole:  # else complex, or an error
            is_root = isinstance(literal, float) and literal > 0
            self.require_compared("ge" if is_root else "gt", dtype, x, 0.0)
        operation = "library" if self.has_python_bits else "call"
        found = self.emit(operation, dtype, x, y, dtype=dtype, name="pow")
        if a.is_python and b.is_python:
            self._require_finite(found, dtype)
        return Number(found, dtype, a.is_python and b.is_python)

    def _require_finite(self, operand: Any, dtype: DType) -> None:
        self.require(self.emit("call", dtypes.bool_, operand, dtype=dtype, name="isfinite"))

    def _multiplied(self, a: Number, times: int) -> Number:
        found = a
        for _ in range(times - 1):
            found = self.binary("*", found, a)
        return found

    # -- one operand

    def unary(self, symbol: str, value: Any) -> Any:
        """`-x`, `+x` or `~x`."""
        if isinstance(value, Literal) and type(value.value) in PYTHON_DTYPES:
            return _folded_unary(symbol, value.value)
        a = as_number(value)
        if a.dtype is dtypes.bool_:
            if not a.is_python:
                raise NotNest
            a = _as_int(a)
        if symbol == "+":
            return a
        if symbol == "~":
            if a.dtype.category is not Category.INTEGER:
                raise NotNest
            return replace(a, operand=self.emit("invert", a.dtype, a.operand, dtype=a.dtype))
        if a.is_python and a.dtype is dtypes.int64 and a.extent is WHOLE:
            return replace(a, operand=self.emit("sub_whole", dtypes.int64, 0, a.operand))
        return replace(a, operand=self.emit("neg", a.dtype, a.operand, dtype=a.dtype))

    def absolute(self, value: Any) -> Any:
        """`abs(x)`."""
        if isinstance(value, Literal) and type(value.value) in PYTHON_DTYPES:
            return Literal(abs(value.value))
        a = as_number(value)
        if a.dtype is dtypes.bool_:
            return _as_int(a) if a.is_python else a
        if a.dtype in dtypes.UNSIGNED:
            return a
        if a.is_python and a.dtype is dtypes.int64 and a.extent is WHOLE:
            self.require_compared("ne", dtypes.int64, a.operand, -(1 << 63))
        return replace(a, operand=self.emit("call", a.dtype, a.operand, dtype=a.dtype, name="abs"))

    def truth(self, value: Any) -> Any:
        """Whether a number is true: a Literal, or a Number that is a bool of Python's."""
        if isinstance(value, Literal):
            return Literal(bool(value.value))
        a = as_number(value)
        if a.dtype is dtypes.bool_:
            return Number(a.operand, dtypes.bool_, True)
        return Number(self.compared("ne", a.dtype, a.operand, 0), dtypes.bool_, True)

    def inverted(self, value: Any) -> Any:
        """`not x`."""
        found = self.truth(value)
        if isinstance(found, Literal):
            return Literal(not found.value)
        return Number(self.emit("not", dtypes.bool_, found.operand), dtypes.bool_, True)

    # -- two operands

    def compare(self, symbol: str, a: Any, b: Any) -> Any:
        """`a symbol b`."""
        if symbol not in _COMPARISONS:
            raise NotNest
        if isinstance(a, Literal) and isinstance(b, Literal):
            return _folded(symbol, a.value, b.value)
        a, b = as_number(a), as_number(b)
        is_python = a.is_python and b.is_python
        return Number(self._compared(_COMPARISONS[symbol], a, b), dtypes.bool_, is_python)

    def is_one_of(self, value: Any, items: Sequence[Any]) -> Any:
        """`value in items`, of numbers that are known: which object it is does not matter then."""
        found: Any = Literal(False)
        for item in items:
            if not isinstance(item, Literal) or item.value != item.value:
                raise NotNest
            found = self.either(found, self.truth(self.compare("==", value, item)))
        return found

    def both(self, a: Any, b: Any) -> Any:
        """Whether two truths hold, which nothing raises that computes them."""
        return self._joined("both", False, a, b)

    def either(self, a: Any, b: Any) -> Any:
        """Whether one of two truths holds, which nothing raises that computes them."""
        return self._joined("either", True, a, b)

    def _joined(self, operation: str, decides: bool, a: Any, b: Any) -> Any:
        for truth, other in ((a, b), (b, a)):
            if isinstance(truth, Literal):
                return truth if bool(truth.value) is decides else other
        return Number(self.emit(operation, dtypes.bool_, a.operand, b.operand), dtypes.bool_, True)

    def _compared(self, operation: str, a: Number, b: Number) -> Register:
        is_whole = all(n.dtype.category < Category.FLOATING for n in (a, b))
        if is_whole and dtypes.uint64 in (a.dtype, b.dtype):
            x, y = self._as_large(a), self._as_large(b)
            return self.compared(operation, dtypes.uint64, x, y)
        if is_whole:  # all of them fit: Python's ints are compared by value
            return self.compared(operation, dtypes.int64, a.operand, b.operand)
        if a.is_python and b.is_python:
            for number in (a, b):  # Python compares an int with a float exactly
                if number.dtype is dtypes.int64 and number.extent is WHOLE:
                    self.require_between(number, -EXACT, EXACT)
            return self.compared(operation, dtypes.float64, a.operand, b.operand)
        dtype = common_dtype(a, b)
        return self.compared(operation, dtype, self.cast(a, dtype), self.cast(b, dtype))

    def _as_large(self, number: Number) -> Any:
        """An integer beside one of uint64."""
        if number.dtype is dtypes.uint64:
            return number.operand
        if number.dtype is dtypes.bool_ or not number.dtype.is_signed:
            return self.cast(number, dtypes.uint64)
        if not number.is_python:
            raise NotNest
        self.require_weak(number, dtypes.uint64)
        return self.cast(number, dtypes.uint64)

    def extreme(self, is_least: bool, a: Any, b: Any) -> tuple[Any, Number, Number]:
        """(whether `min(a, b)` is b, a, b); for `max` likewise."""
        x, y = as_number(a), as_number(b)
        return self._compared("lt" if is_least else "gt", y, x), x, y

    def selected(self, truth: Any, a: Number, b: Number) -> Number:
        """Either of two numbers of one class and dtype."""
        extent = max(a.extent, b.extent)
        found = self.emit("select", a.dtype, truth, a.operand, b.operand, dtype=a.dtype)
        return Number(found, a.dtype, a.is_python, extent)

    # -- conversions

    def to_float(self, value: Any) -> Any:
        """`float(x)`."""
        if isinstance(value, Literal) and type(value.value) in PYTHON_DTYPES:
            return Literal(float(value.value))
        a = as_number(value)
        return Number(self.cast(a, dtypes.float64), dtypes.float64, True)

    def to_int(self, value: Any) -> Any:
        """`int(x)`."""
        a = as_number(value)
        if a.dtype.category < Category.FLOATING:
            extent = a.extent if a.is_python and a.dtype is dtypes.int64 else _extent_of(a.dtype)
            if a.dtype is dtypes.uint64:
                self._require_fit(a, dtypes.int64)
            return Number(self.cast(a, dtypes.int64), dtypes.int64, True, extent)
        found = self.emit("truncate", dtypes.int64, a.operand, dtype=dtypes.int64)
        return Number(found, dtypes.int64, True)

    def to_numpy(self, value: Any, dtype: DType) -> Number:
        """`np.float32(x)` and the like."""
        literal = value.value if isinstance(value, Literal) else None
        if dtype is dtypes.uint64 and type(literal) is int and 0 <= literal < 1 << 64:
            return Number(literal, dtype, False)
        return Number(self.converted(as_number(value), dtype), dtype, False)

    def converted(self, a: Number, dtype: DType) -> Any:
        """What an element of a dtype holds after `array[...] = a`."""
        is_float = a.dtype.category >= Category.FLOATING
        if dtype.category is Category.INTEGER and is_float:
            return self.emit("truncate", dtype, a.operand, dtype=dtype)
        is_whole = dtype.category is a.dtype.category is Category.INTEGER
        if is_whole and a.dtype is not dtype:
            self._require_fit(a, dtype)
        return self.cast(a, dtype)

    # -- functions

    def of_python(self, name: str, values: Sequence[Any]) -> Number:
        """`math.name(*values)`."""
        function = MATHEMATICS[name]
        if len(values) != function.arity:
            raise NotNest
        assert function.math is not None
        if name in _TO_WHOLE and as_number(values[0]).dtype.category < Category.FLOATING:
            return self.to_int(values[0])  # type: ignore[no-any-return]
        given = [self.cast(as_number(value), dtypes.float64) for value in values]
        for operation, bound in function.math.where:
            self.require_compared(operation, dtypes.float64, given[0], bound)
        result = dtypes.bool_ if name.startswith("is") else dtypes.float64
        if self.has_python_bits and function.effort is Effort.MANY:
            found = self.emit("library", result, *given, dtype=dtypes.float64, name=name)
        else:
            found = self.emit("call", result, *given, dtype=dtypes.float64, name=function.name)
        if function.math.is_finite:
            self._require_finite(found, dtypes.float64)
        if name in _TO_WHOLE:
            whole = self.emit("truncate", dtypes.int64, found, dtype=dtypes.int64)
            return Number(whole, dtypes.int64, True)
        return Number(found, result, True)

    def of_numpy(self, name: str, values: Sequence[Any]) -> Number:
        """`np.name(*values)`."""
        function, arity, keeps = FUNCTIONS[name]
        if len(values) != arity:
            raise NotNest
        given = [as_number(value) for value in values]
        dtype = given[0].dtype
        if arity == 2:
            a, b = given
            dtype = _python_common(a, b) if a.is_python and b.is_python else common_dtype(a, b)
        is_float = dtype.category >= Category.FLOATING
        if not is_float and not keeps:
            if dtype.itemsize < 4 or dtype is dtypes.bool_:
                raise NotNest  # float16
            dtype = dtypes.float64
            is_float = True
        if keeps is FLOATS_ONLY and not is_float:
            raise NotNest  # NumPy's versions differ
        if dtype is dtypes.bool_:
            raise NotNest
        for number in given:
            self.require_weak(number, dtype)
        operands = [self.cast(number, dtype) for number in given]
        if name == "square":
            return Number(self.emit("mul", dtype, *operands, *operands, dtype=dtype), dtype, False)
        if not is_float and function in ("maximum", "minimum"):
            truth = self.compared("gt" if function == "maximum" else "lt", dtype, *operands)
            found = self.emit("select", dtype, truth, *operands, dtype=dtype)
            return Number(found, dtype, False)
        if dtype.name not in SUFFIX:
            raise NotNest
        result = dtypes.bool_ if name.startswith("is") else dtype
        found = self.emit("call", result, *operands, dtype=dtype, name=function)
        return Number(found, result, False)


def _as_int(number: Number) -> Number:
    """An int or a bool of Python's as an int."""
    if number.dtype is dtypes.int64:
        return number
    operand = number.operand
    if isinstance(operand, bool):
        operand = int(operand)
    return Number(operand, dtypes.int64, True, SMALL)


def _extent_of(dtype: DType) -> int:
    if dtype is dtypes.uint32:
        return MEDIUM
    return SMALL if dtype.itemsize <= 4 else WHOLE


def _folded(symbol: str, a: Any, b: Any) -> Literal:
    if type(a) not in PYTHON_DTYPES or type(b) not in PYTHON_DTYPES:
        raise NotNest
    try:
        return Literal(_FOLDED[symbol](a, b))
    except ArithmeticError:
        raise NotNest from None


def _folded_unary(symbol: str, value: Any) -> Literal:
    if symbol == "~" and type(value) is not int:
        raise NotNest
    if symbol == "~":
        return Literal(~value)
    return Literal(-value if symbol == "-" else +value)


def common_dtype(a: Number, b: Number) -> DType:
    """The dtype of a result of two numbers, one of which is NumPy's at least.

    Raises:
        NotNest: no register has it.
    """
    if a.is_python or b.is_python:
        weak, strong = (a, b) if a.is_python else (b, a)
        if strong.dtype.category >= weak.dtype.category:
            return strong.dtype
        return PYTHON_DTYPES[float if weak.dtype is dtypes.float64 else int]
    found = np.result_type(a.dtype.numpy, b.dtype.numpy)
    dtype = dtypes.from_numpy(found)
    if dtype.name not in DTYPES:
        raise NotNest
    return dtype


def _python_common(a: Number, b: Number) -> DType:
    """The dtype that NumPy takes two numbers of Python's for."""
    return max((a.dtype, b.dtype), key=lambda dtype: dtype.category)


def bounds_of(dtype: DType) -> tuple[int, int]:
    """The smallest and the largest number of an integer dtype."""
    bits = 8 * dtype.itemsize
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


#: Function of `math` -> scalar function. Where it would raise, the nest refuses.
MATHEMATICS: Final = {
    function.math.name or function.name: function
    for function in SCALARS.values()
    if function.math is not None
}

FLOATS_ONLY: Final = "floats"


def _keeps_integers(function: Scalar) -> Any:
    if function.integer == "({0})":  # NumPy's versions differ
        return FLOATS_ONLY
    return function.integer is not None and function.result is Result.SAME


_OF_ROWS: Final = frozenset({
    "sqrt", "exp", "log", "log2", "log10", "log1p", "expm1", "exp2", "sin", "cos", "tan", "sinh",
    "cosh", "tanh", "arcsin", "arccos", "arctan", "arctan2", "absolute", "floor", "ceil", "trunc",
    "rint", "sign", "maximum", "minimum", "isnan", "isinf", "isfinite",
})  # fmt: skip

#: Function of NumPy -> (scalar function, operands, whether integers keep their dtype; FLOATS_ONLY:
#: it is asked with floats only).
FUNCTIONS: Final[dict[str, tuple[str, int, Any]]] = {
    **{
        row.numpy_name: (row.name, len(row.inputs), _keeps_integers(SCALARS[row.name]))
        for row in TABLE
        if row.numpy_name in _OF_ROWS
    },
    "fabs": ("abs", 1, False),
    "square": ("square", 1, True),
}


__all__ = ["FUNCTIONS", "GIVEN", "MATHEMATICS", "Operators", "bounds_of", "common_dtype"]
