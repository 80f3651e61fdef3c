"""Iteration: `iter`, `next`, and reading everything an iterable gives.

Methods of the executor (`x`), written as functions; see `capture.execution.executor`.
"""

import types
from collections import OrderedDict
from dataclasses import replace
from typing import Any

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.guards import Kind
from dynajit.capture.machine.awaiting import next_item, then
from dynajit.capture.machine.exceptions import Raised, raise_python, stop_iteration_value
from dynajit.capture.places import sources
from dynajit.capture.python.basic import (
    Steps,
    as_python,
    defines,
    describe,
    is_none,
    is_not_implemented,
    type_name,
    unsupported,
)
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.given_items import with_given
from dynajit.capture.python.instances import holder
from dynajit.capture.python.sets import tokens_in_order
from dynajit.capture.values.containers import (
    EVERY_KEY,
    DictValue,
    DictViewValue,
    EnumerateIterator,
    Exhausted,
    ExistingIterator,
    FilterIterator,
    IndexIterator,
    IteratorValue,
    ListValue,
    MapIterator,
    RangeIterator,
    SequenceIterator,
    SetValue,
    TableIterator,
    TupleValue,
    ZipIterator,
)
from dynajit.capture.values.functions import GeneratorValue
from dynajit.capture.values.objects import InstanceDictValue, ObjectValue
from dynajit.capture.values.symbolic import Constant, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, class_with_methods, lookup

LIMIT_OF_ITEMS = 100_000


def new_iterator(x: Any, state: Any, cls: type) -> IteratorValue:
    """An iterator made by the captured code."""
    return IteratorValue(x.heap.allocate(state), cls)


def iterate(x: Any, value: Value) -> Steps:
    """`iter(value)`."""
    if isinstance(value, (IteratorValue, GeneratorValue)):
        x.recorder.use(value)  # what follows may be real code, which trusts that it is an iterator
        return value
    if isinstance(value, (TupleValue, ListValue)):
        x.recorder.use(value)
        if isinstance(value, ListValue):
            x.list_items(value)
        cls = type(iter([])) if isinstance(value, ListValue) else type(iter(()))
        return new_iterator(x, SequenceIterator(value), cls)
    if isinstance(value, (DictValue, DictViewValue, SetValue)):
        return _iterate_table(x, value)
    if isinstance(value, Constant):
        return _iterate_constant(x, value)
    if isinstance(value, TensorValue):
        rows = TupleValue(tuple(tensor_rows(x, value)))
        return new_iterator(x, SequenceIterator(rows), type(iter([])))
    cls = class_with_methods(value, "__iter__")
    if cls is not None:
        return (yield from _iterate_object(x, value, cls))
    if isinstance(value, Known) and isinstance(value.object, type):
        return _iterate_class(x, value)
    if not any(defines(value.python_type, name) for name in ("__iter__", "__getitem__")):
        raise_python(x, TypeError, f"'{type_name(x.type_of(value))}' object is not iterable")
    raise unsupported("iter", value)


def _iterate_object(x: Any, value: Value, cls: type) -> Steps:
    x.recorder.use(value)
    if defines(cls, "__iter__"):
        method = yield from x.get_special(value, "__iter__")
        made = yield from x.call(method, [], {})
        if not hasattr(x.type_of(made), "__next__"):
            kind = type_name(made.python_type)
            raise_python(x, TypeError, f"iter() returned non-iterator of type '{kind}'")
        return made
    if defines(cls, "__getitem__"):
        return new_iterator(x, IndexIterator(value), type(iter(_Indexed())))
    refuse(x, "iter", iter, [value])


def _of_holder(x: Any, view: DictViewValue) -> DictViewValue:
    """A view of the `__dict__` of an instance, under the instance whose contents hold it."""
    owner = holder(x, view.dictionary.owner, None)
    dictionary = InstanceDictValue(owner.identity, view.dictionary.cls, None, owner)
    return DictViewValue(dictionary, view.kind)


def _iterate_table(x: Any, value: Any, is_reversed: bool = False) -> Value:
    """Over a dict, view or set."""
    if isinstance(value, SetValue):
        order = tokens_in_order(x, value)
        state = TableIterator(value, tuple(x.set_entries(value)), order, _removals(x, value))
        return new_iterator(x, state, type(iter(set())))
    view = value if isinstance(value, DictViewValue) else DictViewValue(value, "keys")
    dictionary = view.dictionary
    start = reversed if is_reversed else iter
    cls = type(start(getattr(_empty(dictionary.cls), view.kind)()))
    if isinstance(dictionary, InstanceDictValue):
        value = view = _of_holder(x, view)
        dictionary = view.dictionary
    keys = tuple(x.dict_entries(dictionary))
    state = TableIterator(
        value, keys, tuple(start(keys)), _removals(x, dictionary), is_reversed=is_reversed
    )
    return new_iterator(x, state, cls)


