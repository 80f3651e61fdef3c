"""Contents of lists, dicts and sets; subscripts and membership.

Methods of the executor (`x`), written as functions; see `capture.execution.executor`.
"""

import enum
import itertools
import math
import operator
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture._capture import is_held_weakly
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.guards.guards import Kind
from dynajit.capture.guards.identity_keys import holds_nan
from dynajit.capture.guards.parts import is_wrapper
from dynajit.capture.machine import immutables
from dynajit.capture.machine.exceptions import NotKnown, raise_python
from dynajit.capture.places import sources
from dynajit.capture.python.basic import (
    Steps,
    as_python,
    defines,
    from_python,
    hashable,
    is_known,
    type_name,
    unsupported,
)
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.results import call_special
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    Grown,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import GeneratorValue
from dynajit.capture.values.objects import DELETED, InstanceDictValue, ObjectValue
from dynajit.capture.values.storage import operand_of, storage_of
from dynajit.capture.values.symbolic import FALSE, TRUE, Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import class_with_methods, is_quiet, is_users_code, lookup
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


def put(x: Any, entries: Entries, key: Value, item: Value, token: Any = None) -> None:
    """Store into a copy of a dict's contents; an equal key keeps its first form."""
    token = hashable(x, key) if token is None else token
    found = entries.get(token)
    entries[token] = (key if found is None else found[0], item)


def list_items(x: Any, value: ListValue) -> tuple[Value, ...]:
    """Items of a list; an existing one is read (and its length guarded) the first time."""
    x.recorder.use(value)
    contents = x.heap[value.identity]
    existing = x.recorder.existing(value)
    if contents is None or isinstance(contents, Grown):
        base = x.recorder.first_source(value)
        items = tuple(
            x.recorder.wrap(o, sources.Item(base, i)) for i, o in enumerate(list.__iter__(existing))
        )
        revise = None if contents is None else lambda grown: grown.after(items)
        x.heap.load_entry(value.identity, items, revise)
        contents = x.heap[value.identity]
    if existing is not None:
        entry = x.heap.entry(value.identity)
        x.recorder.guard(x.recorder.first_source(value), Kind.LENGTH, len(entry), "list")
    return contents


def grow_list(x: Any, value: ListValue, items: tuple[Value, ...]) -> None:
    """`value.extend(items)`; an existing list that nobody read is not read for it."""
    contents = x.heap[value.identity]
    if x.recorder.existing(value) is None or isinstance(contents, tuple):
        x.heap.write(value.identity, (*x.list_items(value), *items))
        return
    x.recorder.use(value)
    before = () if contents is None else contents.appended
    x.heap.write(value.identity, Grown((*before, *items)))


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
        x.recorder.guard(base, Kind.DICT_KEYS, keys_of(value, existing), "dict")
    return contents


def keys_of(value: DictValue, existing: Any) -> tuple[Any, ...]:
    """The keys of an existing dict, whatever a derived class gives instead."""
    return tuple(value.cls.__iter__(existing))  # type: ignore[attr-defined]


def _read_dict(x: Any, value: DictValue, existing: dict[Any, Any]) -> Entries:
    base = x.recorder.first_source(value)
    entries: Entries = {}
    places = {id(key): index for index, key in enumerate(dict.__iter__(existing))}
    if isinstance(existing, OrderedDict):
        _check_ordered(existing)
    for key, item in value.cls.items(existing):  # type: ignore[attr-defined]
        if holds_nan(key):
            raise unsupported("a dict with a key that is not equal to itself")
        key_value, found = _key_value(x, key, sources.NthKey(base, places[id(key)]))
        entries[hashable(x, key_value)] = (
            key_value,
            x.recorder.wrap(item, sources.Key(base, key, found)),
        )
    return entries


def _key_value(x: Any, key: Any, place: sources.NthKey) -> tuple[Value, sources.NthKey | None]:
    """A key, and where it is if it is an instance, which compiled code must not keep alive."""
    if is_held_weakly(key):
        value = x.recorder.wrap(key, place)
        if not isinstance(value, Known):
            return value, place
    return x.recorder.wrap(key, sources.Constant(key)), None


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


