"""Do the arguments of a call fit a built-in callable? Asked before its handler sees them.

So handlers may take their arguments by position without counting.
"""

import functools
import inspect
import types
from typing import Any, Final

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.errors import check_count, refuse, stand_in
from dynajit.capture.values.symbolic import Value

#: Built-in callables that do not tell their signature: fewest and most arguments, no names.
_COUNTS: Final = {
    getattr: (2, 3), vars: (0, 1), super: (0, 2), slice: (1, 3), range: (1, 3), type: (1, 3),
    iter: (1, 2), next: (1, 2), id: (1, 1),
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _signature(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(target)
    except Exception:  # it evaluates the defaults in the function's text, which need not work
        return None


def check_arguments(
    machine: Machine, target: Any, args: list[Value], keywords: dict[str, Value]
) -> None:
    """Refuse a call that `target` refuses because of the number or the names of its arguments.

    Raises:
        Raised: Python's own TypeError.
        GraphBreak: the words of the TypeError are not known; the real call says them.
    """
    if target in _COUNTS:
        low, high = _COUNTS[target]
        names = ("bases", "dict", "name") if target is type else ()
        check_count(machine, target, args, keywords, low, high, names)
        return
    signature = _signature(target)
    if signature is None:
        return
    try:
        signature.bind(*args, **keywords)
    except TypeError:
        refuse(machine, getattr(target, "__name__", "call"), target, args, keywords)


def check_method_arguments(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> None:
    """Refuse a call of a method of a built-in object as `check_arguments` refuses a function's.

    Raises:
        Raised: Python's own TypeError.
        GraphBreak: the words of the TypeError are not known.
    """
    raw = _raw_method(receiver.python_type, name)
    signature = None if raw is None else _signature(raw)
    if signature is None:
        return
    try:
        signature.bind(receiver, *args, **keywords)
    except TypeError:
        refuse(machine, name, getattr(stand_in(machine, receiver), name), args, keywords)


def _raw_method(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in vars(base):
            raw = vars(base)[name]
            return raw if isinstance(raw, _METHODS) else None
    return None


_METHODS: Final = (types.MethodDescriptorType, types.WrapperDescriptorType)
