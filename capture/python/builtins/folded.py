"""Functions of the standard library without effects: computed when everything is known.

`FOLDED` may be given lists, dicts and sets, which they only read; what they return is made anew.
Instances of `VALUES` never change, so that their methods are such functions too. Where an argument
is not known, a Python function is inlined and a C function is a break.
"""

import base64
import binascii
import datetime
import decimal
import fractions
import json
import math
import pathlib
import re
import statistics
import string
import struct
import textwrap
import types
from collections import defaultdict
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine import immutables
from dynajit.capture.machine.exceptions import NotKnown, raise_python
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, at_once, is_known, unsupported
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.containers import check_digits, check_texts
from dynajit.capture.python.contents import dict_entries, list_items, set_entries
from dynajit.capture.python.conversion import from_python
from dynajit.capture.values.containers import DictValue, ListValue, SetValue, TupleValue
from dynajit.capture.values.objects import InstanceDictValue
from dynajit.capture.values.symbolic import Known, Value
from dynajit.capture.values.users_code import has_own_operators

#: Immutable classes without a handle of their own: an instance is known by identity.
VALUES: Final = (
    *immutables.CLASSES, *immutables.NUMPY_NUMBERS, struct.Struct, string.Template,
)  # fmt: skip

FOLDED: Final[frozenset[Any]] = frozenset(
    {member for member in vars(math).values() if callable(member)}
    | {re.sub, re.subn, re.split, re.findall, re.match, re.search, re.fullmatch, re.escape,
       re.compile, json.dumps, json.loads, textwrap.dedent, textwrap.fill, textwrap.wrap,
       textwrap.indent, textwrap.shorten, struct.pack, struct.unpack, struct.calcsize,
       string.capwords, base64.b64encode, base64.b64decode, binascii.hexlify, binascii.crc32,
       statistics.mean, statistics.fmean, statistics.median, statistics.stdev,
       statistics.variance, statistics.pstdev, statistics.mode,
       bytes, int, float, complex, str.maketrans, bytes.maketrans, fractions.Fraction,
       string.Template, datetime.timedelta, datetime.date, datetime.datetime, struct.Struct,
       pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath}
    | immutables.NUMPY_FUNCTIONS | set(immutables.NUMPY_NUMBERS)
)  # fmt: skip


#: What makes whole numbers of decimal digits.
_READ_DIGITS: Final = (int, fractions.Fraction, json.loads)


def is_folded(machine: Machine, target: Any, args: list[Value], keywords: dict[str, Value]) -> bool:
    """True if a call can be computed now."""
    if has_own_operators(type(target)):
        return False
    try:
        found = target in FOLDED
    except TypeError:
        return False
    return found and all(is_deeply_known(machine, value) for value in (*args, *keywords.values()))


def is_deeply_known(machine: Machine, value: Value) -> bool:
    """True for known values, and containers of such."""
    if isinstance(value, Known) and has_own_operators(type(value.object)):
        return False
    if is_known(value):
        return not immutables.is_decimal(value)
    if isinstance(value, TupleValue):
        return all(is_deeply_known(machine, item) for item in value.items)
    if isinstance(value, ListValue):
        return all(is_deeply_known(machine, item) for item in list_items(machine, value))
    if isinstance(value, DictValue) and not isinstance(value, InstanceDictValue):
        pairs = dict_entries(machine, value).values()
        return all(is_known(key) and is_deeply_known(machine, item) for key, item in pairs)
    return isinstance(value, SetValue) and set_entries(machine, value).is_ordered


def deep_python(machine: Machine, value: Value) -> Any:
    """A Python object for a value that `is_deeply_known`; containers are copies."""
    if is_known(value):
        return as_python(machine, value)
    if isinstance(value, TupleValue):
        return tuple(deep_python(machine, item) for item in value.items)
    if isinstance(value, ListValue):
        return [deep_python(machine, item) for item in list_items(machine, value)]
    if isinstance(value, SetValue):
        return set_entries(machine, value).real()
    assert isinstance(value, DictValue)
    entries = dict_entries(machine, value).values()
    pairs = ((as_python(machine, key), deep_python(machine, item)) for key, item in entries)
    return defaultdict(None, pairs) if value.cls is defaultdict else value.python_type(pairs)


def call_folded(
    machine: Machine, target: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`target(*args, **keywords)`, computed now; its exception is the program's exception."""
    values = [deep_python(machine, value) for value in args]
    named = {name: deep_python(machine, value) for name, value in keywords.items()}
    if target in _READ_DIGITS:
        check_texts([*values, *named.values()])
    if target is json.dumps:
        check_digits([*values, *named.values()])
    try:
        result = immutables.numpy_result(target, *values, **named)
    except FloatingPointError as error:
        raise unsupported(f"a warning of NumPy ({error})", *args) from None
    except Exception as error:
        raise_python(machine, type(error), *error.args)
    if isinstance(result, VALUES):
        return Known(result)
    try:
        made: Value = from_python(machine, result)
    except NotKnown:
        raise unsupported(getattr(target, "__qualname__", "call"), *args) from None
    return made


@special(decimal.Decimal)
@at_once
def _decimal(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    made = None
    if len(args) == 1 and not keywords and is_known(args[0]):
        made = immutables.exact_decimal(as_python(machine, args[0]))
    if made is None:
        raise GraphBreak(breaks.UNKNOWN_CALL, "Decimal")
    return Known(made)


def bound_method(receiver: Value, name: str) -> Any:
    """A method of an instance of `VALUES`, or None."""
    if not isinstance(receiver, Known) or not isinstance(receiver.object, VALUES):
        return None
    if not immutables.is_pure_method(receiver.object, name):
        return None
    found = getattr(receiver.object, name, None)
    kinds = (types.BuiltinMethodType, types.MethodType, types.MethodWrapperType)
    return found if isinstance(found, kinds) else None
