"""`functools.partial`: made by the captured code, made before it, and of `partialmethod`.

Which function an existing one calls, how many arguments it holds and under which names are guarded;
the arguments are read where they are used.
"""

import functools
from typing import Any, Final, TypeGuard

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import defines, describe, type_of
from dynajit.capture.python.errors import refuse
from dynajit.capture.values.functions import BoundMethod, PartialValue
from dynajit.capture.values.symbolic import Known, Opaque, Value

#: Stands for an argument that comes later, from 3.14 on.
_PLACEHOLDER: Final[Any] = getattr(functools, "Placeholder", None)


def make_partial(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> PartialValue:
    """`functools.partial(*args, **keywords)`."""
    if not args:
        refuse(machine, "partial", functools.partial, args, keywords)
    function, given = args[0], tuple(args[1:])
    if not defines(type_of(machine, function), "__call__"):
        raise_python(machine, TypeError, "the first argument must be callable")
    if isinstance(function, PartialValue) and not function.is_method and function.source is None:
        merged = {**function.keywords, **keywords}
        return PartialValue(function.function, (*function.args, *given), merged)
    is_foreign = issubclass(function.python_type, functools.partial)
    if is_foreign or any(_is_placeholder(value) for value in (*given, *keywords.values())):
        raise GraphBreak(breaks.UNKNOWN_CALL, "partial of a partial")
    return PartialValue(function, given, dict(keywords))


def _is_placeholder(value: Value) -> bool:
    if _PLACEHOLDER is None:
        return False
    return isinstance(value, Known) and value.object is _PLACEHOLDER


def is_existing_partial(value: Value) -> TypeGuard[Opaque]:
    """True for a partial object that was made before the captured code; none of a derived class."""
    return isinstance(value, Opaque) and type(value.object) is functools.partial


def read_partial(machine: Machine, value: Opaque) -> PartialValue:
    """What an existing partial object calls, guarded.

    Raises:
        GraphBreak: some of its arguments come later.
    """
    machine.recorder.use(value)
    held, base = value.object, value.source
    args, named = _arguments(machine, held, base)
    if any(_is_placeholder(item) for item in (*args, *named.values())):
        raise GraphBreak(breaks.UNKNOWN_CALL, describe(value))
    function = machine.recorder.wrap(held.func, sources.Attribute(base, "func"))
    return PartialValue(function, args, named, base)


def partial_method(machine: Machine, receiver: Value, raw: Any) -> PartialValue:
    """What a `functools.partialmethod` of a function gives for an instance."""
    base = sources.Constant(raw)
    function = machine.recorder.wrap(raw.func, sources.Attribute(base, "func"))
    args, named = _arguments(machine, raw, base)
    return PartialValue(BoundMethod(function, receiver), args, named, is_method=True)


def _arguments(
    machine: Machine, held: Any, base: sources.Source
) -> tuple[tuple[Value, ...], dict[str, Value]]:
    args, keywords = sources.Attribute(base, "args"), sources.Attribute(base, "keywords")
    machine.recorder.guard(args, Kind.LENGTH, len(held.args))
    machine.recorder.guard(keywords, Kind.DICT_KEYS, tuple(held.keywords))
    wrap = machine.recorder.wrap
    given = tuple(wrap(item, sources.Item(args, i)) for i, item in enumerate(held.args))
    named = {key: wrap(item, sources.Key(keywords, key)) for key, item in held.keywords.items()}
    return given, named
