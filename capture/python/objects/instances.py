"""Reading attributes of instances of user classes and of `super()`: the class, then the instance.

The order is that of `object.__getattribute__`: data descriptors of the class, the instance dict,
other class attributes, `__getattr__`. Functions of the machine (`capture.machine.machine`).
"""

import collections
import functools
import types
from typing import Any, Final, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.parts import is_wrapper, wrapped
from dynajit.capture.machine.exceptions import Raised, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.lifetimes import has_finalizer
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, lacks, type_name, type_of, unsupported_attribute
from dynajit.capture.python.exceptions import is_native_field, member
from dynajit.capture.python.objects.fields import instance_value
from dynajit.capture.python.partials import partial_method
from dynajit.capture.python.remembered_calls import WRAPPER
from dynajit.capture.python.storage import storage_attribute
from dynajit.capture.values.containers import HeapValue, TupleValue
from dynajit.capture.values.functions import BoundMethod, SuperValue
from dynajit.capture.values.objects import (
    DISGUISED,
    ExceptionValue,
    InstanceDictValue,
    ObjectValue,
)
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.storage import NATIVE, storage_of
from dynajit.capture.values.symbolic import Known, Value, constant
from dynajit.capture.values.users_code import MISSING, inherits, lookup


def _has_get(raw: Any) -> bool:
    return hasattr(type(raw), "__get__")


def class_place(machine: Machine, value: HeapValue, name: str) -> sources.Source | None:
    """Source of what the class of an existing instance stores under `name`."""
    if value.source is None or machine.recorder.existing(value) is None:
        return None
    return sources.ClassAttribute(machine.recorder.first_source(value), name)


def known_in_class(machine: Machine, value: HeapValue, name: str, raw: Any) -> Known:
    if isinstance(raw, types.FunctionType):
        return function_of_class(value.cls, name, raw)
    if isinstance(value, ObjectValue) and value.python_type is not value.cls:
        return Known(raw)  # of a form of `capture.library`, which stays as it is
    return Known(raw, class_place(machine, value, name))


def is_read_ordinarily(cls: type) -> bool:
    """True if no code of a metaclass runs when an attribute of `cls` is read: guards can."""
    meta = type(cls)
    reads = meta.__getattribute__ is type.__getattribute__
    return reads and lookup(meta, "__getattr__") is MISSING


def function_of_class(cls: type, name: str, raw: types.FunctionType) -> Known:
    """A method: guarded once per class, because the classes of instances are guarded."""
    is_own = raw.__globals__.get("__name__", "").startswith("dynajit.capture.library")
    if is_own or not is_read_ordinarily(cls):
        return Known(raw)
    return Known(raw, sources.Attribute(sources.Constant(cls), name))


def place_in_class(cls: type, name: str) -> sources.Source | None:
    """Where code and guards find data that `cls` stores; None: it lasts while the class does.

    What stands under a special name is guarded with the class (`classes_met`).

    Raises:
        GraphBreak: the class shows something else under that name.
    """
    is_special = name.startswith("__") and name.endswith("__")
    if is_special and name not in _CACHES:
        return None
    meta = lookup(type(cls), name)
    if not is_read_ordinarily(cls) or (meta is not MISSING and is_data_descriptor(meta)):
        raise unsupported_attribute(Known(cls), name)
    return sources.Attribute(sources.Constant(cls), name)


#: Special names under which the standard library stores what it found out; not guarded.
_CACHES: Final = ("__slotnames__", "__annotations_cache__")


def object_attribute(machine: Machine, value: ObjectValue, name: str) -> Steps[Value]:
    machine.recorder.use(value)
    if value.cls in DISGUISED:
        check_disguise(machine, value, name)
    custom = lookup(value.cls, "__getattribute__")
    fallback = lookup(value.cls, "__getattr__")
    if not isinstance(custom, (types.FunctionType, types.WrapperDescriptorType)):
        raise unsupported_attribute(value, name)
    try:
        if isinstance(custom, types.FunctionType):
            function = known_in_class(machine, value, "__getattribute__", custom)
            return (yield from machine.call(BoundMethod(function, value), [constant(name)], {}))
        return (yield from plain_attribute(machine, value, name))
    except Raised as raised:
        if fallback is MISSING or not issubclass(raised.value.cls, AttributeError):
            raise
    method = yield from get_special(machine, value, "__getattr__")
    return (yield from machine.call(method, [constant(name)], {}))


def check_disguise(machine: Machine, value: ObjectValue, name: str) -> None:
    """Code of the user sees the attributes of the C class, not those of its Python form.

    Raises:
        GraphBreak: the two differ.
    """
    if machine.frames[-1].namespace.is_form:
        return
    is_shown = lookup(DISGUISED[value.cls], name) is not MISSING
    if not is_shown or (
        name not in machine.heap[value.identity].written and lacks(value.cls, name)
    ):
        raise unsupported_attribute(value, name)


