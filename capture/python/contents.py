"""Contents of lists, dicts and sets: read, made, and written."""

import collections
import itertools
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture._capture import is_held_weakly
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.identity_keys import holds_nan
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import hashable, hashable_as, is_known, unsupported
from dynajit.capture.python.objects.fields import instance_entries, instance_lookup, instance_store
from dynajit.capture.python.objects.removals import removed
from dynajit.capture.tensors.turns import collects
from dynajit.capture.values.containers import (
    Collected,
    DictValue,
    DictViewValue,
    Grown,
    HeapValue,
    ListValue,
    SetEntries,
    SetValue,
    TupleValue,
)
from dynajit.capture.values.objects import DELETED, InstanceDictValue
from dynajit.capture.values.storage import DequeItems
from dynajit.capture.values.symbolic import LITERAL_TYPES, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue

#: Items of an existing list that are read.
MOST_STORED: Final = 100_000


def view_items(machine: Machine, view: DictViewValue) -> tuple[Value, ...]:
    """Items of a dict view, now."""
    entries = dict_entries(machine, view.dictionary).values()
    if view.kind == "keys":
        return tuple(key for key, _ in entries)
    if view.kind == "values":
        return tuple(item for _, item in entries)
    return tuple(TupleValue((key, item)) for key, item in entries)


Entries = dict[Any, tuple[Value, Value]]
Members = dict[Any, Value]


def new_list(machine: Machine, items: Any) -> ListValue:
    """A list made by the captured code."""
    return ListValue(machine.heap.allocate(tuple(items)), list)


def new_dict(machine: Machine, pairs: Any, cls: type = dict) -> DictValue:
    """A dict made by the captured code from (key, value) pairs."""
    entries: Entries = {}
    for key, item in pairs:
        put(machine, entries, key, item)
    return DictValue(machine.heap.allocate(entries), cls)


def put(machine: Machine, entries: Entries, key: Value, item: Value, token: Any = None) -> None:
    """Store into a copy of a dict's contents; an equal key keeps its first form."""
    token = hashable(machine, key) if token is None else token
    found = entries.get(token)
    entries[token] = (key if found is None else found[0], item)


def list_items(machine: Machine, value: ListValue) -> tuple[Value, ...]:
    """Items of a list; an existing one is read (and its length guarded) the first time."""
    note_read(machine, value)
    contents = machine.heap[value.identity]
    existing = machine.recorder.existing(value)
    if isinstance(contents, Collected):
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "reading a list that each turn appends to")
    if contents is None or isinstance(contents, Grown):
        items = _stored_items(machine, value, existing)
        revise = None if contents is None else lambda grown: grown.after(items)
        machine.heap.load_entry(value.identity, items, revise)
        contents = machine.heap[value.identity]
    if existing is not None:
        entry = machine.heap.entry(value.identity)
        machine.recorder.guard(
            machine.recorder.first_source(value), Kind.LENGTH, len(entry), "list"
        )
    found: tuple[Value, ...] = contents
    return found


def list_length(machine: Machine, value: ListValue) -> int:
    """How many items a list has; one that nobody has read is not read for it."""
    unread = machine.heap.unread(value.identity)
    if unread is None or unread.length is None:
        return len(list_items(machine, value))
    note_read(machine, value)
    return unread.length


def chosen_items(
    machine: Machine, value: ListValue, position: int | slice
) -> Value | tuple[Value, ...] | None:
    """An item, or a few, of a list that nobody has read, which are made alone.

    None: there is no such one, they are many, or the list was read.
    """
    unread = machine.heap.unread(value.identity)
    if unread is None or unread.length is None:
        return None
    places = range(unread.length)
    if not isinstance(position, slice):
        if not -len(places) <= position < len(places):
            return None
        note_read(machine, value)
        one: Value = machine.heap.read_item(value.identity, places[position])
        return one
    if position.step == 0 or len(places[position]) > MOST_CHOSEN:
        return None
    note_read(machine, value)
    return tuple([machine.heap.read_item(value.identity, place) for place in places[position]])


def note_read(machine: Machine, value: HeapValue) -> None:
    """The program asks what a list holds, or how much a container does."""
    machine.recorder.use(value)
    for turn in machine.recorder.turns:
        turn.asked.add(value.identity)


#: Items of a slice of a list that are made without the others.
MOST_CHOSEN: Final = 8


def _stored_items(machine: Machine, value: ListValue, existing: Any) -> tuple[Value, ...]:
    if len(existing) > MOST_STORED:
        raise GraphBreak(breaks.LIMIT, f"reading more than {MOST_STORED} items of a list")
    base = machine.recorder.first_source(value)
    place, stored = sources.Item, list.__iter__
    if isinstance(value, DequeItems):
        place, stored = sources.DequeItem, collections.deque.__iter__
    wrap = machine.recorder.wrap
    return tuple(wrap(item, place(base, i)) for i, item in enumerate(stored(existing)))


