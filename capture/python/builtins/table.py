"""The table of built-in callables that the executor knows.

`SPECIAL` maps the object called to a handler `handler(x, args, keywords)`, a generator that
returns the result's value; `capture.python.builtins.functions`,
`capture.python.builtins.containers` and `capture.python.builtins.library` enter theirs with
`special`. `PURE` are C functions and classes without effects, computed on the spot when everything
is known.
"""

import builtins
import math
import operator
import sys
import types
from collections.abc import Callable
from typing import Any, Final, TypeVar

from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.users_code import has_own_operators

_T = TypeVar("_T")
Handler = Callable[[Machine, list[Value], dict[str, Value]], Steps[Value]]
MethodHandler = Callable[[Machine, Any, list[Value], dict[str, Value]], Steps[Value]]
SPECIAL: Final[dict[Any, Handler]] = {}

#: For every function with this code, which is the second argument.
SPECIAL_CODE: Final[dict[types.CodeType, MethodHandler]] = {}


def entering(table: dict[Any, _T]) -> Callable[..., Callable[[_T], _T]]:
    """A decorator that enters a handler into the table, under each key that it is given."""

    def under(*keys: Any) -> Callable[[_T], _T]:
        def enter(handler: _T) -> _T:
            table.update(dict.fromkeys(keys, handler))
            return handler

        return enter

    return under


special: Final = entering(SPECIAL)


#: C functions and immutable classes without effects.
PURE: Final = frozenset(
    {builtins.abs, builtins.ascii, builtins.bin, builtins.chr, builtins.divmod, builtins.format,
     builtins.hex, builtins.oct, builtins.ord, builtins.pow, builtins.round, builtins.callable,
     builtins.issubclass, builtins.range, builtins.complex, builtins.bytes,
     sys.intern}
    | {member for member in vars(math).values() if callable(member)}
    | {member for member in vars(operator).values()
       if isinstance(member, types.BuiltinFunctionType)}
)  # fmt: skip


def special_call(machine: Machine, target: Any) -> Handler | None:
    """The handler of a known callable, or None."""
    if isinstance(target, types.FunctionType) and target.__code__ in SPECIAL_CODE:
        by_code = SPECIAL_CODE[target.__code__]
        return lambda machine, args, keywords: by_code(machine, target, args, keywords)
    if has_own_operators(type(target)):
        return None
    try:
        return SPECIAL.get(target)
    except TypeError:
        return None


def is_pure(machine: Machine, target: Any) -> bool:
    """True for C functions and classes without effects."""
    if has_own_operators(type(target)):
        return False
    try:
        return target in PURE
    except TypeError:
        return False