def dict_lookup(x: Any, value: DictValue, key: Value, token: Any = None) -> Value | None:
    """The value under `key`, or None; one key of an existing, unchanged dict is guarded alone.

    Args:
        token: `x.token_in(value, key)`, if found before (None is the token of no key but None).
    """
    x.recorder.use(value)
    token = hashable(x, key) if token is None else token
    if isinstance(value, InstanceDictValue):
        return x.instance_lookup(value, token)
    existing = x.recorder.existing(value)
    if x.heap[value.identity] is not None or existing is None or not is_known(key):
        found = dict_entries(x, value).get(token)
        return None if found is None else found[1]
    if runs_user_code(keys_of(value, existing)):
        raise GraphBreak(breaks.UNKNOWN_HASH, "a dict with keys that define __eq__")
    base = x.recorder.first_source(value)
    if not dict.__contains__(existing, token):
        x.recorder.guard(base, Kind.HAS_NO_KEY, token, "missing key")
        return None
    place = sources.Key(base, token)
    item = dict.get(existing, token)
    found = x.recorder.wrap(item, place)
    x.recorder.guard_exists(place, "present key")
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


def dict_contains(x: Any, value: DictValue, key: Value) -> bool:
    """`key in value`."""
    return dict_lookup(x, value, key) is not None


def dict_store(x: Any, value: DictValue, key: Value, item: Value, token: Any = None) -> None:
    """`value[key] = item`; `token` as in `dict_lookup`."""
    if isinstance(value, InstanceDictValue):
        x.instance_store(value, hashable(x, key), item)
        return
    entries = dict(dict_entries(x, value))
    put(x, entries, key, item, token)
    x.heap.write(value.identity, entries)


def dict_delete(x: Any, value: DictValue, key: Value, token: Any = None) -> None:
    """`del value[key]`; `token` as in `dict_lookup`."""
    if isinstance(value, InstanceDictValue):
        if x.instance_lookup(value, hashable(x, key)) is None:
            raise_python(x, KeyError, key)
        x.instance_store(value, hashable(x, key), DELETED)
        return
    entries = dict(dict_entries(x, value))
    token = hashable(x, key) if token is None else token
    if entries.pop(token, None) is None:
        raise_python(x, KeyError, key)
    x.removed(value, token)
    x.heap.write(value.identity, entries)


# -- subscripts ----------------------------------------------------------------------------------


def _own_subscript(container: Value) -> Any:
    """`__class_getitem__` of a class where it is the user's own code, or None."""
    if not isinstance(container, Known) or not isinstance(container.object, type):
        return None
    raw = lookup(container.object, "__class_getitem__")
    if isinstance(raw, classmethod) and not is_wrapper(raw, classmethod):
        raise unsupported("subscript of a class", container)
    function = raw.__func__ if isinstance(raw, classmethod) else None
    return function if is_users_code(function) else None


def subscript(x: Any, container: Value, index: Value) -> Steps:
    """`container[index]`."""
    if isinstance(container, TensorValue) or (
        isinstance(container, (Constant, Scalar)) and isinstance(index, TensorValue)
    ):
        x.refuse_older_key(index)
        return x.native_method(container, "__getitem__", [index], {})
    if isinstance(container, (TupleValue, ListValue)):
        return (yield from _sequence_item(x, container, index))
    if isinstance(container, DictValue):
        x.recorder.use(container)
        return (yield from _dict_item(x, container, index))
    cls = class_with_methods(container, "__getitem__")
    if cls is not None and defines(cls, "__getitem__"):
        method = yield from x.get_special(container, "__getitem__")
        return (yield from x.call(method, [index], {}))
    if isinstance(container, Constant) and isinstance(index, (SliceValue, ObjectValue)):
        position = yield from to_index(x, index, lambda i, c=container.value: c[i], [index])
        return fold(x, lambda a: a[position], container)
    if isinstance(container, Known) and isinstance(container.object, enum.EnumMeta):
        name = as_python(x, index) if is_known(index) else None
        if isinstance(name, str) and name in container.object.__members__:
            x.recorder.use(container)
            return Known(container.object.__members__[name])
        method = Known(type(container.object).__getitem__)
        return (yield from x.call(method, [container, index], {}))
    own = _own_subscript(container)
    if own is not None:
        return (yield from x.call(Known(own), [container, index], {}))
    if is_known(container) and is_known(index):
        return fold(x, lambda a, b: a[b], container, index)
    if isinstance(container, Known):
        raise unsupported("subscript", container, index)  # what is legal depends on the object
    refuse(x, "subscript", lambda a, b: a[b], [container, index])


