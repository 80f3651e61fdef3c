"""What a value refers to: the values that must be rebuilt before it, or why it cannot be."""

from collections.abc import Callable
from typing import Any, Final

from dynajit.capture.library import REBUILT
from dynajit.capture.machine import suspended
from dynajit.capture.machine.heap import Heap
from dynajit.capture.machine.recording import Recorder
from dynajit.capture.python.objects.fields import field_names
from dynajit.capture.python.objects.rebuild_storage import parts
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    EnumerateIterator,
    FilterIterator,
    IndexIterator,
    IteratorValue,
    ListValue,
    MapIterator,
    SequenceIterator,
    SetValue,
    SliceValue,
    TableIterator,
    TupleValue,
    ZipIterator,
)
from dynajit.capture.values.functions import (
    BoundMethod,
    CellValue,
    FunctionContents,
    FunctionValue,
    GeneratorValue,
    NativeMethod,
    PartialValue,
    SuperValue,
)
from dynajit.capture.values.objects import (
    DELETED,
    ENTRY_CONTEXT,
    ExceptionValue,
    InstanceDictValue,
    ObjectContents,
    ObjectValue,
    TracebackValue,
)
from dynajit.capture.values.plain_classes import namespace
from dynajit.capture.values.random_numbers import RandomValue
from dynajit.capture.values.storage import DequeItems, DictStorage, ListStorage, SetStorage
from dynajit.capture.values.symbolic import UNBOUND, Constant, Known, Opaque, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.texts import LaterText
from dynajit.core.records import record


class NotRebuildable(Exception):
    """A live value has no instructions that make it again."""


def referenced(value: Value, recorder: Recorder) -> list[Value]:
    """The values that rebuilding `value` pushes.

    Raises:
        NotRebuildable: with the reason.
    """
    if getattr(value, "source", None) is not None and not isinstance(value, CellValue):
        return []
    family = type(value)
    if family in (Constant, Known, Opaque):
        return []
    found = _REFERENCED.get(family)
    if found is None:
        raise NotRebuildable(f"a {family.__name__} cannot be made again")
    return found(value, recorder.heap)


def _of_iterator(value: IteratorValue, heap: Heap) -> list[Value]:
    state = heap[value.identity]
    if isinstance(state, (SequenceIterator, IndexIterator)):
        return [state.sequence]
    if isinstance(state, TableIterator):
        table = getattr(state.table, "dictionary", state.table)
        contents = heap[table.identity]
        keys = field_names(contents) if isinstance(table, InstanceDictValue) else contents or ()
        slot, count = state.removals
        if tuple(keys) != state.keys or len(heap[slot]) != count:
            raise NotRebuildable("an iterator over a dict or set that has changed")
        return [state.table]
    if isinstance(state, (EnumerateIterator,)):
        return [state.inner]
    if isinstance(state, ZipIterator):
        return list(state.inner)
    if isinstance(state, MapIterator):
        return [state.function, *state.inner]
    if isinstance(state, FilterIterator):
        return [state.function, state.inner]
    return []


def _of_object(value: ObjectValue, heap: Heap) -> list[Value]:
    contents: ObjectContents = heap[value.identity]
    make = maker(value.cls)
    if make is not None:
        names = parameters(make)
        if not set(names) <= set(contents.written):
            raise NotRebuildable(f"a {value.cls.__name__} that is being made")
        return [contents.written[name] for name in names]
    written = [item for item in contents.written.values() if item is not DELETED]
    return [*written, *contents.state.values(), *parts(contents.storage, heap)]


def maker(cls: type) -> Callable[..., Any] | None:
    """What makes the original that an instance of a class of `capture.library` stands for.

    Raises:
        NotRebuildable: nothing does.
    """
    module = namespace(cls).get("__module__")  # a metaclass may have a property of that name
    if type(module) is not str or not module.startswith("dynajit.capture.library"):
        return None
    if cls not in REBUILT:
        raise NotRebuildable(f"a {cls.__name__} in the middle of its work")
    return REBUILT[cls]


def parameters(make: Any) -> tuple[str, ...]:
    """The names of the attributes that `make` takes, in order."""
    code = make.__code__
    return tuple(code.co_varnames[: code.co_argcount])


def _of_exception(value: ExceptionValue, heap: Heap) -> list[Value]:
    contents: ObjectContents = heap[value.identity]
    state = [item for item in contents.state.values() if item is not ENTRY_CONTEXT]
    written = [item for item in contents.written.values() if item is not DELETED]
    return [*contents.construct, *written, *state]


