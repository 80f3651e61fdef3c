"""Structural pattern matching."""

from typing import Any, Final

from dynajit.capture.bytecode.versions import IS_311
from dynajit.capture.guards.parts import rely_on_registrations
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Frame, Steps
from dynajit.capture.machine.machine import Handler, Machine
from dynajit.capture.python.basic import as_python, type_of
from dynajit.capture.python.containers import boolean
from dynajit.capture.python.contents import dict_lookup
from dynajit.capture.python.truth import length
from dynajit.capture.values.containers import DictValue, TupleValue
from dynajit.capture.values.symbolic import NONE, Known, Value, constant

#: Flags of classes, see the documentation of `object.h`: Py_TPFLAGS_SEQUENCE, _MAPPING and
#: _Py_TPFLAGS_MATCH_SELF.
_SEQUENCE: Final = 1 << 5
_MAPPING: Final = 1 << 6
_MATCH_SELF: Final = 1 << 22
_IMMUTABLE: Final = 1 << 8

_ABSENT: Final = Known(object())


def get_len(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """The length of the subject, which stays."""
    frame.push(constant((yield from length(machine, frame.stack[-1]))))


def _has_flag(flag: int) -> Any:
    def handler(machine: Machine, frame: Frame, argument: Any) -> None:
        kind = type_of(machine, frame.stack[-1])
        if not kind.__flags__ & _IMMUTABLE:
            rely_on_registrations(machine)
        frame.push(boolean(bool(kind.__flags__ & flag)))

    return handler


def match_keys(machine: Machine, frame: Frame, argument: Any) -> Steps[None]:
    """subject, keys -> subject, keys, tuple of values or None."""
    subject, keys = frame.stack[-2:]
    frame.push((yield from _values(machine, subject, keys.items)))


def _values(machine: Machine, subject: Value, keys: tuple[Value, ...]) -> Steps[Value]:
    seen: set[Any] = set()
    found = []
    for key in keys:
        known = as_python(machine, key)
        if known in seen:
            raise_python(machine, ValueError, f"mapping pattern checks duplicate key ({known!r})")
        seen.add(known)
        if isinstance(subject, DictValue) and subject.cls is dict:
            item = dict_lookup(machine, subject, key)
        else:
            get = yield from machine.get_attribute(subject, "get")
            item = yield from machine.call(get, [key, _ABSENT], {})
        if item is None or item is _ABSENT:
            return NONE
        found.append(item)
    return TupleValue(tuple(found))


def match_class(machine: Machine, frame: Frame, count: int) -> Steps[None]:
    """subject, class, keyword names -> tuple of attributes or None."""
    subject, cls, names = frame.pop_many(3)
    if not issubclass(type_of(machine, cls), type):
        kind = "type" if IS_311 else "class"
        raise_python(machine, TypeError, f"called match pattern must be a {kind}")
    matching = yield from machine.call(Known(isinstance), [subject, cls], {})
    if not as_python(machine, matching):
        frame.push(NONE)
        return
    known = as_python(machine, cls)
    found: list[Value] = []
    wanted: list[str] = []
    if count:
        positional = yield from _positional(machine, cls, count)
        if positional is None:
            found.append(subject)
        else:
            wanted += positional
    wanted += [as_python(machine, name) for name in names.items]
    seen: set[str] = set()
    for name in wanted:
        if name in seen:
            text = f"{known.__name__}() got multiple sub-patterns for attribute {name!r}"
            raise_python(machine, TypeError, text)
        seen.add(name)
        item = yield from _attribute(machine, subject, name)
        if item is None:
            frame.push(NONE)
            return
        found.append(item)
    frame.push(TupleValue(tuple(found)))


def _positional(machine: Machine, cls: Value, count: int) -> Steps[list[str] | None]:
    """Names of the attributes of positional patterns; None: the subject itself is meant."""
    known = as_python(machine, cls)
    declared = yield from _attribute(machine, cls, "__match_args__")
    itself = declared is None and bool(known.__flags__ & _MATCH_SELF)
    items: tuple[Value, ...] = ()
    if declared is not None:
        if not isinstance(declared, TupleValue):
            kind = type_of(machine, declared).__name__
            text = f"{known.__name__}.__match_args__ must be a tuple (got {kind})"
            raise_python(machine, TypeError, text)
        items = declared.items
    allowed = 1 if itself else len(items)
    if allowed < count:
        plural = "" if allowed == 1 else "s"
        text = f"{known.__name__}() accepts {allowed} positional sub-pattern{plural}"
        raise_python(machine, TypeError, f"{text} ({count} given)")
    if itself:
        return None
    for item in items[:count]:
        if type_of(machine, item) is not str:
            kind = item.python_type.__name__
            raise_python(
                machine, TypeError, f"__match_args__ elements must be strings (got {kind})"
            )
    return [as_python(machine, item) for item in items[:count]]


def _attribute(machine: Machine, value: Value, name: str) -> Steps[Value | None]:
    try:
        return (yield from machine.get_attribute(value, name))
    except Raised as raised:
        if issubclass(raised.value.cls, AttributeError):
            return None
        raise


HANDLERS: Final[dict[str, Handler]] = {
    "GET_LEN": get_len,
    "MATCH_MAPPING": _has_flag(_MAPPING),
    "MATCH_SEQUENCE": _has_flag(_SEQUENCE),
    "MATCH_KEYS": match_keys,
    "MATCH_CLASS": match_class,
}