def plain_attribute(machine: Machine, value: ObjectValue, name: str) -> Steps[Value]:
    """`object.__getattribute__(value, name)`."""
    raw = lookup(value.cls, name)
    if name == "__class__" and not isinstance(raw, property):
        if raw is not vars(object)["__class__"]:
            raise unsupported_attribute(value, name)
        return Known(value.python_type)
    if raw is not MISSING and is_data_descriptor(raw):
        return (yield from _data_descriptor(machine, value, name, raw))
    found = instance_value(machine, value, name)
    if found is not None:
        return found
    if raw is not MISSING:
        return (yield from _class_value(machine, value, name, raw))
    kind = type_name(value.cls)
    text = f"'{kind}' object has no attribute '{name}'"
    raise_python(machine, AttributeError, text, name=name, obj=value)


def is_data_descriptor(raw: Any) -> bool:
    kind = type(raw)
    return hasattr(kind, "__get__") and (hasattr(kind, "__set__") or hasattr(kind, "__delete__"))


def _data_descriptor(machine: Machine, value: ObjectValue, name: str, raw: Any) -> Steps[Value]:
    if is_plain_property(raw):
        machine.recorder.use(known_in_class(machine, value, name, raw))
        if raw.fget is None:
            raise_python(machine, AttributeError, property_text(value.cls, raw, "getter"))
        return (yield from machine.call(wrapped(raw, "fget"), [value], {}))
    if isinstance(value, ExceptionValue) and is_native_field(raw):
        return member(machine, value, name)
    if isinstance(raw, _FIELDS) and raw.__objclass__ in NATIVE:
        native = storage_attribute(machine, value, name)
        if native is not None:
            return native
    storage = storage_of(machine, value)
    if isinstance(raw, _TUPLE_GETTER) and isinstance(storage, TupleValue):
        position: int = raw.__reduce__()[1][0]
        return storage.items[position]
    if isinstance(raw, types.MemberDescriptorType):
        found = instance_value(machine, value, name)
        if found is None:
            _raise_empty_slot(machine, value.cls, name, raw)
        return found
    if isinstance(raw, types.GetSetDescriptorType):
        if name == "__dict__":
            return InstanceDictValue(value.identity, dict, None, value)
        raise unsupported_attribute(value, name)
    return (yield from _user_descriptor(machine, value, name, raw))


#: Class of the descriptors that are the fields of a named tuple.
_TUPLE_GETTER = type(vars(collections.namedtuple("Pair", "first second"))["first"])

_FIELDS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _raise_empty_slot(
    machine: Machine, cls: type, name: str, raw: types.MemberDescriptorType
) -> NoReturn:
    """The running interpreter's words: an object with empty slots is asked."""
    if has_finalizer(cls):
        raise GraphBreak(breaks.OBJECT_ENDS, f"{cls.__qualname__} has a finalizer")
    native: Any = next(base for base in cls.__mro__ if not is_heap_type(base))
    try:
        raw.__get__(native.__new__(cls), cls)
    except AttributeError as error:
        raise_python(machine, AttributeError, *error.args)
    except TypeError:  # the class in C wants arguments
        pass
    raise unsupported_attribute(Known(cls), name)


def is_plain_property(raw: Any) -> bool:
    """True for a property that reads, writes and deletes as `property` does."""
    kind = type(raw)
    return isinstance(raw, property) and all(
        getattr(kind, step) is getattr(property, step)
        for step in ("__get__", "__set__", "__delete__")
    )


def property_text(cls: type, raw: property, missing: str) -> str:
    """The text of the error of a property without a getter, setter or deleter.

    A property knows the name under which its class statement bound it, if one did; only its own
    errors tell it.
    """
    nobody = object()
    try:
        if missing == "getter":
            property.__get__(raw, nobody)
        elif missing == "setter":
            property.__set__(raw, nobody, None)
        else:
            property.__delete__(raw, nobody)
    except AttributeError as error:
        return str(error).replace("'object' object", f"'{cls.__qualname__}' object")
    raise AssertionError(f"the property has a {missing}")


def _user_descriptor(machine: Machine, value: HeapValue, name: str, raw: Any) -> Steps[Value]:
    if type(raw) is functools.cached_property and isinstance(value, ObjectValue):
        machine.recorder.use(known_in_class(machine, value, name, raw))
        function = machine.recorder.wrap(raw.func, sources.Attribute(sources.Constant(raw), "func"))
        result = yield from machine.call(function, [value], {})
        attribute: Any = raw.attrname
        yield from machine.set_plain_attribute(value, attribute, result)
        return result
    if type(raw) is functools.partialmethod and isinstance(raw.func, types.FunctionType):
        machine.recorder.use(known_in_class(machine, value, name, raw))
        return partial_method(machine, value, raw)
    getter = lookup(type(raw), "__get__")
    if not isinstance(getter, types.FunctionType):
        raise unsupported_attribute(value, name)
    descriptor = machine.recorder.wrap(raw, class_place(machine, value, name))
    machine.recorder.use(descriptor)
    arguments = [descriptor, value, Known(value.python_type)]
    return (yield from machine.call(Known(getter), arguments, {}))


