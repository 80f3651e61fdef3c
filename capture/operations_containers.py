"""Contents of lists, dicts and sets; subscripts and membership.

Methods of the executor (`x`), written as functions; see `capture.executor`.
"""

from typing import Any

from dynajit.capture import breaks, sources
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.exceptions import NotKnown, raise_python
from dynajit.capture.guards import Kind
from dynajit.capture.operations_basic import (
    Steps,
    as_python,
    defines,
    from_python,
    hashable,
    is_known,
    is_same,
    unsupported,
)
from dynajit.capture.values import FALSE, TRUE, Constant, Known, Scalar, Value
from dynajit.capture.values_containers import (
    DictValue,
    DictViewValue,
    HeapValue,
    ListValue,
    SetValue,
    TupleValue,
)
from dynajit.capture.values_objects import InstanceDictValue, ObjectValue
from dynajit.capture.values_tensors import TensorValue
from dynajit.eager import Size

Entries = dict[Any, tuple[Value, Value]]


# -- contents ------------------------------------------------------------------------------------


def new_list(x: Any, items: Any) -> ListValue:
    """A list made by the captured code."""
    return ListValue(x.heap.allocate(tuple(items)), list)


def new_dict(x: Any, pairs: Any, cls: type = dict) -> DictValue:
    """A dict made by the captured code from (key, value) pairs."""
    entries: Entries = {}
    for key, item in pairs:
        put(x, entries, key, item)
    return DictValue(x.heap.allocate(entries), cls)


def new_set(x: Any, items: Any) -> SetValue:
    """A set made by the captured code."""
    entries: dict[Any, Value] = {}
    for item in items:
        entries.setdefault(hashable(x, item), item)
    return SetValue(x.heap.allocate(entries), set)


def put(x: Any, entries: Entries, key: Value, item: Value) -> None:
    """Store into a copy of a dict's contents; an equal key keeps its first form."""
    token = hashable(x, key)
    found = entries.get(token)
    entries[token] = (key if found is None else found[0], item)


def list_items(x: Any, value: ListValue) -> tuple[Value, ...]:
    """Items of a list; an existing one is read (and its length guarded) the first time."""
    x.recorder.use(value)
    contents = x.heap[value.identity]
    existing = x.recorder.existing(value)
    if contents is None:
        base = x.recorder.first_source(value)
        items = [x.recorder.wrap(o, sources.Item(base, i)) for i, o in enumerate(existing)]
        contents = tuple(items)
        x.heap.load_entry(value.identity, contents)
    if existing is not None:
        entry = x.heap.entry(value.identity)
        x.recorder.guard(x.recorder.first_source(value), Kind.LENGTH, len(entry), "list")
    return contents


def dict_entries(x: Any, value: DictValue) -> Entries:
    """Entries of a dict; an existing one is read (and its keys guarded) the first time."""
    x.recorder.use(value)
    if isinstance(value, InstanceDictValue):
        return x.instance_entries(value)
    contents = x.heap[value.identity]
    existing = x.recorder.existing(value)
    if contents is None:
        contents = _read_dict(x, value, existing)
        x.heap.load_entry(value.identity, contents)
    if existing is not None:
        base = x.recorder.first_source(value)
        x.recorder.guard(base, Kind.DICT_KEYS, tuple(existing), "dict")
    return contents


def _read_dict(x: Any, value: DictValue, existing: dict[Any, Any]) -> Entries:
    base = x.recorder.first_source(value)
    entries: Entries = {}
    for key, item in existing.items():
        key_value = x.recorder.wrap(key, sources.Constant(key))
        entries[hashable(x, key_value)] = (
            key_value,
            x.recorder.wrap(item, sources.Key(base, key)),
        )
    return entries


def set_entries(x: Any, value: SetValue) -> dict[Any, Value]:
    """Members of a set; an existing one is guarded to hold exactly the same constants.

    Raises:
        GraphBreak: an existing set with members that cannot be compared in a guard.
    """
    x.recorder.use(value)
    contents = x.heap[value.identity]
    if contents is None:
        existing = x.recorder.existing(value)
        if existing:
            raise unsupported("reading an existing set", value)
        contents = {}
        x.heap.load_entry(value.identity, contents)
    if x.recorder.existing(value) is not None:
        x.recorder.guard(value.source, Kind.LENGTH, 0, "set")
    return contents