def _empty(cls: type) -> Any:
    return OrderedDict() if issubclass(cls, OrderedDict) else {}


def _removals(x: Any, table: Any) -> tuple[int, int]:
    """Where removals from a dict or set are listed, and how many there were so far."""
    slot = x.removals.get(table.identity)
    if slot is None or not x.heap.has(slot):
        slot = x.removals[table.identity] = x.heap.allocate(())
    return slot, len(x.heap[slot])


def removed(x: Any, table: Any, token: Any = EVERY_KEY) -> None:
    """Something is removed from a dict or set, which an iterator over it may notice.

    Args:
        token: the key; for a set it does not matter which.
    """
    slot, _ = _removals(x, table)
    x.heap.write(slot, (*x.heap[slot], token))


def reverse(x: Any, value: Value) -> Steps:
    """`reversed(value)` for a list, a tuple, a text, a range, a dict or a view of it."""
    if isinstance(value, (DictValue, DictViewValue)):
        return _iterate_table(x, value, is_reversed=True)
    if isinstance(value, Constant) and isinstance(value.value, range):
        return (yield from iterate(x, x.fold(lambda numbers: numbers[::-1], value)))
    if isinstance(value, TensorValue):
        rows = TupleValue(tuple(reversed(tensor_rows(x, value))))
        return new_iterator(x, SequenceIterator(rows), reversed)
    if isinstance(value, ListValue):
        count, cls = len(x.list_items(value)), type(reversed([]))
    elif isinstance(value, TupleValue):
        x.recorder.use(value)
        count, cls = len(value.items), reversed
    elif isinstance(value, Constant) and isinstance(value.value, (str, bytes)):
        x.recorder.use(value)
        count, cls = len(value.value), reversed
    else:
        refuse(x, "reversed", reversed, [value])
    return new_iterator(x, SequenceIterator(value, count - 1, is_reversed=True), cls)


def _advance_table(x: Any, iterator: IteratorValue, state: TableIterator) -> Value | None:
    table = state.table
    is_set = isinstance(table, SetValue)
    dictionary = getattr(table, "dictionary", table)
    entries = x.set_entries(table) if is_set else x.dict_entries(dictionary)
    slot, count = state.removals
    if len(entries) != len(state.keys):
        if dictionary.cls not in (dict, set):
            raise unsupported("changing what is iterated over", dictionary)
        name = "Set" if is_set else "dictionary"
        raise_python(x, RuntimeError, f"{name} changed size during iteration")
    if len(x.heap[slot]) != count or tuple(entries) != state.keys:
        raise unsupported("changing what is iterated over", dictionary)
    if state.position >= len(state.order):
        x.heap.write(iterator.identity, Exhausted(state.given))
        return None
    item = entries[state.order[state.position]]
    given = state.given
    if not is_set:
        key, stored = item
        kind = getattr(table, "kind", "keys")
        item = {"keys": key, "values": stored}.get(kind)
        if item is None:
            item = TupleValue((key, stored))
            given = with_given(given, item.items)
    x.heap.write(iterator.identity, replace(state, position=state.position + 1, given=given))
    return item


def _iterate_constant(x: Any, value: Constant) -> Value:
    x.recorder.use(value)
    literal = value.value
    if isinstance(literal, range):
        return new_iterator(x, RangeIterator(literal), type(iter(range(0))))
    if isinstance(literal, (str, bytes)):
        return new_iterator(x, SequenceIterator(value), type(iter(literal)))
    if isinstance(literal, frozenset):
        items = tuple(constant(item) for item in literal)
        return new_iterator(x, SequenceIterator(TupleValue(items)), type(iter(literal)))
    raise_python(x, TypeError, f"'{type(literal).__name__}' object is not iterable")
    raise AssertionError


def _iterate_class(x: Any, value: Known) -> Value:
    members = getattr(value.object, "__members__", None)
    if members is None or not isinstance(members, types.MappingProxyType):
        raise unsupported("iter", value)
    x.recorder.use(value)
    items = tuple(Known(member) for member in value.object)
    return new_iterator(x, SequenceIterator(TupleValue(items)), type(iter([])))


class _Indexed:
    def __getitem__(self, index: int) -> Any:
        raise IndexError(index)


def _advance_indexed(x: Any, iterator: IteratorValue, state: IndexIterator) -> Steps:
    try:
        item = yield from x.subscript(state.sequence, constant(state.position))
    except Raised as raised:
        if not issubclass(raised.value.cls, (IndexError, StopIteration)):
            raise
        x.heap.write(iterator.identity, Exhausted())
        return None
    if not isinstance(x.heap[iterator.identity], Exhausted):
        x.heap.write(iterator.identity, IndexIterator(state.sequence, state.position + 1))
    return item


