"""Contents of lists, dicts and sets; subscripts and membership.

Functions of the machine (`capture.machine.machine`).
"""

import enum
import math
import operator
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.bytecode.versions import IS_314
from dynajit.capture.guards.parts import is_wrapper
from dynajit.capture.machine import immutables
from dynajit.capture.machine.exceptions import NotKnown, raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import (
    as_python,
    defines,
    is_known,
    same_object,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.contents import (
    chosen_items,
    dict_delete,
    dict_lookup,
    dict_store,
    items_of,
    list_items,
    live_items,
    new_list,
    set_entries,
)
from dynajit.capture.python.conversion import from_python
from dynajit.capture.python.errors import refuse
from dynajit.capture.python.keys import key_token, store_key, token_in
from dynajit.capture.python.numbers import function_of_numbers
from dynajit.capture.python.results import call_special
from dynajit.capture.python.tensors.arrays import as_tensor_key
from dynajit.capture.python.tensors.counts import are_of_calls, number_of_table, place_in_turn
from dynajit.capture.python.tensors.mutation import refuse_older_key, tensor_store
from dynajit.capture.python.tensors.native_calls import native_method
from dynajit.capture.python.tensors.overriding import overridden_method
from dynajit.capture.python.tensors.unread_lists import is_unread
from dynajit.capture.python.tensors.windows import with_windows
from dynajit.capture.python.truth import truth
from dynajit.capture.tensors.known_contents import known_tensor
from dynajit.capture.tensors.turns import is_of_a_turn, item_in_turn, table_in_turn
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    IteratorValue,
    ListValue,
    SetValue,
    SliceValue,
    TupleValue,
)
from dynajit.capture.values.functions import GeneratorValue
from dynajit.capture.values.objects import ObjectValue
from dynajit.capture.values.storage import operand_of, storage_of
from dynajit.capture.values.symbolic import FALSE, TRUE, Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import class_with_methods, is_quiet, is_users_code, lookup
from dynajit.eager import Size

# -- contents ------------------------------------------------------------------------------------


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


def subscript(machine: Machine, container: Value, index: Value) -> Steps[Value]:
    """`container[index]`."""
    if isinstance(container, TensorValue) or (
        isinstance(container, (Constant, Scalar)) and isinstance(index, TensorValue)
    ):
        if isinstance(container, TensorValue):
            found = yield from overridden_method(machine, container, "__getitem__", [index], {})
            if found is not None:
                return found
        refuse_older_key(machine, index)
        if isinstance(container, TensorValue):
            container, rest = with_windows(machine, container, index)
            if rest is None:
                return container
            index = rest
        place = as_tensor_key(machine, place_in_turn(machine, container, index))
        return native_method(machine, container, "__getitem__", [place], {})
    if isinstance(container, (TupleValue, ListValue)):
        return (yield from _sequence_item(machine, container, index))
    if isinstance(container, DictValue):
        machine.recorder.use(container)
        return (yield from _dict_item(machine, container, index))
    cls = class_with_methods(container, "__getitem__")
    if cls is not None and defines(cls, "__getitem__"):
        method = yield from machine.get_special(container, "__getitem__")
        return (yield from machine.call(method, [index], {}))
    if isinstance(container, Constant) and isinstance(index, (SliceValue, ObjectValue)):
        position = yield from to_index(machine, index, lambda i, c=container.value: c[i], [index])
        return fold(machine, lambda a: a[position], container)
    if isinstance(container, Known) and isinstance(container.object, enum.EnumMeta):
        name = as_python(machine, index) if is_known(index) else None
        if isinstance(name, str) and name in container.object.__members__:
            machine.recorder.use(container)
            return Known(container.object.__members__[name])
        method = Known(type(container.object).__getitem__)
        return (yield from machine.call(method, [container, index], {}))
    own = _own_subscript(container)
    if own is not None:
        return (yield from machine.call(Known(own), [container, index], {}))
    if is_known(container) and is_known(index):
        return fold(machine, lambda a, b: a[b], container, index)
    if isinstance(container, Known):
        raise unsupported("subscript", container, index)  # what is legal depends on the object
    refuse(machine, "subscript", lambda a, b: a[b], [container, index])


