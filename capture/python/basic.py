"""Turning values into Python objects and back, truth, length, identity, hashing.

Methods of the executor (`x`), written as functions; see `capture.execution.executor`. A function
that may
run user code is a generator: it yields frames to run and is sent their results.
"""

import enum
import functools
import types
from collections import OrderedDict
from collections.abc import Callable, Generator
from typing import Any, Final, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.guards.facts import Predicate
from dynajit.capture.guards.guards import Kind
from dynajit.capture.guards.identity_keys import note_key
from dynajit.capture.guards.relations import COMPARISONS
from dynajit.capture.machine.awaiting import checked_bool, length_is_true, then
from dynajit.capture.machine.exceptions import NotKnown, Raised, raise_python
from dynajit.capture.machine.immutables import is_numpy_number
from dynajit.capture.places import sources
from dynajit.capture.values.class_layouts import is_plain_tuple
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod, CellValue, FunctionValue, NativeMethod
from dynajit.capture.values.objects import DISGUISED, ObjectValue, TracebackValue
from dynajit.capture.values.plain_classes import name_of
from dynajit.capture.values.storage import is_not_equal_to_itself, keeps, storage_of
from dynajit.capture.values.symbolic import (
    LITERAL_TYPES,
    Constant,
    Known,
    Opaque,
    Scalar,
    Value,
    constant,
)
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, class_with_methods, lookup, user_method
from dynajit.core.records import record
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import SymInt
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ops.native._library_call import LibraryFunction

Steps = Generator[Any, Any, Any]


def at_once(handler: Callable[..., Any]) -> Callable[..., Steps]:
    """A handler that runs nothing of the program, as the generator that callers expect."""

    @functools.wraps(handler)
    def steps(*args: Any) -> Steps:
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
            return type(value).__name__
    return repr(value)


def type_name(cls: type) -> str:
    """The name of a class in messages: classes written in C may have that of their module in it."""
    asked = str if issubclass(cls, int) else int
    try:
        asked.__new__(cls)
    except TypeError as error:
        return str(error).partition("(")[2].partition("): ")[0]
    return cls.__name__


def unsupported(what: str, *values: Any) -> GraphBreak:
    """The break for an operation that is not modelled on these operands."""
    operands = ", ".join(describe(value) for value in values)
    return GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{what}({operands})")


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


def as_python(x: Any, value: Value) -> Any:
    """The Python object of a fully known immutable value, guarded.

    Raises:
        NotKnown: it is not known, or mutable.
    """
    if isinstance(value, (Constant, Known)):
        x.recorder.use(value)
        return value.value if isinstance(value, Constant) else value.object
    if isinstance(value, Scalar):
        return x.recorder.specialise(value)
    if isinstance(value, TupleValue):
        x.recorder.use(value)
        items = [as_python(x, item) for item in value.items]
        return tuple(items) if value.cls is tuple else _make_tuple(value.cls, items)
    if isinstance(value, SliceValue):
        x.recorder.use(value)
        return slice(*(as_python(x, part) for part in (value.start, value.stop, value.step)))
    raise NotKnown(describe(value))


def _make_tuple(cls: type, items: list[Any]) -> Any:
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


def plain_number(value: Value) -> Value:
    """A number of NumPy's as the Python number that tensors take it for; others as they are."""
    if isinstance(value, Known) and is_numpy_number(value.object):
        return constant(value.object.item())
    return value


