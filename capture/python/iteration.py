"""Iteration: `iter`, `next`, and reading everything an iterable gives.

Functions of the machine (`capture.machine.machine`).
"""

import types
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.awaiting import next_item, then
from dynajit.capture.machine.exceptions import Raised, raise_python, stop_iteration_value
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import (
    as_python,
    defines,
    describe,
    is_none,
    is_not_implemented,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.containers import fold, subscript
from dynajit.capture.python.contents import dict_entries, grow_list, list_items, set_entries
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.generators import resume_generator
from dynajit.capture.python.given_items import with_given
from dynajit.capture.python.objects.fields import holder
from dynajit.capture.python.objects.removals import removals
from dynajit.capture.python.sets import tokens_in_order
from dynajit.capture.python.tensors.arrays import is_array, new_array, tensor_in
from dynajit.capture.python.tensors.counts import is_count
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_method
from dynajit.capture.python.truth import length, scalar_predicate, truth
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import (
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
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import MISSING, class_with_methods, lookup

LIMIT_OF_ITEMS = 100_000

#: Rows of a tensor that are all views of the graph when an iteration begins.
MOST_ROWS: Final = 1000

#: Items of an array that builtin functions are given one by one.
MOST_AT_ONCE: Final = 256

#: Items of a range whose end is a run-time number: shorter ones have versions of their own.
MANY_ITEMS: Final = 17
MOST_ITEMS: Final = 1 << 31

#: The largest first item of such a range, and how many of its turns are captured as they come
#: before its end is taken to be the same in other calls.
LAST_FIRST: Final = 4
TURNS_AS_THEY_COME: Final = 4


def new_iterator(machine: Machine, state: Any, cls: type) -> IteratorValue:
    """An iterator made by the captured code."""
    return IteratorValue(machine.heap.allocate(state), cls)


def iterate(machine: Machine, value: Value) -> Steps[Value]:
    """`iter(value)`."""
    if machine.frames and machine.frames[-1].namespace.is_fixed:  # of the Python form of a function
        refuse_many(machine, value)
    if isinstance(value, (IteratorValue, GeneratorValue)):
        # What follows may be real code, which trusts that it is an iterator.
        machine.recorder.use(value)
        return value
    if isinstance(value, (TupleValue, ListValue)):
        machine.recorder.use(value)
        if isinstance(value, ListValue):
            refuse_numbers(machine, value)
            list_items(machine, value)
        kind: type = type(iter([])) if isinstance(value, ListValue) else type(iter(()))
        return new_iterator(machine, SequenceIterator(value), kind)
    if isinstance(value, (DictValue, DictViewValue, SetValue)):
        return _iterate_table(machine, value)
    if isinstance(value, Constant):
        return _iterate_constant(machine, value)
    if isinstance(value, TensorValue):
        rows = TupleValue(tuple(tensor_rows(machine, value)))
        return new_iterator(machine, SequenceIterator(rows), type(iter([])))
    rows_of_array = array_rows(machine, value)
    if rows_of_array is not None:
        state = SequenceIterator(TupleValue(rows_of_array))
        return new_iterator(machine, state, type(iter(_Indexed())))
    cls = class_with_methods(value, "__iter__")
    if cls is not None:
        return (yield from _iterate_object(machine, value, cls))
    if isinstance(value, Known) and isinstance(value.object, type):
        return _iterate_class(machine, value)
    if not any(defines(value.python_type, name) for name in ("__iter__", "__getitem__")):
        raise_python(
            machine, TypeError, f"'{type_name(type_of(machine, value))}' object is not iterable"
        )
    raise unsupported("iter", value)


def _iterate_object(machine: Machine, value: Value, cls: type) -> Steps[Value]:
    machine.recorder.use(value)
    if defines(cls, "__iter__"):
        method = yield from machine.get_special(value, "__iter__")
        made = yield from machine.call(method, [], {})
        if not hasattr(type_of(machine, made), "__next__"):
            kind = type_name(made.python_type)
            raise_python(machine, TypeError, f"iter() returned non-iterator of type '{kind}'")
        return made
    if defines(cls, "__getitem__"):
        return new_iterator(machine, IndexIterator(value), type(iter(_Indexed())))
    refuse(machine, "iter", iter, [value])


def _of_holder(machine: Machine, view: DictViewValue) -> DictViewValue:
    """A view of the `__dict__` of an instance, under the instance whose contents hold it."""
    shown = view.dictionary
    assert isinstance(shown, InstanceDictValue)
    owner = holder(machine, shown.owner, None)
    dictionary = InstanceDictValue(owner.identity, shown.cls, None, owner)
    return DictViewValue(dictionary, view.kind)


def _iterate_table(machine: Machine, value: Any, is_reversed: bool = False) -> Value:
    """Over a dict, view or set."""
    if isinstance(value, SetValue):
        order = tokens_in_order(machine, value)
        state = TableIterator(
            value, tuple(set_entries(machine, value)), order, removals(machine, value)
        )
        return new_iterator(machine, state, type(iter(set())))
    view = value if isinstance(value, DictViewValue) else DictViewValue(value, "keys")
    dictionary = view.dictionary
    start = reversed if is_reversed else iter
    cls = type(start(getattr(_empty(dictionary.cls), view.kind)()))
    if isinstance(dictionary, InstanceDictValue):
        value = view = _of_holder(machine, view)
        dictionary = view.dictionary
    keys = tuple(dict_entries(machine, dictionary))
    state = TableIterator(
        value, keys, tuple(start(keys)), removals(machine, dictionary), is_reversed=is_reversed
    )
    return new_iterator(machine, state, cls)


def _empty(cls: type) -> Any:
    return OrderedDict() if issubclass(cls, OrderedDict) else {}


def reverse(machine: Machine, value: Value) -> Steps[Value]:
    """`reversed(value)` for a list, a tuple, a text, a range, a dict or a view of it."""
    if isinstance(value, (DictValue, DictViewValue)):
        return _iterate_table(machine, value, is_reversed=True)
    if isinstance(value, Constant) and isinstance(value.value, range):
        return (yield from iterate(machine, fold(machine, lambda numbers: numbers[::-1], value)))
    if isinstance(value, TensorValue):
        rows = TupleValue(tuple(reversed(tensor_rows(machine, value))))
        return new_iterator(machine, SequenceIterator(rows), reversed)
    cls: type = reversed
    if isinstance(value, ListValue):
        count, cls = len(list_items(machine, value)), type(reversed([]))
    elif isinstance(value, TupleValue):
        machine.recorder.use(value)
        count = len(value.items)
    elif isinstance(value, Constant) and isinstance(value.value, (str, bytes)):
        machine.recorder.use(value)
        count = len(value.value)
    else:
        refuse(machine, "reversed", reversed, [value])
    return new_iterator(machine, SequenceIterator(value, count - 1, is_reversed=True), cls)


def _advance_table(machine: Machine, iterator: IteratorValue, state: TableIterator) -> Value | None:
    table = state.table
    is_set = isinstance(table, SetValue)
    dictionary = getattr(table, "dictionary", table)
    entries: Mapping[Any, Any]
    entries = set_entries(machine, table) if is_set else dict_entries(machine, dictionary)
    slot, count = state.removals
    if len(entries) != len(state.keys):
        if dictionary.cls not in (dict, set):
            raise unsupported("changing what is iterated over", dictionary)
        name = "Set" if is_set else "dictionary"
        raise_python(machine, RuntimeError, f"{name} changed size during iteration")
    if len(machine.heap[slot]) != count or tuple(entries) != state.keys:
        raise unsupported("changing what is iterated over", dictionary)
    if state.position >= len(state.order):
        machine.heap.write(iterator.identity, Exhausted(state.given))
        return None
    found: Any = entries[state.order[state.position]]
    given = state.given
    if is_set:
        item: Value = found
    else:
        key, stored = found
        kind = getattr(table, "kind", "keys")
        chosen = {"keys": key, "values": stored}.get(kind)
        if chosen is None:
            chosen = TupleValue((key, stored))
            given = with_given(given, chosen.items)
        item = chosen
    machine.heap.write(iterator.identity, replace(state, position=state.position + 1, given=given))
    return item


def _iterate_constant(machine: Machine, value: Constant) -> Value:
    machine.recorder.use(value)
    literal = value.value
    if isinstance(literal, range):
        return new_iterator(machine, RangeIterator(literal), type(iter(range(0))))
    if isinstance(literal, (str, bytes)):
        return new_iterator(machine, SequenceIterator(value), type(iter(literal)))
    if isinstance(literal, frozenset):
        items = tuple(constant(item) for item in literal)
        return new_iterator(machine, SequenceIterator(TupleValue(items)), type(iter(literal)))
    raise_python(machine, TypeError, f"'{type(literal).__name__}' object is not iterable")
    raise AssertionError


def _iterate_class(machine: Machine, value: Known) -> Value:
    members = getattr(value.object, "__members__", None)
    if members is None or not isinstance(members, types.MappingProxyType):
        raise unsupported("iter", value)
    machine.recorder.use(value)
    items = tuple(Known(member) for member in value.object)
    return new_iterator(machine, SequenceIterator(TupleValue(items)), type(iter([])))


class _Indexed:
    def __getitem__(self, index: int) -> Any:
        raise IndexError(index)


def _advance_indexed(
    machine: Machine, iterator: IteratorValue, state: IndexIterator
) -> Steps[Value | None]:
    try:
        item = yield from subscript(machine, state.sequence, constant(state.position))
    except Raised as raised:
        if not issubclass(raised.value.cls, (IndexError, StopIteration)):
            raise
        machine.heap.write(iterator.identity, Exhausted())
        return None
    if not isinstance(machine.heap[iterator.identity], Exhausted):
        machine.heap.write(iterator.identity, IndexIterator(state.sequence, state.position + 1))
    return item


def tensor_rows(machine: Machine, value: TensorValue) -> list[Value]:
    """The tensors that iterating over `value` gives."""
    shape = tensor_type(machine, value).shape
    if not shape:
        raise_python(machine, TypeError, "iteration over a 0-d tensor")
    count = int(shape[0])  # a size that varies is specialised: every row is traced
    if count > MOST_ROWS:
        raise GraphBreak(breaks.LIMIT, "iterating over the rows of a large tensor")
    rows = native_method(machine, value, "unbind", [constant(0)], {})
    assert isinstance(rows, TupleValue) and len(rows.items) == count
    return list(rows.items)


def refuse_many(machine: Machine, value: Value) -> None:
    """Builtin functions (`sum(x)`, `set(x)`) ask for all items of an array at once, or of a list of
    NumPy's numbers, or of those that turns of a loop have left.

    Raises:
        GraphBreak: there are many, and Python may call the function.
    """
    if machine.refusals.loops is None:
        return
    refuse_numbers(machine, value)
    if isinstance(value, ListValue):
        held = machine.recorder.existing(value)
        if type(held) is list and len(held) > MOST_AT_ONCE and isinstance(held[0], np.generic):
            raise GraphBreak(breaks.LIMIT, "a builtin function of a long list of NumPy's numbers")
    if not is_array(value):
        return
    shape = tensor_type(machine, tensor_in(machine, value)).shape
    if shape and (not isinstance(shape[0], int) or shape[0] > MOST_AT_ONCE):
        raise GraphBreak(breaks.LIMIT, "a builtin function of the items of a large array")


def refuse_numbers(machine: Machine, value: Value) -> None:
    """A list of many numbers that turns of a loop have left is gone through by Python.

    Raises:
        GraphBreak: it is one.
    """
    unread = machine.heap.unread(value.identity) if isinstance(value, ListValue) else None
    if unread is None or unread.count is None or machine.refusals.loops is None:
        return
    if unread.count * len(unread.items) > MOST_AT_ONCE and any(map(is_count, unread.items)):
        raise GraphBreak(breaks.LIMIT, "going through a long list of numbers that turns have left")


def array_rows(machine: Machine, value: Value) -> tuple[Value, ...] | None:
    """The views that iterating over an array gives; None for what is no array, or is read item by
    item: numbers are copies, of what the array holds in each turn."""
    if not is_array(value):
        return None
    shape = tensor_type(machine, tensor_in(machine, value)).shape
    if len(shape) < 2 or not isinstance(shape[0], int) or shape[0] > MOST_ROWS:
        return None
    rows = tensor_rows(machine, tensor_in(machine, value))
    found = [new_array(machine, row, np.ndarray) for row in rows if isinstance(row, TensorValue)]
    return tuple(found)


# -- next ----------------------------------------------------------------------------------------


def advance(machine: Machine, iterator: Value) -> Steps[Value | None]:
    """The next item, or None (Python's None, not a value) when exhausted."""
    if isinstance(iterator, GeneratorValue):
        return (yield from resume_generator(machine, iterator, constant(None)))
    if isinstance(iterator, IteratorValue):
        state = machine.heap[iterator.identity]
        return (yield from _advance_state(machine, iterator, state))
    if isinstance(iterator, ObjectValue) and defines(iterator.cls, "__next__"):
        method = yield from machine.get_special(iterator, "__next__")
        try:
            return (yield from then(machine.call(method, [], {}), next_item))
        except Raised as raised:
            if issubclass(raised.value.cls, StopIteration):
                machine.generator_results[iterator.identity] = stop_iteration_value(raised, machine)
                return None
            raise
    if hasattr(type_of(machine, iterator), "__next__"):
        raise unsupported("next", iterator)
    refuse(machine, "next", next, [iterator])


def _advance_state(machine: Machine, iterator: IteratorValue, state: Any) -> Steps[Value | None]:
    if isinstance(state, Exhausted):
        return None
    if isinstance(state, IndexIterator):
        return (yield from _advance_indexed(machine, iterator, state))
    if isinstance(state, RangeIterator):
        return _advance_range(machine, iterator, state)
    if isinstance(state, SequenceIterator):
        return _advance_sequence(machine, iterator, state)
    if isinstance(state, TableIterator):
        return _advance_table(machine, iterator, state)
    if isinstance(state, EnumerateIterator):
        item = yield from advance(machine, state.inner)
        if item is None:
            return None
        state = machine.heap[iterator.identity]  # the item may have advanced it as well
        given = with_given(state.given, (item,))
        machine.heap.write(
            iterator.identity, EnumerateIterator(state.inner, state.count + 1, given)
        )
        return TupleValue((constant(state.count), item))
    if isinstance(state, ZipIterator):
        return (yield from _advance_zip(machine, iterator, state))
    if isinstance(state, MapIterator):
        items = []
        for inner in state.inner:
            item = yield from advance(machine, inner)
            if item is None:
                return None
            items.append(item)
        return (yield from machine.call(state.function, items, {}))
    if isinstance(state, FilterIterator):
        return (yield from _advance_filter(machine, state))
    if isinstance(state, ExistingIterator):
        if _is_from_a_broken_loop(iterator):
            raise GraphBreak(breaks.LOOP_GOES_ON, describe(iterator))
        return _advance_sequence(machine, iterator, _read_existing(machine, iterator))
    raise unsupported("next", iterator)


def _read_existing(machine: Machine, iterator: IteratorValue) -> SequenceIterator:
    """Where an iterator over a list or tuple was at entry; guarded, and written back at the end.

    Raises:
        GraphBreak: an iterator of another kind, at its end, or one that moves from call to call.
    """
    existing: Any = machine.recorder.existing(iterator)
    place = machine.recorder.first_source(iterator)
    if type(existing) not in (type(iter([])), type(iter(()))) or len(existing.__reduce__()) < 3:
        raise unsupported("next of an existing iterator", iterator)
    _, (sequence,), position = existing.__reduce__()
    if machine.recorder.sizes.memory.is_moving(place.expression(), position):
        raise unsupported("next of an iterator that is elsewhere in each call", iterator)
    machine.recorder.use(iterator)
    machine.recorder.guard(place, Kind.POSITION, position, "iterator")
    over = machine.recorder.wrap(sequence, sources.Iterated(place))
    if not isinstance(over, (ListValue, TupleValue)):
        raise unsupported("next of an existing iterator", iterator)
    machine.recorder.use(over)
    state = SequenceIterator(over, position)
    machine.heap.load_entry(iterator.identity, state)
    return state


def _is_from_a_broken_loop(iterator: IteratorValue) -> bool:
    """True for an iterator on the stack that a break left to the rest of the function."""
    root = getattr(iterator.source, "root", None)
    return isinstance(root, sources.Local) and root.name.startswith(".stack")


def _advance_range(machine: Machine, iterator: IteratorValue, state: RangeIterator) -> Value | None:
    if state.last is not None:
        machine.heap.write(iterator.identity, RangeIterator(state.rest[1:]))
        last: Value = state.last
        return last
    if state.stop is not None and state.rest[0] >= LAST_FIRST + TURNS_AS_THEY_COME:
        state = settled_range(machine, iterator)
    if not state.rest:
        machine.heap.write(iterator.identity, Exhausted())
        return None
    machine.heap.write(iterator.identity, RangeIterator(state.rest[1:], state.stop))
    return constant(state.rest[0])


def settled_range(machine: Machine, iterator: IteratorValue) -> RangeIterator:
    """A range whose end is the same in other calls from now on."""
    state = machine.heap[iterator.identity]
    assert isinstance(state, RangeIterator)
    if state.stop is None:
        return state
    machine.recorder.specialise(state.stop)
    found = RangeIterator(state.rest)
    machine.heap.write(iterator.identity, found)
    return found


def counted_at_run_time(machine: Machine, function: Value, args: list[Value]) -> Value | None:
    """`iter(range(n))` of a number that varies, if it has many items; None: it is something else.

    That it has many is guarded; what else depends on their number is up to who goes over them.
    """
    if not isinstance(function, Known) or function.object is not range or len(args) > 2:
        return None
    stop, start = args[-1] if args else None, 0
    if len(args) == 2:
        if not isinstance(args[0], Constant) or type(args[0].value) is not int:
            return None
        start = args[0].value
    if not isinstance(stop, Scalar) or stop.python_type is not int or stop.symbolic is not None:
        return None
    varies = not is_of_a_turn(stop) and machine.recorder.sizes.varies(stop)
    if not 0 <= start <= LAST_FIRST or not varies:
        return None
    if not MANY_ITEMS + start <= stop.value < MOST_ITEMS:
        return None
    scalar_predicate(machine, stop, ">=", MANY_ITEMS + start)
    scalar_predicate(machine, stop, "<", MOST_ITEMS)
    machine.recorder.use_scalar_type(stop)
    state = RangeIterator(range(start, int(stop.value)), stop)
    return new_iterator(machine, state, type(iter(range(0))))


def _advance_sequence(
    machine: Machine, iterator: IteratorValue, state: SequenceIterator
) -> Value | None:
    sequence, position = state.sequence, state.position
    if isinstance(sequence, Constant):
        items = sequence.value
    else:
        items = list_items(machine, sequence) if isinstance(sequence, ListValue) else sequence.items
    if not 0 <= position < len(items):
        machine.heap.write(iterator.identity, Exhausted())
        return None
    following = position - 1 if state.is_reversed else position + 1
    machine.heap.write(iterator.identity, replace(state, position=following))
    found = items[position]
    return constant(found) if isinstance(sequence, Constant) else found


def _advance_zip(
    machine: Machine, iterator: IteratorValue, state: ZipIterator
) -> Steps[Value | None]:
    items: list[Value] = []
    if not state.inner:
        return None
    for position, inner in enumerate(state.inner):
        item = yield from advance(machine, inner)
        if item is None:
            if state.strict:
                yield from _check_strict(machine, state, position)
            return None
        items.append(item)
    state = machine.heap[iterator.identity]
    given = with_given(state.given, tuple(items))
    if given is not state.given:
        machine.heap.write(iterator.identity, replace(state, given=given))
    return TupleValue(tuple(items))


def _check_strict(machine: Machine, state: ZipIterator, position: int) -> Steps[None]:
    if position:
        others = "argument 1" if position == 1 else f"arguments 1-{position}"
        raise_python(machine, ValueError, f"zip() argument {position + 1} is shorter than {others}")
    for number, inner in enumerate(state.inner[1:], start=2):
        if (yield from advance(machine, inner)) is not None:
            others = "argument 1" if number == 2 else f"arguments 1-{number - 1}"
            raise_python(machine, ValueError, f"zip() argument {number} is longer than {others}")


def _advance_filter(machine: Machine, state: FilterIterator) -> Steps[Value | None]:
    keeps_all = is_none(machine, state.function)
    while True:
        item = yield from advance(machine, state.inner)
        if item is None:
            return None
        verdict = item if keeps_all else (yield from machine.call(state.function, [item], {}))
        if (yield from truth(machine, verdict)):
            return item


def to_items(machine: Machine, value: Value, asks_length: bool = False) -> Steps[list[Value]]:
    """Everything that iterating over `value` gives, as a Python list.

    Args:
        asks_length: the length is asked for first, as `list(value)` does.
    """
    if isinstance(value, TupleValue):
        machine.recorder.use(value)
        return list(value.items)
    refuse_many(machine, value)
    if isinstance(value, ListValue):
        return list(list_items(machine, value))
    iterator = yield from iterate(machine, value)
    if asks_length:
        yield from ask_length(machine, value)
    items: list[Value] = []
    while True:
        item = yield from advance(machine, iterator)
        if item is None:
            return items
        items.append(item)
        if len(items) > LIMIT_OF_ITEMS:
            raise GraphBreak(breaks.LIMIT, f"more than {LIMIT_OF_ITEMS} items of {describe(value)}")


def extend_list(machine: Machine, value: ListValue, iterable: Value) -> Steps[None]:
    """Append everything that `iterable` gives, each item when it is given."""
    machine.recorder.use(value)
    if isinstance(iterable, (ListValue, TupleValue)):
        items = yield from to_items(machine, iterable)
        grow_list(machine, value, tuple(items))
        return
    iterator = yield from iterate(machine, iterable)
    yield from ask_length(machine, iterable)
    while (item := (yield from advance(machine, iterator))) is not None:
        grow_list(machine, value, (item,))


def ask_length(machine: Machine, value: Value) -> Steps[None]:
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
            yield from length(machine, value)
            return
        method = yield from machine.get_special(value, name)
        hint = yield from machine.call(method, [], {})
    except Raised as raised:
        if not issubclass(raised.value.cls, TypeError):
            raise
        return
    if is_not_implemented(machine, hint):
        return
    if not issubclass(type_of(machine, hint), int):
        kind = hint.python_type.__name__
        raise_python(machine, TypeError, f"__length_hint__ must be an integer, not {kind}")
    if as_python(machine, hint) < 0:
        raise_python(machine, ValueError, "__length_hint__() should return >= 0")


def _has(cls: type | None, name: str) -> bool:
    return cls is not None and lookup(cls, name) not in (MISSING, None)