def _of_function(value: FunctionValue, heap: Heap) -> list[Value]:
    contents: FunctionContents = heap[value.identity]
    parts = [
        contents.defaults, contents.keyword_defaults, contents.annotations, contents.annotate,
        contents.updated_from,
    ]  # fmt: skip
    found: list[Value] = [part for part in parts if part is not None]
    return [*found, *contents.closure, *contents.attributes.values()]


def _of_generator(value: GeneratorValue, heap: Heap) -> list[Value]:
    state = heap[value.identity]
    if state is None:
        return []
    reason = suspended.why_not_made(state)
    if reason is not None:
        raise NotRebuildable(reason)
    return [*suspended.values(state), *suspended.closure(state)]


def _of_cell(value: CellValue, heap: Heap) -> list[Value]:
    if heap.is_adopted(value.identity):
        return []
    contents = heap[value.identity]
    return [] if contents is UNBOUND else [contents]


def _of_tensor(value: TensorValue, heap: Heap) -> list[Value]:
    contents = heap[value.identity]
    numbers = [part for step in contents.steps for part in (step.numbers, step.start)]
    return [*contents.attributes.values(), *(part for part in numbers if part is not None)]


_REFERENCED: Final[dict[type, Callable[[Any, Heap], list[Value]]]] = {
    Scalar: lambda v, heap: list(v.expression[1]),
    TupleValue: lambda v, heap: list(v.items),
    SliceValue: lambda v, heap: [v.start, v.stop, v.step],
    LaterText: lambda v, heap: list(v.arguments),
    ListValue: lambda v, heap: list(heap[v.identity]),
    DictValue: lambda v, heap: [part for pair in heap[v.identity].values() for part in pair],
    SetValue: lambda v, heap: list(heap[v.identity].values()),
    DictStorage: lambda v, heap: [v.owner],
    ListStorage: lambda v, heap: [v.owner],
    SetStorage: lambda v, heap: [v.owner],
    DequeItems: lambda v, heap: [v.owner],
    DictViewValue: lambda v, heap: [v.dictionary],
    InstanceDictValue: lambda v, heap: [v.owner],
    IteratorValue: _of_iterator,
    ObjectValue: _of_object,
    ExceptionValue: _of_exception,
    TracebackValue: lambda v, heap: [] if v.following is None else [v.following],
    FunctionValue: _of_function,
    CellValue: _of_cell,
    GeneratorValue: _of_generator,
    TensorValue: _of_tensor,
    BoundMethod: lambda v, heap: [v.function, v.self],
    NativeMethod: lambda v, heap: [v.receiver],
    RandomValue: lambda v, heap: [],
    PartialValue: lambda v, heap: [v.function, *v.args, *v.keywords.values()],
    SuperValue: lambda v, heap: [v.receiver],
}


@record
class Reached:
    """What rebuilding some values pushes.

    Args:
        values: each once.
        heads: those that lead back to themselves, in the order in which they must be made, before
            all others: each is there, empty, when what it holds needs it.
    """

    values: list[Value]
    heads: tuple[Value, ...]


def reach(roots: list[Value], recorder: Recorder) -> Reached:
    """Every value that rebuilding `roots` pushes.

    Raises:
        NotRebuildable: one of them cannot be rebuilt, or a container holds itself.
    """
    found: dict[Any, Value] = {}
    entered: set[Any] = set()
    active: set[Any] = set()
    stack: list[tuple[Value, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        value, leaving = stack.pop()
        key = value.object_id if value.object_id is not None else ("value", id(value))
        if leaving:
            active.discard(key)
            continue
        if key in active:
            if not _is_made_empty(value, recorder.heap):
                raise NotRebuildable("a container holds itself")
            entered.add(key)
        if key in found:
            continue
        found[key] = value
        active.add(key)
        stack.append((value, True))
        stack.extend((child, False) for child in reversed(referenced(value, recorder)))
    heads = tuple(value for key, value in found.items() if key in entered)
    return Reached(list(found.values()), heads)


def _is_made_empty(value: Value, heap: Heap) -> bool:
    """True for what is made first and filled then, so that what it holds may refer to it."""
    if isinstance(value, CellValue):
        return True
    if not isinstance(value, ObjectValue):
        return False
    storage = heap[value.identity].storage
    is_filled = storage is None or isinstance(storage, (DictValue, ListValue, SetValue))
    return is_filled and maker(value.cls) is None