def to_native(x: Any, value: Value, specialise: bool) -> Any:
    """What a library function is called with: graph values for tensors, else Python objects.

    Raises:
        NotKnown: the value has no such form.
    """
    if isinstance(value, TensorValue):
        return x.recorder.graph_value(value)
    if isinstance(value, Scalar) and not specialise:
        return x.recorder.lift_scalar(value)
    if isinstance(value, Scalar):
        size = x.recorder.sizes.shape_int(value)
        return x.recorder.specialise(value) if size is None else size
    if isinstance(value, TupleValue):
        x.recorder.use(value)
        items = [to_native(x, item, specialise) for item in value.items]
        return tuple(items) if value.cls is tuple else _make_tuple(value.cls, items)
    if isinstance(value, ListValue):
        return [to_native(x, item, specialise) for item in x.list_items(value)]
    if isinstance(value, DictValue):
        entries = x.dict_entries(value).values()
        return {as_python(x, key): to_native(x, item, specialise) for key, item in entries}
    if isinstance(value, SliceValue):
        x.recorder.use(value)
        parts = (value.start, value.stop, value.step)
        return slice(*(to_native(x, part, True) for part in parts))
    storage = storage_of(x, value)
    if storage is not None and keeps(value, *_CONVERSIONS):
        return to_native(x, storage, specialise)
    return as_python(x, value)


#: What library functions ask of numbers, containers and texts.
_CONVERSIONS: Final = (
    "__index__", "__int__", "__float__", "__complex__", "__iter__", "__len__", "__getitem__",
    "__eq__", "__str__", "items", "keys",
)  # fmt: skip


def from_python(x: Any, result: Any, operands: tuple[Value, ...] = ()) -> Value:
    """The value of what a library function or a folded operation returned.

    Args:
        operands: tensors among them are returned by identity.

    Raises:
        NotKnown: an object that is not modelled.
    """
    if isinstance(result, graph.Value):
        return _tensor_result(x, result, operands)
    if any(type(result) is kind for kind in LITERAL_TYPES):
        return constant(result)
    if isinstance(result, SymInt):
        size: Value = x.size_value(result)
        return size
    if isinstance(result, tuple):
        if hasattr(result, "_fields") and not is_plain_tuple(type(result)):
            raise NotKnown(type(result).__name__)
        items = tuple(from_python(x, item, operands) for item in result)
        return TupleValue(items, type(result))
    if type(result) is list:
        return x.new_list([from_python(x, item, operands) for item in result])
    if type(result) is dict or type(result) is OrderedDict:
        pairs = [
            (from_python(x, key), from_python(x, item, operands)) for key, item in result.items()
        ]
        return x.new_dict(pairs, type(result))
    if type(result) is slice:
        parts = [from_python(x, part) for part in (result.start, result.stop, result.step)]
        return SliceValue(*parts)
    if isinstance(result, (DType, Device, type)):
        return Known(result)
    raise NotKnown(type(result).__name__)


def _tensor_result(x: Any, result: graph.Value, operands: tuple[Value, ...]) -> Value:
    for operand in operands:
        if isinstance(operand, TensorValue):
            if x.recorder.graph_value(operand).node is result.node:
                return operand
        elif isinstance(operand, TupleValue):
            for item in operand.items:
                if (
                    isinstance(item, TensorValue)
                    and x.recorder.graph_value(item).node is result.node
                ):
                    return item
    value: Value = x.recorder.new_tensor(result, Tensor)
    return value


def type_of(x: Any, value: Value) -> type:
    """`type(value)`, guarded."""
    if isinstance(value, Scalar):
        x.recorder.use_scalar_type(value)
    else:
        x.recorder.use(value)
    return value.python_type


def is_none(x: Any, value: Value) -> bool:
    """`value is None` as a Python bool, guarded either way."""
    return type_of(x, value) is type(None)


def is_not_implemented(x: Any, value: Value) -> bool:
    """`value is NotImplemented` as a Python bool, guarded either way."""
    return type_of(x, value) is type(NotImplemented)


# -- truth, length, identity ---------------------------------------------------------------------