#: The least limit on the digits of texts of numbers that can be set.
_MANY_DIGITS: Final = sys.int_info.str_digits_check_threshold
#: Numbers with at most so many bits have at most as many digits as every limit allows.
_MANY_BITS: Final = int(math.log2(10) * _MANY_DIGITS) - 1

#: What a UnicodeEncodeError and its likes take from their arguments.
_UNICODE_FIELDS: Final = ("encoding", "object", "start", "end", "reason")


#: Results that can be long; frames that are looked back at keep them.
_OF_ANY_LENGTH: Final = frozenset({str, bytes, int, tuple, frozenset})


def fold(x: Any, function: Any, *operands: Value) -> Value:
    """`function` on known operands, computed now; its exception is the program's exception."""
    if not all(is_quiet(operand) for operand in operands):
        raise unsupported("operation", *operands)
    return compute(x, function, *operands)


def compute(x: Any, function: Any, *operands: Value) -> Value:
    """`fold` where the caller knows that `function` runs no code of the user on `operands`."""
    arguments = [as_python(x, operand) for operand in operands]
    if immutables.depends_on_context(function, arguments):
        raise unsupported("the decimal context", *operands)
    try:
        if any(map(immutables.is_numpy_number, arguments)):
            result = immutables.numpy_result(function, *arguments)
        else:
            result = function(*arguments)
        if type(result) is str:
            check_digits(arguments)
    except FloatingPointError as error:
        raise unsupported(f"a warning of NumPy ({error})", *operands) from None
    except UnicodeError as error:
        fields = {name: getattr(error, name) for name in _UNICODE_FIELDS if hasattr(error, name)}
        raise_python(x, type(error), *error.args, **fields)
    except Exception as error:
        check_digits(arguments)
        raise_python(x, type(error), *error.args)
    if type(result) in _OF_ANY_LENGTH:
        x.heap.keep(sys.getsizeof(result) // 8)
    try:
        return from_python(x, result)
    except NotKnown:
        is_first = all(isinstance(operand, Known) for operand in operands[:1])
        is_kept = immutables.is_immutable(result) or immutables.is_numpy_number(result)
        if is_first or is_kept:
            return Known(result)
        raise unsupported("operation", *operands) from None


def check_digits(values: Iterable[Any]) -> None:
    """Whether a long number has a text, and who makes it, depends on settings of the interpreter.

    Raises:
        GraphBreak: one of the numbers has more digits than the least limit that can be set.
    """
    for value in values:
        if type(value) in (tuple, list):
            check_digits(value)
        elif type(value) is dict:
            check_digits([*value, *value.values()])
        elif type(value) is int and value.bit_length() > _MANY_BITS:
            raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "the text of a number of many digits")


def check_texts(values: Iterable[Any]) -> None:
    """Whether a long text may be read as a number, and who reads it, depends on them as well.

    Raises:
        GraphBreak: one of the texts has more characters than the least limit that can be set.
    """
    for value in values:
        if isinstance(value, (str, bytes)) and len(value) > _MANY_DIGITS:
            raise GraphBreak(breaks.UNSUPPORTED_OPERATION, "a number of a text of many digits")


def items_of(x: Any, container: Any) -> tuple[Value, ...]:
    if isinstance(container, TupleValue):
        x.recorder.use(container)
        return container.items
    return list_items(x, container)


def live_items(x: Any, container: Any, start: int = 0) -> Iterator[tuple[int, Value]]:
    """Positions and items of a list or tuple; what compares them may change a list meanwhile."""
    for position in itertools.count(start):
        items = items_of(x, container)
        if position >= len(items):
            return
        yield position, items[position]


def to_index(x: Any, value: Value, function: Any, operands: list[Value]) -> Steps:
    """`operator.index(value)` as a Python int; a slice as a slice of such.

    Args:
        function: refuses `operands` where `value` is no index.
    """
    if isinstance(value, TensorValue):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "a tensor as the index of a sequence")
    if isinstance(value, SliceValue):
        x.recorder.use(value)
        bounds = []
        for part in (value.start, value.stop, value.step):
            known = is_known(part) and as_python(x, part) is None
            bounds.append(None if known else (yield from to_index(x, part, _slice_of, [part])))
        return slice(*bounds)
    value = number_of(x, value)
    cls = class_with_methods(value, "__index__")
    if cls is not None and defines(cls, "__index__"):
        value = yield from call_special(x, value, "__index__")
    if x.type_of(value) in (int, bool):
        return int(as_python(x, value))
    refuse(x, "index", function, operands)


