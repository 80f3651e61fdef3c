"""Writing and deleting attributes; `obj.__dict__` as a dict.

Methods of the executor (`x`), written as functions; see `capture.execution.executor`.
"""

import types
from dataclasses import replace
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_313
from dynajit.capture.guards.guards import Kind
from dynajit.capture.guards.parts import wrapped
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.lifetimes import ends_in_place
from dynajit.capture.places import sources
from dynajit.capture.python.attributes import get_attribute
from dynajit.capture.python.basic import Steps, is_none, type_name
from dynajit.capture.python.exceptions import delete_member, is_native_field, set_member
from dynajit.capture.python.instances import (
    class_place,
    get_special,
    holder,
    instance_dict,
    instance_value,
    is_plain_property,
    own_place,
    property_text,
    unsupported_attribute,
)
from dynajit.capture.values.functions import CellValue, FunctionValue
from dynajit.capture.values.objects import (
    DELETED,
    DISGUISED,
    ExceptionValue,
    InstanceDictValue,
    ObjectContents,
    ObjectValue,
)
from dynajit.capture.values.symbolic import Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, lookup

# -- writing -------------------------------------------------------------------------------------


def set_attribute(x: Any, value: Value, name: str, item: Value) -> Steps:
    """`value.name = item`."""
    if isinstance(value, ObjectValue):
        x.recorder.use(value)
        if value.cls in DISGUISED and not x.frames[-1].namespace.is_fixed:
            raise unsupported_attribute(value, f"{name} = ...")
        if not _is_plain(value.cls, "__setattr__"):
            method = yield from get_special(x, value, "__setattr__")
            yield from x.call(method, [constant(name), item], {})
            return
        yield from set_plain_attribute(x, value, name, item)
        return
    if isinstance(value, FunctionValue):
        if name == "__wrapped__":  # stands for everything that `functools.update_wrapper` does
            raise unsupported_attribute(value, f"{name} = ...")
        x.set_function_attribute(value, name, item)
        return
    if isinstance(value, CellValue) and name == "cell_contents":
        x.heap.write(value.identity, item)
        return
    if isinstance(value, TensorValue):
        x.set_tensor_attribute(value, name, item)
        return
    raise unsupported_attribute(value, f"{name} = ...")


def _is_plain(cls: type, name: str) -> bool:
    """True if a class writes and deletes attributes as `object` does, by the slot of that name."""
    raw = lookup(cls, name)
    return isinstance(raw, types.WrapperDescriptorType) and raw.__name__ == name


#: Attributes of functions that the type checks: the values that are written without a check.
_FUNCTION_FIELDS: Final = {
    "__defaults__": "defaults", "__kwdefaults__": "keyword_defaults",
}  # fmt: skip


def set_function_attribute(x: Any, value: FunctionValue, name: str, item: Value) -> None:
    """`function.name = item` on a function made by the captured code."""
    contents = x.heap[value.identity]
    if name in _FUNCTION_FIELDS:
        if is_none(x, item):
            written = None
        elif x.type_of(item) is (tuple if name == "__defaults__" else dict):
            written = item
        else:
            raise unsupported_attribute(value, f"{name} = ...")
        x.heap.write(value.identity, replace(contents, **{_FUNCTION_FIELDS[name]: written}))
        return
    is_text = name in ("__name__", "__qualname__") and x.type_of(item) is str
    is_free = not isinstance(lookup(types.FunctionType, name), types.GetSetDescriptorType)
    is_plain = is_free and name not in ("__class__", "__closure__", "__globals__", "__builtins__")
    if name in ("__doc__", "__module__") or is_text or is_plain:
        x.heap.write(value.identity, contents.with_attribute(name, item))
        return
    raise unsupported_attribute(value, f"{name} = ...")


def set_plain_attribute(x: Any, value: ObjectValue, name: str, item: Value) -> Steps:
    """`object.__setattr__(value, name, item)`."""
    raw = lookup(value.cls, name)
    if is_plain_property(raw):
        if raw.fset is None:
            raise_python(x, AttributeError, property_text(value.cls, raw, "setter"))
        yield from x.call(wrapped(raw, "fset"), [value, item], {})
        return
    if isinstance(value, ExceptionValue) and is_native_field(raw):
        yield from set_member(x, value, name, item)
        return
    if raw is not MISSING and not isinstance(raw, types.MemberDescriptorType):
        if name in ("__class__", "__dict__"):
            raise unsupported_attribute(value, f"{name} = ...")
        setter = lookup(type(raw), "__set__")
        if isinstance(setter, types.FunctionType):
            descriptor = x.recorder.wrap(raw, class_place(x, value, name))
            x.recorder.use(descriptor)
            yield from x.call(Known(setter), [descriptor, value, item], {})
            return
        if isinstance(lookup(type(raw), "__delete__"), types.FunctionType) and setter is MISSING:
            raise_python(x, AttributeError, "__set__")
        if setter is not MISSING:
            raise unsupported_attribute(value, f"{name} = ...")
    if value.cls.__dictoffset__ == 0 and not isinstance(raw, types.MemberDescriptorType):
        raise_python(x, AttributeError, _no_place_text(value.cls, name, raw))
    write_field(x, value, name, item)


def write_field(x: Any, value: ObjectValue, name: str, item: Value) -> None:
    """Store into the instance itself."""
    value = holder(x, value, name)
    contents: ObjectContents = x.heap[value.identity]
    if contents.existing is not None and name not in contents.written:
        _refuse_end(instance_dict(contents.existing).get(name))
    if item is DELETED:
        x.removed(value, name)
    written = {**contents.written, name: item}
    x.heap.write(value.identity, replace(contents, written=written))