def grow_list(machine: Machine, value: ListValue, items: tuple[Value, ...]) -> None:
    """`value.extend(items)`; a list that nobody read is not read for it."""
    if collects(machine.recorder.turns, machine.heap, value):
        machine.recorder.use(value)
        contents = machine.heap[value.identity]
        before = contents.appended if isinstance(contents, Collected) else ()
        machine.heap.write(value.identity, Collected((*before, *items)))
        return
    unread = machine.heap.unread(value.identity)
    grown = None if unread is None else unread.grown(items)
    if grown is not None:
        machine.recorder.use(value)
        machine.heap.leave_unread(value.identity, grown)
        return
    contents = machine.heap[value.identity]
    if machine.recorder.existing(value) is None or isinstance(contents, tuple):
        machine.heap.write(value.identity, (*list_items(machine, value), *items))
        return
    machine.recorder.use(value)
    before = () if contents is None else contents.appended
    machine.heap.write(value.identity, Grown((*before, *items)))


def dict_entries(machine: Machine, value: DictValue) -> Entries:
    """Entries of a dict; an existing one is read (and its keys guarded) the first time."""
    machine.recorder.use(value)
    if isinstance(value, InstanceDictValue):
        return instance_entries(machine, value)
    found: Entries = _read_once(machine, value, _read_dict, keys_of, "dict")
    return found


def _read_once(
    machine: Machine,
    value: Any,
    read: Callable[[Machine, Any, Any], Any],
    keys: Callable[[Any, Any], tuple[Any, ...]],
    what: str,
) -> Any:
    """The contents of a dict or set; those of an existing one are read the first time, and its keys
    guarded.

    Args:
        read: makes the contents of what exists.
        keys: in order, of what exists.
        what: the value is, for the guard.
    """
    contents = machine.heap[value.identity]
    existing = machine.recorder.existing(value)
    if contents is None:
        contents = read(machine, value, existing)
        machine.heap.load_entry(value.identity, contents)
    if existing is not None:
        base = machine.recorder.first_source(value)
        machine.recorder.guard(base, Kind.DICT_KEYS, keys(value, existing), what)
    return contents


def keys_of(value: DictValue, existing: Any) -> tuple[Any, ...]:
    """The keys of an existing dict, whatever a derived class gives instead."""
    return tuple(value.cls.__iter__(existing))  # type: ignore[attr-defined]


def _read_dict(machine: Machine, value: DictValue, existing: dict[Any, Any]) -> Entries:
    base = machine.recorder.first_source(value)
    entries: Entries = {}
    places = {id(key): index for index, key in enumerate(dict.__iter__(existing))}
    if isinstance(existing, OrderedDict):
        _check_ordered(existing)
    for key, item in value.cls.items(existing):  # type: ignore[attr-defined]
        if holds_nan(key):
            raise unsupported("a dict with a key that is not equal to itself")
        key_value, found = _key_value(machine, key, sources.NthKey(base, places[id(key)]))
        entries[hashable(machine, key_value)] = (
            key_value,
            machine.recorder.wrap(item, sources.Key(base, key, found)),
        )
    return entries


def _key_value(
    machine: Machine, key: Any, place: sources.NthKey
) -> tuple[Value, sources.NthKey | None]:
    """A key, and where it is if it is an instance, which compiled code must not keep alive."""
    if is_held_weakly(key):
        value = machine.recorder.wrap(key, place)
        if not isinstance(value, Known):
            return value, place
    return machine.recorder.wrap(key, sources.Constant(key)), None


def _check_ordered(existing: OrderedDict[Any, Any]) -> None:
    """An OrderedDict looks up every key that it gives, and may disagree with the dict inside it."""
    keys = list(dict.keys(existing))
    if runs_user_code(keys) or any(isinstance(type(k).__hash__, types.FunctionType) for k in keys):
        raise GraphBreak(breaks.UNKNOWN_HASH, "an OrderedDict with keys that define __hash__")
    try:
        is_whole = sum(1 for _ in OrderedDict.__iter__(existing)) == len(keys)
    except KeyError:
        is_whole = False
    if not is_whole:
        raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "an OrderedDict changed by methods of dict")


def dict_lookup(machine: Machine, value: DictValue, key: Value, token: Any = None) -> Value | None:
    """The value under `key`, or None; one key of an existing, unchanged dict is guarded alone.

    Args:
        token: `token_in` of the key, if found before (None is the token of no key but None).
    """
    machine.recorder.use(value)
    token = hashable(machine, key) if token is None else token
    if isinstance(value, InstanceDictValue):
        return instance_lookup(machine, value, token)
    existing = machine.recorder.existing(value)
    if machine.heap[value.identity] is not None or existing is None or not is_known(key):
        entry = dict_entries(machine, value).get(token)
        return None if entry is None else entry[1]
    if runs_user_code(keys_of(value, existing)):
        raise GraphBreak(breaks.UNKNOWN_HASH, "a dict with keys that define __eq__")
    base = machine.recorder.first_source(value)
    if not dict.__contains__(existing, token):
        machine.recorder.guard(base, Kind.HAS_NO_KEY, token, "missing key")
        return None
    place = sources.Key(base, token)
    item = dict.get(existing, token)
    found: Value = machine.recorder.wrap(item, place)
    machine.recorder.guard_exists(place, "present key")
    return found