def tokens(x: Any, value: Any) -> dict[Any, Value]:
    """Members of a set, or of a dict's keys or items, by hashable token; order does not matter."""
    if isinstance(value, SetValue):
        return set_entries(x, value)
    entries = dict_entries(x, value.dictionary)
    if value.kind == "keys":
        return {token: key for token, (key, _) in entries.items()}
    pairs = [TupleValue(pair) for pair in entries.values()]
    return {hashable(x, pair): pair for pair in pairs}


def dict_lookup(x: Any, value: DictValue, key: Value) -> Value | None:
    """The value under `key`, or None; one key of an existing, unchanged dict is guarded alone."""
    x.recorder.use(value)
    token = hashable(x, key)
    if isinstance(value, InstanceDictValue):
        return x.instance_lookup(value, token)
    existing = x.recorder.existing(value)
    if x.heap[value.identity] is not None or existing is None or not is_known(key):
        found = dict_entries(x, value).get(token)
        return None if found is None else found[1]
    base = x.recorder.first_source(value)
    if token not in existing:
        x.recorder.guard(base, Kind.HAS_NO_KEY, token, "missing key")
        return None
    place = sources.Key(base, token)
    found = x.recorder.wrap(existing[token], place)
    x.recorder.guard_exists(place, existing[token])
    return found


def dict_contains(x: Any, value: DictValue, key: Value) -> bool:
    """`key in value`."""
    return dict_lookup(x, value, key) is not None


def dict_store(x: Any, value: DictValue, key: Value, item: Value) -> None:
    """`value[key] = item`."""
    if isinstance(value, InstanceDictValue):
        x.instance_store(value, hashable(x, key), item)
        return
    entries = dict(dict_entries(x, value))
    put(x, entries, key, item)
    x.heap.write(value.identity, entries)


def dict_delete(x: Any, value: DictValue, key: Value) -> None:
    """`del value[key]`."""
    if isinstance(value, InstanceDictValue):
        raise unsupported("del instance.__dict__[...]", value)
    entries = dict(dict_entries(x, value))
    if entries.pop(hashable(x, key), None) is None:
        raise_python(x, KeyError, key)
    x.heap.write(value.identity, entries)


# -- subscripts ----------------------------------------------------------------------------------


def subscript(x: Any, container: Value, index: Value) -> Steps:
    """`container[index]`."""
    if isinstance(container, TensorValue) or (
        isinstance(container, (Constant, Scalar)) and isinstance(index, TensorValue)
    ):
        return x.native_method(container, "__getitem__", [index], {})
    if isinstance(container, (TupleValue, ListValue)):
        return _sequence_item(x, container, index)
    if isinstance(container, DictValue):
        return (yield from _dict_item(x, container, index))
    if isinstance(container, ObjectValue) and defines(container.cls, "__getitem__"):
        method = yield from x.get_special(container, "__getitem__")
        return (yield from x.call(method, [index], {}))
    if is_known(container) and is_known(index):
        return fold(x, lambda a, b: a[b], container, index)
    raise unsupported("subscript", container, index)


def fold(x: Any, function: Any, *operands: Value) -> Value:
    """`function` on known operands, computed now; its exception is the program's exception."""
    arguments = [as_python(x, operand) for operand in operands]
    try:
        result = function(*arguments)
    except Exception as error:
        raise_python(x, type(error), *error.args)
    try:
        return from_python(x, result)
    except NotKnown:
        if all(isinstance(operand, Known) for operand in operands[:1]):
            return Known(result)
        raise unsupported("operation", *operands) from None


def _items_of(x: Any, container: Any) -> tuple[Value, ...]:
    if isinstance(container, TupleValue):
        x.recorder.use(container)
        return container.items
    return list_items(x, container)


def _index(x: Any, index: Value) -> Any:
    if isinstance(index, TensorValue):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "a tensor as the index of a sequence")
    return as_python(x, index)


