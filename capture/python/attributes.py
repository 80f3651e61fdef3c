"""Attribute access by Python's rules, chosen by the kind of value: built-ins, classes, functions.

Instances of user classes and `super()` are in `capture.python.objects.instances`. Functions of the
machine (`capture.machine.machine`).
"""

import enum
import functools
import inspect
import random
import sys
import types
from collections.abc import Mapping
from typing import Any

from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.parts import has_names, is_wrapper, part, place_of, wrapped
from dynajit.capture.library import REPLACED
from dynajit.capture.machine.exceptions import NotKnown, Raised, raise_python, write_state
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.immutables import is_immutable
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.places.reload import class_dict
from dynajit.capture.python.basic import as_python, type_name, type_of, unsupported_attribute
from dynajit.capture.python.builtins.signatures import signature_attribute
from dynajit.capture.python.contents import new_dict
from dynajit.capture.python.conversion import from_python
from dynajit.capture.python.exceptions import traceback_attribute
from dynajit.capture.python.objects.instances import (
    bound_to_class,
    function_of_class,
    is_data_descriptor,
    is_plain_property,
    is_read_ordinarily,
    object_attribute,
    place_in_class,
    super_attribute,
)
from dynajit.capture.python.partials import is_existing_partial
from dynajit.capture.python.tensors.autograd import found_attribute
from dynajit.capture.python.tensors.native_calls import are_classes_asked, overrides
from dynajit.capture.python.tensors.overriding import called_name, has_own, overridden
from dynajit.capture.python.tensors.tensors import tensor_attribute
from dynajit.capture.python.text.output import is_stream
from dynajit.capture.values.containers import (
    DictValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import (
    BoundMethod,
    CellValue,
    FunctionValue,
    GeneratorValue,
    NativeMethod,
    PartialValue,
    SuperValue,
)
from dynajit.capture.values.objects import (
    DELETED,
    READ_AS,
    ObjectContents,
    ObjectValue,
    TracebackValue,
)
from dynajit.capture.values.plain_classes import is_heap_type
from dynajit.capture.values.random_numbers import RandomValue
from dynajit.capture.values.symbolic import (
    UNBOUND,
    Constant,
    Known,
    Opaque,
    Scalar,
    Value,
    constant,
)
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, has_own_operators, lookup, text_keyed
from dynajit.core.process import late
from dynajit.eager import Tensor
from dynajit.ops.calls.namespaces import GraphCallable, OpNamespace
from dynajit.ops.native._library_call import LibraryFunction, LibraryMethod

_FUNCTION_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__", "__code__")


def get_attribute(machine: Machine, value: Value, name: str) -> Steps[Value]:
    """`value.name`; raises AttributeError in the captured program."""
    try:
        return (yield from _find_attribute(machine, value, name))
    except Raised as raised:
        error = raised.value
        if issubclass(error.cls, AttributeError) and not isinstance(value, SuperValue):
            state = machine.heap[error.identity].state
            if "name" not in state and "obj" not in state:
                write_state(machine, error, "name", constant(name))
                write_state(machine, error, "obj", value)
        raise


def _find_attribute(machine: Machine, value: Value, name: str) -> Steps[Value]:
    if isinstance(value, TensorValue):
        if overrides(value):
            return (yield from _attribute_of_subclass(machine, value, name))
        return tensor_attribute(machine, value, name)
    if isinstance(value, TracebackValue):
        return traceback_attribute(machine, value, name)
    if isinstance(value, ObjectValue):
        return (yield from object_attribute(machine, value, name))
    if isinstance(value, SuperValue):
        return (yield from super_attribute(machine, value, name))
    if isinstance(value, Known):
        return (yield from _known_attribute(machine, value, name))
    if isinstance(value, BoundMethod):
        return (yield from _method_attribute(machine, value, name))
    if isinstance(value, FunctionValue):
        return _function_attribute(machine, value, name)
    if isinstance(value, PartialValue):
        return _partial_attribute(machine, value, name)
    if isinstance(value, CellValue) and name == "cell_contents":
        contents = machine.cell_contents(value)
        if contents is UNBOUND:
            raise_python(machine, ValueError, "Cell is empty")
        return contents
    if is_stream(value) and name in ("write", "flush"):
        machine.recorder.use(value)
        return NativeMethod(value, name)
    if is_existing_partial(value):
        return _existing_partial_attribute(machine, value, name)
    if isinstance(value, RandomValue):
        raw = lookup(random.Random, name)
        if isinstance(raw, (types.FunctionType, types.MethodDescriptorType)):
            return BoundMethod(Known(raw), value)
    if isinstance(value, Opaque):
        return _opaque_attribute(machine, value, name)
    if isinstance(value, TupleValue):
        raw = lookup(value.cls, name)
        if is_plain_property(raw) and isinstance(raw.fget, types.FunctionType):
            machine.recorder.use(value)
            return (yield from machine.call(wrapped(raw, "fget"), [value], {}))
        if is_wrapper(raw, classmethod):
            return bound_to_class(raw, Known(value.cls), name)
        if isinstance(lookup(type(raw), "__get__"), types.FunctionType):
            raise unsupported_attribute(value, name)
    return _builtin_attribute(machine, value, name)


def _attribute_of_subclass(machine: Machine, value: TensorValue, name: str) -> Steps[Value]:
    """An attribute of a tensor whose class overrides functions, and may add names."""
    raw = lookup(value.cls, name)
    is_field = isinstance(raw, property) and isinstance(raw.fget, LibraryFunction)
    is_added = raw is not MISSING and raw is not lookup(Tensor, name) and not is_field
    if raw is not MISSING:
        place = sources.Member(sources.Constant(value.cls), name)
        machine.recorder.guard(place, Kind.IDENTITY, raw, "class attribute")
    if is_added and not isinstance(raw, _BINDING):
        own = None if name in vars(object) else found_attribute(machine, value, name)
        if own is not None:
            return own
    if is_added:
        machine.recorder.use(value)
        return (yield from _added_to_tensors(machine, value, name, raw))
    is_read = name not in ("__class__", "__dict__") and not callable(getattr(Tensor, name, None))
    if is_read and has_own(value) and raw is not MISSING:
        getter = raw.fget if isinstance(raw, property) and is_field else raw.__get__
        func = called_name(getter) if isinstance(getter, LibraryFunction) else getter
        answer = yield from overridden(machine, func, [value], {})
        if answer is not None:
            return answer
    keeps_class = is_read and are_classes_asked(machine) and name not in ("grad", "_base")
    machine.unasked_blocks += 1
    try:
        found = tensor_attribute(machine, value, name)
    finally:
        machine.unasked_blocks -= 1
    if keeps_class and isinstance(found, TensorValue) and found.cls is Tensor:
        return machine.recorder.with_class(found, value.cls)
    return found


_BINDING = (types.FunctionType, classmethod, staticmethod, property)


def _added_to_tensors(machine: Machine, value: TensorValue, name: str, raw: Any) -> Steps[Value]:
    if isinstance(raw, types.FunctionType):
        return BoundMethod(function_of_class(value.cls, name, raw), value)
    if is_plain_property(raw) and isinstance(raw.fget, types.FunctionType):
        return (yield from machine.call(wrapped(raw, "fget"), [value], {}))
    if is_wrapper(raw, classmethod):
        return bound_to_class(raw, Known(value.cls), name)
    if is_wrapper(raw, staticmethod):
        return wrapped(raw, "__func__")
    if hasattr(type(raw), "__get__"):
        raise unsupported_attribute(value, name)
    stored: Value = machine.recorder.wrap(raw, place_in_class(value.cls, name))
    return stored


def _opaque_attribute(machine: Machine, value: Opaque, name: str) -> Value:
    """A method in C of an object that is not modelled: the call is where Python takes over."""
    cls = value.python_type
    raw = lookup(cls, name)
    if cls is random.Random and isinstance(raw, types.FunctionType):
        machine.recorder.use(value)
        if name in vars(value.object):
            raise unsupported_attribute(value, name)
        machine.recorder.guard(value.source, Kind.INSTANCE_LACKS, name, "method")
        return BoundMethod(Known(raw), value)
    is_plain = lookup(cls, "__getattribute__") is vars(object)["__getattribute__"]
    if not isinstance(raw, types.MethodDescriptorType) or not is_plain:
        raise unsupported_attribute(value, name)
    machine.recorder.use(value)
    if cls.__dictoffset__ != 0:
        # Some C classes have a dict that they show to nobody (asyncio's Task): read around it.
        found = object.__getattribute__(value.object, name)
        if not isinstance(found, types.BuiltinMethodType) or found.__self__ is not value.object:
            raise unsupported_attribute(value, name)
        machine.recorder.guard(value.source, Kind.INSTANCE_LACKS, name, "method")
    return BoundMethod(Known(raw), value)


# -- built-in objects ----------------------------------------------------------------------------


def _builtin_attribute(machine: Machine, value: Value, name: str) -> Value:
    if name == "__class__":
        return Known(type_of(machine, value))
    if isinstance(value, GeneratorValue) and name in ("__name__", "__qualname__"):
        return value.names[name == "__qualname__"]
    if isinstance(value, NativeMethod) and name in ("__self__", "__name__"):
        return value.receiver if name == "__self__" else constant(value.name)
    if isinstance(value, SliceValue) and name in ("start", "stop", "step"):
        found: Value = getattr(value, name)
        return found
    if isinstance(value, TupleValue) and name in getattr(value.cls, "_fields", ()):
        machine.recorder.use(value)
        return value.items[value.cls._fields.index(name)]  # type: ignore[attr-defined]
    if lookup(type_of(machine, value), name) is MISSING:
        if value.python_type.__dictoffset__ != 0:
            raise unsupported_attribute(value, name)  # it may have attributes of its own
        kind = type_name(value.python_type)
        raise_python(machine, AttributeError, f"'{kind}' object has no attribute '{name}'")
    member = getattr(value.python_type, name)
    if isinstance(value, TupleValue) and isinstance(member, types.FunctionType):
        machine.recorder.use(value)
        return BoundMethod(Known(member), value)
    if isinstance(value, (Constant, Scalar)) and not callable(member):
        return _folded_attribute(machine, value, name)
    if isinstance(value, TupleValue) and type(member) in (tuple, dict, str, type(None)):
        machine.recorder.use(value)
        return machine.recorder.wrap(member, place_in_class(value.cls, name))
    modelled = (
        Constant, Scalar, TupleValue, ListValue, DictValue, SetValue, IteratorValue,
        GeneratorValue, SliceValue,
    )  # fmt: skip
    if callable(member) and isinstance(value, (*modelled, Value)):
        machine.recorder.use(value)
        return NativeMethod(value, name)
    raise unsupported_attribute(value, name)


def _folded_attribute(machine: Machine, value: Value, name: str) -> Value:
    try:
        result: Value = from_python(machine, getattr(as_python(machine, value), name))
    except AttributeError as error:
        raise_python(machine, AttributeError, *error.args)
    except NotKnown:
        raise unsupported_attribute(value, name) from None
    return result


# -- objects known by identity -------------------------------------------------------------------


def _known_attribute(machine: Machine, value: Known, name: str) -> Steps[Value]:
    obj = value.object
    machine.recorder.use(value)
    if isinstance(obj, types.ModuleType):
        return (yield from _module_attribute(machine, value, name))
    if isinstance(obj, type):
        return (yield from _class_attribute(machine, value, name))
    if name == "__class__":
        return Known(type(obj))
    if isinstance(obj, types.FunctionType):
        return _existing_function_attribute(machine, value, name)
    if isinstance(obj, enum.Enum):
        return (yield from _enum_attribute(machine, value, name))
    of_signature = signature_attribute(machine, value, name)
    if of_signature is not None:
        return of_signature
    if isinstance(obj, GraphCallable) and isinstance(getattr(obj, name, None), GraphCallable):
        return machine.recorder.wrap(getattr(obj, name), sources.Attribute(_base_of(value), name))
    return _plain_attribute(machine, value, name)


def _enum_attribute(machine: Machine, value: Known, name: str) -> Steps[Value]:
    """An attribute of an enum member; methods and properties of its class are inlined."""
    if name in ("name", "value", "_name_", "_value_"):
        place = sources.Attribute(_base_of(value), f"_{name.strip('_')}_")
        return machine.recorder.wrap(getattr(value.object, place.name), place)
    raw = lookup(type(value.object), name)
    if isinstance(raw, types.FunctionType):
        return BoundMethod(function_of_class(type(value.object), name, raw), value)
    if is_plain_property(raw) and isinstance(raw.fget, types.FunctionType):
        return (yield from machine.call(wrapped(raw, "fget"), [value], {}))
    if is_wrapper(raw, classmethod):
        return bound_to_class(raw, Known(type(value.object)), name)
    if is_wrapper(raw, staticmethod):
        return wrapped(raw, "__func__")
    fields = vars(value.object)
    if name in fields and not is_data_descriptor(raw):
        return machine.recorder.wrap(fields[name], sources.Attribute(_base_of(value), name))
    methods = (types.MethodDescriptorType, types.WrapperDescriptorType)
    plain = value.object._value_
    if (
        isinstance(raw, methods)
        and isinstance(plain, raw.__objclass__)
        and raw.__objclass__ in (int, str, float, bytes)
    ):
        return NativeMethod(constant(plain), name)
    if raw is MISSING and lookup(type(value.object), "__getattr__") is MISSING:
        kind = type_name(type(value.object))
        raise_python(machine, AttributeError, f"'{kind}' object has no attribute '{name}'")
    raise unsupported_attribute(value, name)


def _base_of(value: Known) -> sources.Source:
    """Where to read an attribute of an identity-guarded object: the object itself."""
    return sources.Constant(value.object)


def _module_attribute(machine: Machine, value: Known, name: str) -> Steps[Value]:
    module: types.ModuleType = value.object
    raw = lookup(type(module), name)
    reader = lookup(type(module), "__getattribute__")
    if reader is not vars(types.ModuleType)["__getattribute__"]:
        raise unsupported_attribute(value, name)
    if raw is not MISSING and inspect.isdatadescriptor(raw):
        raise unsupported_attribute(value, name)
    written = machine.module_write(module, name)
    fields = text_keyed(types.ModuleType.__getattribute__(module, "__dict__"))
    if written is None and name not in fields and _is_late(fields, name):
        late.brought(fields["__name__"], name)  # an import that changes nothing else of the program
    if written is None and name not in fields and isinstance(module, OpNamespace):
        getattr(module, name, None)  # functions of the library are there when they are asked for
    found = fields.get(name, MISSING) if written is None else written
    if written is not None and written is not DELETED:
        return written
    if found is not MISSING and found is not DELETED:
        return machine.recorder.wrap(found, sources.Attribute(_base_of(value), name))
    if raw is not MISSING or lookup(type(module), "__getattr__") is not MISSING:
        raise unsupported_attribute(value, name)
    if found is MISSING:
        machine.recorder.guard(_base_of(value), Kind.HAS_NO_ATTRIBUTE, name, "missing attribute")
    fallback = fields.get("__getattr__", MISSING)
    if found is MISSING and late.refuses(fields, name):
        error = late.unknown_name(fields["__name__"], name)
        raise_python(machine, type(error), str(error))
    if fallback is not MISSING:
        function = machine.recorder.wrap(
            fallback, sources.Attribute(_base_of(value), "__getattr__")
        )
        return (yield from machine.call(function, [constant(name)], {}))
    raise_python(machine, AttributeError, _module_lacks(module, name))


def _is_late(fields: Mapping[str, Any], name: str) -> bool:
    """True for a name that one of dynajit's packages publishes late, and has not brought yet."""
    package = fields.get("__name__")
    if type(package) is not str or not late.is_published_late(package, name):
        return False
    return vars(sys.modules[package]) is fields


def _module_lacks(module: types.ModuleType, name: str) -> str:
    """The text of the running interpreter's error."""
    likeness = types.ModuleType("")
    fields = vars(likeness)
    fields.clear()
    known = types.ModuleType.__getattribute__(module, "__dict__")
    fields.update({key: known[key] for key in ("__name__", "__spec__") if key in known})
    try:
        getattr(likeness, name)
    except AttributeError as error:
        return str(error)
    return f"module has no attribute '{name}'"


def _class_attribute(machine: Machine, value: Known, name: str) -> Steps[Value]:
    cls: type = value.object
    machine.recorder.classes.add(cls)
    if not has_own_operators(type(cls)):
        cls = REPLACED.get(cls, cls)  # type: ignore[assignment]
    if cls is not value.object and name in vars(cls) and not name.startswith("__"):
        return (yield from _bind_class_attribute(machine, Known(cls), name, vars(cls)[name]))
    cls = value.object
    if isinstance(cls, enum.EnumMeta) and name in cls.__members__:
        return Known(cls.__members__[name])
    reader = lookup(type(cls), "__getattribute__")
    if isinstance(reader, types.FunctionType):
        return (yield from _class_attribute_by(machine, value, name, reader))
    is_name = name in ("__name__", "__qualname__") and has_names(cls)
    if is_name and lookup(type(cls), name) is vars(type)[name]:
        return part(machine, value, name)
    if name in ("__name__", "__qualname__", "__module__", "__doc__"):
        found = getattr(cls, name)
        if type(found) not in (str, type(None)):
            raise unsupported_attribute(value, name)
        return constant(found)
    if name == "__class__" and lookup(type(cls), name) is vars(object)[name]:
        return Known(type(cls))
    if name == "__dict__" and type(cls) is type and is_heap_type(cls):
        machine.recorder.use(value)
        place = sources.PartOf(_base_of(value), name)
        contents = ObjectContents(
            written={"mapping": machine.recorder.wrap(class_dict(cls), place)}
        )
        return ObjectValue(machine.heap.allocate(contents), READ_AS[types.MappingProxyType])
    if name in ("__mro__", "__bases__"):
        return TupleValue(tuple(Known(c) for c in getattr(cls, name)))
    raw = lookup(cls, name)
    meta = lookup(type(cls), name)
    if raw is MISSING or (meta is not MISSING and inspect.isdatadescriptor(meta)):
        fallback = lookup(type(cls), "__getattr__")
        if raw is MISSING and meta is MISSING and isinstance(fallback, types.FunctionType):
            return (yield from machine.call(Known(fallback), [value, constant(name)], {}))
        if raw is MISSING and meta is MISSING:
            if is_read_ordinarily(cls):
                machine.recorder.guard(
                    _base_of(value), Kind.HAS_NO_ATTRIBUTE, name, "missing attribute"
                )
            kind = type_name(cls)
            raise_python(machine, AttributeError, f"type object '{kind}' has no attribute '{name}'")
        if is_plain_property(meta) and isinstance(meta.fget, types.FunctionType):
            return (yield from machine.call(wrapped(meta, "fget"), [value], {}))
        if isinstance(meta, types.FunctionType):
            return BoundMethod(Known(meta), value)
        if name in ("__subclasses__", "mro", "__instancecheck__", "__subclasscheck__"):
            return NativeMethod(value, name)
        raise unsupported_attribute(value, name)
    return (yield from _bind_class_attribute(machine, value, name, raw))


def _class_attribute_by(
    machine: Machine, value: Known, name: str, reader: types.FunctionType
) -> Steps[Value]:
    """An attribute of a class whose metaclass has a `__getattribute__` in Python."""
    fallback = lookup(type(value.object), "__getattr__")
    try:
        return (yield from machine.call(Known(reader), [value, constant(name)], {}))
    except Raised as raised:
        if fallback is MISSING or not issubclass(raised.value.cls, AttributeError):
            raise
    return (yield from machine.call(Known(fallback), [value, constant(name)], {}))


def _bind_class_attribute(machine: Machine, value: Known, name: str, raw: Any) -> Steps[Value]:
    cls = value.object
    place = sources.Attribute(_base_of(value), name) if is_read_ordinarily(cls) else None
    if is_wrapper(raw, staticmethod):
        return wrapped(raw, "__func__")
    if is_wrapper(raw, classmethod):
        return bound_to_class(raw, value, name)
    if isinstance(raw, types.FunctionType):
        return function_of_class(cls, name, raw)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType, LibraryMethod)):
        return Known(raw)
    if is_plain_property(raw):
        return Known(raw)
    if isinstance(raw, types.ClassMethodDescriptorType):
        return NativeMethod(value, name)
    if isinstance(raw, (types.GetSetDescriptorType, types.MemberDescriptorType)):
        return Known(raw)
    if isinstance(raw, types.BuiltinFunctionType):
        return Known(raw)
    getter = lookup(type(raw), "__get__")
    if isinstance(getter, types.FunctionType):
        descriptor = machine.recorder.wrap(raw, sources.Constant(raw))
        machine.recorder.use(descriptor)
        return (yield from machine.call(Known(getter), [descriptor, constant(None), value], {}))
    if getter is not MISSING:
        raise unsupported_attribute(value, name)
    if not is_heap_type(cls):
        return machine.recorder.wrap(raw, None)
    stored: Value = machine.recorder.wrap(raw, place)
    return stored