def truth(x: Any, value: Value) -> Steps:
    """`bool(value)` as a Python bool."""
    if isinstance(value, Constant):
        x.recorder.use(value)
        return bool(value.value)
    if isinstance(value, Scalar):
        return scalar_predicate(x, value, "!=", 0)
    if isinstance(value, TensorValue):
        raise GraphBreak(breaks.DATA_DEPENDENT_BRANCH, "the truth of a tensor")
    if isinstance(value, TupleValue):
        x.recorder.use(value)
        return bool(value.items)
    if isinstance(value, (ListValue, DictValue, SetValue)):
        return container_truth(x, value)
    cls = class_with_methods(value, "__bool__", "__len__")
    if cls is not None:
        return (yield from _object_truth(x, value, cls))
    if isinstance(value, DictViewValue):
        return bool(x.dict_entries(value.dictionary))
    if isinstance(value, (Known, FunctionValue, BoundMethod, NativeMethod, CellValue)):
        x.recorder.use(value)
        if user_method(value, "__bool__", "__len__") is not None:
            raise unsupported("bool", value)
        return bool(value.object) if isinstance(value, Known) else True
    if isinstance(value, (IteratorValue, TracebackValue)):
        x.recorder.use(value)
        return True
    raise unsupported("bool", value)


def container_truth(x: Any, value: Any) -> bool:
    """Truth of a list, dict or set, without reading the items of one that was not read."""
    existing = x.recorder.existing(value)
    if x.heap[value.identity] is None and existing is not None:
        x.recorder.use(value)
        is_filled = native_length(value, existing) > 0
        base = x.recorder.first_source(value)
        x.recorder.guard(base, Kind.TRUE_VALUE, is_filled, "truth of a container")
        return is_filled
    return length_of_container(x, value) > 0


def _object_truth(x: Any, value: Value, cls: type) -> Steps:
    x.recorder.use(value)
    for name in ("__bool__", "__len__"):
        if defines(cls, name):
            method = yield from x.get_special(value, name)
            check = checked_bool if name == "__bool__" else length_is_true
            result = yield from then(x.call(method, [], {}), check)
            if name == "__len__":
                return checked_length(x, result) > 0
            if x.type_of(result) is not bool:
                kind = type_name(result.python_type)
                raise_python(x, TypeError, f"__bool__ should return bool, returned {kind}")
            return (yield from truth(x, result))
    return True


def checked_length(x: Any, result: Value) -> int:
    """What `__len__` returned, as `len` takes it."""
    if not is_known(result):
        raise unsupported("len", result)
    found = as_python(x, result)
    try:
        return range(found).__len__() if found >= 0 else _negative_length(x)
    except TypeError as error:
        raise_python(x, TypeError, *error.args)
        raise
    except OverflowError:
        raise_python(x, OverflowError, "cannot fit 'int' into an index-sized integer")
        raise


def _negative_length(x: Any) -> int:
    raise_python(x, ValueError, "__len__() should return >= 0")
    raise AssertionError


def scalar_predicate(x: Any, value: Scalar, symbol: str, other: int | float) -> bool:
    """The outcome of comparing a run-time number with a constant; the outcome is guarded."""
    outcome = COMPARISONS[symbol](value.value, other)
    size = x.recorder.sizes.expression_of(value) if type(other) is int else None
    if value.symbolic is not None and size is None:
        x.recorder.specialise(value)
        return bool(outcome)
    if size is not None and (value.symbolic is not None or value.expression is not None):
        return bool(x.recorder.sizes.decide(symbol, size, other))
    if value.expression is not None:
        x.recorder.specialise(value)
        return bool(outcome)
    fact = Predicate(value.python_type, ((symbol, other),), negated=not outcome)
    x.recorder.guard(value.source, Kind.PREDICATE, fact, "comparison of a number")
    return bool(outcome)


def guard_other_text(x: Any, a: Value, b: Value) -> bool:
    """True if a text of the program's input differs from a text that stays the same; guarded.

    Only that it differs: one version serves every other text. What equals a constant is that
    constant, which the caller guards.
    """
    if not (isinstance(a, Constant) and isinstance(b, Constant)):
        return False
    if not (type(a.value) is type(b.value) is str) or a.value == b.value:
        return False
    if not _is_argument(a):
        a, b = b, a
    if not _is_argument(a) or _is_argument(b):
        return False
    x.recorder.use(b)
    fact = Predicate(str, (("!=", b.value),))
    x.recorder.guard(a.source, Kind.PREDICATE, fact, "comparison of a text")
    return True


