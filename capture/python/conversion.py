"""Values and Python objects: what library functions are called with, and what they return."""

from collections import OrderedDict
from typing import Any, Final, TypeAlias

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python, make_tuple
from dynajit.capture.python.contents import dict_entries, list_items, new_dict, new_list
from dynajit.capture.python.tensors.facts import number_in
from dynajit.capture.values.class_layouts import is_plain_tuple
from dynajit.capture.values.containers import DictValue, ListValue, SliceValue, TupleValue
from dynajit.capture.values.storage import keeps, storage_of
from dynajit.capture.values.symbolic import LITERAL_TYPES, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import SymInt
from dynajit.eager import Tensor
from dynajit.ir import graph

#: Classes of run-time numbers that a function is given as inputs of the graph.
Lifted: TypeAlias = tuple[type, ...]
SPECIALISED: Final[Lifted] = ()
NUMBERS: Final[Lifted] = (int, float)


def to_native(machine: Machine, value: Value, lifted: Lifted) -> Any:
    """What a library function is called with: graph values for tensors, else Python objects.

    Args:
        lifted: run-time numbers of other classes are sizes, or specialised.

    Raises:
        NotKnown: the value has no such form.
    """
    if isinstance(value, TensorValue):
        is_new = machine.heap[value.identity].is_new_leaf
        if machine.refusals.histories and is_new and machine.recorder.grad_enabled:
            raise GraphBreak(breaks.AUTOGRAD_CALL, "a gradient by a leaf that is made here")
        return machine.recorder.graph_value(value)
    if isinstance(value, Scalar) and value.python_type in lifted:
        return machine.recorder.lift_scalar(value)
    if isinstance(value, Scalar):
        size = machine.recorder.sizes.shape_int(value)
        return machine.recorder.specialise(value) if size is None else size
    if isinstance(value, TupleValue):
        machine.recorder.use(value)
        items = [to_native(machine, item, lifted) for item in value.items]
        return tuple(items) if value.cls is tuple else make_tuple(value.cls, items)
    if isinstance(value, ListValue):
        return [to_native(machine, item, lifted) for item in list_items(machine, value)]
    if isinstance(value, DictValue):
        entries = dict_entries(machine, value).values()
        return {as_python(machine, key): to_native(machine, item, lifted) for key, item in entries}
    if isinstance(value, SliceValue):
        machine.recorder.use(value)
        parts = (value.start, value.stop, value.step)
        return slice(*(_bound(machine, part) for part in parts))
    storage = storage_of(machine, value)
    if storage is not None and keeps(value, *_CONVERSIONS):
        return to_native(machine, storage, lifted)
    return as_python(machine, value)


def _bound(machine: Machine, part: Value) -> Any:
    """A part of a slice: an integer in a tensor is one, where it is known."""
    if isinstance(part, TensorValue):
        number = number_in(machine, part)
        if number is not None and number.python_type is int:
            return to_native(machine, number, SPECIALISED)
    return to_native(machine, part, SPECIALISED)


#: What library functions ask of numbers, containers and texts.
_CONVERSIONS: Final = (
    "__index__", "__int__", "__float__", "__complex__", "__iter__", "__len__", "__getitem__",
    "__eq__", "__str__", "items", "keys",
)  # fmt: skip


def from_python(machine: Machine, result: Any, operands: tuple[Value, ...] = ()) -> Value:
    """The value of what a library function or a folded operation returned.

    Args:
        operands: tensors among them are returned by identity.

    Raises:
        NotKnown: an object that is not modelled.
    """
    if isinstance(result, graph.Value):
        return _tensor_result(machine, result, operands)
    if any(type(result) is kind for kind in LITERAL_TYPES):
        return constant(result)
    if isinstance(result, SymInt):
        size: Value = machine.size_value(result)
        return size
    if isinstance(result, tuple):
        if hasattr(result, "_fields") and not is_plain_tuple(type(result)):
            raise NotKnown(type(result).__name__)
        items = tuple(from_python(machine, item, operands) for item in result)
        return TupleValue(items, type(result))
    if type(result) is list:
        return new_list(machine, [from_python(machine, item, operands) for item in result])
    if type(result) is dict or type(result) is OrderedDict:
        pairs = [
            (from_python(machine, key), from_python(machine, item, operands))
            for key, item in result.items()
        ]
        return new_dict(machine, pairs, type(result))
    if type(result) is slice:
        parts = [from_python(machine, part) for part in (result.start, result.stop, result.step)]
        return SliceValue(*parts)
    if isinstance(result, (DType, Device, type)):
        return Known(result)
    raise NotKnown(type(result).__name__)


def _tensor_result(machine: Machine, result: graph.Value, operands: tuple[Value, ...]) -> Value:
    for operand in operands:
        if isinstance(operand, TensorValue):
            if machine.recorder.graph_value(operand).node is result.node:
                return operand
        elif isinstance(operand, TupleValue):
            for item in operand.items:
                if (
                    isinstance(item, TensorValue)
                    and machine.recorder.graph_value(item).node is result.node
                ):
                    return item
    value: Value = machine.recorder.new_tensor(result, Tensor)
    return value
