"""Arrays and numbers of NumPy's: functions over tensors called with what the forms hold.

Handlers of the markers of `capture.library.arrays`, of NumPy's functions that have a function over
tensors (`dynajit.ops.functions.arrays`), and of what makes tensors of arrays.
"""

import functools
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any, Final, TypeAlias

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import arrays as forms
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.immutables import NUMPY_NUMBERS, is_numpy_number
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import as_python, at_once, is_known, is_none, type_of
from dynajit.capture.python.builtins import chosen as masks
from dynajit.capture.python.builtins.table import SPECIAL, special
from dynajit.capture.python.contents import list_items, new_list
from dynajit.capture.python.conversion import from_python
from dynajit.capture.python.tensors.array_orders import (
    as_numpy_lays_out,
    known_order,
    lies_in_rows,
    order_of_result,
    permuted,
)
from dynajit.capture.python.tensors.arrays import (
    flip,
    flipped_dims,
    is_absent,
    is_array,
    is_odd,
    is_writeable,
    laid_out,
    memory_in,
    new_array,
    new_view,
    strides_of_tensor,
    tensor_in,
    written_in_python,
)
from dynajit.capture.python.tensors.autograd import data_of
from dynajit.capture.python.tensors.chosen import is_by_mask
from dynajit.capture.python.tensors.counts import (
    as_float_of,
    as_index,
    as_stored,
    asked_in_turns,
    fits,
    handed_on,
    held_number,
    is_count,
    place_in_turn,
)
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.python.tensors.mutation import tensor_store
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.python.tensors.unread_lists import is_unread, joined
from dynajit.capture.python.tensors.windows import with_windows
from dynajit.capture.tensors.known_contents import known_tensor
from dynajit.capture.tensors.memory import share_memory
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import ListValue, SliceValue, TupleValue
from dynajit.capture.values.objects import DISGUISED, ObjectValue
from dynajit.capture.values.symbolic import NONE, Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.arrays import numpy_keys
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category
from dynajit.eager.tensor import creation
from dynajit.ops.functions.arrangement import subscript
from dynajit.ops.functions.arrays import shapes
from dynajit.ops.functions.arrays.reductions import GIVES_INTS
from dynajit.ops.functions.arrays.table import (
    BY_ELEMENTS,
    ELEMENTWISE,
    FUNCTIONS,
    GIVES_ARRAYS,
    KEEPS_NUMBERS,
    METHODS,
    NEED_FORWARD,
    NEED_ROWS,
    PERMUTATIONS,
    READ_ONLY,
    WRITERS,
    Order,
    name_of,
)
from dynajit.ops.functions.arrays.types import as_tensor
from dynajit.ops.table.op_table import TABLE


def _as_tensors(machine: Machine, value: Value, name: str, given: "Given") -> Value:
    """An argument with tensors for arrays and numbers of NumPy's, which are noted in `given`.

    Raises:
        GraphBreak: a tensor, which NumPy would make an array of, or data in a list.
    """
    if is_array(value):
        assert isinstance(value, ObjectValue)
        tensor = tensor_in(machine, value)
        given.setdefault(tensor.identity, value)
        return tensor
    if isinstance(value, TensorValue):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} with a tensor")
    if isinstance(value, Known) and is_numpy_number(value.object):
        machine.recorder.use(value)
        number, dtype = value.object.item(), value.object.dtype
        return native_call(machine, as_tensor, [constant(number), Known(dtype)], {})
    if isinstance(value, TupleValue) and value.cls is tuple:
        return TupleValue(tuple(_as_tensors(machine, item, name, given) for item in value.items))
    if isinstance(value, ListValue):
        if _is_data(machine, value, name):
            raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of a list of the caller's")
        items = [_as_tensors(machine, item, name, given) for item in list_items(machine, value)]
        if name in _JOINERS:
            items = [_as_element(machine, item) for item in items]
        return new_list(machine, items)
    if isinstance(value, SliceValue):
        parts = (value.start, value.stop, value.step)
        return SliceValue(*(_as_tensors(machine, part, name, given) for part in parts))
    return value


def _as_element(machine: Machine, item: Value) -> Value:
    """An item of a list that NumPy makes an array of: a number that differs between turns of a
    loop, or that the launch computes, is one of int64 or float64."""
    if not is_of_a_turn(item) and not is_count(item):
        return item
    held = held_number(machine, item)
    if held is None or not fits(machine, held):
        return item
    made: TensorValue = machine.recorder.new_tensor(held)
    return made