#: The least limit on the digits of texts of numbers that can be set.
_MANY_DIGITS: Final = sys.int_info.str_digits_check_threshold
#: Numbers with at most so many bits have at most as many digits as every limit allows.
_MANY_BITS: Final = int(math.log2(10) * _MANY_DIGITS) - 1

#: What a UnicodeEncodeError and its likes take from their arguments.
_UNICODE_FIELDS: Final = ("encoding", "object", "start", "end", "reason")


#: Results that can be long; frames that are looked back at keep them.
_OF_ANY_LENGTH: Final = frozenset({str, bytes, int, tuple, frozenset})


def fold(machine: Machine, function: Any, *operands: Value) -> Value:
    """`function` on known operands, computed now; its exception is the program's exception."""
    if not all(is_quiet(operand) for operand in operands):
        raise unsupported("operation", *operands)
    return compute(machine, function, *operands)


def compute(machine: Machine, function: Any, *operands: Value) -> Value:
    """`fold` where the caller knows that `function` runs no code of the user on `operands`."""
    arguments = [as_python(machine, operand) for operand in operands]
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
        raise_python(machine, type(error), *error.args, **fields)
    except Exception as error:
        check_digits(arguments)
        raise_python(machine, type(error), *error.args)
    if type(result) in _OF_ANY_LENGTH:
        machine.heap.keep(sys.getsizeof(result) // 8)
    try:
        return from_python(machine, result)
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


def to_index(machine: Machine, value: Value, function: Any, operands: list[Value]) -> Steps[Any]:
    """`operator.index(value)` as a Python int; a slice as a slice of such.

    Args:
        function: refuses `operands` where `value` is no index.
    """
    if isinstance(value, TensorValue):
        found = known_tensor(machine.recorder, value)
        if found is not None and found.numel() == 1 and not found.dtype.is_floating_point:
            return found.__index__()
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "a tensor as the index of a sequence")
    if isinstance(value, SliceValue):
        machine.recorder.use(value)
        bounds = []
        for part in (value.start, value.stop, value.step):
            known = is_known(part) and as_python(machine, part) is None
            bounds.append(
                None if known else (yield from to_index(machine, part, _slice_of, [part]))
            )
        return slice(*bounds)
    value = number_of(machine, value)
    cls = class_with_methods(value, "__index__")
    if cls is not None and defines(cls, "__index__"):
        value = yield from call_special(machine, value, "__index__")
    if type_of(machine, value) in (int, bool):
        return int(as_python(machine, value))
    refuse(machine, "index", function, operands)


def number_of(machine: Machine, value: Value) -> Value:
    """The int that a derived class keeps, which is an index whatever its `__index__` says."""
    storage = storage_of(machine, value)
    return value if storage is None or storage.python_type is not int else storage


def _slice_of(part: Any) -> Any:
    return [][part:]


def _sequence_item(machine: Machine, container: Any, index: Value) -> Steps[Value]:
    empty: Any = () if isinstance(container, TupleValue) else []
    numbered = _numbered_item(machine, container, index)
    if numbered is not None:
        return numbered
    position = yield from to_index(machine, index, lambda i: empty[i], [index])
    if isinstance(container, ListValue):
        chosen = chosen_items(machine, container, position)
        if isinstance(chosen, Value):
            return chosen
        if chosen is not None:
            return new_list(machine, chosen)
    items = items_of(machine, container)
    found: Any
    try:
        found = items[position]
    except IndexError as error:
        fits = -sys.maxsize <= position <= sys.maxsize
        text = f"{container.python_type.__name__} index out of range" if fits else str(error)
        raise_python(machine, IndexError, text)
    except ValueError as error:
        raise_python(machine, ValueError, *error.args)
    if not isinstance(position, slice):
        item: Value = found
        return item
    if isinstance(container, ListValue):
        return new_list(machine, found)
    if container.cls is tuple and position.step in (None, 1) and len(found) == len(items):
        assert isinstance(container, TupleValue)
        return container  # Python makes no copy
    return TupleValue(found, Size if container.cls is Size else tuple)


