"""Instances of standard library classes that never change: known by identity, computed with now.

Numbers, dates, patterns and pure paths that a program keeps in globals and attributes. What a
`Decimal` operation gives depends on the decimal context, and texts of dates on the locale: such
operations are left to Python. Called by the recorder and by what folds operations.
"""

import datetime
import decimal
import fractions
import operator
import pathlib
import re
from typing import Any, Final

from dynajit.capture import sources
from dynajit.capture.values import Known, Value

CLASSES: Final = (
    fractions.Fraction, decimal.Decimal, re.Pattern, re.Match, datetime.timedelta, datetime.date,
    datetime.datetime, datetime.time, datetime.timezone, pathlib.PurePosixPath,
    pathlib.PureWindowsPath,
)  # fmt: skip

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
