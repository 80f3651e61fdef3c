"""Methods of built-in objects: lists, dicts, sets, tuples, strings, numbers, iterators.

`call_method` finds the handler by the receiver's family. Handlers are generators
`handler(x, receiver, args, keywords)`; they may run user code (a sort key, an iterator).
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.builtins_containers import sort_items, to_pairs
from dynajit.capture.exceptions import NotKnown, raise_python
from dynajit.capture.operations_basic import (
    Steps,
    as_python,
    describe,
    hashable,
    is_known,
    unsupported,
)
from dynajit.capture.operations_containers import boolean
from dynajit.capture.values import NONE, Constant, Known, Scalar, Value, constant
from dynajit.capture.values_containers import (
    DictValue,
    DictViewValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values_functions import GeneratorValue
from dynajit.capture.values_objects import InstanceDictValue
from dynajit.capture.values_tensors import TensorValue

Handler = Callable[[Any, Any, list[Value], dict[str, Value]], Steps]
LIST: Final[dict[str, Handler]] = {}
DICT: Final[dict[str, Handler]] = {}
SET: Final[dict[str, Handler]] = {}


def method(table: dict[str, Handler], *names: str) -> Callable[[Handler], Handler]:
    """Enter a handler under its names."""

    def enter(handler: Handler) -> Handler:
        for name in names:
            table[name] = handler
        return handler

    return enter


def call_method(
    x: Any, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    """`receiver.name(*args, **keywords)` for a built-in receiver."""
    if isinstance(receiver, TensorValue):
        return x.tensor_method(receiver, name, args, keywords)
    if isinstance(receiver, ListValue) and name in LIST:
        return (yield from LIST[name](x, receiver, args, keywords))
    if isinstance(receiver, DictValue) and name in DICT:
        return (yield from DICT[name](x, receiver, args, keywords))
    if isinstance(receiver, SetValue) and name in SET:
        return (yield from SET[name](x, receiver, args, keywords))
    if isinstance(receiver, DictViewValue):
        return (yield from _view_method(x, receiver, name, args))
    if isinstance(receiver, TupleValue):
        return (yield from _tuple_method(x, receiver, name, args, keywords))
    if isinstance(receiver, GeneratorValue):
        return (yield from _generator_method(x, receiver, name, args))
    if isinstance(receiver, IteratorValue):
        return (yield from _iterator_method(x, receiver, name))
    if isinstance(receiver, Constant) and isinstance(receiver.value, str) and name == "join":
        return (yield from _join(x, receiver, args))
    if isinstance(receiver, (Constant, Scalar, SliceValue, Known)):
        return _fold_method(x, receiver, name, args, keywords)
    if isinstance(receiver, (ListValue, DictValue, SetValue)):
        return (yield from _special_method(x, receiver, name, args))
    raise unsupported(name, receiver, *args)


def _fold_method(
    x: Any, receiver: Value, name: str, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """A method of a known immutable object, computed now."""
    if isinstance(receiver, Known) and not _is_pure_method(receiver.object, name):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"{describe(receiver)}.{name}")
    try:
        values = [as_python(x, value) for value in (receiver, *args)]
        named = {key: as_python(x, value) for key, value in keywords.items()}
    except NotKnown as error:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, f"{name} with {error}") from None

    def apply(*_: Any) -> Any:
        return getattr(values[0], name)(*values[1:], **named)

    result: Value = x.fold(apply, receiver)
    return result


def _is_pure_method(obj: Any, name: str) -> bool:
    """Methods of classes and other known objects that only look things up."""
    return isinstance(obj, type) and name in ("fromkeys", "mro", "maketrans", "from_bytes",
                                               "fromhex")  # fmt: skip


def _special_method(x: Any, receiver: Value, name: str, args: list[Value]) -> Steps:
    """Special methods of containers called by name."""
    if name == "__len__":
        return constant((yield from x.length(receiver)))
    if name == "__getitem__":
        return (yield from x.subscript(receiver, args[0]))
    if name == "__setitem__":
        yield from x.store_subscript(receiver, args[0], args[1])
        return NONE
    if name == "__contains__":
        return boolean((yield from x.contains(receiver, args[0])))
    if name == "__iter__":
        return (yield from x.iterate(receiver))
    raise unsupported(name, receiver, *args)


# -- lists ---------------------------------------------------------------------------------------


@method(LIST, "append")
def _append(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    x.heap.write(value.identity, (*x.list_items(value), args[0]))
    return NONE
    yield


@method(LIST, "extend")
def _extend(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = yield from x.to_items(args[0])
    x.heap.write(value.identity, (*x.list_items(value), *items))
    return NONE


@method(LIST, "insert")
def _insert(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = list(x.list_items(value))
    items.insert(as_python(x, args[0]), args[1])
    x.heap.write(value.identity, tuple(items))
    return NONE
    yield


@method(LIST, "pop")
def _list_pop(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = list(x.list_items(value))
    position = as_python(x, args[0]) if args else -1
    if not items:
        raise_python(x, IndexError, "pop from empty list")
    try:
        item = items.pop(position)
    except IndexError:
        raise_python(x, IndexError, "pop index out of range")
    x.heap.write(value.identity, tuple(items))
    return item
    yield


@method(LIST, "clear")
def _list_clear(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    x.list_items(value)
    x.heap.write(value.identity, ())
    return NONE
    yield


@method(LIST, "copy")
def _list_copy(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return x.new_list(x.list_items(value))
    yield


@method(LIST, "reverse")
def _list_reverse(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    x.heap.write(value.identity, tuple(reversed(x.list_items(value))))
    return NONE
    yield


@method(LIST, "sort")
def _sort(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = yield from sort_items(x, list(x.list_items(value)), keywords)
    x.heap.write(value.identity, tuple(items))
    return NONE


@method(LIST, "remove")
def _list_remove(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    items = list(x.list_items(value))
    position = yield from _find(x, items, args[0])
    if position is None:
        raise_python(x, ValueError, "list.remove(x): x not in list")
    del items[position]
    x.heap.write(value.identity, tuple(items))
    return NONE


@method(LIST, "index")
def _list_index(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if len(args) != 1:
        raise unsupported("list.index", *args)
    position = yield from _find(x, list(x.list_items(value)), args[0])
    if position is None:
        raise_python(x, ValueError, "item is not in list")
    return constant(position)


@method(LIST, "count")
def _list_count(x: Any, value: ListValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return constant((yield from _count(x, x.list_items(value), args[0])))


def _find(x: Any, items: list[Value], wanted: Value) -> Steps:
    for position, item in enumerate(items):
        if (yield from x.contains(TupleValue((item,)), wanted)):
            return position
    return None


def _count(x: Any, items: Any, wanted: Value) -> Steps:
    total = 0
    for item in items:
        total += yield from x.contains(TupleValue((item,)), wanted)
    return total


def _tuple_method(
    x: Any, value: TupleValue, name: str, args: list[Value], keywords: dict[str, Value]
) -> Steps:
    x.recorder.use(value)
    fields = getattr(value.cls, "_fields", ())
    if fields and name == "_asdict":
        pairs = zip(fields, value.items, strict=True)
        return x.new_dict([(constant(field), item) for field, item in pairs])
    if fields and name == "_replace" and set(keywords) <= set(fields):
        pairs = zip(fields, value.items, strict=True)
        return TupleValue(tuple(keywords.get(field, item) for field, item in pairs), value.cls)
    if name == "count":
        return constant((yield from _count(x, value.items, args[0])))
    if name == "index":
        position = yield from _find(x, list(value.items), args[0])
        if position is None:
            raise_python(x, ValueError, "tuple.index(x): x not in tuple")
        return constant(position)
    if name == "__getitem__":
        return (yield from x.subscript(value, args[0]))
    if name == "__len__":
        return constant(len(value.items))
    raise unsupported(name, value, *args)


# -- dicts ---------------------------------------------------------------------------------------


@method(DICT, "get")
def _get(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    found = x.dict_lookup(value, args[0])
    if found is not None:
        return found
    return args[1] if len(args) > 1 else NONE
    yield


def _view(kind: str) -> Handler:
    def make(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
        x.recorder.use(value)
        return DictViewValue(value, kind)
        yield

    return make


for _kind in ("keys", "values", "items"):
    DICT[_kind] = _view(_kind)


@method(DICT, "setdefault")
def _setdefault(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    found = x.dict_lookup(value, args[0])
    if found is None:
        found = args[1] if len(args) > 1 else NONE
        x.dict_store(value, args[0], found)
    return found
    yield


@method(DICT, "pop")
def _dict_pop(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    found = x.dict_lookup(value, args[0])
    if found is None:
        if len(args) > 1:
            return args[1]
        raise_python(x, KeyError, args[0])
    x.dict_delete(value, args[0])
    return found
    yield


@method(DICT, "popitem")
def _popitem(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    entries = x.dict_entries(value)
    if not entries:
        raise_python(x, KeyError, "popitem(): dictionary is empty")
    if args or keywords:
        raise unsupported("popitem", value)
    key, item = list(entries.values())[-1]
    x.dict_delete(value, key)
    return TupleValue((key, item))
    yield


@method(DICT, "update")
def _update(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    pairs = (yield from to_pairs(x, args[0])) if args else []
    pairs = [*pairs, *((constant(name), item) for name, item in keywords.items())]
    for key, item in pairs:
        x.dict_store(value, key, item)
    return NONE


@method(DICT, "clear")
def _dict_clear(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if isinstance(value, InstanceDictValue):
        raise unsupported("__dict__.clear", value)
    x.dict_entries(value)
    x.heap.write(value.identity, {})
    return NONE
    yield


@method(DICT, "copy")
def _dict_copy(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return DictValue(x.heap.allocate(dict(x.dict_entries(value))), value.cls)
    yield


@method(DICT, "move_to_end")
def _move_to_end(x: Any, value: DictValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if value.cls is not OrderedDict or len(args) > 1 or keywords:
        raise unsupported("move_to_end", value)
    entries = dict(x.dict_entries(value))
    token = hashable(x, args[0])
    if token not in entries:
        raise_python(x, KeyError, args[0])
    entries[token] = entries.pop(token)
    x.heap.write(value.identity, entries)
    return NONE
    yield


def _view_method(x: Any, view: DictViewValue, name: str, args: list[Value]) -> Steps:
    if name == "__len__":
        return constant((yield from x.length(view)))
    if name == "__iter__":
        return (yield from x.iterate(view))
    if name == "__contains__":
        return boolean((yield from x.contains(view, args[0])))
    raise unsupported(f"dict_{view.kind}.{name}", *args)


# -- sets ----------------------------------------------------------------------------------------


@method(SET, "add")
def _add(x: Any, value: SetValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    entries = x.set_entries(value)
    token = hashable(x, args[0])
    if token not in entries:
        x.heap.write(value.identity, {**entries, token: args[0]})
    return NONE
    yield


@method(SET, "discard")
def _discard(x: Any, value: SetValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    entries = dict(x.set_entries(value))
    if entries.pop(hashable(x, args[0]), None) is not None:
        x.heap.write(value.identity, entries)
    return NONE
    yield


@method(SET, "remove")
def _remove(x: Any, value: SetValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    if hashable(x, args[0]) not in x.set_entries(value):
        raise_python(x, KeyError, args[0])
    return (yield from _discard(x, value, args, keywords))


@method(SET, "update")
def _set_update(x: Any, value: SetValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    entries = dict(x.set_entries(value))
    for other in args:
        for item in (yield from x.to_items(other)):
            entries.setdefault(hashable(x, item), item)
    x.heap.write(value.identity, entries)
    return NONE


@method(SET, "clear")
def _set_clear(x: Any, value: SetValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    x.set_entries(value)
    x.heap.write(value.identity, {})
    return NONE
    yield


@method(SET, "copy")
def _set_copy(x: Any, value: SetValue, args: list[Value], keywords: dict[str, Value]) -> Steps:
    return SetValue(x.heap.allocate(dict(x.set_entries(value))), set)
    yield


# -- text, iterators, generators -----------------------------------------------------------------


def _join(x: Any, receiver: Constant, args: list[Value]) -> Steps:
    items = yield from x.to_items(args[0])
    if not all(is_known(item) for item in items):
        raise unsupported("str.join", *items)
    parts = [as_python(x, item) for item in items]
    return x.fold(lambda separator: separator.join(parts), receiver)


def _iterator_method(x: Any, receiver: IteratorValue, name: str) -> Steps:
    if name == "__iter__":
        return receiver
    if name == "__next__":
        item = yield from x.advance(receiver)
        if item is None:
            raise_python(x, StopIteration)
        return item
    raise unsupported(name, receiver)


def _generator_method(x: Any, receiver: GeneratorValue, name: str, args: list[Value]) -> Steps:
    if name == "__iter__":
        return receiver
    if name in ("send", "__next__"):
        sent = args[0] if args else NONE
        item = yield from x.resume_generator(receiver, sent)
        if item is None:
            raise_python(x, StopIteration, *x.generator_result(receiver))
        return item
    if name == "close" and x.heap[receiver.identity] is None:
        return NONE
    raise unsupported(f"generator.{name}", *args)