def _existing_function_attribute(machine: Machine, value: Known, name: str) -> Value:
    function = value.object
    if name in _FUNCTION_ATTRIBUTES:
        return part(machine, value, name)
    if name == "__get__":
        return NativeMethod(value, name)
    is_shown = name in text_keyed(function.__dict__) and name not in vars(types.FunctionType)
    if name == "__wrapped__" or is_shown:
        base = value.source if value.source is not None else _base_of(value)
        if name not in function.__dict__:
            raise_python(machine, AttributeError, f"'function' object has no attribute '{name}'")
        found = function.__dict__[name]
        stored: Value = machine.recorder.wrap(found, sources.Attribute(base, name))
        return stored
    if not hasattr(function, name):
        machine.recorder.guard(
            place_of(machine, value), Kind.HAS_NO_ATTRIBUTE, name, "missing attribute"
        )
        raise_python(machine, AttributeError, f"'function' object has no attribute '{name}'")
    raise unsupported_attribute(value, name)


def _plain_attribute(machine: Machine, value: Known, name: str) -> Value:
    """An attribute of an identity-guarded object that cannot change (dtype, enum member, ...)."""
    obj = value.object
    wrapper = isinstance(obj, (property, classmethod, staticmethod))
    if wrapper and name in ("__isabstractmethod__", "__name__"):  # asks what is wrapped: the user's
        raise unsupported_attribute(value, name)
    if name == "__dict__":
        raise unsupported_attribute(value, name)
    if not hasattr(obj, name):
        kind = type_name(type(obj))
        raise_python(machine, AttributeError, f"'{kind}' object has no attribute '{name}'")
    found = getattr(obj, name)
    if isinstance(obj, (classmethod, staticmethod)) and name in ("__func__", "__wrapped__"):
        place = value.source if value.source is not None else _base_of(value)
        where = sources.PartOf if name == "__func__" else sources.Attribute
        inner: Value = machine.recorder.wrap(found, where(place, name))
        return inner
    if isinstance(obj, property) and name in ("fget", "fset", "fdel") and found is not None:
        return wrapped(obj, name)
    if wrapper and isinstance(found, types.FunctionType):
        return Known(found)
    if type(found) in (dict, list, set):
        if wrapper and is_data_descriptor(lookup(type(obj), name)):  # 3.14: made when asked for
            raise unsupported_attribute(value, name)
        shared: Value = machine.recorder.wrap(found, sources.Attribute(_base_of(value), name))
        return shared
    try:
        result: Value = from_python(machine, found)
    except NotKnown:
        if callable(found):
            return NativeMethod(value, name)
        if is_immutable(obj) and is_immutable(found):
            return Known(found)
        raise unsupported_attribute(value, name) from None
    return result