def _sequence_item(x: Any, container: Any, index: Value) -> Value:
    position = _index(x, index)
    if not isinstance(position, (int, slice)):
        name = container.python_type.__name__
        raise_python(x, TypeError, f"{name} indices must be integers or slices")
    items = _items_of(x, container)
    try:
        found = items[position]
    except IndexError:
        raise_python(x, IndexError, f"{container.python_type.__name__} index out of range")
    if not isinstance(position, slice):
        return found
    if isinstance(container, ListValue):
        return new_list(x, found)
    return TupleValue(found, Size if container.cls is Size else tuple)


def _dict_item(x: Any, container: DictValue, key: Value) -> Steps:
    found = dict_lookup(x, container, key)
    if found is not None:
        return found
    raise_python(x, KeyError, key)
    yield


def store_subscript(x: Any, container: Value, index: Value, item: Value) -> Steps:
    """`container[index] = item`."""
    if isinstance(container, ListValue):
        items = list(list_items(x, container))
        position = _index(x, index)
        if isinstance(position, slice):
            replacement = yield from x.to_items(item)
            items[position] = replacement
        else:
            _store_item(x, items, position, item)
        x.heap.write(container.identity, tuple(items))
        return
    if isinstance(container, DictValue):
        dict_store(x, container, index, item)
        return
    if isinstance(container, TensorValue):
        x.tensor_store(container, index, item)
        return
    if isinstance(container, ObjectValue) and defines(container.cls, "__setitem__"):
        method = yield from x.get_special(container, "__setitem__")
        yield from x.call(method, [index, item], {})
        return
    raise unsupported("item assignment", container, index)


def _store_item(x: Any, items: list[Value], position: Any, item: Value) -> None:
    try:
        items[position] = item
    except IndexError:
        raise_python(x, IndexError, "list assignment index out of range")
    except TypeError as error:
        raise_python(x, TypeError, str(error))


def delete_subscript(x: Any, container: Value, index: Value) -> Steps:
    """`del container[index]`."""
    if isinstance(container, ListValue):
        items = list(list_items(x, container))
        try:
            del items[_index(x, index)]
        except IndexError:
            raise_python(x, IndexError, "list assignment index out of range")
        x.heap.write(container.identity, tuple(items))
        return
    if isinstance(container, DictValue):
        dict_delete(x, container, index)
        return
    if isinstance(container, ObjectValue) and defines(container.cls, "__delitem__"):
        method = yield from x.get_special(container, "__delitem__")
        yield from x.call(method, [index], {})
        return
    raise unsupported("item deletion", container, index)


# -- membership ----------------------------------------------------------------------------------


def contains(x: Any, container: Value, item: Value) -> Steps:
    """`item in container`, as a Python bool."""
    if isinstance(container, DictValue):
        return dict_contains(x, container, item)
    if isinstance(container, SetValue):
        return hashable(x, item) in set_entries(x, container)
    if isinstance(container, DictViewValue) and container.kind == "keys":
        return dict_contains(x, container.dictionary, item)
    if isinstance(container, (TupleValue, ListValue)):
        return (yield from _sequence_contains(x, _items_of(x, container), item))
    if isinstance(container, ObjectValue):
        if defines(container.cls, "__contains__"):
            method = yield from x.get_special(container, "__contains__")
            result = yield from x.call(method, [item], {})
            return (yield from x.truth(result))
        items = yield from x.to_items(container)
        return (yield from _sequence_contains(x, tuple(items), item))
    if isinstance(container, DictViewValue):
        items = yield from x.to_items(container)
        return (yield from _sequence_contains(x, tuple(items), item))
    if is_known(container) and is_known(item):
        return as_python(x, fold(x, lambda a, b: b in a, container, item))
    raise unsupported("in", item, container)


def _sequence_contains(x: Any, items: tuple[Value, ...], item: Value) -> Steps:
    for candidate in items:
        if isinstance(candidate, HeapValue) and candidate.object_id == item.object_id:
            if is_same(x, candidate, item):
                return True
            continue
        if isinstance(candidate, TensorValue) or isinstance(item, TensorValue):
            raise GraphBreak(breaks.DATA_DEPENDENT_BRANCH, "searching a sequence for a tensor")
        equal = yield from x.compare("==", candidate, item)
        if (yield from x.truth(equal)):
            return True
    return False


def boolean(value: bool) -> Constant:
    """True or False as a value."""
    return TRUE if value else FALSE