def _is_data(machine: Machine, value: ListValue, name: str) -> bool:
    """Whether a list is an argument, or in one, whose numbers would make a version for each call:
    NumPy shall make an array of it. Few ints may be a shape, or an axis each."""
    numbers = machine.recorder.existing(value)
    if machine.refusals.loops is None or type(numbers) is not list or not numbers:
        return False
    place = machine.recorder.first_source(value)
    while isinstance(place, sources.Item):
        place = place.base
    if not isinstance(place, sources.Local):
        return False
    is_shape = all(type(number) is int for number in numbers) and len(numbers) <= MOST_DIMS
    return not is_shape or name in _MAKERS


def _as_key_of_tensors(machine: Machine, key: Value) -> Value:
    """A key with tensors for arrays and numbers, those that the launch computes included."""
    if isinstance(key, TupleValue) and key.cls is tuple:
        return TupleValue(tuple(_as_key_of_tensors(machine, item) for item in key.items))
    if isinstance(key, ListValue) and _has_computed(machine, key):
        made = _call(machine, "array", FUNCTIONS[np.array], [key], {})
        assert isinstance(made, ObjectValue)
        return tensor_in(machine, made)
    if is_count(key) and key.python_type is int:
        return as_index(machine, key)
    return _as_tensors(machine, key, "ndarray.__getitem__", {})


def _has_computed(machine: Machine, key: ListValue) -> bool:
    """Whether a list of indices has others than numbers that are known: to NumPy it is an array of
    indices all the same, where a list with tensors stands for a tuple."""
    return any(
        _has_computed(machine, item)
        if isinstance(item, ListValue)
        else not isinstance(item, Constant)
        for item in list_items(machine, key)
    )


def _as_arrays(machine: Machine, made: Value, gives_arrays: bool, given: "Given") -> Value:
    """A result: an argument itself, or an array or a number over a tensor."""
    if isinstance(made, TupleValue):
        items = [_as_arrays(machine, item, gives_arrays, given) for item in made.items]
        return TupleValue(tuple(items), made.cls)
    if isinstance(made, ListValue):
        return new_list(
            machine,
            [_as_arrays(machine, i, gives_arrays, given) for i in list_items(machine, made)],
        )
    if not isinstance(made, TensorValue):
        return made
    if made.identity in given:
        operand = given[made.identity]
        if not (gives_arrays and _is_number(operand)):
            return operand
        made = native_call(machine, TABLE.clone, [made], {})
        assert isinstance(made, TensorValue)
    kind = tensor_type(machine, made)
    is_view = machine.heap[made.identity].memory
    if is_view and any(map(is_odd, given.values())):
        raise GraphBreak(breaks.UNKNOWN_CALL, "a view of an array with a negative stride")
    if kind.rank or gives_arrays:
        return new_array(machine, made, np.ndarray)
    if is_view:  # a number is no view
        made = native_call(machine, TABLE.clone, [made], {})
        assert isinstance(made, TensorValue)
    return new_array(machine, made, kind.dtype.numpy.type)


#: Ints of a list that may be a shape.
MOST_DIMS: Final = 8

#: Functions that make an array of what they are given.
_MAKERS: Final = frozenset(
    {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"}
)

#: Functions that make arrays of lists in what they are given, and join them.
_JOINERS: Final = _MAKERS | {"concatenate", "stack", "hstack", "vstack", "append", "column_stack"}

#: Tensor -> the array that it stands for in a call.
Given: TypeAlias = dict[int, ObjectValue]


#: Functions by elements that take a number of Python's which the launch computes.
_BESIDE_NUMBERS: Final = frozenset(
    FUNCTIONS[f] for f in (np.add, np.subtract, np.multiply, np.divide)
)


def _with_own_numbers(machine: Machine, name: str, args: list[Value]) -> list[Value]:
    """Two operands, of which one is a number that the launch computes: as one of the other's.

    Raises:
        GraphBreak: the other one does not hold floats.
    """
    own = [is_count(value) for value in args]
    if not any(own):
        return args
    place = own.index(True)
    other = args[1 - place] if len(args) == 2 else args[place]
    if not is_array(other):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"numpy.{name} of what a loop has counted")
    dtype = tensor_type(machine, memory_in(machine, other)).dtype
    number = as_float_of(machine, args[place], dtype)
    if number is None:
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"numpy.{name} of what a loop has counted")
    made = new_array(machine, number, dtype.numpy.type)
    return [made, other] if not place else [other, made]