def _is_argument(value: Constant) -> bool:
    """True for what an argument holds: other calls may bring another one."""
    return isinstance(getattr(value.source, "root", None), sources.Local)


def length(x: Any, value: Value) -> Steps:
    """`len(value)` as an int, which is symbolic for a tensor whose size varies."""
    if isinstance(value, Constant) and hasattr(value.value, "__len__"):
        x.recorder.use(value)
        try:
            return len(value.value)
        except OverflowError as error:  # a range
            raise_python(x, OverflowError, *error.args)
    if isinstance(value, TensorValue):
        shape = x.tensor_type(value).shape
        if not shape:
            raise_python(x, TypeError, "len() of a 0-d tensor")
        return shape[0]
    if isinstance(value, (TupleValue, ListValue, DictValue, SetValue)):
        return length_of_container(x, value)
    if isinstance(value, DictViewValue):
        return len(x.dict_entries(value.dictionary))
    cls = class_with_methods(value, "__len__")
    if cls is not None and defines(cls, "__len__"):
        method = yield from x.get_special(value, "__len__")
        result = yield from x.call(method, [], {})
        if isinstance(result, Scalar) and result.symbolic is not None:
            return result.symbolic
        return checked_length(x, result)
    if isinstance(value, Known) and isinstance(value.object, enum.EnumMeta):
        return len(as_python(x, value))
    if not defines(value.python_type, "__len__"):
        raise_python(x, TypeError, f"object of type '{type_name(x.type_of(value))}' has no len()")
    raise unsupported("len", value)


def native_length(value: Any, existing: Any) -> int:
    """The length of an existing container, whatever a derived class says."""
    count: int = value.cls.__len__(existing)
    return count


def length_of_container(x: Any, value: Any) -> int:
    """Number of items of a tuple, list, dict or set."""
    if isinstance(value, TupleValue):
        x.recorder.use(value)
        return len(value.items)
    existing = x.recorder.existing(value)
    if x.heap[value.identity] is None and existing is not None:
        x.recorder.use(value)
        count = native_length(value, existing)
        x.recorder.guard(x.recorder.first_source(value), Kind.LENGTH, count, "length")
        return count
    if isinstance(value, ListValue):
        return len(x.list_items(value))
    if isinstance(value, DictValue):
        return len(x.dict_entries(value))
    return len(x.set_entries(value))


def is_same(x: Any, a: Value, b: Value) -> bool:
    """`a is b`."""
    if a is b:
        return True
    if isinstance(a, DictViewValue) or isinstance(b, DictViewValue):
        return False
    if a.object_id is not None or b.object_id is not None:
        return _is_same_object(x, a, b)
    for value in (a, b):
        type_of(x, value)
    if isinstance(a, (Constant, Scalar)) and isinstance(b, (Constant, Scalar)):
        if a.python_type is not b.python_type:
            return False
        left, right = as_python(x, a), as_python(x, b)
        if isinstance(left, (bool, type(None), type(Ellipsis), type(NotImplemented))):
            return left is right
        if left != right and (left == left or right == right):
            return False
        if type(left) is int and left in SMALL_INTS:
            return True
        if _are_told_apart(x, a, b):
            return left is right  # computed by the operations that the program does, or guarded
        raise unsupported("is", a, b)
    if isinstance(a, Known) and isinstance(b, Known):
        return a.object is b.object
    if isinstance(a, _WITHOUT_ID) or isinstance(b, _WITHOUT_ID):
        if a.python_type is not b.python_type:
            return False
        if isinstance(a, TupleValue) and isinstance(b, TupleValue):
            x.recorder.use(a)
            x.recorder.use(b)
            if a.cls is tuple and not a.items and not b.items:
                return True  # there is one empty tuple
            if len(a.items) != len(b.items):
                return False
        raise unsupported("is", a, b)
    return False