# -- functions -----------------------------------------------------------------------------------


def _method_attribute(machine: Machine, value: BoundMethod, name: str) -> Steps[Value]:
    machine.recorder.use(value)
    if name == "__self__":
        return value.self
    if name == "__class__":
        return Known(value.python_type)
    if name == "__func__" and value.python_type is types.MethodType:
        return value.function
    if value.python_type is not types.MethodType and name not in ("__name__", "__doc__"):
        raise unsupported_attribute(value, name)
    if name == "__get__" and lookup(types.MethodType, name) is not MISSING:
        return NativeMethod(value, name)  # 3.11 has none, and shows that of the function
    return (yield from get_attribute(machine, value.function, name))


def _function_attribute(machine: Machine, value: FunctionValue, name: str) -> Value:
    contents = machine.heap[value.identity]
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
    raise_python(machine, AttributeError, f"'function' object has no attribute '{name}'")
    raise AssertionError


def _partial_attribute(machine: Machine, value: PartialValue, name: str) -> Value:
    if name == "func":
        return value.function
    if name == "args":
        return TupleValue(value.args)
    if name == "keywords":
        pairs = [(constant(key), item) for key, item in value.keywords.items()]
        made: Value = new_dict(machine, pairs)
        return made
    if value.is_method and name == "__self__" and isinstance(value.function, BoundMethod):
        return value.function.self
    if value.is_method:
        raise unsupported_attribute(value, name)  # partialmethod stores more in what it gives
    return _attribute_of_partials(machine, value, name)