def _call(
    machine: Machine, name: str, function: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    if any(map(is_by_mask, (*args, *keywords.values()))):
        keywords = {key: value for key, value in keywords.items() if not is_absent(value)}
        return masks.called(machine, _call, name, function, args, keywords)
    if function in _BESIDE_NUMBERS:
        args = _with_own_numbers(machine, name, args)
    target = _only_target(keywords.pop("out", NONE))
    is_of_elements = function in ELEMENTWISE
    condition = keywords.pop("where", NONE) if is_of_elements else NONE
    if is_known(condition) and as_python(machine, condition) is True:
        condition = NONE
    is_chosen = not is_none(machine, condition)
    if not is_none(machine, target) and not is_array(target):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name}(out=...)")
    if is_chosen and is_none(machine, target):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name}(where=...) without out=")
    keywords = {key: value for key, value in keywords.items() if not is_absent(value)}
    if function in PERMUTATIONS:
        args = [*args[:1], *(_known_numbers(machine, value) for value in args[1:])]
    whole = _joined(machine, function, args, keywords) if is_none(machine, target) else None
    if whole is not None:
        return new_array(machine, whole, np.ndarray)
    given: Given = {}
    positional = [_as_tensors(machine, value, name, given) for value in args]
    named = {key: _as_tensors(machine, value, name, given) for key, value in keywords.items()}
    if function in NEED_FORWARD and any(map(is_odd, given.values())):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of an array with a negative stride")
    if args and is_odd(args[0]) and function in PERMUTATIONS:
        return permuted(machine, function, args, [*positional], named)
    operands = [*positional, *named.values()]
    rule, order = NEED_ROWS.get(function), None
    if rule is Order.DIGITS:
        rule = _order_of_rounded(machine, [*args[1:], *keywords.values()], operands)
    if not args and (rule is Order.COPY or function in WRITERS):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of keywords only")
    if rule is Order.COPY and not lies_in_rows(machine, args[0], positional[0]):
        if len(args) > 1 or keywords:
            raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} in an order, of dims in another")
        function = METHODS["flatten"]
    elif rule is Order.ALONG and len(args) < 3 and "axis" not in keywords:
        rule = Order.NOT_KNOWN
    elif rule is Order.ENDS and any(map(is_odd, given.values())):
        rule = Order.ROWS
    if rule is not None and rule is not Order.COPY:
        order = order_of_result(machine, name, rule, operands)
    is_by_elements = function in BY_ELEMENTS
    lifts = is_by_elements and any(map(is_of_a_turn, positional))
    made = native_call(machine, _named(function, name), positional, named, lifts)
    if is_by_elements:
        made = as_numpy_lays_out(machine, name, made, operands)
    if order is not None:
        assert isinstance(made, TensorValue)
        if tensor_type(machine, made).rank == len(order):
            made = laid_out(machine, made, order)
    if function in WRITERS:
        _write(machine, args[0], constant(...), made, shapes.value_for)
        return NONE
    if function in READ_ONLY:
        assert isinstance(made, TensorValue)
        if any(map(is_odd, given.values())):
            raise GraphBreak(
                breaks.UNKNOWN_CALL, f"numpy.{name} of an array with a negative stride"
            )
        return new_view(machine, made, (), can_be_written=False)
    if is_none(machine, target):
        keeps_number = function in KEEPS_NUMBERS and bool(args) and _is_number(args[0])
        return _as_arrays(machine, made, function in GIVES_ARRAYS and not keeps_number, given)
    assert isinstance(made, TensorValue)
    if is_chosen:
        chosen = [tensor_in(machine, target), made, _as_tensors(machine, condition, name, {})]
        made = native_call(machine, _named(shapes.chosen_value, name), chosen, {})
    _write(machine, target, constant(...), made, shapes.value_of_loop)
    return target


def _order_of_rounded(
    machine: Machine, digits: Sequence[Value], operands: Sequence[Value]
) -> Order | None:
    """How NumPy lays out what it rounds (`PyArray_Round`); None: as it is laid out already.

    Args:
        digits: how many, if that is given.
    """
    array = operands[0] if operands else None
    is_float = isinstance(array, TensorValue) and (
        tensor_type(machine, array).dtype.category is Category.FLOATING
    )
    if not digits or not is_float:
        return None
    if not all(map(is_known, digits)):
        return Order.NOT_KNOWN
    return Order.ENDS if any(as_python(machine, digit) for digit in digits) else None