def view_items(x: Any, view: DictViewValue) -> tuple[Value, ...]:
    """Items of a dict view, now."""
    entries = x.dict_entries(view.dictionary).values()
    if view.kind == "keys":
        return tuple(key for key, _ in entries)
    if view.kind == "values":
        return tuple(item for _, item in entries)
    return tuple(TupleValue((key, item)) for key, item in entries)


def tensor_rows(x: Any, value: TensorValue) -> list[Value]:
    """The tensors that iterating over `value` gives."""
    shape = x.tensor_type(value).shape
    if not shape:
        raise_python(x, TypeError, "iteration over a 0-d tensor")
    count = int(shape[0])  # a size that varies is specialised: every row is traced
    if count > 1000:
        raise GraphBreak(breaks.LIMIT, "iterating over the rows of a large tensor")
    rows = x.native_method(value, "unbind", [constant(0)], {})
    assert isinstance(rows, TupleValue) and len(rows.items) == count
    return list(rows.items)


# -- next ----------------------------------------------------------------------------------------


def advance(x: Any, iterator: Value) -> Steps:
    """The next item, or None (Python's None, not a value) when exhausted."""
    if isinstance(iterator, GeneratorValue):
        return (yield from x.resume_generator(iterator, constant(None)))
    if isinstance(iterator, IteratorValue):
        state = x.heap[iterator.identity]
        return (yield from _advance_state(x, iterator, state))
    if isinstance(iterator, ObjectValue) and defines(iterator.cls, "__next__"):
        method = yield from x.get_special(iterator, "__next__")
        try:
            return (yield from then(x.call(method, [], {}), next_item))
        except Raised as raised:
            if issubclass(raised.value.cls, StopIteration):
                x.generator_results[iterator.identity] = stop_iteration_value(raised, x)
                return None
            raise
    if hasattr(x.type_of(iterator), "__next__"):
        raise unsupported("next", iterator)
    refuse(x, "next", next, [iterator])


def _advance_state(x: Any, iterator: IteratorValue, state: Any) -> Steps:
    if isinstance(state, Exhausted):
        return None
    if isinstance(state, IndexIterator):
        return (yield from _advance_indexed(x, iterator, state))
    if isinstance(state, RangeIterator):
        return _advance_range(x, iterator, state)
    if isinstance(state, SequenceIterator):
        return _advance_sequence(x, iterator, state)
    if isinstance(state, TableIterator):
        return _advance_table(x, iterator, state)
    if isinstance(state, EnumerateIterator):
        item = yield from advance(x, state.inner)
        if item is None:
            return None
        state = x.heap[iterator.identity]  # the item may have advanced it as well
        given = with_given(state.given, (item,))
        x.heap.write(iterator.identity, EnumerateIterator(state.inner, state.count + 1, given))
        return TupleValue((constant(state.count), item))
    if isinstance(state, ZipIterator):
        return (yield from _advance_zip(x, iterator, state))
    if isinstance(state, MapIterator):
        items = []
        for inner in state.inner:
            item = yield from advance(x, inner)
            if item is None:
                return None
            items.append(item)
        return (yield from x.call(state.function, items, {}))
    if isinstance(state, FilterIterator):
        return (yield from _advance_filter(x, state))
    if isinstance(state, ExistingIterator):
        if _is_from_a_broken_loop(iterator):
            raise GraphBreak(breaks.LOOP_GOES_ON, describe(iterator))
        return _advance_sequence(x, iterator, _read_existing(x, iterator))
    raise unsupported("next", iterator)


def _read_existing(x: Any, iterator: IteratorValue) -> SequenceIterator:
    """Where an iterator over a list or tuple was at entry; guarded, and written back at the end.

    Raises:
        GraphBreak: an iterator of another kind, at its end, or one that moves from call to call.
    """
    existing: Any = x.recorder.existing(iterator)
    place = x.recorder.first_source(iterator)
    if type(existing) not in (type(iter([])), type(iter(()))) or len(existing.__reduce__()) < 3:
        raise unsupported("next of an existing iterator", iterator)
    _, (sequence,), position = existing.__reduce__()
    if x.recorder.sizes.memory.is_moving(place.expression(), position):
        raise unsupported("next of an iterator that is elsewhere in each call", iterator)
    x.recorder.use(iterator)
    x.recorder.guard(place, Kind.POSITION, position, "iterator")
    over = x.recorder.wrap(sequence, sources.Iterated(place))
    if not isinstance(over, (ListValue, TupleValue)):
        raise unsupported("next of an existing iterator", iterator)
    x.recorder.use(over)
    state = SequenceIterator(over, position)
    x.heap.load_entry(iterator.identity, state)
    return state


def _is_from_a_broken_loop(iterator: IteratorValue) -> bool:
    """True for an iterator on the stack that a break left to the rest of the function."""
    root = getattr(iterator.source, "root", None)
    return isinstance(root, sources.Local) and root.name.startswith(".stack")