def _class_value(machine: Machine, value: HeapValue, name: str, raw: Any) -> Steps[Value]:
    """A non-data attribute of the class, bound to the instance."""
    if isinstance(raw, (types.FunctionType, WRAPPER)):
        return BoundMethod(known_in_class(machine, value, name, raw), value)
    if is_wrapper(raw, staticmethod):
        machine.recorder.use(known_in_class(machine, value, name, raw))
        return wrapped(raw, "__func__")
    if is_wrapper(raw, classmethod):
        machine.recorder.use(known_in_class(machine, value, name, raw))
        return bound_to_class(raw, Known(value.cls), name)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return BoundMethod(Known(raw), value)
    if _has_get(raw):
        return (yield from _user_descriptor(machine, value, name, raw))
    place = class_place(machine, value, name)
    if place is None:
        place = place_in_class(value.cls, name)
    return machine.recorder.wrap(raw, place)


def super_value(machine: Machine, cls: Value, receiver: Value) -> SuperValue:
    """`super(cls, receiver)`."""
    known = as_python(machine, cls)
    kind = type_of(machine, receiver)
    is_class = isinstance(receiver, Known) and isinstance(receiver.object, type)
    mro = (*(receiver.object.__mro__ if is_class else ()), *kind.__mro__)  # type: ignore[attr-defined]
    if not any(known is base for base in mro):
        machine.recorder.use(receiver)
        claims = lookup(kind, "__class__") is not vars(object)["__class__"]
        if claims or isinstance(lookup(kind, "__getattribute__"), types.FunctionType):
            raise unsupported_attribute(receiver, "__class__")
        try:
            super(known, receiver.object if is_class else type(kind.__name__, (), {})())  # type: ignore[attr-defined]
        except TypeError as error:
            raise_python(machine, TypeError, *error.args)
    return SuperValue(known, receiver)


def _start_of(value: SuperValue) -> tuple[Any, bool]:
    """The class whose bases are searched, and whether it is the receiver itself."""
    receiver = value.receiver
    given = receiver.object if isinstance(receiver, Known) else None
    if isinstance(given, type) and inherits(given, value.cls):
        return given, True
    return receiver.python_type, False


def super_attribute(machine: Machine, value: SuperValue, name: str) -> Steps[Value]:
    receiver = value.receiver
    cls, is_class = _start_of(value)
    mro = cls.__mro__
    first = next(index for index, base in enumerate(mro) if base is value.cls) + 1
    for base in mro[first:]:
        if name not in base.__dict__:
            continue
        raw = base.__dict__[name]
        if isinstance(raw, types.FunctionType):
            function = function_of_class(base, name, raw)
            return function if is_class else BoundMethod(function, receiver)
        if is_wrapper(raw, classmethod):
            return bound_to_class(raw, Known(cls), name)
        if is_wrapper(raw, staticmethod):
            return wrapped(raw, "__func__")
        if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            return Known(raw) if is_class else BoundMethod(Known(raw), receiver)
        if isinstance(raw, types.BuiltinFunctionType) and name == "__new__":
            return Known(raw)
        if is_plain_property(raw) and raw.fget is not None and not is_class:
            return (yield from machine.call(wrapped(raw, "fget"), [receiver], {}))
        if _has_get(raw):
            raise unsupported_attribute(value, name)
        return machine.recorder.wrap(raw, place_in_class(base, name))
    raise_python(machine, AttributeError, f"'super' object has no attribute '{name}'")


def get_special(machine: Machine, value: Value, name: str) -> Steps[Value]:
    """A special method, looked up on the class as Python does."""
    raw = lookup(value.cls if isinstance(value, HeapValue) else value.python_type, name)
    if isinstance(value, Known) and isinstance(raw, types.FunctionType):
        machine.recorder.use(value)
        return BoundMethod(Known(raw), value)
    if raw is MISSING or not isinstance(value, HeapValue):
        raise unsupported_attribute(value, name)
    machine.recorder.use(value)
    return (yield from _class_value(machine, value, name, raw))


def bound_to_class(raw: Any, cls: Known, name: str) -> BoundMethod:
    """A class method; one that wraps something else than a function may bind in its own way."""
    if not isinstance(raw.__func__, types.FunctionType):
        raise unsupported_attribute(cls, name)
    return BoundMethod(wrapped(raw, "__func__"), cls)
