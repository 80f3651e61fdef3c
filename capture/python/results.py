"""What a special method may return: another type is refused in the interpreter's own words."""

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, defines, type_of, unsupported
from dynajit.capture.python.errors import stand_in
from dynajit.capture.values.symbolic import Value

#: Special method -> the type of its result, and what makes the interpreter call it.
_EXPECTED: Final[dict[str, tuple[type, Callable[[Any], Any]]]] = {
    "__int__": (int, int),
    "__float__": (float, float),
    "__complex__": (complex, complex),
    "__index__": (int, operator.index),
    "__hash__": (int, hash),
    "__format__": (str, format),
}


def call_special(machine: Machine, value: Value, name: str, *args: Value) -> Steps[Value]:
    """`type(value).name(value, *args)`, its result checked.

    Raises:
        GraphBreak: the class has no such method, or the result is of a derived type.
    """
    if not defines(value.python_type, name):
        raise unsupported(name, value)
    method = yield from machine.get_special(value, name)
    result = yield from machine.call(method, list(args), {})
    _check(machine, value, name, result)
    return result


def hash_by_method(machine: Machine, value: Value) -> Steps[int]:
    """`hash(value)` by its class's own `__hash__`, as a Python int."""
    found = as_python(machine, (yield from call_special(machine, value, "__hash__")))
    if not -sys.maxsize - 1 <= found <= sys.maxsize:
        return hash(found)
    return -2 if found == -1 else int(found)


def _check(machine: Machine, value: Value, name: str, result: Value) -> None:
    expected, ask = _EXPECTED[name]
    kind = type_of(machine, result)
    if kind is expected or (name == "__hash__" and kind is bool):
        return
    if issubclass(kind, expected):
        raise unsupported(name, value)  # accepted, some with a warning
    made = stand_in(machine, result)
    asked = type(value.python_type.__name__, (), {name: lambda *_: made})()
    try:
        ask(asked)
    except TypeError as error:
        raise_python(machine, TypeError, *error.args)
    raise unsupported(name, value)


def has_attribute(machine: Machine, value: Value, name: str) -> Steps[bool]:
    """`hasattr(value, name)` as a Python bool."""
    if name == "__dict__" and type_of(machine, value) is functools.partial:
        return True  # it is there, though nobody reads it
    try:
        yield from machine.get_attribute(value, name)
    except Raised as raised:
        if issubclass(raised.value.cls, AttributeError):
            return False
        raise
    return True
