"""Turning values into Python objects and back, truth, length, identity, hashing.

Functions of the machine (`capture.machine.machine`). A function
that may
run user code is a generator: it yields frames to run and is sent their results.
"""

import enum
import functools
import types
from collections.abc import Callable
from typing import Any, Final, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.guards.identity_keys import note_key
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import NotKnown, Raised, raise_python
from dynajit.capture.machine.frames import Answer, Steps
from dynajit.capture.machine.immutables import is_numpy_number
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    HeapValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod, FunctionValue, NativeMethod
from dynajit.capture.values.objects import DISGUISED, ObjectValue
from dynajit.capture.values.plain_classes import name_of
from dynajit.capture.values.storage import is_not_equal_to_itself, keeps, storage_of
from dynajit.capture.values.symbolic import (
    Constant,
    Known,
    Opaque,
    Scalar,
    Value,
    constant,
)
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import (
    MISSING,
    class_with_methods,
    has_own_operators,
    lookup,
    user_method,
)
from dynajit.core.records import record
from dynajit.ops.native._library_call import LibraryFunction


def at_once(handler: Callable[..., Answer]) -> Callable[..., Steps[Answer]]:
    """A handler that runs nothing of the program, as the generator that callers expect."""

    @functools.wraps(handler)
    def steps(*args: Any) -> Steps[Answer]:
        yield from ()
        return handler(*args)

    return steps


@record
class Stands:
    """Key of a tensor or an object made by the captured code: equal to itself alone."""

    identity: int


_NAMED: Final = (
    types.FunctionType, types.BuiltinFunctionType, types.MethodDescriptorType,
    types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType,
    LibraryFunction,
)  # fmt: skip


def describe(value: Any) -> str:
    """A short text for break details."""
    if isinstance(value, (Constant, Scalar)):
        kind = value.python_type.__name__
        try:
            return f"{kind} {value.value!r}"[:60]
        except ValueError:  # more digits than the interpreter turns into text
            return kind
    if isinstance(value, Known):
        obj = value.object
        if isinstance(obj, type):
            return str(type.__getattribute__(obj, "__qualname__"))
        return str(obj.__qualname__) if isinstance(obj, _NAMED) else type(obj).__name__
    if isinstance(value, NativeMethod):
        return f"{value.receiver.python_type.__name__}.{value.name}"
    if isinstance(value, BoundMethod):
        return describe(value.function)
    if isinstance(value, Value):
        try:
            return name_of(value.python_type)
        except NotImplementedError:
            return "a value without a type"
    return type_name(type(value))


def type_name(cls: type) -> str:
    """The name of a class in messages: classes written in C may have that of their module in it."""
    asked: Any = str if issubclass(cls, int) else int
    try:
        asked.__new__(cls)
    except TypeError as error:
        return str(error).partition("(")[2].partition("): ")[0]
    return cls.__name__


def unsupported(what: str, *values: Any) -> GraphBreak:
    """The break for an operation that is not modelled on these operands."""
    operands = ", ".join(describe(value) for value in values)
    detail = f"{what}({operands})" if values else what
    return GraphBreak(breaks.UNSUPPORTED_OPERATION, detail)


def defines(cls: type, name: str) -> bool:
    """True if instances of `cls` have a special method; the metaclass does not count.

    Raises:
        GraphBreak: the class says `name = None`, which refuses the operation in ways of its own.
    """
    if lacks(cls, name):
        raise GraphBreak(breaks.UNSUPPORTED_ATTRIBUTE, f"{DISGUISED[cls].__qualname__}.{name}")
    found = lookup(cls, name)
    if found is None and name != "__hash__":
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{name} = None")
    return found is not None and found is not MISSING


def lacks(cls: type, name: str) -> bool:
    """True if the C class for which `cls` stands has an attribute that this form has not."""
    return cls in DISGUISED and _is_missing(cls, name)


@functools.cache
def _is_missing(form: type, name: str) -> bool:
    def owner(cls: type) -> type:
        return next((base for base in cls.__mro__ if name in vars(base)), object)

    return owner(DISGUISED[form]) is not object and owner(form) is object


# -- to Python and back --------------------------------------------------------------------------


def as_python(machine: Machine, value: Value) -> Any:
    """The Python object of a fully known immutable value, guarded.

    Raises:
        NotKnown: it is not known, or mutable.
    """
    if isinstance(value, (Constant, Known)):
        machine.recorder.use(value)
        return value.value if isinstance(value, Constant) else value.object
    if isinstance(value, Scalar):
        return machine.recorder.specialise(value)
    if isinstance(value, TupleValue):
        machine.recorder.use(value)
        items = [as_python(machine, item) for item in value.items]
        return tuple(items) if value.cls is tuple else make_tuple(value.cls, items)
    if isinstance(value, SliceValue):
        machine.recorder.use(value)
        return slice(*(as_python(machine, part) for part in (value.start, value.stop, value.step)))
    raise NotKnown(describe(value))