def number_of(x: Any, value: Value) -> Value:
    """The int that a derived class keeps, which is an index whatever its `__index__` says."""
    storage = storage_of(x, value)
    return value if storage is None or storage.python_type is not int else storage


def _slice_of(part: Any) -> Any:
    return [][part:]


def _sequence_item(x: Any, container: Any, index: Value) -> Steps:
    refusing = [() if isinstance(container, TupleValue) else []]
    position = yield from to_index(x, index, lambda i: refusing[0][i], [index])
    items = items_of(x, container)
    try:
        found = items[position]
    except IndexError as error:
        fits = -sys.maxsize <= position <= sys.maxsize
        text = f"{container.python_type.__name__} index out of range" if fits else str(error)
        raise_python(x, IndexError, text)
    except ValueError as error:
        raise_python(x, ValueError, *error.args)
    if not isinstance(position, slice):
        return found
    if isinstance(container, ListValue):
        return new_list(x, found)
    if container.cls is tuple and position.step in (None, 1) and len(found) == len(items):
        return container  # Python makes no copy
    return TupleValue(found, Size if container.cls is Size else tuple)


def _dict_item(x: Any, container: DictValue, key: Value) -> Steps:
    token = yield from x.token_in(container, key)
    found = dict_lookup(x, container, key, token)
    if found is not None:
        return found
    if container.cls is defaultdict:
        return (yield from _default_item(x, container, key, token))
    raise_python(x, KeyError, key)


def _default_item(x: Any, container: DictValue, key: Value, token: Any) -> Steps:
    """What an existing defaultdict makes for a key that it lacks."""
    place = sources.Attribute(x.recorder.first_source(container), "default_factory")
    factory = x.recorder.wrap(x.recorder.existing(container).default_factory, place)
    x.recorder.use(factory)
    if isinstance(factory, Constant) and factory.value is None:
        raise_python(x, KeyError, key)
    made = yield from x.call(factory, [], {})
    x.dict_store(container, key, made, token)
    return made


def store_subscript(x: Any, container: Value, index: Value, item: Value) -> Steps:
    """`container[index] = item`."""
    if isinstance(container, ListValue):
        yield from _store_in_list(x, container, index, item)
        return
    if isinstance(container, DictValue):
        yield from x.store_key(container, index, item)
        return
    if isinstance(container, TensorValue):
        x.tensor_store(container, index, item)
        return
    if isinstance(container, ObjectValue) and defines(container.cls, "__setitem__"):
        method = yield from x.get_special(container, "__setitem__")
        yield from x.call(method, [index, item], {})
        return
    refuse(x, "item assignment", operator.setitem, [container, index, item])


def _store_in_list(x: Any, container: ListValue, index: Value, item: Value) -> Steps:
    position = yield from to_index(x, index, lambda i: operator.setitem([], i, 0), [index])
    replacement: Any = item
    if isinstance(position, slice):
        if not _is_iterable(x, item):
            stepped = slice(None, None, 1 if position.step in (None, 1) else 2)
            refuse(x, "item assignment", lambda v: operator.setitem([], stepped, v), [item])
        replacement = yield from x.to_items(item)
    items = list(list_items(x, container))
    try:
        items[position] = replacement
    except (IndexError, ValueError) as error:
        raise_python(x, type(error), *error.args)
    x.heap.write(container.identity, tuple(items))


def _is_iterable(x: Any, value: Value) -> bool:
    kind = x.type_of(value)
    return defines(kind, "__iter__") or defines(kind, "__getitem__")


def delete_subscript(x: Any, container: Value, index: Value) -> Steps:
    """`del container[index]`."""
    if isinstance(container, ListValue):
        position = yield from to_index(x, index, lambda i: operator.delitem([], i), [index])
        items = list(list_items(x, container))
        try:
            del items[position]
        except (IndexError, ValueError) as error:
            raise_python(x, type(error), *error.args)
        x.heap.write(container.identity, tuple(items))
        return
    if isinstance(container, DictValue):
        token = yield from x.token_in(container, index)
        dict_delete(x, container, index, token)
        return
    if isinstance(container, ObjectValue) and defines(container.cls, "__delitem__"):
        method = yield from x.get_special(container, "__delitem__")
        yield from x.call(method, [index], {})
        return
    refuse(x, "item deletion", operator.delitem, [container, index])