def delete_attribute(x: Any, value: Value, name: str) -> Steps:
    """`del value.name`."""
    if not isinstance(value, ObjectValue):
        raise unsupported_attribute(value, f"del {name}")
    x.recorder.use(value)
    if not _is_plain(value.cls, "__delattr__"):
        method = yield from get_special(x, value, "__delattr__")
        yield from x.call(method, [constant(name)], {})
        return
    yield from delete_plain_attribute(x, value, name)


def _refuse_end(replaced: Any) -> None:
    """The object that existed in a place goes: the real write lets go of it.

    Raises:
        GraphBreak: its end does something.
    """
    if ends_in_place(replaced):
        raise GraphBreak(breaks.OBJECT_ENDS, type(replaced).__name__)


def delete_plain_attribute(x: Any, value: ObjectValue, name: str) -> Steps:
    """`object.__delattr__(value, name)`."""
    raw = lookup(value.cls, name)
    if is_plain_property(raw):
        if raw.fdel is None:
            raise_python(x, AttributeError, property_text(value.cls, raw, "deleter"))
        yield from x.call(wrapped(raw, "fdel"), [value], {})
        return
    if isinstance(value, ExceptionValue) and is_native_field(raw):
        delete_member(x, value, name)
        return
    deleter = lookup(type(raw), "__delete__")
    if isinstance(deleter, types.FunctionType):
        descriptor = x.recorder.wrap(raw, class_place(x, value, name))
        x.recorder.use(descriptor)
        yield from x.call(Known(deleter), [descriptor, value], {})
        return
    if isinstance(lookup(type(raw), "__set__"), types.FunctionType):
        raise_python(x, AttributeError, "__delete__")
    if deleter is not MISSING and not isinstance(raw, types.MemberDescriptorType):
        raise unsupported_attribute(value, f"del {name}")
    is_written = name in x.heap[holder(x, value, name).identity].written
    found = instance_value(x, value, name)
    if found is None:
        if isinstance(raw, types.MemberDescriptorType):
            raise_python(x, AttributeError, name)
        raise_python(x, AttributeError, _no_place_text(value.cls, name, raw))
    source = None if is_written else getattr(found, "source", None)
    if source is not None:
        x.recorder.guard(source, Kind.TYPE_IS, found.python_type, "deleted attribute")
    write_field(x, value, name, DELETED)


def _no_place_text(cls: type, name: str, raw: Any) -> str:
    """Why an attribute can be neither stored nor deleted in an instance."""
    if cls.__dictoffset__ != 0:
        return f"'{type_name(cls)}' object has no attribute '{name}'"
    if raw is not MISSING:
        return f"'{type_name(cls)}' object attribute '{name}' is read-only"
    text = f"'{type_name(cls)}' object has no attribute '{name}'"
    return f"{text} and no __dict__ for setting new attributes" if IS_313 else text


def has_attribute(x: Any, value: Value, name: str) -> Steps:
    """`hasattr(value, name)` as a Python bool."""
    try:
        yield from get_attribute(x, value, name)
    except Raised as raised:
        if issubclass(raised.value.cls, AttributeError):
            return False
        raise
    return True


# -- obj.__dict__ --------------------------------------------------------------------------------


def field_place(cls: type, base: sources.Source, name: str) -> sources.Source:
    """Where the dict of an instance holds `name`; its attribute may be another one's."""
    if lookup(cls, name) is MISSING:
        return own_place(cls, base, name)
    return sources.Key(sources.InstanceDict(base), name)


def instance_lookup(x: Any, value: InstanceDictValue, name: Any) -> Value | None:
    """`obj.__dict__.get(name)`."""
    owner = holder(x, value.owner, None)
    contents: ObjectContents = x.heap[owner.identity]
    if name in contents.written:
        written = contents.written[name]
        return None if written is DELETED else written
    if contents.existing is None:
        return None
    fields = instance_dict(contents.existing)
    base = x.recorder.first_source(owner)
    if name in fields:
        place = field_place(value.owner.cls, base, name)
        found: Value = x.recorder.wrap(fields[name], place)
        return found
    x.recorder.guard(base, Kind.INSTANCE_LACKS, name, "missing key of __dict__")
    return None


def instance_entries(x: Any, value: InstanceDictValue) -> dict[Any, tuple[Value, Value]]:
    """All of `obj.__dict__`; the keys of an existing object are guarded."""
    owner = holder(x, value.owner, None)
    contents: ObjectContents = x.heap[owner.identity]
    entries: dict[Any, tuple[Value, Value]] = {}
    if contents.existing is not None:
        fields = instance_dict(contents.existing)
        base = x.recorder.first_source(owner)
        place = sources.InstanceDict(base)
        x.recorder.guard(place, Kind.DICT_KEYS, tuple(fields), "__dict__")
        for name, item in fields.items():
            stored = x.recorder.wrap(item, field_place(value.owner.cls, base, name))
            entries[name] = (constant(name), stored)
    for name, written in contents.written.items():
        if written is DELETED:
            entries.pop(name, None)
        else:
            entries[name] = (constant(name), written)
    return entries


def instance_store(x: Any, value: InstanceDictValue, name: Any, item: Value) -> None:
    """`obj.__dict__[name] = item`."""
    write_field(x, value.owner, name, item)