def make_tuple(cls: type, items: list[Any]) -> Any:
    return tuple.__new__(cls, items) if hasattr(cls, "_fields") else cls(items)


def is_known(value: Value) -> bool:
    """True if `as_python` would succeed."""
    if isinstance(value, (Constant, Known, Scalar)):
        return True
    if isinstance(value, TupleValue):
        return all(is_known(item) for item in value.items)
    if isinstance(value, SliceValue):
        return all(is_known(part) for part in (value.start, value.stop, value.step))
    return False


def plain_number(machine: Machine, value: Value) -> Value:
    """A number of NumPy's, or a member of an enumeration of numbers, as the Python number that
    tensors take it for; others as they are."""
    if not isinstance(value, Known):
        return value
    if is_numpy_number(value.object):
        return constant(value.object.item())
    member = value.object
    for kind in (int, float):
        if isinstance(member, kind) and isinstance(member, enum.Enum):
            if has_own_operators(type(member)):
                return value
            machine.recorder.use(value)
            return constant(int(member) if kind is int else float(member))
    return value


def type_of(machine: Machine, value: Value) -> type:
    """`type(value)`, guarded."""
    if isinstance(value, Scalar):
        machine.recorder.use_scalar_type(value)
    else:
        machine.recorder.use(value)
    return value.python_type


def is_none(machine: Machine, value: Value) -> bool:
    """`value is None` as a Python bool, guarded either way."""
    return type_of(machine, value) is type(None)


def is_not_implemented(machine: Machine, value: Value) -> bool:
    """`value is NotImplemented` as a Python bool, guarded either way."""
    return type_of(machine, value) is type(NotImplemented)


# -- truth, length, identity ---------------------------------------------------------------------


def is_same(machine: Machine, a: Value, b: Value) -> bool:
    """`a is b`."""
    if a is b:
        return True
    if isinstance(a, DictViewValue) or isinstance(b, DictViewValue):
        return False
    if a.object_id is not None or b.object_id is not None:
        if not _have_identities(a, b):
            raise unsupported("is", a, b)
        return _is_same_object(machine, a, b)
    for value in (a, b):
        type_of(machine, value)
    if isinstance(a, (Constant, Scalar)) and isinstance(b, (Constant, Scalar)):
        if a.python_type is not b.python_type:
            return False
        left, right = as_python(machine, a), as_python(machine, b)
        if isinstance(left, (bool, type(None), type(Ellipsis), type(NotImplemented))):
            return left is right
        if left != right and (left == left or right == right):
            return False
        if type(left) is int and left in SMALL_INTS:
            return True
        if _are_told_apart(machine, a, b):
            return left is right  # computed by the operations that the program does, or guarded
        raise unsupported("is", a, b)
    if isinstance(a, Known) and isinstance(b, Known):
        return a.object is b.object
    if isinstance(a, _WITHOUT_ID) or isinstance(b, _WITHOUT_ID):
        if a.python_type is not b.python_type:
            return False
        if isinstance(a, TupleValue) and isinstance(b, TupleValue):
            machine.recorder.use(a)
            machine.recorder.use(b)
            if a.cls is tuple and not a.items and not b.items:
                return True  # there is one empty tuple
            if len(a.items) != len(b.items):
                return False
        raise unsupported("is", a, b)
    return False


def _have_identities(a: Value, b: Value) -> bool:
    """False for two numbers of Python's of one class: equal ones may be one object."""
    if a.object_id is not None and a.object_id == b.object_id:
        return True
    kinds = a.python_type, b.python_type
    return kinds[0] is not kinds[1] or not any(kinds[0] is kind for kind in (int, float, bool))


def _are_told_apart(machine: Machine, *values: Value) -> bool:
    """True if each is a known object: made by the captured code, or found at a place that can be
    guarded; guarded."""
    if not all(isinstance(value, Constant) for value in values):
        return False
    found = [value.source for value in values if isinstance(value, Constant)]
    found = [source for source in found if source is not None]
    if not all(source.is_guardable for source in found):
        return False
    for value in values:
        if isinstance(value, Constant) and value.source is not None:
            machine.recorder.guard(value.source, Kind.IDENTITY, value.value, "identity comparison")
    return True


#: CPython has one object for each of these.
SMALL_INTS: Final = range(-5, 257)

#: Handles of objects whose identity they do not tell.
_WITHOUT_ID: Final = (Opaque, TupleValue, SliceValue, BoundMethod)


def _is_same_object(machine: Machine, a: Value, b: Value) -> bool:
    recorder = machine.recorder
    recorder.use(a)
    recorder.use(b)
    if a.object_id is None or b.object_id is None:
        return False
    if a.object_id == b.object_id:
        return True
    existing = [recorder.existing_at(value.object_id) for value in (a, b)]
    if all(found is not None for found in existing):
        assert isinstance(a, HeapValue) and isinstance(b, HeapValue)
        if isinstance(a.source, sources.LeafOf) or isinstance(b.source, sources.LeafOf):
            return False  # made anew in every call
        recorder.guard(a.source, Kind.NOT_ALIASED, b.source, "identity comparison")
    return False


