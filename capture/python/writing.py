"""Writing and deleting attributes; `obj.__dict__` as a dict.

Functions of the machine (`capture.machine.machine`).
"""

import types
from dataclasses import replace
from typing import Any, Final

from dynajit.capture.bytecode.versions import IS_313
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.parts import wrapped
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import is_none, type_name, type_of, unsupported_attribute
from dynajit.capture.python.exceptions import delete_member, is_native_field, set_member
from dynajit.capture.python.objects.fields import holder, instance_value, write_field
from dynajit.capture.python.objects.instances import (
    class_place,
    get_special,
    is_plain_property,
    property_text,
)
from dynajit.capture.python.tensors.autograd import set_tensor_attribute
from dynajit.capture.values.functions import CellValue, FunctionValue
from dynajit.capture.values.objects import (
    DELETED,
    DISGUISED,
    ExceptionValue,
    ObjectValue,
)
from dynajit.capture.values.symbolic import Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, lookup

# -- writing -------------------------------------------------------------------------------------


def set_attribute(machine: Machine, value: Value, name: str, item: Value) -> Steps[None]:
    """`value.name = item`."""
    if isinstance(value, ObjectValue):
        machine.recorder.use(value)
        if value.cls in DISGUISED and not machine.frames[-1].namespace.is_form:
            raise unsupported_attribute(value, f"{name} = ...")
        if not _is_plain(value.cls, "__setattr__"):
            method = yield from get_special(machine, value, "__setattr__")
            yield from machine.call(method, [constant(name), item], {})
            return
        yield from set_plain_attribute(machine, value, name, item)
        return
    if isinstance(value, FunctionValue):
        set_function_attribute(machine, value, name, item)
        return
    if isinstance(value, CellValue) and name == "cell_contents":
        machine.heap.write(value.identity, item)
        return
    if isinstance(value, TensorValue):
        set_tensor_attribute(machine, value, name, item)
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


def set_function_attribute(machine: Machine, value: FunctionValue, name: str, item: Value) -> None:
    """`function.name = item` on a function made by the captured code."""
    contents = machine.heap[value.identity]
    if name in _FUNCTION_FIELDS:
        if is_none(machine, item):
            written = None
        elif type_of(machine, item) is (tuple if name == "__defaults__" else dict):
            written = item
        else:
            raise unsupported_attribute(value, f"{name} = ...")
        machine.heap.write(value.identity, replace(contents, **{_FUNCTION_FIELDS[name]: written}))
        return
    is_text = name in ("__name__", "__qualname__") and type_of(machine, item) is str
    is_free = not isinstance(lookup(types.FunctionType, name), types.GetSetDescriptorType)
    is_plain = is_free and name not in ("__class__", "__closure__", "__globals__", "__builtins__")
    if name in ("__doc__", "__module__") or is_text or is_plain:
        machine.heap.write(value.identity, contents.with_attribute(name, item))
        return
    raise unsupported_attribute(value, f"{name} = ...")


def set_plain_attribute(
    machine: Machine, value: ObjectValue, name: str, item: Value
) -> Steps[None]:
    """`object.__setattr__(value, name, item)`."""
    raw = lookup(value.cls, name)
    if is_plain_property(raw):
        if raw.fset is None:
            raise_python(machine, AttributeError, property_text(value.cls, raw, "setter"))
        yield from machine.call(wrapped(raw, "fset"), [value, item], {})
        return
    if isinstance(value, ExceptionValue) and is_native_field(raw):
        yield from set_member(machine, value, name, item)
        return
    if raw is not MISSING and not isinstance(raw, types.MemberDescriptorType):
        if name in ("__class__", "__dict__"):
            raise unsupported_attribute(value, f"{name} = ...")
        setter = lookup(type(raw), "__set__")
        if isinstance(setter, types.FunctionType):
            descriptor = machine.recorder.wrap(raw, class_place(machine, value, name))
            machine.recorder.use(descriptor)
            yield from machine.call(Known(setter), [descriptor, value, item], {})
            return
        if isinstance(lookup(type(raw), "__delete__"), types.FunctionType) and setter is MISSING:
            raise_python(machine, AttributeError, "__set__")
        if setter is not MISSING:
            raise unsupported_attribute(value, f"{name} = ...")
    if value.cls.__dictoffset__ == 0 and not isinstance(raw, types.MemberDescriptorType):
        raise_python(machine, AttributeError, _no_place_text(value.cls, name, raw))
    write_field(machine, value, name, item)


def delete_attribute(machine: Machine, value: Value, name: str) -> Steps[None]:
    """`del value.name`."""
    if not isinstance(value, ObjectValue):
        raise unsupported_attribute(value, f"del {name}")
    machine.recorder.use(value)
    if not _is_plain(value.cls, "__delattr__"):
        method = yield from get_special(machine, value, "__delattr__")
        yield from machine.call(method, [constant(name)], {})
        return
    yield from delete_plain_attribute(machine, value, name)


def delete_plain_attribute(machine: Machine, value: ObjectValue, name: str) -> Steps[None]:
    """`object.__delattr__(value, name)`."""
    raw = lookup(value.cls, name)
    if is_plain_property(raw):
        if raw.fdel is None:
            raise_python(machine, AttributeError, property_text(value.cls, raw, "deleter"))
        yield from machine.call(wrapped(raw, "fdel"), [value], {})
        return
    if isinstance(value, ExceptionValue) and is_native_field(raw):
        delete_member(machine, value, name)
        return
    deleter = lookup(type(raw), "__delete__")
    if isinstance(deleter, types.FunctionType):
        descriptor = machine.recorder.wrap(raw, class_place(machine, value, name))
        machine.recorder.use(descriptor)
        yield from machine.call(Known(deleter), [descriptor, value], {})
        return
    if isinstance(lookup(type(raw), "__set__"), types.FunctionType):
        raise_python(machine, AttributeError, "__delete__")
    if deleter is not MISSING and not isinstance(raw, types.MemberDescriptorType):
        raise unsupported_attribute(value, f"del {name}")
    is_written = name in machine.heap[holder(machine, value, name).identity].written
    found = instance_value(machine, value, name)
    if found is None:
        if isinstance(raw, types.MemberDescriptorType):
            raise_python(machine, AttributeError, name)
        raise_python(machine, AttributeError, _no_place_text(value.cls, name, raw))
    source = None if is_written else getattr(found, "source", None)
    if source is not None:
        machine.recorder.guard(source, Kind.TYPE_IS, found.python_type, "deleted attribute")
    write_field(machine, value, name, DELETED)


def _no_place_text(cls: type, name: str, raw: Any) -> str:
    """Why an attribute can be neither stored nor deleted in an instance."""
    if cls.__dictoffset__ != 0:
        return f"'{type_name(cls)}' object has no attribute '{name}'"
    if raw is not MISSING:
        return f"'{type_name(cls)}' object attribute '{name}' is read-only"
    text = f"'{type_name(cls)}' object has no attribute '{name}'"
    return f"{text} and no __dict__ for setting new attributes" if IS_313 else text


# -- obj.__dict__ --------------------------------------------------------------------------------