# -- membership ----------------------------------------------------------------------------------


def contains(x: Any, container: Value, item: Value) -> Steps:
    """`item in container`, as a Python bool."""
    if isinstance(container, DictViewValue) and container.kind == "keys":
        container = container.dictionary
    if isinstance(container, DictValue):
        token = yield from x.token_in(container, item)
        return dict_lookup(x, container, item, token) is not None
    if isinstance(container, SetValue):
        wanted = frozen_if_set(x, item)
        token = yield from x.key_token(x.set_entries(container), wanted)
        return token in x.set_entries(container)
    if isinstance(container, (TupleValue, ListValue)):
        return (yield from _sequence_contains(x, container, item))
    cls = class_with_methods(container, "__contains__")
    if cls is not None:
        if defines(cls, "__contains__"):
            method = yield from x.get_special(container, "__contains__")
            result = yield from x.call(method, [item], {})
            return (yield from x.truth(result))
        if not any(defines(cls, name) for name in ("__iter__", "__getitem__")):
            wanted = "a container or iterable" if IS_314 else "iterable"
            text = f"argument of type '{type_name(x.type_of(container))}' is not {wanted}"
            raise_python(x, TypeError, text)
        items = yield from x.to_items(container)
        return (yield from _sequence_contains(x, TupleValue(tuple(items)), item))
    if isinstance(container, DictViewValue):
        items = yield from x.to_items(container)
        return (yield from _sequence_contains(x, TupleValue(tuple(items)), item))
    if isinstance(container, (IteratorValue, GeneratorValue)):
        while (given := (yield from x.advance(container))) is not None:
            if (yield from _sequence_contains(x, TupleValue((given,)), item)):
                return True
        return False
    if is_known(container) and is_known(item):
        return as_python(x, compute(x, lambda a, b: b in a, container, item))
    if _is_iterable(x, container):
        raise unsupported("in", item, container)
    refuse(x, "in", lambda a, b: b in a, [container, item])


def _sequence_contains(x: Any, sequence: Any, item: Value) -> Steps:
    for _, candidate in live_items(x, sequence):
        if same_object(x, candidate, item):
            return True
        if isinstance(candidate, TensorValue) or isinstance(item, TensorValue):
            raise GraphBreak(breaks.DATA_DEPENDENT_BRANCH, "searching a sequence for a tensor")
        equal = yield from x.compare("==", candidate, item)
        if (yield from x.truth(equal)):
            return True
    return False


def frozen_if_set(x: Any, item: Value) -> Value:
    """Sets are looked up in sets as frozensets, and so are derived sets that have no hash."""
    members = operand_of(x, item) if item.python_type.__hash__ is None else item
    if isinstance(members, SetValue):
        return Constant(frozenset(x.set_entries(members)))
    return item


def same_object(x: Any, a: Value, b: Value) -> bool:
    """True where Python takes two items for one object, which containers do not compare; guarded.

    Raises:
        GraphBreak: two numbers that are not equal to themselves may be one object or two.
    """
    if a is b:
        return True
    if isinstance(a, Known) and isinstance(b, Known):
        if a.object is b.object:
            x.recorder.use(a)
            x.recorder.use(b)
        return a.object is b.object
    if a.object_id is not None and b.object_id is not None:
        # Whether containers are one object does not matter: that shows in their items.
        containers = (ListValue, DictValue, SetValue)
        if isinstance(a, containers) and isinstance(b, containers) and a.object_id != b.object_id:
            return False
        return x.is_same(a, b)
    literals = (Constant, Scalar)
    if not isinstance(a, literals) or not isinstance(b, literals):
        return False
    if isinstance(a, Constant) and isinstance(b, Constant) and a.source is b.source is None:
        return a.value is b.value
    if a.value != a.value and b.value != b.value:
        raise unsupported("identity", a, b)
    return False


def boolean(value: bool) -> Constant:
    """True or False as a value."""
    return TRUE if value else FALSE
