"""Objects that existed before the captured call, and the values that stand for them.

Mutable; one per capture, as the base of its recorder. An object has one heap id, however many
places it is met at; a place (`Source`) has one value. Values of objects that the program may not
see through (code of its own would run) are opaque.
"""

import enum
import types
from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any, Final, TypeVar

import numpy as np

from dynajit.capture import breaks
from dynajit.capture._capture import CompiledFunction
from dynajit.capture.guards.classes_met import ClassesMet
from dynajit.capture.machine import lifetimes
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.immutables import ARRAYS, is_immutable, is_lasting, is_read_as_tensor
from dynajit.capture.places import sources
from dynajit.capture.places.reload import proxied
from dynajit.capture.places.sources import Source
from dynajit.capture.values.class_layouts import (
    is_modelled_class,
    is_modelled_tensor,
    is_plain_tuple,
)
from dynajit.capture.values.containers import (
    DictValue,
    ExistingIterator,
    HeapValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod, CellValue
from dynajit.capture.values.objects import READ_AS, ObjectContents, ObjectValue
from dynajit.capture.values.storage import CHANGING, DequeItems, native_base, plain
from dynajit.capture.values.symbolic import LITERAL_TYPES, Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.capture.values.users_code import answers_itself
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.eager import Tensor
from dynajit.eager.tensor.creation import tensor_over
from dynajit.ops.calls.namespaces import GraphCallable
from dynajit.ops.native._library_call import LibraryFunction
from dynajit.ops.table.op_table import Op

#: Classes whose instances are known by identity, although they are not functions or classes.
_KNOWN_INSTANCES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodWrapperType,
    types.CodeType,
    types.GenericAlias,
    types.UnionType,
    staticmethod,
    classmethod,
    property,
    enum.Enum,
    DType,
    Device,
    Op,
    LibraryFunction,
    GraphCallable,
    np.ufunc,
    type(np.prod),  # most functions of NumPy: they look for `__array_function__` first
    type(len),
    CompiledFunction,
)

_HARMLESS = (type, types.FunctionType, types.BuiltinFunctionType, LibraryFunction)

_ITERATOR_TYPES: Final[tuple[type, ...]] = (
    type(iter([])),
    type(iter(())),
    type(iter({})),
    type(iter(range(0))),
    type(iter({}.values())),
    type(iter({}.items())),
    enumerate,
    zip,
    map,
    filter,
)

# By id: comparing the class of a user's object with another class may ask its metaclass.
_LITERALS = frozenset(map(id, LITERAL_TYPES))

#: Places that the program can empty: attributes and variables. Lengths and keys are guarded.
_MAY_BE_MISSING: Final = (
    sources.Attribute, sources.Builtin, sources.CellContents, sources.Closure, sources.Global,
)  # fmt: skip
_ITERATORS = frozenset(map(id, _ITERATOR_TYPES))
#: Classes of NumPy's arrays and numbers.
ARRAYS_BY_ID: Final = frozenset(map(id, ARRAYS))

#: A guard's number is an int of C.
_MOST_LIMITED: Final = 2**31

SLICE_FIELDS: Final = ("start", "stop", "step")

#: Every dict that code ran in as its globals has this key.
NAMESPACE_MARK: Final = "__builtins__"


def _reads_as_module(kind: type) -> bool:
    """True for a class of modules that shows attributes, `__class__` among them, as modules do."""
    plain = types.ModuleType
    return all(getattr(kind, n) is getattr(plain, n) for n in ("__getattribute__", "__class__"))


def is_harmless(obj: Any) -> bool:
    """True for a literal, a class or a function, and for tuples and frozensets of such."""
    kind = type(obj)
    if kind in (tuple, frozenset):
        return all(map(is_harmless, obj))
    return kind in LITERAL_TYPES or kind in _HARMLESS


#: A family of handles.
Handle = TypeVar("Handle", bound=HeapValue)