def _advance_range(x: Any, iterator: IteratorValue, state: RangeIterator) -> Value | None:
    if not state.rest:
        x.heap.write(iterator.identity, Exhausted())
        return None
    x.heap.write(iterator.identity, RangeIterator(state.rest[1:]))
    return constant(state.rest[0])


def _advance_sequence(x: Any, iterator: IteratorValue, state: SequenceIterator) -> Value | None:
    sequence, position = state.sequence, state.position
    if isinstance(sequence, Constant):
        items = sequence.value
    else:
        items = x.list_items(sequence) if isinstance(sequence, ListValue) else sequence.items
    if not 0 <= position < len(items):
        x.heap.write(iterator.identity, Exhausted())
        return None
    following = position - 1 if state.is_reversed else position + 1
    x.heap.write(iterator.identity, replace(state, position=following))
    found = items[position]
    return constant(found) if isinstance(sequence, Constant) else found


def _advance_zip(x: Any, iterator: IteratorValue, state: ZipIterator) -> Steps:
    items: list[Value] = []
    if not state.inner:
        return None
    for position, inner in enumerate(state.inner):
        item = yield from advance(x, inner)
        if item is None:
            if state.strict:
                yield from _check_strict(x, state, position)
            return None
        items.append(item)
    state = x.heap[iterator.identity]
    given = with_given(state.given, tuple(items))
    if given is not state.given:
        x.heap.write(iterator.identity, replace(state, given=given))
    return TupleValue(tuple(items))


def _check_strict(x: Any, state: ZipIterator, position: int) -> Steps:
    if position:
        others = "argument 1" if position == 1 else f"arguments 1-{position}"
        raise_python(x, ValueError, f"zip() argument {position + 1} is shorter than {others}")
    for number, inner in enumerate(state.inner[1:], start=2):
        if (yield from advance(x, inner)) is not None:
            others = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
            raise_python(x, ValueError, f"zip() argument {number} is longer than {others}")


def _advance_filter(x: Any, state: FilterIterator) -> Steps:
    keeps_all = is_none(x, state.function)
    while True:
        item = yield from advance(x, state.inner)
        if item is None:
            return None
        verdict = item if keeps_all else (yield from x.call(state.function, [item], {}))
        if (yield from x.truth(verdict)):
            return item


def to_items(x: Any, value: Value, asks_length: bool = False) -> Steps:
    """Everything that iterating over `value` gives, as a Python list.

    Args:
        asks_length: the length is asked for first, as `list(value)` does.
    """
    if isinstance(value, TupleValue):
        x.recorder.use(value)
        return list(value.items)
    if isinstance(value, ListValue):
        return list(x.list_items(value))
    iterator = yield from iterate(x, value)
    if asks_length:
        yield from ask_length(x, value)
    items: list[Value] = []
    while True:
        item = yield from advance(x, iterator)
        if item is None:
            return items
        items.append(item)
        if len(items) > LIMIT_OF_ITEMS:
            raise GraphBreak(breaks.LIMIT, f"more than {LIMIT_OF_ITEMS} items of {describe(value)}")


def extend_list(x: Any, value: ListValue, iterable: Value) -> Steps:
    """Append everything that `iterable` gives, each item when it is given."""
    x.recorder.use(value)
    if isinstance(iterable, (ListValue, TupleValue)):
        items = yield from to_items(x, iterable)
        x.grow_list(value, tuple(items))
        return
    iterator = yield from iterate(x, iterable)
    yield from ask_length(x, iterable)
    while (item := (yield from advance(x, iterator))) is not None:
        x.grow_list(value, (item,))


def ask_length(x: Any, value: Value) -> Steps:
    """Call `__len__` or `__length_hint__` of an object, as makers of lists do; a TypeError is
    passed over.

    Source: CPython, PyObject_LengthHint.
    """
    cls = class_with_methods(value, "__len__")
    name = next((n for n in ("__len__", "__length_hint__") if _has(cls, n)), None)
    if cls is None or name is None:
        return
    try:
        if name == "__len__":
            yield from x.length(value)
            return
        method = yield from x.get_special(value, name)
        hint = yield from x.call(method, [], {})
    except Raised as raised:
        if not issubclass(raised.value.cls, TypeError):
            raise
        return
    if is_not_implemented(x, hint):
        return
    if not issubclass(x.type_of(hint), int):
        kind = hint.python_type.__name__
        raise_python(x, TypeError, f"__length_hint__ must be an integer, not {kind}")
    if as_python(x, hint) < 0:
        raise_python(x, ValueError, "__length_hint__() should return >= 0")


def _has(cls: type | None, name: str) -> bool:
    return cls is not None and lookup(cls, name) not in (MISSING, None)
