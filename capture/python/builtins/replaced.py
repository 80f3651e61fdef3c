"""Calls of C functions and classes that have a Python form (`capture.library`): inlined.

Wrong arguments are refused by the original.
"""

import functools
import inspect
from typing import Any

from dynajit.capture.library import REPLACED
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import unsupported
from dynajit.capture.python.errors import refuse
from dynajit.capture.values.objects import DISGUISED, ObjectValue
from dynajit.capture.values.symbolic import Known, Value
from dynajit.capture.values.users_code import has_own_operators


def replacement(target: Any) -> Any:
    """The Python form of a C function or class, or None."""
    if has_own_operators(type(target)):
        return None
    try:
        return REPLACED.get(target)
    except TypeError:
        return None


@functools.cache
def _signature(form: Any) -> inspect.Signature:
    return inspect.signature(form)


def call_replaced(
    machine: Machine, target: Any, form: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`target(*args, **keywords)` by its Python form."""
    try:
        _signature(form).bind(*args, **keywords)
    except TypeError:
        refuse(machine, target.__name__, target, args, keywords)
    return (yield from machine.call(Known(form), args, keywords))


def check_form_arguments(
    machine: Machine, function: Any, args: list[Value], keywords: dict[str, Value]
) -> None:
    """Refuse a call of a method of a Python form as the class written in C refuses it.

    Raises:
        Raised: Python's own TypeError.
        GraphBreak: the words of the TypeError are not known.
    """
    form = _owner(function)
    if form is None or function.__name__ == "__init__":
        return
    original = DISGUISED[form]
    is_own = args and isinstance(args[0], ObjectValue) and issubclass(args[0].cls, form)
    if not is_own:
        refuse(machine, function.__name__, getattr(original, function.__name__), args, keywords)
    try:
        _signature(function).bind(*args, **keywords)
    except TypeError:
        name = function.__name__
        try:
            maker: Any = original.__new__
            method = getattr(maker(original), name)
        except (AttributeError, TypeError):
            raise unsupported(name, *args) from None
        refuse(machine, name, method, args[1:], keywords)


@functools.cache
def _owner(function: Any) -> type | None:
    """The Python form of a class written in C whose method a function is."""
    for form in DISGUISED:
        if any(member is function for member in vars(form).values()):
            return form
    return None