def _known_numbers(machine: Machine, value: Value) -> Value:
    """Axes as numbers where they are an array that is the same in every call."""
    if not is_array(value):
        return value
    known = known_tensor(machine.recorder, tensor_in(machine, value))
    return value if known is None else constant(tuple(known.numpy().tolist()))


def _joined(
    machine: Machine, function: Any, args: list[Value], keywords: dict[str, Value]
) -> TensorValue | None:
    """What joins a list that turns of a loop have filled and nobody has read, as floats where a
    dtype asks for them; None: it is another call."""
    if not args or not is_unread(machine, args[0]):
        return None
    dtype = keywords.get("dtype", NONE)
    others = {name: value for name, value in keywords.items() if name != "dtype"}
    if not is_none(machine, dtype):
        wanted = as_python(machine, dtype) if is_known(dtype) else None
        if not any(wanted is kind for kind in (float, np.float32, np.float64)):
            return None
    tensor_of = functools.partial(handed_on, machine)
    whole = joined(machine, function, args, others, _is_object, tensor_of)
    if whole is None or is_none(machine, dtype):
        return whole
    made = native_call(machine, FUNCTIONS[np.asarray], [whole], {"dtype": dtype})
    assert isinstance(made, TensorValue)
    return made


def _is_object(value: Value) -> bool:
    """True for arrays, numbers of NumPy's, and numbers that the launch computes."""
    return isinstance(value, ObjectValue)


def call_of_arrays(machine: Machine, original: Any, args: list[Value]) -> Value:
    """A function of NumPy's, called with arrays and numbers of its own."""
    return _call(machine, name_of(original), FUNCTIONS[original], args, {})


def _only_target(target: Value) -> Value:
    """What `out=` names, alone or as a tuple of one."""
    if isinstance(target, TupleValue) and target.cls is tuple and len(target.items) == 1:
        return target.items[0]
    return target


def _named(function: Any, name: str) -> Any:
    """The function as breaks name it."""

    @functools.wraps(function, assigned=())
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    call.__qualname__ = f"numpy.{name}"
    return call


def _write(machine: Machine, array: Value, key: Value, value: Value, cast: Any) -> None:
    if not is_writeable(machine, array):
        raise GraphBreak(breaks.UNKNOWN_CALL, "a write to an array that may only be read")
    target, flipped = memory_in(machine, array), flipped_dims(machine, array)
    value = as_stored(machine, value, tensor_type(machine, target).dtype)
    if any(isinstance(t, TensorValue) and needs_gradient(machine, t) for t in (target, value)):
        raise GraphBreak(breaks.UNKNOWN_CALL, "a write to an array that passes a gradient")
    name = "add" if cast is shapes.value_of_loop else "ndarray.__setitem__"
    value = native_call(machine, _named(cast, name), [target, value], {}, is_of_a_turn(value))
    if flipped:
        whole = flip(machine, target, flipped)
        written = native_call(machine, subscript.set_item, [whole, key, value], {})
        assert isinstance(written, TensorValue)
        key, value = constant(...), flip(machine, written, flipped)
    data = data_of(machine, target)  # no tensor of this memory counts the write
    assert isinstance(data, TensorValue)
    if isinstance(value, TensorValue) and share_memory(machine.recorder, data, value):
        value = native_call(machine, TABLE.clone, [value], {})  # NumPy reads before it writes
    tensor_store(machine, data, key, value)


