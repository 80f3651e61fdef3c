"""Calls of C functions and classes that have a Python form (`capture.library`): inlined.

Called by the executor's calls and attributes. Wrong arguments are refused by the original.
"""

import functools
import inspect
from typing import Any

from dynajit.capture.library import REPLACED
from dynajit.capture.operations_basic import Steps
from dynajit.capture.operations_errors import refuse
from dynajit.capture.values import Known, Value


def replacement(target: Any) -> Any:
    """The Python form of a C function or class, or None."""
    try:
        return REPLACED.get(target)
    except TypeError:
        return None


@functools.cache
def _signature(form: Any) -> inspect.Signature:
    return inspect.signature(form)


def call_replaced(
    x: Any, target: Any, form: Any, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """`target(*args, **keywords)` by its Python form."""
    try:
        _signature(form).bind(*args, **keywords)
    except TypeError:
        refuse(x, target.__name__, target, args, keywords)
    return (yield from x.call(Known(form), args, keywords))