def _are_told_apart(x: Any, *values: Value) -> bool:
    """True if each is a known object: made by the captured code, or found at a place that can be
    guarded; guarded."""
    if not all(isinstance(value, Constant) for value in values):
        return False
    found = [value.source for value in values if value.source is not None]
    if not all(source.is_guardable for source in found):
        return False
    for value in values:
        if isinstance(value, Constant) and value.source is not None:
            x.recorder.guard(value.source, Kind.IDENTITY, value.value, "identity comparison")
    return True


#: CPython has one object for each of these.
SMALL_INTS: Final = range(-5, 257)

#: Handles of objects whose identity they do not tell.
_WITHOUT_ID: Final = (Opaque, TupleValue, SliceValue, BoundMethod)


def _is_same_object(x: Any, a: Value, b: Value) -> bool:
    recorder = x.recorder
    recorder.use(a)
    recorder.use(b)
    if a.object_id is None or b.object_id is None:
        return False
    if a.object_id == b.object_id:
        return True
    if recorder.existing(a) is not None and recorder.existing(b) is not None:
        recorder.guard(a.source, Kind.NOT_ALIASED, b.source, "identity comparison")
    return False


def hashable(x: Any, value: Value) -> Any:
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
        found = as_python(x, value)
        try:
            hash(found)
        except TypeError as error:
            raise_python(x, TypeError, str(error))
        return found
    if isinstance(value, TupleValue):
        x.recorder.use(value)
        return tuple(hashable(x, item) for item in value.items)
    if isinstance(value, TensorValue):
        x.recorder.use(value)
        note_key(x.recorder, value)
        return Stands(value.identity)
    if isinstance(value, ObjectValue) and value.cls.__hash__ is object.__hash__:
        x.recorder.use(value)
        note_key(x.recorder, value)
        existing = x.recorder.existing(value)
        return existing if existing is not None else Stands(value.identity)
    storage = storage_of(x, value)
    is_kept = isinstance(storage, (Constant, Scalar, TupleValue))
    if is_kept and keeps(value, "__hash__", "__eq__") and not is_not_equal_to_itself(storage):
        return hashable(x, storage)
    if isinstance(value, FunctionValue):
        return Stands(value.identity)
    is_object = isinstance(value, ObjectValue) and value.cls.__hash__ is None
    if is_object or isinstance(value, (ListValue, DictValue, SetValue)):
        raise_python(x, TypeError, f"unhashable type: '{type_name(type_of(x, value))}'")
    raise GraphBreak(breaks.UNKNOWN_HASH, describe(value))


def _holds_nan(value: Value) -> bool:
    """True for a nan that the captured code did not make, and for a tuple with one."""
    if isinstance(value, TupleValue):
        return any(map(_holds_nan, value.items))
    return getattr(value, "source", None) is not None and is_not_equal_to_itself(value)


def hashable_as(x: Any, value: Value, role: str) -> Any:
    """`hashable`; from 3.14 on the error says what the object was to be, "dict key" for example."""
    try:
        return hashable(x, value)
    except Raised as raised:
        raise_for_role(x, value, role, raised)


def raise_for_role(x: Any, value: Value, role: str, raised: Raised) -> NoReturn:
    """Raise what `__hash__` has raised for what was to be a "dict key" or "set element".

    Source: CPython 3.14, dict_unhashable_type and set_unhashable_type.
    """
    if not IS_314 or raised.value.cls is not TypeError:
        raise raised
    told = x.heap[raised.value.identity].construct
    if len(told) != 1 or not is_known(told[0]):
        raise GraphBreak(breaks.UNKNOWN_HASH, describe(value))
    name = full_name(x.type_of(value))
    raise_python(x, TypeError, f"cannot use '{name}' as a {role} ({as_python(x, told[0])})")


def full_name(cls: type) -> str:
    """The name of a class as messages of 3.14 give it."""
    if cls.__module__ in ("builtins", "__main__"):
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"
