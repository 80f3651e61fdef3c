"""Arrays and numbers of NumPy's: functions over tensors called with what the forms hold.

Handlers of the markers of `capture.library.arrays`, of NumPy's functions that have a function over
tensors (`dynajit.ops.functions.arrays`), and of what makes tensors of arrays.
"""

import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import arrays as forms
from dynajit.capture.machine.immutables import is_numpy_number
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, at_once, is_known, is_none
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import list_items, new_list
from dynajit.capture.python.tensors.arrays import (
    is_array,
    new_array,
    strides_of_tensor,
    tensor_in,
)
from dynajit.capture.python.tensors.autograd import data_of
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.mutation import tensor_store
from dynajit.capture.python.tensors.native_calls import native_call, place_in_turn
from dynajit.capture.tensors.turns import is_of_a_turn
from dynajit.capture.values.containers import ListValue, SliceValue, TupleValue
from dynajit.capture.values.objects import DISGUISED, ObjectValue
from dynajit.capture.values.symbolic import NONE, Constant, Known, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.eager.tensor import creation
from dynajit.ops.functions.arrays import shapes
from dynajit.ops.functions.arrays.table import (
    BY_ELEMENTS,
    FUNCTIONS,
    GIVES_ARRAYS,
    METHODS,
    NEED_ROWS,
)
from dynajit.ops.functions.arrays.types import as_tensor
from dynajit.ops.table.op_table import TABLE
from dynajit.ops.table.result_layouts import is_row_major


def _as_tensors(machine: Machine, value: Value, name: str) -> Value:
    """An argument with tensors for arrays and numbers of NumPy's.

    Raises:
        GraphBreak: a tensor, which NumPy would make an array of.
    """
    if is_array(value):
        return tensor_in(machine, value)
    if isinstance(value, TensorValue):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} with a tensor")
    if isinstance(value, Known) and is_numpy_number(value.object):
        machine.recorder.use(value)
        number, dtype = value.object.item(), value.object.dtype
        return native_call(machine, as_tensor, [constant(number), Known(dtype)], {})
    if isinstance(value, TupleValue) and value.cls is tuple:
        return TupleValue(tuple(_as_tensors(machine, item, name) for item in value.items))
    if isinstance(value, ListValue):
        items = [_as_tensors(machine, item, name) for item in list_items(machine, value)]
        return new_list(machine, items)
    if isinstance(value, SliceValue):
        parts = (value.start, value.stop, value.step)
        return SliceValue(*(_as_tensors(machine, part, name) for part in parts))
    return value


def _as_arrays(machine: Machine, made: Value, gives_arrays: bool, given: Sequence[Value]) -> Value:
    """A result: an argument itself, or an array or a number over a tensor."""
    if isinstance(made, TupleValue):
        items = [_as_arrays(machine, item, gives_arrays, given) for item in made.items]
        return TupleValue(tuple(items))
    if isinstance(made, ListValue):
        return new_list(
            machine,
            [_as_arrays(machine, i, gives_arrays, given) for i in list_items(machine, made)],
        )
    if not isinstance(made, TensorValue):
        return made
    for value in given:
        if is_array(value) and tensor_in(machine, value).identity == made.identity:
            return value
    kind = tensor_type(machine, made)
    if kind.rank or gives_arrays:
        return new_array(machine, made, np.ndarray)
    if machine.heap[made.identity].memory:  # a number is no view
        made = native_call(machine, TABLE.clone, [made], {})
        assert isinstance(made, TensorValue)
    return new_array(machine, made, kind.dtype.numpy.type)


def _call(
    machine: Machine, name: str, function: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    target = keywords.pop("out", NONE)
    condition = keywords.pop("where", NONE)
    is_default = is_known(condition) and as_python(machine, condition) is True
    is_given = not is_none(machine, condition) or isinstance(target, TupleValue)
    if is_given and not is_default:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name}(where=...)")
    if not is_none(machine, target) and not is_array(target):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name}(out=...)")
    positional = [_as_tensors(machine, value, name) for value in args]
    named = {key: _as_tensors(machine, value, name) for key, value in keywords.items()}
    if function in NEED_ROWS:
        _require_rows(machine, name, [*positional, *named.values()])
    is_by_elements = function in BY_ELEMENTS
    lifts = is_by_elements and any(map(is_of_a_turn, positional))
    made = native_call(machine, _named(function, name), positional, named, lifts)
    if is_by_elements:
        made = _as_numpy_lays_out(machine, name, made, [*positional, *named.values()])
    given = [*args, *keywords.values()]
    if is_none(machine, target):
        return _as_arrays(machine, made, function in GIVES_ARRAYS, given)
    assert isinstance(made, TensorValue)
    _write(machine, target, constant(...), made, shapes.value_of_loop)
    return target


def _require_rows(machine: Machine, name: str, given: Sequence[Value]) -> None:
    """The dims of arrays lie in their order in memory; for `ravel`, side by side.

    Raises:
        GraphBreak: they do not, or it is not known.
    """
    for value in given:
        if isinstance(value, ListValue):
            _require_rows(machine, name, list_items(machine, value))
        elif isinstance(value, TupleValue):
            _require_rows(machine, name, list(value.items))
        elif isinstance(value, TensorValue):
            kind = tensor_type(machine, value)
            strides = strides_of_tensor(machine, value)
            if kind.rank < 2 and not name.endswith("ravel"):
                continue
            if strides is not None and is_row_major(tuple(kind.shape), tuple(strides)):
                continue
            are_known = strides is not None and all(type(step) is int for step in strides)
            if not are_known or name.endswith("ravel") or list(strides) != sorted(strides)[::-1]:
                raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in another order")