def _numbered_item(machine: Machine, container: Any, index: Value) -> Value | None:
    """An item by an index that differs between the turns of a loop; None: see `item_in_turn`."""
    if not is_of_a_turn(index) or is_unread(machine, container):
        return None
    items = items_of(machine, container)
    found: Value | None = item_in_turn(items, index)
    if found is None:
        found = _number_of_calls(machine, container, items, index)
    for value in (container, *items) if found is not None else ():
        machine.recorder.use(value)
    return found


def _number_of_calls(
    machine: Machine, container: Any, items: Sequence[Value], index: Value
) -> Value | None:
    """One of numbers that are known when the code runs, by such an index; None: they are others, or
    the launch has no tensor that holds them."""
    is_place = isinstance(index, Scalar) and index.python_type is int
    if not is_place or not are_of_calls(items):
        return None
    is_list = isinstance(container, ListValue)
    key = container.identity if is_list else ("items", *map(id, items))
    table = table_in_turn(machine.recorder.turns, key, items)
    if table is None:
        return None
    assert isinstance(index, Scalar)
    return number_of_table(machine, table, items[0].python_type, index)


def _dict_item(machine: Machine, container: DictValue, key: Value) -> Steps[Value]:
    token = yield from token_in(machine, container, key)
    found = dict_lookup(machine, container, key, token)
    if found is not None:
        return found
    if container.cls is defaultdict:
        return (yield from _default_item(machine, container, key, token))
    raise_python(machine, KeyError, key)


def _default_item(machine: Machine, container: DictValue, key: Value, token: Any) -> Steps[Value]:
    """What an existing defaultdict makes for a key that it lacks."""
    place = sources.Attribute(machine.recorder.first_source(container), "default_factory")
    factory = machine.recorder.wrap(machine.recorder.existing(container).default_factory, place)
    machine.recorder.use(factory)
    if isinstance(factory, Constant) and factory.value is None:
        raise_python(machine, KeyError, key)
    made = yield from machine.call(factory, [], {})
    dict_store(machine, container, key, made, token)
    return made


def store_subscript(machine: Machine, container: Value, index: Value, item: Value) -> Steps[None]:
    """`container[index] = item`."""
    if isinstance(container, ListValue):
        yield from _store_in_list(machine, container, index, item)
        return
    if isinstance(container, DictValue):
        yield from store_key(machine, container, index, item)
        return
    if isinstance(container, TensorValue):
        given = [index, item]
        found = yield from overridden_method(machine, container, "__setitem__", given, {})
        if found is not None:
            return
        tensor_store(machine, container, index, item)
        return
    if isinstance(container, ObjectValue) and defines(container.cls, "__setitem__"):
        method = yield from machine.get_special(container, "__setitem__")
        yield from machine.call(method, [index, item], {})
        return
    refuse(machine, "item assignment", operator.setitem, [container, index, item])


def _store_in_list(
    machine: Machine, container: ListValue, index: Value, item: Value
) -> Steps[None]:
    position = yield from to_index(machine, index, lambda i: operator.setitem([], i, 0), [index])
    replacement: Any = item
    if isinstance(position, slice):
        if not _is_iterable(machine, item):
            stepped = slice(None, None, 1 if position.step in (None, 1) else 2)
            refuse(machine, "item assignment", lambda v: operator.setitem([], stepped, v), [item])
        replacement = yield from machine.to_items(item)
    items = list(list_items(machine, container))
    try:
        items[position] = replacement
    except (IndexError, ValueError) as error:
        raise_python(machine, type(error), *error.args)
    machine.heap.write(container.identity, tuple(items))


def _is_iterable(machine: Machine, value: Value) -> bool:
    kind = type_of(machine, value)
    return defines(kind, "__iter__") or defines(kind, "__getitem__")