def _hash_of(cls: Any) -> Any:
    """What instances are hashed by; None where the class says that they have no hash."""
    return cls.__hash__


def hashable(machine: Machine, value: Value) -> Any:
    """A Python object that stands for `value` as a dict key or set member, guarded.

    Known values stand for themselves, so that 1, 1.0 and True are one key as in Python.

    Raises:
        GraphBreak: hashing would run user code or need the contents of a tensor.
    """
    if isinstance(value, Known) and class_with_methods(value, "__hash__") is not None:
        raise GraphBreak(breaks.UNKNOWN_HASH, describe(value))
    if isinstance(value, (Constant, Known, Scalar)) or is_known(value):
        if user_method(value, "__hash__", "__eq__") is not None:
            raise GraphBreak(breaks.UNKNOWN_HASH, describe(value))
        if _holds_nan(value):
            raise unsupported("hash", value)  # it hashes by identity, which no guard tells
        found = as_python(machine, value)
        try:
            hash(found)
        except TypeError as error:
            raise_python(machine, TypeError, str(error))
        return found
    if isinstance(value, TupleValue):
        machine.recorder.use(value)
        return tuple(hashable(machine, item) for item in value.items)
    if isinstance(value, TensorValue):
        machine.recorder.use(value)
        note_key(machine.recorder, value)
        return Stands(value.identity)
    if isinstance(value, ObjectValue) and _hash_of(value.cls) is object.__hash__:
        machine.recorder.use(value)
        note_key(machine.recorder, value)
        existing = machine.recorder.existing(value)
        return existing if existing is not None else Stands(value.identity)
    storage = storage_of(machine, value)
    if (
        isinstance(storage, (Constant, Scalar, TupleValue))
        and keeps(value, "__hash__", "__eq__")
        and not is_not_equal_to_itself(storage)
    ):
        return hashable(machine, storage)
    if isinstance(value, FunctionValue):
        return Stands(value.identity)
    is_object = isinstance(value, ObjectValue) and _hash_of(value.cls) is None
    if is_object or isinstance(value, (ListValue, DictValue, SetValue)):
        raise_python(machine, TypeError, f"unhashable type: '{type_name(type_of(machine, value))}'")
    raise GraphBreak(breaks.UNKNOWN_HASH, describe(value))


def _holds_nan(value: Value) -> bool:
    """True for a nan that the captured code did not make, and for a tuple with one."""
    if isinstance(value, TupleValue):
        return any(map(_holds_nan, value.items))
    return getattr(value, "source", None) is not None and is_not_equal_to_itself(value)


def hashable_as(machine: Machine, value: Value, role: str) -> Any:
    """`hashable`; from 3.14 on the error says what the object was to be, "dict key" for example."""
    try:
        return hashable(machine, value)
    except Raised as raised:
        raise_for_role(machine, value, role, raised)


def raise_for_role(machine: Machine, value: Value, role: str, raised: Raised) -> NoReturn:
    """Raise what `__hash__` has raised for what was to be a "dict key" or "set element".

    Source: CPython 3.14, dict_unhashable_type and set_unhashable_type.
    """
    if not IS_314 or raised.value.cls is not TypeError:
        raise raised
    told = machine.heap[raised.value.identity].construct
    if len(told) != 1 or not is_known(told[0]):
        raise GraphBreak(breaks.UNKNOWN_HASH, describe(value))
    name = full_name(type_of(machine, value))
    raise_python(
        machine, TypeError, f"cannot use '{name}' as a {role} ({as_python(machine, told[0])})"
    )


def full_name(cls: type) -> str:
    """The name of a class as messages of 3.14 give it."""
    if cls.__module__ in ("builtins", "__main__"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def unsupported_attribute(value: Any, name: str) -> GraphBreak:
    """The break for an attribute that is not modelled."""
    return GraphBreak(breaks.UNSUPPORTED_ATTRIBUTE, f"{describe(value)}.{name}")


def same_object(machine: Machine, a: Value, b: Value) -> bool:
    """True where Python takes two items for one object, which containers do not compare; guarded.

    Raises:
        GraphBreak: two numbers that are not equal to themselves may be one object or two.
    """
    if a is b:
        return True
    if isinstance(a, Known) and isinstance(b, Known):
        if a.object is b.object:
            machine.recorder.use(a)
            machine.recorder.use(b)
        return a.object is b.object
    if a.object_id is not None and b.object_id is not None:
        # Whether containers are one object does not matter: that shows in their items.
        containers = (ListValue, DictValue, SetValue)
        if isinstance(a, containers) and isinstance(b, containers) and a.object_id != b.object_id:
            return False
        return is_same(machine, a, b)
    literals = (Constant, Scalar)
    if not isinstance(a, literals) or not isinstance(b, literals):
        return False
    if isinstance(a, Constant) and isinstance(b, Constant) and a.source is b.source is None:
        return a.value is b.value
    if a.value != a.value and b.value != b.value:
        raise unsupported("identity", a, b)
    return False
