"""Attribute access by Python's rules: descriptors, instance dicts, slots, `__getattr__`, super().

Methods of the executor (`x`), written as functions; see `capture.executor`.
"""

import enum
import functools
import inspect
import types
from typing import Any

from dynajit.capture import breaks, sources
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.exceptions import NotKnown, Raised, raise_python, write_state
from dynajit.capture.guards import Kind
from dynajit.capture.library import REPLACED
from dynajit.capture.operations_basic import Steps, as_python, describe, from_python
from dynajit.capture.operations_exceptions import is_native_field, member, traceback_attribute
from dynajit.capture.operations_output import is_stream
from dynajit.capture.values import UNBOUND, Constant, Known, Opaque, Scalar, Value, constant
from dynajit.capture.values_containers import (
    DictValue,
    HeapValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values_functions import (
    BoundMethod,
    CellValue,
    FunctionValue,
    GeneratorState,
    GeneratorValue,
    NativeMethod,
    PartialValue,
    SuperValue,
)
from dynajit.capture.values_objects import (
    DELETED,
    ExceptionValue,
    InstanceDictValue,
    ObjectContents,
    ObjectValue,
    TracebackValue,
)
from dynajit.capture.values_tensors import TensorValue

MISSING = object()
_FUNCTION_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__")


def unsupported_attribute(value: Any, name: str) -> GraphBreak:
    """The break for an attribute that is not modelled."""
    return GraphBreak(breaks.UNSUPPORTED_ATTRIBUTE, f"{describe(value)}.{name}")


def get_attribute(x: Any, value: Value, name: str) -> Steps:
    """`value.name`; raises AttributeError in the captured program."""
    try:
        return (yield from _find_attribute(x, value, name))
    except Raised as raised:
        error = raised.value
        if issubclass(error.cls, AttributeError) and not isinstance(value, SuperValue):
            state = x.heap[error.identity].state
            if "name" not in state and "obj" not in state:
                write_state(x, error, "name", constant(name))
                write_state(x, error, "obj", value)
        raise


def _find_attribute(x: Any, value: Value, name: str) -> Steps:
    if isinstance(value, TensorValue):
        return x.tensor_attribute(value, name)
    if isinstance(value, TracebackValue):
        return traceback_attribute(x, value, name)
    if isinstance(value, ObjectValue):
        return (yield from _object_attribute(x, value, name))
    if isinstance(value, SuperValue):
        return (yield from _super_attribute(x, value, name))
    if isinstance(value, Known):
        return (yield from _known_attribute(x, value, name))
    if isinstance(value, BoundMethod):
        return (yield from _method_attribute(x, value, name))
    if isinstance(value, FunctionValue):
        return _function_attribute(x, value, name)
    if isinstance(value, PartialValue):
        return _partial_attribute(x, value, name)
    if isinstance(value, CellValue) and name == "cell_contents":
        contents = x.cell_contents(value)
        if contents is UNBOUND:
            raise_python(x, ValueError, "Cell is empty")
        return contents
    if is_stream(value) and name in ("write", "flush"):
        x.recorder.use(value)
        return NativeMethod(value, name)
    if isinstance(value, Opaque):
        raise unsupported_attribute(value, name)
    if isinstance(value, TupleValue):
        raw = lookup(value.cls, name)
        if is_plain_property(raw) and isinstance(raw.fget, types.FunctionType):
            x.recorder.use(value)
            return (yield from x.call(Known(raw.fget), [value], {}))
        if isinstance(raw, classmethod):
            return _bound_to_class(raw, Known(value.cls), name)
    return _builtin_attribute(x, value, name)


# -- built-in objects ----------------------------------------------------------------------------


def _builtin_attribute(x: Any, value: Value, name: str) -> Value:
    if name == "__class__":
        return Known(x.type_of(value))
    if isinstance(value, GeneratorValue) and name in ("__name__", "__qualname__"):
        state = x.heap[value.identity]
        if not isinstance(state, GeneratorState):
            raise unsupported_attribute(value, name)
        return constant(getattr(state.code, f"co_{name.strip('_')}"))
    if isinstance(value, NativeMethod) and name in ("__self__", "__name__"):
        return value.receiver if name == "__self__" else constant(value.name)
    if isinstance(value, SliceValue) and name in ("start", "stop", "step"):
        found: Value = getattr(value, name)
        return found
    if isinstance(value, TupleValue) and name in getattr(value.cls, "_fields", ()):
        x.recorder.use(value)
        return value.items[value.cls._fields.index(name)]  # type: ignore[attr-defined]
    member = getattr(value.python_type, name, MISSING)
    if member is MISSING:
        kind = value.python_type.__name__
        raise_python(x, AttributeError, f"'{kind}' object has no attribute '{name}'")
    if isinstance(value, TupleValue) and isinstance(member, types.FunctionType):
        x.recorder.use(value)
        return BoundMethod(Known(member), value)
    if isinstance(value, (Constant, Scalar)) and not callable(member):
        return _folded_attribute(x, value, name)
    if isinstance(value, TupleValue) and type(member) in (tuple, dict, str, type(None)):
        x.recorder.use(value)
        return x.recorder.wrap(member, sources.Attribute(sources.Constant(value.cls), name))
    modelled = (
        Constant, Scalar, TupleValue, ListValue, DictValue, SetValue, IteratorValue,
        GeneratorValue, SliceValue,
    )  # fmt: skip
    if callable(member) and isinstance(value, (*modelled, Value)):
        x.recorder.use(value)
        return NativeMethod(value, name)
    raise unsupported_attribute(value, name)


def _folded_attribute(x: Any, value: Value, name: str) -> Value:
    try:
        result: Value = from_python(x, getattr(as_python(x, value), name))
    except AttributeError as error:
        raise_python(x, AttributeError, *error.args)
    except NotKnown:
        raise unsupported_attribute(value, name) from None
    return result


# -- objects known by identity -------------------------------------------------------------------


def _known_attribute(x: Any, value: Known, name: str) -> Steps:
    obj = value.object
    x.recorder.use(value)
    if isinstance(obj, types.ModuleType):
        return _module_attribute(x, value, name)
    if isinstance(obj, type):
        return (yield from _class_attribute(x, value, name))
    if isinstance(obj, types.FunctionType):
        return _existing_function_attribute(x, value, name)
    if name == "__class__":
        return Known(type(obj))
    if isinstance(obj, enum.Enum):
        return (yield from _enum_attribute(x, value, name))
    return _plain_attribute(x, value, name)


def _enum_attribute(x: Any, value: Known, name: str) -> Steps:
    """An attribute of an enum member; methods and properties of its class are inlined."""
    if name in ("name", "value", "_name_", "_value_"):
        return x.recorder.wrap(getattr(value.object, f"_{name.strip('_')}_"), None)
    raw = lookup(type(value.object), name)
    if isinstance(raw, types.FunctionType):
        return BoundMethod(_function_of_class(type(value.object), name, raw), value)
    if is_plain_property(raw) and isinstance(raw.fget, types.FunctionType):
        return (yield from x.call(Known(raw.fget), [value], {}))
    if isinstance(raw, classmethod):
        return _bound_to_class(raw, Known(type(value.object)), name)
    if isinstance(raw, staticmethod):
        return Known(raw.__func__)
    fields = vars(value.object)
    if name in fields and not _is_data_descriptor(raw):
        return x.recorder.wrap(fields[name], sources.Attribute(_base_of(value), name))
    methods = (types.MethodDescriptorType, types.WrapperDescriptorType)
    plain = value.object._value_
    if (
        isinstance(raw, methods)
        and isinstance(plain, raw.__objclass__)
        and raw.__objclass__ in (int, str, float, bytes)
    ):
        return NativeMethod(constant(plain), name)
    if raw is MISSING and lookup(type(value.object), "__getattr__") is MISSING:
        kind = type(value.object).__name__
        raise_python(x, AttributeError, f"'{kind}' object has no attribute '{name}'")
    raise unsupported_attribute(value, name)


def _base_of(value: Known) -> sources.Source:
    """Where to read an attribute of an identity-guarded object: the object itself."""
    return sources.Constant(value.object)


def _module_attribute(x: Any, value: Known, name: str) -> Value:
    written = x.module_write(value.object, name)
    found = vars(value.object).get(name, MISSING) if written is None else written
    if found is MISSING or found is DELETED:
        if found is MISSING and hasattr(value.object, name):
            raise unsupported_attribute(value, name)
        module = value.object.__name__
        raise_python(x, AttributeError, f"module '{module}' has no attribute '{name}'")
    base = _base_of(value)
    if written is not None:
        return written
    wrapped: Value = x.recorder.wrap(found, sources.Attribute(base, name))
    return wrapped


def _class_attribute(x: Any, value: Known, name: str) -> Steps:
    cls: type = REPLACED.get(value.object, value.object)  # type: ignore[assignment]
    if cls is not value.object and name in vars(cls) and not name.startswith("__"):
        return (yield from _bind_class_attribute(x, Known(cls), name, vars(cls)[name]))
    cls = value.object
    if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
        return Known(cls.__members__[name])
    if name in ("__name__", "__qualname__", "__module__", "__doc__"):
        return constant(getattr(cls, name))
    if name == "__class__":
        return Known(type(cls))
    if name in ("__mro__", "__bases__"):
        return TupleValue(tuple(Known(c) for c in getattr(cls, name)))
    raw = lookup(cls, name)
    meta = lookup(type(cls), name)
    if raw is MISSING or (meta is not MISSING and inspect.isdatadescriptor(meta)):
        fallback = lookup(type(cls), "__getattr__")
        if raw is MISSING and meta is MISSING and isinstance(fallback, types.FunctionType):
            return (yield from x.call(Known(fallback), [value, constant(name)], {}))
        if raw is MISSING and meta is MISSING:
            kind = cls.__name__
            raise_python(x, AttributeError, f"type object '{kind}' has no attribute '{name}'")
        if isinstance(meta, types.FunctionType):
            return BoundMethod(Known(meta), value)
        if name in ("__subclasses__", "mro", "__instancecheck__", "__subclasscheck__"):
            return NativeMethod(value, name)
        raise unsupported_attribute(value, name)
    return (yield from _bind_class_attribute(x, value, name, raw))


def _bind_class_attribute(x: Any, value: Known, name: str, raw: Any) -> Steps:
    cls = value.object
    place = sources.Attribute(_base_of(value), name) if _is_read_ordinarily(cls) else None
    if isinstance(raw, staticmethod):
        return Known(raw.__func__)
    if isinstance(raw, classmethod):
        return _bound_to_class(raw, value, name)
    if isinstance(raw, types.FunctionType):
        return _function_of_class(cls, name, raw)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType, property)):
        return Known(raw)
    if isinstance(raw, types.ClassMethodDescriptorType):
        return NativeMethod(value, name)
    if isinstance(raw, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        return Known(raw)
    if isinstance(raw, types.BuiltinFunctionType):
        return Known(raw)
    getter = lookup(type(raw), "__get__")
    if isinstance(getter, types.FunctionType):
        descriptor = x.recorder.wrap(raw, None)
        return (yield from x.call(Known(getter), [descriptor, constant(None), value], {}))
    if getter is not MISSING:
        raise unsupported_attribute(value, name)
    if not _is_heap_type(cls):
        return x.recorder.wrap(raw, None)
    wrapped: Value = x.recorder.wrap(raw, place)
    return wrapped


def _bound_to_class(raw: Any, cls: Known, name: str) -> BoundMethod:
    """A class method; one that wraps something else than a function may bind in its own way."""
    if not isinstance(raw.__func__, types.FunctionType):
        raise unsupported_attribute(cls, name)
    return BoundMethod(Known(raw.__func__), cls)


def _existing_function_attribute(x: Any, value: Known, name: str) -> Value:
    function = value.object
    if name in _FUNCTION_ATTRIBUTES:
        return constant(getattr(function, name))
    if name == "__code__":
        return Known(function.__code__)
    if name in ("__wrapped__",) or name in function.__dict__:
        base = value.source if value.source is not None else _base_of(value)
        if name not in function.__dict__:
            raise_python(x, AttributeError, f"'function' object has no attribute '{name}'")
        found = function.__dict__[name]
        wrapped: Value = x.recorder.wrap(found, sources.Attribute(base, name))
        return wrapped
    if not hasattr(function, name):
        raise_python(x, AttributeError, f"'function' object has no attribute '{name}'")
    raise unsupported_attribute(value, name)


def _plain_attribute(x: Any, value: Known, name: str) -> Value:
    """An attribute of an identity-guarded object that cannot change (dtype, enum member, ...)."""
    obj = value.object
    wrapper = isinstance(obj, (property, classmethod, staticmethod))
    if wrapper and name == "__isabstractmethod__":  # asks the functions, which are the user's
        raise unsupported_attribute(value, name)
    if not hasattr(obj, name):
        kind = type(obj).__name__
        raise_python(x, AttributeError, f"'{kind}' object has no attribute '{name}'")
    found = getattr(obj, name)
    if isinstance(obj, (classmethod, staticmethod)) and name in ("__func__", "__wrapped__"):
        place = value.source if value.source is not None else _base_of(value)
        inner: Value = x.recorder.wrap(found, sources.Attribute(place, name))
        return inner
    if wrapper and isinstance(found, types.FunctionType):
        return Known(found)
    if type(found) in (dict, list, set):
        shared: Value = x.recorder.wrap(found, sources.Attribute(_base_of(value), name))
        return shared
    try:
        result: Value = from_python(x, found)
    except NotKnown:
        if callable(found):
            return NativeMethod(value, name)
        raise unsupported_attribute(value, name) from None
    return result


# -- functions -----------------------------------------------------------------------------------


def _method_attribute(x: Any, value: BoundMethod, name: str) -> Steps:
    x.recorder.use(value)
    if name == "__self__":
        return value.self
    if name == "__func__":
        return value.function
    return (yield from get_attribute(x, value.function, name))


def _function_attribute(x: Any, value: FunctionValue, name: str) -> Value:
    contents = x.heap[value.identity]
    if name in contents.attributes:
        found: Value = contents.attributes[name]
        return found
    if name == "__name__":
        return constant(contents.code.co_name)
    if name == "__qualname__":
        return constant(contents.code.co_qualname)
    if name == "__doc__":
        doc = contents.code.co_consts[:1]
        return constant(doc[0] if doc and isinstance(doc[0], str) else None)
    if name == "__code__":
        return Known(contents.code)
    if name == "__dict__":
        raise unsupported_attribute(value, name)
    if name == "__module__":
        return constant(contents.namespace.globals.get("__name__"))
    if name.startswith("__") and name.endswith("__"):
        raise unsupported_attribute(value, name)
    raise_python(x, AttributeError, f"'function' object has no attribute '{name}'")
    raise AssertionError


def _partial_attribute(x: Any, value: PartialValue, name: str) -> Value:
    if name == "func":
        return value.function
    if name == "args":
        return TupleValue(value.args)
    if name == "keywords":
        pairs = [(constant(key), item) for key, item in value.keywords.items()]
        made: Value = x.new_dict(pairs)
        return made
    raise unsupported_attribute(value, name)


# -- instances -----------------------------------------------------------------------------------


def lookup(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return MISSING


def _has_get(raw: Any) -> bool:
    return hasattr(type(raw), "__get__")


def _is_heap_type(cls: type) -> bool:
    return bool(cls.__flags__ & (1 << 9))


def class_place(x: Any, value: HeapValue, name: str) -> sources.Source | None:
    """Source of what the class of an existing instance stores under `name`."""
    if value.source is None or x.recorder.existing(value) is None:
        return None
    return sources.ClassAttribute(x.recorder.first_source(value), name)


def known_in_class(x: Any, value: HeapValue, name: str, raw: Any) -> Known:
    if isinstance(raw, types.FunctionType):
        return _function_of_class(value.cls, name, raw)
    return Known(raw, class_place(x, value, name))


def _is_read_ordinarily(cls: type) -> bool:
    """True if no code of a metaclass runs when an attribute of `cls` is read: guards can."""
    meta = type(cls)
    reads = meta.__getattribute__ is type.__getattribute__
    return reads and lookup(meta, "__getattr__") is MISSING


def _function_of_class(cls: type, name: str, raw: types.FunctionType) -> Known:
    """A method: guarded once per class, because the classes of instances are guarded."""
    is_own = raw.__globals__.get("__name__", "").startswith("dynajit.capture.library")
    if is_own or not _is_read_ordinarily(cls):
        return Known(raw)
    return Known(raw, sources.Attribute(sources.Constant(cls), name))


def _object_attribute(x: Any, value: ObjectValue, name: str) -> Steps:
    x.recorder.use(value)
    custom = lookup(value.cls, "__getattribute__")
    fallback = lookup(value.cls, "__getattr__")
    try:
        if isinstance(custom, types.FunctionType):
            function = known_in_class(x, value, "__getattribute__", custom)
            return (yield from x.call(BoundMethod(function, value), [constant(name)], {}))
        return (yield from plain_attribute(x, value, name))
    except Raised as raised:
        if fallback is MISSING or not issubclass(raised.value.cls, AttributeError):
            raise
    function = known_in_class(x, value, "__getattr__", fallback)
    return (yield from x.call(BoundMethod(function, value), [constant(name)], {}))


def plain_attribute(x: Any, value: ObjectValue, name: str) -> Steps:
    """`object.__getattribute__(value, name)`."""
    raw = lookup(value.cls, name)
    if name == "__class__" and not isinstance(raw, property):
        if raw is not vars(object)["__class__"]:
            raise unsupported_attribute(value, name)
        return Known(value.cls)
    if raw is not MISSING and _is_data_descriptor(raw):
        return (yield from _data_descriptor(x, value, name, raw))
    found = instance_value(x, value, name)
    if found is not None:
        return found
    if raw is not MISSING:
        return (yield from _class_value(x, value, value, name, raw))
    kind = value.cls.__name__
    raise_python(x, AttributeError, f"'{kind}' object has no attribute '{name}'")


def _is_data_descriptor(raw: Any) -> bool:
    kind = type(raw)
    return hasattr(kind, "__get__") and (hasattr(kind, "__set__") or hasattr(kind, "__delete__"))


def _data_descriptor(x: Any, value: ObjectValue, name: str, raw: Any) -> Steps:
    if is_plain_property(raw):
        x.recorder.use(known_in_class(x, value, name, raw))
        if raw.fget is None:
            raise_python(x, AttributeError, property_text(value.cls, raw, "getter"))
        return (yield from x.call(Known(raw.fget), [value], {}))
    if isinstance(value, ExceptionValue) and is_native_field(raw):
        return member(x, value, name)
    if isinstance(raw, types.MemberDescriptorType):
        found = instance_value(x, value, name)
        if found is None:
            _raise_empty_slot(x, value.cls, name, raw)
        return found
    if isinstance(raw, types.GetSetDescriptorType):
        if name == "__dict__":
            return InstanceDictValue(value.identity, dict, None, value)
        raise unsupported_attribute(value, name)
    return (yield from _user_descriptor(x, value, name, raw))


def _raise_empty_slot(x: Any, cls: type, name: str, raw: types.MemberDescriptorType) -> None:
    """The running interpreter's words: an object with empty slots is asked."""
    if "__del__" in dir(cls):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{cls.__qualname__} has a finalizer")
    try:
        raw.__get__(object.__new__(cls), cls)
    except AttributeError as error:
        raise_python(x, AttributeError, *error.args)
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


def _user_descriptor(x: Any, value: Value, name: str, raw: Any) -> Steps:
    if type(raw) is functools.cached_property and isinstance(value, ObjectValue):
        x.recorder.use(known_in_class(x, value, name, raw))
        result = yield from x.call(Known(raw.func), [value], {})
        yield from x.set_plain_attribute(value, raw.attrname, result)
        return result
    getter = lookup(type(raw), "__get__")
    if not isinstance(getter, types.FunctionType):
        raise unsupported_attribute(value, name)
    descriptor = x.recorder.wrap(raw, class_place(x, value, name))  # type: ignore[arg-type]
    arguments = [descriptor, value, Known(value.python_type)]
    return (yield from x.call(Known(getter), arguments, {}))


def _class_value(x: Any, value: HeapValue, receiver: Value, name: str, raw: Any) -> Steps:
    """A non-data attribute of the class, bound to `receiver`."""
    if isinstance(raw, types.FunctionType):
        return BoundMethod(known_in_class(x, value, name, raw), receiver)
    if isinstance(raw, staticmethod):
        x.recorder.use(known_in_class(x, value, name, raw))
        return Known(raw.__func__)
    if isinstance(raw, classmethod):
        x.recorder.use(known_in_class(x, value, name, raw))
        return _bound_to_class(raw, Known(value.cls), name)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return BoundMethod(Known(raw), receiver)
    if _has_get(raw):
        return (yield from _user_descriptor(x, receiver, name, raw))
    place = class_place(x, value, name)
    if place is None:
        place = sources.Attribute(sources.Constant(value.cls), name)
    return x.recorder.wrap(raw, place)


def instance_value(x: Any, value: ObjectValue, name: str) -> Value | None:
    """What the instance itself (its dict or slots) holds under `name`, or None; guarded."""
    contents: ObjectContents = x.heap[value.identity]
    if name in contents.written:
        written = contents.written[name]
        return None if written is DELETED else written
    existing = contents.existing
    if existing is None:
        return None
    base = x.recorder.first_source(value)
    fields = instance_dict(existing)
    if name in fields:
        found: Value = x.recorder.wrap(fields[name], sources.Attribute(base, name))
        return found
    raw = lookup(value.cls, name)
    if isinstance(raw, types.MemberDescriptorType):
        stored = _slot_value(raw, existing)
        if stored is not MISSING:
            return x.recorder.wrap(stored, sources.Attribute(base, name))
        raise unsupported_attribute(value, f"{name}, an empty slot")  # no guard sees it filled
    if raw is MISSING:
        x.recorder.guard(base, Kind.HAS_NO_ATTRIBUTE, name, "missing attribute")
    elif has_instance_dict(existing):
        x.recorder.guard(base, Kind.INSTANCE_LACKS, name, "class attribute")
    return None


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
    fields: dict[str, Any] = object.__getattribute__(existing, "__dict__")
    return fields


def super_value(x: Any, cls: Value, receiver: Value) -> SuperValue:
    """`super(cls, receiver)`."""
    known = as_python(x, cls)
    kind = x.type_of(receiver)
    is_class = isinstance(receiver, Known) and isinstance(receiver.object, type)
    mro = receiver.object.__mro__ if is_class else kind.__mro__  # type: ignore[attr-defined]
    if known not in mro:
        x.recorder.use(receiver)
        try:
            super(known, receiver.object if is_class else type(kind.__name__, (), {})())  # type: ignore[attr-defined]
        except TypeError as error:
            raise_python(x, TypeError, *error.args)
    return SuperValue(known, receiver)


def _super_attribute(x: Any, value: SuperValue, name: str) -> Steps:
    receiver = value.receiver
    cls = receiver.object if isinstance(receiver, Known) else receiver.python_type
    mro = cls.__mro__
    for base in mro[mro.index(value.cls) + 1 :]:
        if name not in base.__dict__:
            continue
        raw = base.__dict__[name]
        if isinstance(raw, types.FunctionType):
            return BoundMethod(_function_of_class(base, name, raw), receiver)
        if isinstance(raw, classmethod):
            return _bound_to_class(raw, Known(cls), name)
        if isinstance(raw, staticmethod):
            return Known(raw.__func__)
        if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
            return BoundMethod(Known(raw), receiver)
        if isinstance(raw, types.BuiltinFunctionType) and name == "__new__":
            return Known(raw)
        if is_plain_property(raw) and raw.fget is not None:
            return (yield from x.call(Known(raw.fget), [receiver], {}))
        if _has_get(raw):
            raise unsupported_attribute(value, name)
        return x.recorder.wrap(raw, sources.Attribute(sources.Constant(base), name))
    raise_python(x, AttributeError, f"'super' object has no attribute '{name}'")


def get_special(x: Any, value: Value, name: str) -> Steps:
    """A special method, looked up on the class as Python does."""
    raw = lookup(value.cls if isinstance(value, HeapValue) else value.python_type, name)
    if raw is MISSING or not isinstance(value, HeapValue):
        raise unsupported_attribute(value, name)
    return (yield from _class_value(x, value, value, name, raw))