def delete_subscript(machine: Machine, container: Value, index: Value) -> Steps[None]:
    """`del container[index]`."""
    if isinstance(container, ListValue):
        position = yield from to_index(machine, index, lambda i: operator.delitem([], i), [index])
        items = list(list_items(machine, container))
        try:
            del items[position]
        except (IndexError, ValueError) as error:
            raise_python(machine, type(error), *error.args)
        machine.heap.write(container.identity, tuple(items))
        return
    if isinstance(container, DictValue):
        token = yield from token_in(machine, container, index)
        dict_delete(machine, container, index, token)
        return
    if isinstance(container, ObjectValue) and defines(container.cls, "__delitem__"):
        method = yield from machine.get_special(container, "__delitem__")
        yield from machine.call(method, [index], {})
        return
    refuse(machine, "item deletion", operator.delitem, [container, index])


# -- membership ----------------------------------------------------------------------------------


def contains(machine: Machine, container: Value, item: Value) -> Steps[bool]:
    """`item in container`, as a Python bool."""
    if isinstance(container, DictViewValue) and container.kind == "keys":
        container = container.dictionary
    if isinstance(container, DictValue):
        token = yield from token_in(machine, container, item)
        return dict_lookup(machine, container, item, token) is not None
    if isinstance(container, SetValue):
        wanted = frozen_if_set(machine, item)
        token = yield from key_token(machine, set_entries(machine, container), wanted)
        return token in set_entries(machine, container)
    if isinstance(container, (TupleValue, ListValue)):
        return (yield from _sequence_contains(machine, container, item))
    cls = class_with_methods(container, "__contains__")
    if cls is not None:
        if defines(cls, "__contains__"):
            method = yield from machine.get_special(container, "__contains__")
            result = yield from machine.call(method, [item], {})
            return (yield from truth(machine, result))
        if not any(defines(cls, name) for name in ("__iter__", "__getitem__")):
            expected = "a container or iterable" if IS_314 else "iterable"
            text = f"argument of type '{type_name(type_of(machine, container))}' is not {expected}"
            raise_python(machine, TypeError, text)
        items = yield from machine.to_items(container)
        return (yield from _sequence_contains(machine, TupleValue(tuple(items)), item))
    if isinstance(container, DictViewValue):
        items = yield from machine.to_items(container)
        return (yield from _sequence_contains(machine, TupleValue(tuple(items)), item))
    if isinstance(container, (IteratorValue, GeneratorValue)):
        while (given := (yield from machine.advance(container))) is not None:
            if (yield from _sequence_contains(machine, TupleValue((given,)), item)):
                return True
        return False
    if isinstance(container, Constant) and isinstance(item, Scalar):
        found = function_of_numbers(machine, "in", [container, item])
        if isinstance(found, Constant):
            return bool(found.value)
    if is_known(container) and is_known(item):
        known: bool = as_python(machine, compute(machine, lambda a, b: b in a, container, item))
        return known
    if _is_iterable(machine, container):
        raise unsupported("in", item, container)
    refuse(machine, "in", lambda a, b: b in a, [container, item])


def _sequence_contains(machine: Machine, sequence: Any, item: Value) -> Steps[bool]:
    for _, candidate in live_items(machine, sequence):
        if same_object(machine, candidate, item):
            return True
        if isinstance(candidate, TensorValue) or isinstance(item, TensorValue):
            raise GraphBreak(breaks.DATA_DEPENDENT_BRANCH, "searching a sequence for a tensor")
        equal = yield from machine.compare("==", candidate, item)
        if (yield from truth(machine, equal)):
            return True
    return False


def frozen_if_set(machine: Machine, item: Value) -> Value:
    """Sets are looked up in sets as frozensets, and so are derived sets that have no hash."""
    members = operand_of(machine, item) if item.python_type.__hash__ is None else item
    if isinstance(members, SetValue):
        return Constant(frozenset(set_entries(machine, members)))
    return item


def boolean(value: bool) -> Constant:
    """True or False as a value."""
    return TRUE if value else FALSE
