"""Special methods of built-in containers, asked for by name: `items.__len__()`, `a.__add__(b)`."""

from typing import Any, Final

from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.arithmetic import BINARY, COMPARISONS, binary
from dynajit.capture.python.basic import defines, type_of, unsupported
from dynajit.capture.python.builtins.table import special_call
from dynajit.capture.python.containers import (
    boolean,
    contains,
    delete_subscript,
    store_subscript,
    subscript,
)
from dynajit.capture.python.errors import refuse, stand_in
from dynajit.capture.python.iteration import iterate
from dynajit.capture.python.sets import is_operand
from dynajit.capture.python.text.text import format_value
from dynajit.capture.python.truth import length
from dynajit.capture.values.containers import DictValue, ListValue, TupleValue
from dynajit.capture.values.symbolic import NONE, NOT_IMPLEMENTED, Value

_COMPARED: Final = {forward: symbol for symbol, (_, forward, _) in COMPARISONS.items()}
_OPERATORS: Final = {f"__{name}__": symbol for symbol, (_, name) in BINARY.items()}
_IN_PLACE: Final = {f"__i{name}__": f"{symbol}=" for symbol, (_, name) in BINARY.items()}
_REFLECTED: Final = {f"__r{name}__": symbol for symbol, (_, name) in BINARY.items()}

_COUNTS: Final = {
    "__len__": 0, "__iter__": 0, "__reversed__": 0, "__repr__": 0, "__str__": 0, "__hash__": 0,
    "__getitem__": 1, "__contains__": 1, "__delitem__": 1, "__setitem__": 2, "__format__": 1,
}  # fmt: skip


def special_method(
    machine: Machine, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps[Value]:
    """`receiver.name(*args, **keywords)` for a container and a special method."""
    binary = name in _COMPARED or name in _OPERATORS or name in _IN_PLACE or name in _REFLECTED
    expected = 1 if binary else _COUNTS.get(name)
    if expected is None:
        raise unsupported(name, receiver, *args)
    if len(args) != expected or keywords:
        refuse(machine, name, getattr(stand_in(machine, receiver), name), args, keywords)
    if binary:
        return (yield from _binary_by_name(machine, receiver, name, args[0]))
    return (yield from _plain_by_name(machine, receiver, name, args))


def _plain_by_name(machine: Machine, receiver: Value, name: str, args: list[Value]) -> Steps[Value]:
    if name == "__len__":
        return machine.size_value((yield from length(machine, receiver)))
    if name == "__getitem__":
        return (yield from subscript(machine, receiver, args[0]))
    if name == "__setitem__":
        yield from store_subscript(machine, receiver, args[0], args[1])
        return NONE
    if name == "__delitem__":
        yield from delete_subscript(machine, receiver, args[0])
        return NONE
    if name == "__contains__":
        return boolean((yield from contains(machine, receiver, args[0])))
    if name == "__iter__":
        return (yield from iterate(machine, receiver))
    if name == "__format__":
        return (yield from format_value(machine, receiver, args[0]))
    handler = special_call(machine, {"__reversed__": reversed, "__hash__": hash}.get(name, repr))
    assert handler is not None
    return (yield from handler(machine, [receiver], {}))


def _binary_by_name(machine: Machine, receiver: Value, name: str, other: Value) -> Steps[Value]:
    """An operator as a method: NotImplemented where the method itself says so."""
    if not _is_of_family(machine, receiver, other):
        takes_any = (name == "__iadd__" and isinstance(receiver, ListValue)) or (
            name == "__ior__" and isinstance(receiver, DictValue)
        )
        if takes_any and defines(type_of(machine, other), "__iter__"):
            return (yield from binary(machine, _IN_PLACE[name], receiver, other))
        is_product = name in ("__mul__", "__rmul__", "__imul__")
        if not is_product or not isinstance(receiver, (ListValue, TupleValue)):
            result = getattr(stand_in(machine, receiver), name)
            refuse_unless_declined(machine, name, result, other)
            return NOT_IMPLEMENTED
    if name in _COMPARED:
        return (yield from machine.compare(_COMPARED[name], receiver, other))
    if name in _REFLECTED:
        return (yield from binary(machine, _REFLECTED[name], other, receiver))
    symbol = _OPERATORS.get(name) or _IN_PLACE[name]
    return (yield from binary(machine, symbol, receiver, other))


def _is_of_family(machine: Machine, receiver: Value, other: Value) -> bool:
    if is_operand(receiver):
        return is_operand(other)
    families = (ListValue, TupleValue, DictValue)
    return any(isinstance(receiver, f) and isinstance(other, f) for f in families)


def refuse_unless_declined(machine: Machine, name: str, function: Any, other: Value) -> None:
    """Return if `function(other)` is NotImplemented; raise its TypeError otherwise."""

    def apply(stands: Any) -> None:
        if function(stands) is not NotImplemented:
            raise ValueError(name)

    stands = stand_in(machine, other)
    try:
        apply(stands)
    except Exception:
        refuse(machine, name, apply, [other])