@special(forms.on_tensors)
@at_once
def _on_tensors(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    name = as_python(machine, args[0])
    is_method = name.startswith(".")
    function = METHODS[name[1:]] if is_method else FUNCTIONS[getattr(np, name)]
    said = f"ndarray{name}" if is_method else name
    return _call(machine, said, function, args[1:], dict(keywords))


@special(forms.refuse)
@at_once
def _refuse(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    name, array, *rest = as_python(machine, args[0]), *args[1:]
    if name in _TOLD and not rest and not keywords:
        known = known_tensor(machine.recorder, tensor_in(machine, array))
        if known is not None and (name == "tolist" or not known.ndim):
            return from_python(machine, getattr(known.numpy()[()], name)())
        number = _number_in_turns(machine, name, array)
        if number is not None:
            return number
    raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"numpy.{name}")


def _number_in_turns(machine: Machine, name: str, array: Value) -> ObjectValue | None:
    """What Python asks of an array of one element in a turn of a loop; None: it must ask."""
    tensor, kind = tensor_in(machine, array), _ASKED_FOR.get(name)
    if name != "item" and (kind is None or tensor_type(machine, tensor).rank):
        return None
    return asked_in_turns(machine, tensor, kind, is_of_array=True)


#: Methods by which Python makes a number of one -> its class.
_ASKED_FOR: Final = {"__float__": float, "__int__": int}

#: What tells the elements of an array as objects of Python's.
_TOLD: Final = frozenset({"__bool__", "__float__", "__int__", "__index__", "item", "tolist"})


@special(forms.read)
@at_once
def _read(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    array, key = args
    assert isinstance(array, ObjectValue)
    if is_by_mask(array) or is_by_mask(key):
        raise masks.refused("ndarray.__getitem__")
    by_mask = masks.chosen_by(machine, array, key)
    if by_mask is not None:
        return by_mask
    if is_odd(array) or _goes_back(key):
        view = _read_odd(machine, array, key)
        if view is not None:
            return view
    tensor = memory_in(machine, array)
    is_own = tensor_type(machine, tensor).dtype not in dtypes.UNSIGNED
    if is_own or _basic_entries(machine, key) is None:  # views have elements of any dtype
        tensor = tensor_in(machine, array)
    if is_own:
        tensor, rest = with_windows(machine, tensor, key)
        if rest is None:
            return _as_arrays(machine, tensor, False, {})
        key = rest
    wanted = place_in_turn(machine, tensor, _as_key_of_tensors(machine, key))
    function = _named(shapes.read_item, "ndarray.__getitem__")
    made = native_call(machine, function, [tensor, wanted], {})
    entries = key.items if isinstance(key, TupleValue) else (key,)
    is_array = any(isinstance(e, Constant) and e.value is ... for e in entries)
    if isinstance(made, TensorValue) and made.identity == tensor.identity:
        made = machine.recorder.alias_of(tensor)
    if isinstance(made, TensorValue):
        made = _as_chosen(machine, made, tensor, wanted)
        if machine.heap[made.identity].memory and any(map(_chooses, entries)):
            made = native_call(machine, TABLE.clone, [made], {})  # of one index without dims, too
    return _as_arrays(machine, made, is_array, {})


def _as_chosen(machine: Machine, made: TensorValue, tensor: TensorValue, key: Value) -> TensorValue:
    """Elements that arrays choose, laid out as NumPy lays them out.

    Raises:
        GraphBreak: arrays are apart, or an order is not known.
    """
    kinds: list[Any] = []
    batch = 0
    rank = tensor_type(machine, tensor).rank
    entries = list(key.items) if isinstance(key, TupleValue) else [key]
    for entry in entries:
        if isinstance(entry, TensorValue):
            kind = tensor_type(machine, entry)
            is_mask = kind.dtype is dtypes.bool_
            batch = max(batch, 1 if is_mask else kind.rank)
            kinds += ["array"] * (kind.rank if is_mask else 1)
        elif isinstance(entry, ListValue):
            batch = max(batch, _depth(machine, entry))
            kinds.append("array")
        elif is_none(machine, entry):
            kinds.append(numpy_keys.NEW)
        elif isinstance(entry, Constant) and entry.value is ...:
            kinds.append(...)
        else:
            kinds.append(numpy_keys.KEPT if isinstance(entry, SliceValue) else "array")
    if not batch or (tensor_type(machine, made).rank < 2 and "array" not in kinds[1:]):
        return made
    missing = [numpy_keys.KEPT] * (rank - sum(k not in (numpy_keys.NEW, ...) for k in kinds))
    at = kinds.index(...) if ... in kinds else len(kinds)
    kinds = [*kinds[:at], *missing, *kinds[at + 1 :]]
    order = known_order(machine, "ndarray.__getitem__", tensor)
    found = numpy_keys.order_of_chosen(kinds, order, batch)
    if found is None or len(found) != tensor_type(machine, made).rank:
        raise GraphBreak(breaks.UNKNOWN_CALL, "an index of arrays that are apart")
    return laid_out(machine, made, found)


def _depth(machine: Machine, value: Value) -> int:
    items = list_items(machine, value) if isinstance(value, ListValue) else None
    return 0 if items is None else 1 + (_depth(machine, items[0]) if items else 0)


def _goes_back(key: Value) -> bool:
    """True for keys with a slice that has a negative step."""
    entries = key.items if isinstance(key, TupleValue) else (key,)
    steps = [entry.step for entry in entries if isinstance(entry, SliceValue)]
    return any(isinstance(s, Constant) and type(s.value) is int and s.value < 0 for s in steps)


def _gives_a_view(machine: Machine, key: Value, rank: int) -> bool:
    """Whether a key with slices or numbers that are not known gives part of an array, no copy."""
    parts = key.items if isinstance(key, TupleValue) else (key,)
    slices = [part for part in parts if isinstance(part, SliceValue)]
    if any(_basic_entries(machine, part) is None for part in slices):
        return True
    if any(map(_chooses, parts)):
        return False
    is_element = len(parts) == rank and all(_is_one(machine, part) for part in parts)
    return not is_element


def _chooses(entry: Value) -> bool:
    """Whether an entry of a key is an array of indices or of truth values, perhaps without dims."""
    return isinstance(entry, ListValue) or (is_array(entry) and not _is_number(entry))


def _is_one(machine: Machine, entry: Value) -> bool:
    """Whether an entry of a key is a number."""
    is_int = not isinstance(entry, SliceValue) and type_of(machine, entry) is int
    return _is_number(entry) or is_int


def _read_odd(machine: Machine, array: ObjectValue, key: Value) -> Value | None:
    """`array[key]` where dims go from the end to the start; None: the key chooses a copy.

    Raises:
        GraphBreak: the sizes or the key are not known, or elements are chosen of such dims.
    """
    entries = _basic_entries(machine, key)
    if entries is None:
        if _goes_back(key):
            raise GraphBreak(breaks.UNKNOWN_CALL, "a slice with a negative step beside an array")
        if _gives_a_view(machine, key, tensor_type(machine, memory_in(machine, array)).rank):
            raise GraphBreak(breaks.UNKNOWN_CALL, "a part at a computed place of flipped dims")
        return None
    tensor = memory_in(machine, array)
    forward, flipped = numpy_keys.forwards(
        entries, tensor_type(machine, tensor).shape, flipped_dims(machine, array)
    )
    if forward is None:
        raise GraphBreak(breaks.UNKNOWN_CALL, "a slice with a negative step of sizes that vary")
    wanted = TupleValue(tuple(_as_key(entry) for entry in forward))
    function = _named(shapes.read_item, "ndarray.__getitem__")
    made = native_call(machine, function, [tensor, wanted], {})
    assert isinstance(made, TensorValue)
    if made.identity == tensor.identity:
        made = machine.recorder.alias_of(tensor)
    if not tensor_type(machine, made).rank and ... not in entries:
        return _as_arrays(machine, made, False, {})
    return new_view(machine, made, flipped, is_writeable(machine, array))


def _basic_entries(machine: Machine, key: Value) -> list[Any] | None:
    """The entries of a key of known integers, slices, None and `...`; None: it has others."""
    found: list[Any] = []
    for entry in key.items if isinstance(key, TupleValue) else (key,):
        if not is_known(entry):
            return None
        value = as_python(machine, entry)
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else (value,)
        if not all(part is None or part is ... or type(part) is int for part in parts):
            return None
        found.append(value)
    return found


def _as_key(entry: Any) -> Value:
    if isinstance(entry, slice):
        return SliceValue(*map(constant, (entry.start, entry.stop, entry.step)))
    return constant(entry)


@special(forms.store)
@at_once
def _store(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    array, key, value, *rest = args
    name = "ndarray.__setitem__"
    cast = shapes.value_of_loop if rest else shapes.value_for
    if is_by_mask(array):
        if not rest:
            raise masks.refused(name)
        masks.update(machine, array, value)
        return NONE
    if is_by_mask(value):
        if rest:
            raise masks.refused(name)
        key, value = constant(...), masks.put_back(machine, array, key, value)
    if _goes_back(key):
        assert isinstance(array, ObjectValue)
        part = _read_odd(machine, array, key)
        assert part is not None
        array, key = part, constant(...)
    if cast is shapes.value_for and _is_one_number(key, value):
        cast = shapes.value_for_element
    wanted = _as_key_of_tensors(machine, key)
    _write(machine, array, wanted, _as_tensors(machine, value, name, {}), cast)
    return NONE


def _is_one_number(key: Value, value: Value) -> bool:
    """Whether a number of NumPy's is written to single elements, as far as the key says: each of
    its entries is a number."""
    entries = key.items if isinstance(key, TupleValue) else (key,)
    return _is_number(value) and all(
        _is_number(entry) or (isinstance(entry, (Constant, Scalar)) and entry.python_type is int)
        for entry in entries
    )


def _is_number(value: Value) -> bool:
    return is_array(value) and value.cls not in (forms.FORMS[np.ndarray], forms.ODD_FORM)  # type: ignore[attr-defined]


def _shape(machine: Machine, tensor: TensorValue) -> Value:
    sizes = machine.recorder.sizes
    return TupleValue(tuple(sizes.value_of(n) for n in tensor_type(machine, tensor).shape))


def _transposed(machine: Machine, array: ObjectValue) -> Value:
    return _call(machine, "ndarray.T", METHODS["transpose"], [array], {})


def _part(name: str) -> Callable[[Machine, ObjectValue], Value]:
    """The real or the imaginary parts, as a view; of numbers a number."""

    def part(machine: Machine, array: ObjectValue) -> Value:
        tensor = memory_in(machine, array)
        if not tensor_type(machine, tensor).dtype.is_complex:
            if name == "imag":
                raise GraphBreak(breaks.UNKNOWN_CALL, "numpy.imag of real numbers")
            return array
        made = native_call(machine, getattr(TABLE, name), [tensor], {})
        assert isinstance(made, TensorValue)
        if DISGUISED[array.cls] is not np.ndarray:
            return _as_arrays(machine, made, False, {})
        return new_view(machine, made, flipped_dims(machine, array), is_writeable(machine, array))

    return part


def _strides(machine: Machine, tensor: TensorValue) -> Value:
    steps = strides_of_tensor(machine, tensor)
    if steps is None or not all(type(step) is int for step in steps):
        raise GraphBreak(breaks.UNKNOWN_CALL, "ndarray.strides that vary")
    size = tensor_type(machine, tensor).dtype.itemsize
    return TupleValue(tuple(constant(step * size) for step in steps))


def _bytes(machine: Machine, tensor: TensorValue) -> Value:
    kind = tensor_type(machine, tensor)
    return machine.recorder.sizes.value_of(kind.numel * kind.dtype.itemsize)


_FACTS: Final[dict[str, Any]] = {
    "shape": _shape,
    "dtype": lambda machine, tensor: Known(tensor_type(machine, tensor).dtype.numpy),
    "ndim": lambda machine, tensor: constant(tensor_type(machine, tensor).rank),
    "size": lambda machine, tensor: machine.recorder.sizes.value_of(
        tensor_type(machine, tensor).numel
    ),
    "itemsize": lambda machine, tensor: constant(tensor_type(machine, tensor).dtype.itemsize),
    "nbytes": _bytes,
    "strides": _strides,
}

_VIEWS: Final[dict[str, Any]] = {"T": _transposed, "real": _part("real"), "imag": _part("imag")}


@special(forms.fact)
@at_once
def _fact(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    name, array = as_python(machine, args[0]), args[1]
    assert isinstance(array, ObjectValue)
    if is_by_mask(array):
        return masks.fact(machine, name, array)
    is_number = DISGUISED[array.cls] is not np.ndarray
    if name == "T" and is_number:
        return array
    if name in _VIEWS:
        view: Value = _VIEWS[name](machine, array)
        return view
    if name == "strides" and is_odd(array):
        raise GraphBreak(breaks.UNKNOWN_CALL, "ndarray.strides that are negative")
    tensor = memory_in(machine, array)
    if name == "len":
        kind = tensor_type(machine, tensor)
        if not kind.rank:
            raise GraphBreak(breaks.UNKNOWN_CALL, "len() of an array without dims")
        return machine.size_value(kind.shape[0])
    found: Value = _FACTS[name](machine, tensor)
    return found


def _enter(original: Any, function: Any) -> None:
    name = name_of(original)

    @special(original)
    def handler(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
        written = written_in_python(original, [*args, *keywords.values()])
        if written is None:
            return _call(machine, name, function, args, dict(keywords))
        mark = machine.recorder.mark()
        try:
            return _call(machine, name, function, args, dict(keywords))
        except GraphBreak:
            machine.recorder.restore(mark)
        return (yield from machine.call(Known(written), args, keywords))


for _original, _function in FUNCTIONS.items():
    _enter(_original, _function)
    _behind = getattr(_original, "_implementation", None)
    if isinstance(_behind, BuiltinFunctionType) and _behind not in FUNCTIONS:
        _enter(_behind, _function)


_count_by_axis: Final = SPECIAL[np.count_nonzero]


@special(np.count_nonzero)
def _count_nonzero(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    if GIVES_INTS and len(args) == 1 and not keywords and is_array(args[0]):
        return masks.counted(machine, tensor_in(machine, args[0]))
    return (yield from _count_by_axis(machine, args, keywords))


@special(np.fromiter)
def _fromiter(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    """`np.fromiter(iterable, dtype)`: an array of what there is."""
    if keywords or len(args) != 2:
        raise GraphBreak(breaks.UNKNOWN_CALL, "numpy.fromiter by a count")
    listed = yield from machine.call(Known(list), args[:1], {})
    made = _call(machine, "fromiter", FUNCTIONS[np.array], [listed, args[1]], {})
    if tensor_type(machine, memory_in(machine, made)).rank != 1:
        raise GraphBreak(breaks.UNKNOWN_CALL, "numpy.fromiter of other than numbers")
    return made


def _enter_places(original: Any) -> None:
    """A function that gives places, of which there are as many as the data say."""

    @special(original)
    @at_once
    def handler(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
        raise GraphBreak(
            breaks.DATA_DEPENDENT_VALUE, f"numpy.{name_of(original)}: how many there are"
        )


for _original in (np.nonzero, np.flatnonzero, np.argwhere, np.unique):
    _enter_places(_original)


# --------------------------------------------------------------- dtypes, and what NumPy asks itself


def _dtype_given(machine: Machine, value: Value) -> Any:
    """What NumPy's functions of dtypes are told of an argument."""
    if is_array(value):
        return tensor_type(machine, memory_in(machine, value)).dtype.numpy
    if isinstance(value, Scalar):
        return type_of(machine, value)(0)
    if isinstance(value, Known) and is_numpy_number(value.object):
        machine.recorder.use(value)
        return value.object.dtype
    if not is_known(value):
        raise GraphBreak(breaks.UNKNOWN_CALL, "a dtype of what is not known")
    return as_python(machine, value)


def _enter_dtypes(original: Any) -> None:
    @special(original)
    @at_once
    def handler(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
        given = [_dtype_given(machine, value) for value in args]
        named = {key: as_python(machine, value) for key, value in keywords.items()}
        try:
            found = original(*given, **named)
        except Exception as error:
            raise_python(machine, type(error), *error.args)
        return constant(found) if type(found) is bool else Known(found)


for _original in (np.dtype, np.result_type, np.promote_types, np.can_cast):
    _enter_dtypes(_original)


def _enter_class(cls: Any) -> None:
    @special(cls)
    @at_once
    def handler(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
        is_number = len(args) == 1 and not keywords and isinstance(args[0], Scalar)
        if len(args) != 1 or keywords or not (is_number or is_array(args[0])):
            raise GraphBreak(breaks.UNKNOWN_CALL, f"class numpy.{cls.__name__}")
        dtype = Known(np.dtype(cls))
        if is_number:
            made = native_call(machine, as_tensor, [args[0], dtype], {}, lift_numbers=True)
            return _as_arrays(machine, made, False, {})
        made = native_call(machine, shapes.astype, [tensor_in(machine, args[0]), dtype], {})
        return _as_arrays(machine, made, False, {})


for _cls in NUMPY_NUMBERS:
    _enter_class(_cls)


@special(np.lib.array_utils.normalize_axis_index)
@at_once
def _normalize_axis(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if not all(map(is_known, (*args, *keywords.values()))):
        raise GraphBreak(breaks.UNKNOWN_CALL, "an axis that varies")
    given = [as_python(machine, value) for value in args]
    named = {key: as_python(machine, value) for key, value in keywords.items()}
    try:
        return constant(np.lib.array_utils.normalize_axis_index(*given, **named))
    except (TypeError, ValueError):  # the words of the error are NumPy's to say
        raise GraphBreak(breaks.UNKNOWN_CALL, "an axis that an array has not") from None


# ------------------------------------------------------------------------- tensors of arrays


@special(creation.from_numpy)
@at_once
def _from_numpy(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if len(args) != 1 or keywords or not is_array(args[0]):
        raise GraphBreak(breaks.UNKNOWN_CALL, "from_numpy of what is no array")
    if is_odd(args[0]):
        raise GraphBreak(breaks.UNKNOWN_CALL, "from_numpy of an array with a negative stride")
    return machine.recorder.alias_of(tensor_in(machine, args[0]))