def _as_numpy_lays_out(machine: Machine, name: str, made: Value, given: Sequence[Value]) -> Value:
    """A result by elements: in the order that its operands have, or with rows where they differ.

    Source: "C-order wins" in NumPy's `npyiter_find_best_axis_ordering`; tensors have the order of
    the first operand.

    Raises:
        GraphBreak: there are more than two dims, or an order is not known.
    """
    if not isinstance(made, TensorValue) or tensor_type(machine, made).rank < 2:
        return made
    rank = tensor_type(machine, made).rank
    orders = {
        _order(machine, name, value)
        for value in given
        if isinstance(value, TensorValue)
        and sum(size != 1 for size in tensor_type(machine, value).shape) > 1
    }
    have_rows = all(order == tuple(sorted(order)) for order in orders)
    if have_rows or (len(orders) == 1 and len(*orders) == rank):
        return made
    if rank > 2:
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in another order")
    return native_call(machine, TABLE.laid_out, [made], {"order": Known((0, 1))})


def _order(machine: Machine, name: str, value: TensorValue) -> tuple[int, ...]:
    """The dims of an operand that have more than one place, from the outermost in memory on.

    Raises:
        GraphBreak: it is not known.
    """
    shape, strides = tensor_type(machine, value).shape, strides_of_tensor(machine, value)
    if strides is not None and is_row_major(tuple(shape), tuple(strides)):
        return tuple(range(len(shape)))
    if strides is None or not all(type(size) is int for size in (*shape, *strides)):
        raise GraphBreak(breaks.UNKNOWN_CALL, f"numpy.{name} of dims in an order that varies")
    wide = [dim for dim, size in enumerate(shape) if size != 1]
    return tuple(sorted(wide, key=lambda dim: -strides[dim]))


def _named(function: Any, name: str) -> Any:
    """The function as breaks name it."""

    @functools.wraps(function, assigned=())
    def call(*args: Any, **keywords: Any) -> Any:
        return function(*args, **keywords)

    call.__qualname__ = f"numpy.{name}"
    return call


def _write(machine: Machine, array: Value, key: Value, value: Value, cast: Any) -> None:
    target = tensor_in(machine, array)
    name = "add" if cast is shapes.value_of_loop else "ndarray.__setitem__"
    value = native_call(machine, _named(cast, name), [target, value], {}, is_of_a_turn(value))
    data = data_of(machine, target)  # no tensor of this memory counts the write
    assert isinstance(data, TensorValue)
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
    raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"numpy.{as_python(machine, args[0])}")


@special(forms.read)
@at_once
def _read(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    array, key = args
    wanted = place_in_turn(machine, _as_tensors(machine, key, "ndarray.__getitem__"))
    tensor = tensor_in(machine, array)
    function = _named(shapes.read_item, "ndarray.__getitem__")
    made = native_call(machine, function, [tensor, wanted], {})
    entries = key.items if isinstance(key, TupleValue) else (key,)
    is_array = any(isinstance(e, Constant) and e.value is ... for e in entries)
    if isinstance(made, TensorValue) and made.identity == tensor.identity:
        made = machine.recorder.alias_of(tensor)
    return _as_arrays(machine, made, is_array, [])


@special(forms.store)
@at_once
def _store(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    array, key, value, *rest = args
    name = "ndarray.__setitem__"
    wanted = _as_tensors(machine, key, name)
    cast = shapes.value_of_loop if rest else shapes.value_for
    _write(machine, array, wanted, _as_tensors(machine, value, name), cast)
    return NONE


def _shape(machine: Machine, tensor: TensorValue) -> Value:
    sizes = machine.recorder.sizes
    return TupleValue(tuple(sizes.value_of(n) for n in tensor_type(machine, tensor).shape))


def _transposed(machine: Machine, tensor: TensorValue) -> Value:
    made = native_call(machine, shapes.transpose, [tensor], {})
    return _as_arrays(machine, made, True, [])


def _real(machine: Machine, tensor: TensorValue) -> Value:
    if tensor_type(machine, tensor).dtype.is_complex:
        raise GraphBreak(breaks.UNKNOWN_CALL, "numpy.real of complex numbers")
    return new_array(machine, machine.recorder.alias_of(tensor), np.ndarray)


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
    "T": _transposed,
    "real": _real,
}


@special(forms.fact)
@at_once
def _fact(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    name, array = as_python(machine, args[0]), args[1]
    assert isinstance(array, ObjectValue)
    tensor = tensor_in(machine, array)
    if name == "len":
        kind = tensor_type(machine, tensor)
        if not kind.rank:
            raise GraphBreak(breaks.UNKNOWN_CALL, "len() of an array without dims")
        return machine.size_value(kind.shape[0])
    if name in ("T", "real") and DISGUISED[array.cls] is not np.ndarray:
        return array
    found: Value = _FACTS[name](machine, tensor)
    return found


def _enter(original: Any, function: Any) -> None:
    name = getattr(original, "__name__", str(original))

    @special(original)
    @at_once
    def handler(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
        return _call(machine, name, function, args, dict(keywords))


for _original, _function in FUNCTIONS.items():
    _enter(_original, _function)


# ------------------------------------------------------------------------- tensors of arrays


@special(creation.from_numpy)
@at_once
def _from_numpy(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Value:
    if len(args) != 1 or keywords or not is_array(args[0]):
        raise GraphBreak(breaks.UNKNOWN_CALL, "from_numpy of what is no array")
    return machine.recorder.alias_of(tensor_in(machine, args[0]))
