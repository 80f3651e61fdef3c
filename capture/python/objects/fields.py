"""What instances of user classes hold: their dicts and slots, read and written."""

import types
from dataclasses import replace
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.lifetimes import ends_in_place, has_finalizer
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import unsupported_attribute
from dynajit.capture.python.objects.removals import removed
from dynajit.capture.values.class_layouts import is_made_class
from dynajit.capture.values.objects import DELETED, InstanceDictValue, ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Value, constant
from dynajit.capture.values.users_code import MISSING, lookup, text_keyed


def instance_value(machine: Machine, value: ObjectValue, name: str) -> Value | None:
    """What the instance itself (its dict or slots) holds under `name`, or None; guarded."""
    value = holder(machine, value, name)
    contents: ObjectContents = machine.heap[value.identity]
    if name in contents.written:
        written = contents.written[name]
        return None if written is DELETED else written
    existing = contents.existing
    if existing is None:
        return None
    base = machine.recorder.first_source(value)
    fields = instance_dict(existing)
    if name in fields:
        place = own_place(value.cls, base, name)
        found: Value = machine.recorder.wrap(fields[name], place)
        return found
    raw = lookup(value.cls, name)
    if isinstance(raw, types.MemberDescriptorType):
        stored = _slot_value(raw, existing)
        if stored is not MISSING and not has_reader(value.cls):
            return machine.recorder.wrap(stored, sources.Attribute(base, name))
        raise unsupported_attribute(value, f"{name}, an empty slot")  # no guard sees it filled
    if raw is MISSING and not has_reader(value.cls):
        machine.recorder.guard(base, Kind.HAS_NO_ATTRIBUTE, name, "missing attribute")
    elif raw is MISSING:
        machine.recorder.guard(base, Kind.INSTANCE_LACKS, name, "missing attribute")
        machine.recorder.guard(
            sources.TypeOf(base), Kind.HAS_NO_ATTRIBUTE, name, "missing attribute"
        )
    elif has_instance_dict(existing):
        machine.recorder.guard(base, Kind.INSTANCE_LACKS, name, "class attribute")
    return None


def has_reader(cls: type) -> bool:
    """Whether a class has a `__getattribute__` in Python."""
    return isinstance(lookup(cls, "__getattribute__"), types.FunctionType)


def own_place(cls: type, base: sources.Source, name: str) -> sources.Source:
    """Where an instance itself holds an attribute that is in its dict.

    What `__getattribute__` in Python says of a name, no place can: there it is the dict's item.
    """
    if has_reader(cls):
        return sources.Key(sources.InstanceDict(base), name)
    return sources.Attribute(base, name)


def holder(machine: Machine, value: Any, name: str | None) -> Any:
    """The instance whose contents hold `value.name`: an earlier one if they share their dict.

    Without a name: what the dict itself holds.
    """
    existing = machine.heap[value.identity].existing
    if existing is None or not has_instance_dict(existing):
        return value
    if name and isinstance(lookup(value.cls, name), types.MemberDescriptorType):
        return value  # in a slot
    return machine.recorder.owner_of_fields(value, instance_dict(existing))


def _slot_value(raw: Any, existing: Any) -> Any:
    try:
        return raw.__get__(existing, type(existing))
    except AttributeError:
        return MISSING


def has_instance_dict(existing: Any) -> bool:
    """True if instances of the class have a `__dict__`."""
    return type(existing).__dictoffset__ != 0


def instance_dict(existing: Any) -> dict[str, Any]:
    """The instance dict, without running user code; empty where there is none."""
    if not has_instance_dict(existing):
        return {}
    return text_keyed(object.__getattribute__(existing, "__dict__"))


def field_names(contents: ObjectContents) -> list[str]:
    """The keys of an instance's dict, now."""
    names = [] if contents.existing is None else list(instance_dict(contents.existing))
    written = contents.written
    names = [name for name in names if written.get(name) is not DELETED]
    return names + [n for n in written if written[n] is not DELETED and n not in names]


def write_field(machine: Machine, value: ObjectValue, name: str, item: Value) -> None:
    """Store into the instance itself."""
    value = holder(machine, value, name)
    contents: ObjectContents = machine.heap[value.identity]
    if contents.existing is not None and name not in contents.written:
        _refuse_end(instance_dict(contents.existing).get(name))
    if item is DELETED:
        removed(machine, value, name)
    written = {**contents.written, name: item}
    machine.heap.write(value.identity, replace(contents, written=written))


def _refuse_end(replaced: Any) -> None:
    """The object that existed in a place goes: the real write lets go of it.

    Raises:
        GraphBreak: its end does something.
    """
    if ends_in_place(replaced):
        raise GraphBreak(breaks.OBJECT_ENDS, type(replaced).__name__)


def field_place(cls: type, base: sources.Source, name: str) -> sources.Source:
    """Where the dict of an instance holds `name`; its attribute may be another one's."""
    if lookup(cls, name) is MISSING:
        return own_place(cls, base, name)
    return sources.Key(sources.InstanceDict(base), name)


def instance_lookup(machine: Machine, value: InstanceDictValue, name: Any) -> Value | None:
    """`obj.__dict__.get(name)`."""
    owner = holder(machine, value.owner, None)
    contents: ObjectContents = machine.heap[owner.identity]
    if name in contents.written:
        written = contents.written[name]
        return None if written is DELETED else written
    if contents.existing is None:
        return None
    fields = instance_dict(contents.existing)
    base = machine.recorder.first_source(owner)
    if name in fields:
        place = field_place(value.owner.cls, base, name)
        found: Value = machine.recorder.wrap(fields[name], place)
        return found
    machine.recorder.guard(base, Kind.INSTANCE_LACKS, name, "missing key of __dict__")
    return None


def instance_entries(machine: Machine, value: InstanceDictValue) -> dict[Any, tuple[Value, Value]]:
    """All of `obj.__dict__`; the keys of an existing object are guarded."""
    owner = holder(machine, value.owner, None)
    contents: ObjectContents = machine.heap[owner.identity]
    entries: dict[Any, tuple[Value, Value]] = {}
    if contents.existing is not None:
        fields = instance_dict(contents.existing)
        base = machine.recorder.first_source(owner)
        place = sources.InstanceDict(base)
        machine.recorder.guard(place, Kind.DICT_KEYS, tuple(fields), "__dict__")
        for name, item in fields.items():
            stored = machine.recorder.wrap(item, field_place(value.owner.cls, base, name))
            entries[name] = (constant(name), stored)
    for name, written in contents.written.items():
        if written is DELETED:
            entries.pop(name, None)
        else:
            entries[name] = (constant(name), written)
    return entries


def instance_store(machine: Machine, value: InstanceDictValue, name: Any, item: Value) -> None:
    """`obj.__dict__[name] = item`."""
    write_field(machine, value.owner, name, item)


_IS_ABSTRACT: Final = 1 << 20


def _refuse_abstract(machine: Machine, cls: type) -> None:
    try:
        object.__new__(cls)
    except TypeError as error:
        raise_python(machine, TypeError, *error.args)


def allocate(machine: Machine, cls: type) -> ObjectValue:
    """`object.__new__(cls)`."""
    if not is_made_class(cls):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{cls.__qualname__}.__new__")
    if cls.__flags__ & _IS_ABSTRACT:
        _refuse_abstract(machine, cls)
    if has_finalizer(cls):
        raise GraphBreak(breaks.OBJECT_ENDS, f"{cls.__qualname__} has a finalizer")
    return ObjectValue(machine.heap.allocate(ObjectContents()), cls)