def runs_user_code(keys: Iterable[Any]) -> bool:
    """True if looking a key up among `keys` may run methods of user classes."""
    for kind in set(map(type, keys)):
        if isinstance(kind.__eq__, types.FunctionType):
            return True
        if issubclass(kind, (tuple, frozenset)):
            nested = [key for key in keys if isinstance(key, (tuple, frozenset))]
            if any(runs_user_code(key) for key in nested):
                return True
    return False


def dict_contains(machine: Machine, value: DictValue, key: Value) -> bool:
    """`key in value`."""
    return dict_lookup(machine, value, key) is not None


def dict_store(
    machine: Machine, value: DictValue, key: Value, item: Value, token: Any = None
) -> None:
    """`value[key] = item`; `token` as in `dict_lookup`."""
    if isinstance(value, InstanceDictValue):
        instance_store(machine, value, hashable(machine, key), item)
        return
    known = dict_entries(machine, value)
    token = hashable(machine, key) if token is None else token
    if token in known and _is_one_object(known[token][1], item):
        return  # as `d[key] += 1` of a tensor: nothing is to be replayed, or kept apart
    entries = dict(known)
    put(machine, entries, key, item, token)
    machine.heap.write(value.identity, entries)


def _is_one_object(a: Value, b: Value) -> bool:
    """True for one handle, and for handles of one tensor."""
    return a is b or (isinstance(a, TensorValue) and a.object_id == b.object_id)


def dict_delete(machine: Machine, value: DictValue, key: Value, token: Any = None) -> None:
    """`del value[key]`; `token` as in `dict_lookup`."""
    if isinstance(value, InstanceDictValue):
        if instance_lookup(machine, value, hashable(machine, key)) is None:
            raise_python(machine, KeyError, key)
        instance_store(machine, value, hashable(machine, key), DELETED)
        return
    entries = dict(dict_entries(machine, value))
    token = hashable(machine, key) if token is None else token
    if entries.pop(token, None) is None:
        raise_python(machine, KeyError, key)
    removed(machine, value, token)
    machine.heap.write(value.identity, entries)


def items_of(machine: Machine, container: Any) -> tuple[Value, ...]:
    if isinstance(container, TupleValue):
        machine.recorder.use(container)
        return container.items
    return list_items(machine, container)


def live_items(machine: Machine, container: Any, start: int = 0) -> Iterator[tuple[int, Value]]:
    """Positions and items of a list or tuple; what compares them may change a list meanwhile."""
    for position in itertools.count(start):
        items = items_of(machine, container)
        if position >= len(items):
            return
        yield position, items[position]


def new_set(machine: Machine, items: Any) -> SetValue:
    """A set made by the captured code: members added one by one."""
    entries = SetEntries({}, is_plain=True)
    return SetValue(machine.heap.allocate(with_added(machine, entries, list(items))), set)


def with_added(
    machine: Machine, entries: SetEntries, items: list[Value], tokens: list[Any] | None = None
) -> SetEntries:
    """A set after `add` of each of `items`, in order; `tokens` are their keys, if found before."""
    members = dict(entries)
    known = True
    fresh: list[Any] = []
    for item in items:
        token = hashable_as(machine, item, "set element") if tokens is None else tokens[len(fresh)]
        if token not in members:
            members[token] = item
            fresh.append(token)
            known = known and is_known(item)
    if not fresh:
        return entries

    def add(real: set[Any]) -> None:
        for token in fresh:
            set.add(real, token)

    return SetEntries(
        members, entries.start, (*entries.steps, add),
        entries.is_ordered and known, entries.is_known and known, entries.is_plain,
    )  # fmt: skip


def set_entries(machine: Machine, value: SetValue) -> SetEntries:
    """Members of a set; those of an existing one are guarded, with their order.

    Raises:
        GraphBreak: an existing set with members that are not literals.
    """
    machine.recorder.use(value)
    found: SetEntries = _read_once(machine, value, _read_set, _members_of, "set")
    return found


def _members_of(value: SetValue, existing: set[Any]) -> tuple[Any, ...]:
    """The members of an existing set, whatever a derived class gives instead."""
    return tuple(set.__iter__(existing))


def _read_set(machine: Machine, value: SetValue, existing: set[Any]) -> SetEntries:
    if not all(type(member) in LITERAL_TYPES for member in set.__iter__(existing)):
        raise unsupported("reading an existing set of objects", value)
    if any(map(holds_nan, set.__iter__(existing))):
        raise unsupported("a set with a member that is not equal to itself")
    members: Members = {member: constant(member) for member in set.__iter__(existing)}
    snapshot = set.copy(existing)
    keeps_order = list(snapshot.copy()) == list(set.__iter__(existing))
    return SetEntries(members, snapshot.copy, (), keeps_order)