class ExistingObjects(ABC):
    """See the module's text."""

    def __init__(self) -> None:
        self.heap = Heap()
        self.classes = ClassesMet()
        #: Arrays of NumPy's are read as tensors: not in functions of this library.
        self.reads_arrays = True
        #: Source or heap id -> a value whose end does something
        #: (`capture.python.objects.watching`).
        self.watched: dict[Any, Value] = {}
        self._wrapped: dict[Source, Value] = {}
        self._by_object: dict[int, HeapValue] = {}
        self._existing: dict[int, Any] = {}
        self._storages: list[HeapValue] = []

    @abstractmethod
    def guard_exists(self, place: Source, reason: str = "") -> None:
        """Guard that there is something at a place that the program can empty."""

    @property
    @abstractmethod
    def output(self) -> tuple[Any, ...]:
        """Effects that write text, in order."""

    # -- what was met ----------------------------------------------------------------------

    def cells_of(self, function: types.FunctionType, base: Source) -> tuple[CellValue, ...]:
        """The closure of an existing function, which is found at `base`."""
        found = []
        for index, cell in enumerate(function.__closure__ or ()):
            value = self.wrap(cell, sources.ClosureCell(base, index))
            assert isinstance(value, CellValue)
            found.append(value)
        return tuple(found)

    def is_met(self, obj: Any) -> bool:
        """Whether the captured code has reached this object."""
        return id(obj) in self._by_object

    def handle_of(self, obj: Any) -> HeapValue | None:
        """The first handle of an existing object, if the captured code has reached it."""
        return self._by_object.get(id(obj))

    def _first_handle(self, value: HeapValue) -> HeapValue | None:
        existing = self._existing.get(value.identity)
        return None if existing is None else self._by_object.get(id(existing))

    def handles(self) -> list[HeapValue]:
        """The first handle of every existing object met so far; storage has one of its own."""
        return [*self._by_object.values(), *self._storages]

    def first_source(self, value: HeapValue) -> Source:
        """The source under which an existing object was met first."""
        first = self._first_handle(value)
        source: Source = value.source if first is None else first.source
        return source

    def existing(self, value: HeapValue) -> Any:
        """The Python object behind a handle of an object that existed before; else None."""
        return self._existing.get(value.identity)

    def existing_at(self, identity: int | None) -> Any:
        """The same by heap id."""
        return None if identity is None else self._existing.get(identity)

    def existing_of(self, value: Value) -> Any:
        """The same for any value that stands for an object; else None."""
        if isinstance(value, HeapValue):
            return self.existing(value)
        return value.object if isinstance(value, (Opaque, Known)) else None

    def objects_at(self, keys: Iterable[Any]) -> list[Any]:
        """The existing objects among these sources and heap ids."""
        found = []
        for key in keys:
            if isinstance(key, int):
                obj = self._existing.get(key)
            else:
                value = self._wrapped.get(key)
                obj = None if value is None else self.existing_of(value)
            if obj is not None:
                found.append(obj)
        return found

    # -- existing objects as values ----------------------------------------------------------

    def wrap(self, obj: Any, source: Source | None) -> Value:
        """The value of an existing object; of the object, no guard but that it is found there."""
        if source is None:
            source = sources.Constant(obj)
        if isinstance(source, _MAY_BE_MISSING) and source.is_guardable:
            self.guard_exists(source)
        found = self._wrapped.get(source)
        if found is None:
            found = self._wrapped[source] = self._wrap(obj, source)
            if lifetimes.ends_in_place(obj) and not lifetimes.is_held_by_its_place(source):
                self.watched[source] = found
        return found

    def _wrap(self, obj: Any, source: Source) -> Value:
        kind = type(obj)  # never isinstance(obj, ...): that would ask obj.__class__, user code
        meta = kind if issubclass(kind, type) else type(kind)
        if meta is not type and answers_itself(meta):
            return Opaque(obj, source)
        self.classes.add(obj if issubclass(kind, type) else kind)
        if kind is frozenset and not all(map(is_harmless, obj)):
            return Opaque(obj, source)  # comparing it would run code of the user's
        if id(kind) in _LITERALS and isinstance(source, sources.Constant):
            return Constant(obj)
        if (kind is int or kind is float) and not isinstance(source.root, sources.Constant):
            return Scalar(obj, source)
        if id(kind) in _LITERALS:
            return Constant(obj, source)
        if issubclass(kind, Tensor):
            if not is_modelled_tensor(kind):
                return Opaque(obj, source)
            return self._adopt(obj, TensorValue, source, TensorContents(None, obj))
        if kind is tuple or (issubclass(kind, tuple) and is_plain_tuple(kind)):
            items = [self.wrap(item, sources.Item(source, i)) for i, item in enumerate(obj)]
            return TupleValue(tuple(items), kind, source)
        if kind is list:
            return self._adopt(obj, ListValue, source, None)
        if kind is dict and NAMESPACE_MARK in obj:
            return Opaque(obj, source)  # its items are variables, too: left to Python
        if kind is dict or kind is OrderedDict or kind is defaultdict:
            return self._adopt(obj, DictValue, source, None)
        if kind is set:
            return self._adopt(obj, SetValue, source, None)
        if kind is slice:
            start, stop, step = (
                self.wrap(getattr(obj, n), sources.Attribute(source, n)) for n in SLICE_FIELDS
            )
            return SliceValue(start, stop, step, source)
        return self._wrap_object(obj, kind, source)

    def _wrap_object(self, obj: Any, kind: type, source: Source) -> Value:
        descriptor = _descriptor_of(obj)
        if descriptor is not None and not isinstance(source, sources.Constant):
            function = self.wrap(descriptor, sources.MethodFunction(source))
            receiver = self.wrap(obj.__self__, sources.MethodSelf(source))
            return BoundMethod(function, receiver, source)
        if issubclass(kind, types.ModuleType) and not _reads_as_module(kind):
            return Opaque(obj, source)
        if issubclass(kind, (type, types.FunctionType, types.ModuleType, _KNOWN_INSTANCES)):
            if isinstance(source, sources.Constant):
                return Known(obj)
            return Known(obj, source)
        if kind is types.MethodType:
            function = self.wrap(obj.__func__, sources.MethodFunction(source))
            receiver = self.wrap(obj.__self__, sources.MethodSelf(source))
            return BoundMethod(function, receiver, source, is_method_object=True)
        if kind is types.CellType:
            return self._adopt(obj, CellValue, source, None)
        if id(kind) in _ITERATORS:
            return self._adopt(obj, IteratorValue, source, ExistingIterator())
        if kind is deque and (obj.maxlen is None or obj.maxlen < _MOST_LIMITED):
            return self._adopt_deque(obj, source)
        if kind is types.MappingProxyType and type(proxied(obj)) in (dict, OrderedDict):
            return self._adopt_proxy(obj, source)
        if id(kind) in ARRAYS_BY_ID and self.reads_arrays and is_read_as_tensor(obj, source):
            return self._adopt_array(obj, source)
        if is_immutable(obj) and is_lasting(source):
            return Known(obj, None if isinstance(source, sources.Constant) else source)
        if is_modelled_class(kind):
            return self._adopt_instance(obj, kind, source)
        return Opaque(obj, source)

    def _adopt_instance(self, obj: Any, kind: type, source: Source) -> Value:
        is_new = id(obj) not in self._by_object
        value = self._adopt(obj, ObjectValue, source, ObjectContents(obj))
        base = native_base(kind)
        if is_new and base is not None:
            storage = self._storage_of(obj, base, value)
            self.heap.load_entry(value.identity, ObjectContents(obj, storage=storage))
        return value

    def _storage_of(self, obj: Any, base: type, owner: ObjectValue) -> Value:
        assert owner.source is not None
        place = sources.Storage(owner.source)
        if base in CHANGING:
            handle: HeapValue = CHANGING[base](self.heap.adopt(None), base, place, owner)
            self._existing[handle.identity] = obj
            self._storages.append(handle)
            return handle
        if base is tuple:
            count = tuple.__len__(obj)
            found = [
                self.wrap(tuple.__getitem__(obj, i), sources.Item(owner.source, i))
                for i in range(count)
            ]
            return TupleValue(tuple(found), tuple, place)
        return Constant(plain(obj), place)

    def _adopt_deque(self, obj: deque[Any], source: Source) -> ObjectValue:
        """An instance of the Python form of deques; its items are read when they are asked for."""
        form, first = READ_AS[deque], self._by_object.get(id(obj))
        if first is not None:
            return ObjectValue(first.identity, form, source)
        value = ObjectValue(self.heap.adopt(None), form, source)
        self._by_object[id(obj)] = value
        self._existing[value.identity] = obj
        items = DequeItems(self.heap.adopt(None), list, sources.Storage(source), value)
        self._existing[items.identity] = obj
        self._storages.append(items)
        fields = {"items": items, "maxlen": Constant(obj.maxlen), "state": Constant(0)}
        self.heap.load_entry(value.identity, ObjectContents(obj, fields))
        return value

    def _adopt_array(self, obj: Any, source: Source) -> ObjectValue:
        """An instance of the Python form of arrays, or of numbers of NumPy's: a tensor over it."""
        form, first = READ_AS[type(obj)], self._by_object.get(id(obj))
        if first is not None:
            return ObjectValue(first.identity, form, source)
        tensor = self.wrap(tensor_over(obj), sources.TensorOver(source))
        contents = ObjectContents(obj, {"tensor": tensor})
        value = ObjectValue(self.heap.adopt(contents), form, source)
        self._by_object[id(obj)] = value
        self._existing[value.identity] = obj
        return value

    def _adopt_proxy(self, obj: Any, source: Source) -> ObjectValue:
        """An instance of the Python form of mapping proxies."""
        form, first = READ_AS[types.MappingProxyType], self._by_object.get(id(obj))
        if first is not None:
            return ObjectValue(first.identity, form, source)
        mapping = self.wrap(proxied(obj), sources.PartOf(source, "mapping"))
        value = ObjectValue(
            self.heap.adopt(ObjectContents(obj, {"mapping": mapping})), form, source
        )
        self._by_object[id(obj)] = value
        self._existing[value.identity] = obj
        return value

    def _adopt(self, obj: Any, family: type[Handle], source: Source, contents: Any) -> Handle:
        first = self._by_object.get(id(obj))
        if first is not None:
            return family(first.identity, type(obj), source)
        if any(touched.object is obj for effect in self.output for touched in effect.touched):
            raise breaks.GraphBreak(breaks.OUTPUT, "a list that texts are recorded in is used")
        handle = family(self.heap.adopt(contents), type(obj), source)
        self._by_object[id(obj)] = handle
        self._existing[handle.identity] = obj
        return handle


def _descriptor_of(obj: Any) -> Any:
    """`list.append` of a bound `some_list.append`; None for everything else."""
    if type(obj) is not types.BuiltinMethodType:
        return None
    found = vars(type(obj.__self__)).get(obj.__name__)
    return found if type(found) is types.MethodDescriptorType else None