def _existing_partial_attribute(machine: Machine, value: Opaque, name: str) -> Value:
    """What a partial object holds; it may have attributes of its own, which come second."""
    machine.recorder.use(value)
    fields = text_keyed(vars(value.object))
    if name in ("func", "args", "keywords") or name in fields:
        found = getattr(value.object, name)
        stored: Value = machine.recorder.wrap(found, sources.Attribute(value.source, name))
        return stored
    machine.recorder.guard(value.source, Kind.INSTANCE_LACKS, name, "missing attribute")
    return _attribute_of_partials(machine, value, name)


def _attribute_of_partials(machine: Machine, value: Value, name: str) -> Value:
    """What the class of partial objects has under a name."""
    raw = lookup(functools.partial, name)
    if raw is MISSING:
        kind = type_name(functools.partial)
        raise_python(machine, AttributeError, f"'{kind}' object has no attribute '{name}'")
    if name == "__class__":
        return Known(functools.partial)
    if isinstance(raw, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        return BoundMethod(Known(raw), value)
    if isinstance(raw, str):
        return constant(raw)
    if isinstance(raw, types.BuiltinFunctionType):
        return Known(raw)
    if isinstance(raw, types.ClassMethodDescriptorType):
        return NativeMethod(Known(functools.partial), name)
    raise unsupported_attribute(value, name)


# -- instances -----------------------------------------------------------------------------------
