"""Objects that never change: known by identity, computed with now.

Those of the standard library that programs keep are so wherever they are met, NumPy's numbers where
the captured code has computed them: an attribute holds another one in most calls.

Numbers, dates, patterns and pure paths that a program keeps in globals and attributes. What a
`Decimal` operation gives depends on the decimal context, and texts of dates on the locale: such
operations are left to Python.
"""

import datetime
import decimal
import fractions
import operator
import pathlib
import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from dynajit.capture.places import sources
from dynajit.capture.values.symbolic import Known, Value
from dynajit.core.arrays import numpy_errors
from dynajit.eager.tensor.creation import is_shareable

CLASSES: Final = (
    fractions.Fraction, decimal.Decimal, re.Pattern, re.Match, datetime.timedelta, datetime.date,
    datetime.datetime, datetime.time, datetime.timezone, pathlib.PurePosixPath,
    pathlib.PureWindowsPath,
)  # fmt: skip

#: NumPy's numbers. Whether computing with them warns is up to the program: see `numpy_result`.
NUMPY_NUMBERS: Final = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
    np.float16, np.float32, np.float64,
)  # fmt: skip

#: What captured code computes with as with a tensor.
ARRAYS: Final = (np.ndarray, *NUMPY_NUMBERS, np.complex64, np.complex128)

#: NumPy's functions of numbers, and of tuples and lists of such, that give a number.
NUMPY_FUNCTIONS: Final = frozenset(
    {np.prod, np.sum, np.max, np.min, np.amax, np.amin, np.argmax, np.argmin, np.any, np.all,
     np.round, np.around, np.clip}
    | {member for member in vars(np).values() if isinstance(member, np.ufunc) and member.nout == 1}
)  # fmt: skip

_METHODS_OF_NUMBERS: Final = frozenset(
    {"item", "is_integer", "conjugate", "bit_count", "astype", "round", "clip"}
)

#: Operations on a Decimal that do not look at the context.
_EXACT: Final = (
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, hash, bool, int,
    float,
)  # fmt: skip
_EXACT_METHODS: Final = frozenset(
    {"as_tuple", "as_integer_ratio", "is_nan", "is_finite", "is_infinite", "is_signed", "is_zero",
     "is_qnan", "is_snan", "adjusted", "copy_abs", "copy_negate", "conjugate", "canonical"}
)  # fmt: skip

#: Methods of dates that look at the time zone or the locale of the process.
_OF_PROCESS: Final = frozenset({"strftime", "timestamp", "astimezone", "__format__", "ctime"})


def is_immutable(obj: Any) -> bool:
    """True for an object that never changes and runs no user code."""
    kind = type(obj)
    if kind is datetime.datetime or kind is datetime.time:
        return obj.tzinfo is None or type(obj.tzinfo) is datetime.timezone
    return any(kind is cls for cls in CLASSES)


def is_read_as_tensor(obj: Any, source: sources.Source) -> bool:
    """True for an array, or a number of NumPy's, which captured code computes with."""
    if type(obj) not in ARRAYS or obj.dtype.kind not in "biufc":
        return False
    if obj.dtype.num != np.dtype(obj.dtype.str).num:
        return False  # a second dtype of the same elements, which guards tell apart
    return source.is_guardable and numpy_errors.warns_only() and is_shareable(obj)


def is_numpy_number(obj: Any) -> bool:
    """True for a number of NumPy's."""
    return any(type(obj) is cls for cls in NUMPY_NUMBERS)


def numpy_result(function: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """`function(*args, **keywords)`, which computes with numbers of NumPy's.

    Raises:
        FloatingPointError: it would warn, or raise, as the program has asked of NumPy.
    """
    with np.errstate(all="raise"):
        return function(*args, **keywords)


def is_lasting(source: sources.Source) -> bool:
    """True for a place that holds the same object in most calls: not an argument or its items."""
    return not isinstance(source.root, sources.Local) or isinstance(source, sources.Attribute)


def is_decimal(value: Value) -> bool:
    """True for a known Decimal."""
    return isinstance(value, Known) and type(value.object) is decimal.Decimal


def depends_on_context(function: Any, arguments: list[Any]) -> bool:
    """True if an operation with a Decimal among its operands asks the decimal context."""
    kinds = {type(argument) for argument in arguments}
    if decimal.Decimal not in kinds:
        return False
    if not kinds <= {decimal.Decimal, int, bool}:
        return True
    is_nan = any(type(a) is decimal.Decimal and a.is_nan() for a in arguments)
    return is_nan or not any(function is exact for exact in _EXACT)


def is_pure_method(obj: Any, name: str) -> bool:
    """True if a method of an immutable object depends on nothing but its arguments."""
    if type(obj) is decimal.Decimal:
        return name in _EXACT_METHODS
    if isinstance(obj, (datetime.date, datetime.time)):
        return name not in _OF_PROCESS
    if is_numpy_number(obj):
        return name in _METHODS_OF_NUMBERS
    return True


#: A context in which every signal is an error: `traps` names all of them.
_STRICT: Final = decimal.Context()
_STRICT.traps.update(dict.fromkeys(_STRICT.traps, True))


def exact_decimal(argument: Any) -> decimal.Decimal | None:
    """`Decimal(argument)`, or None where the decimal context has a say in it."""
    if type(argument) not in (int, str, decimal.Decimal):
        return None
    with decimal.localcontext(_STRICT):
        try:
            return decimal.Decimal(argument)
        except (ArithmeticError, ValueError):
            return None
