"""`copy.copy` and `copy.deepcopy` of containers and objects. Handlers of
`capture.python.builtins.table`."""

import copy
import copyreg
import types
from collections import OrderedDict, defaultdict
from typing import Any

from dynajit.capture.guards.kinds import Kind
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import is_known, is_none, unsupported
from dynajit.capture.python.builtins.table import special
from dynajit.capture.python.contents import (
    dict_entries,
    dict_lookup,
    list_items,
    new_dict,
    new_list,
    set_entries,
)
from dynajit.capture.python.errors import check_count
from dynajit.capture.python.keys import store_key
from dynajit.capture.python.objects.fields import allocate, instance_entries, write_field
from dynajit.capture.python.tensors.autograd import grad_of
from dynajit.capture.python.tensors.facts import needs_gradient
from dynajit.capture.python.tensors.native_calls import native_method
from dynajit.capture.values.containers import DictValue, ListValue, SetValue, TupleValue
from dynajit.capture.values.functions import BoundMethod, FunctionValue
from dynajit.capture.values.objects import ExceptionValue, InstanceDictValue, ObjectValue
from dynajit.capture.values.storage import native_base
from dynajit.capture.values.symbolic import Known, Value
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.eager import Tensor

_REDUCING = ("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
             "__getnewargs_ex__", "__new__", "__getattribute__", "__getattr__")  # fmt: skip


@special(copy.copy)
def _copy(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, copy.copy, args, keywords, 1, 1)
    value = args[0]
    _refuse_with_attributes(machine, value)
    if isinstance(value, TensorValue):
        return _copied_tensor(machine, value, "detach")
    if isinstance(value, (ListValue, DictValue, SetValue)):
        return (yield from machine.call_method(value, "copy", [], {}))
    if isinstance(value, (TupleValue, FunctionValue)) or is_known(value):
        return value
    if isinstance(value, ObjectValue) and hasattr(value.cls, "__copy__"):
        method = yield from machine.get_special(value, "__copy__")
        return (yield from machine.call(method, [], {}))
    made = _empty_like(machine, value)
    for name, item in _fields(machine, value):
        write_field(machine, made, name, item)
    return made


def _copied_tensor(machine: Machine, value: TensorValue, name: str) -> TensorValue:
    """A plain tensor with the same elements: in the same memory (`detach`) or not (`clone`).

    Raises:
        GraphBreak: it is of a derived class, requires a gradient, or keeps more than elements.
    """
    existing = machine.recorder.existing(value)
    contents: TensorContents = machine.heap[value.identity]
    if contents.attributes or value.cls is not Tensor or needs_gradient(machine, value):
        raise unsupported("copy", value)
    if existing is not None:
        place = sources.InstanceDict(machine.recorder.first_source(value))
        machine.recorder.guard(place, Kind.LENGTH, 0, "attributes")
        if vars(existing):
            raise unsupported("copy", value)
        if not is_none(machine, grad_of(machine, value)):
            raise unsupported("copy", value)
    made = native_method(machine, value, name, [], {})
    assert isinstance(made, TensorValue)
    return made


def _refuse_with_attributes(machine: Machine, value: Value) -> None:
    """An existing OrderedDict may have attributes, which a copy has, too."""
    is_ordered = isinstance(value, DictValue) and value.cls is OrderedDict
    if is_ordered and machine.recorder.existing_of(value) is not None:
        raise unsupported("copy", value)


def _empty_like(machine: Machine, value: Value) -> ObjectValue:
    """A new object of the same class.

    Raises:
        GraphBreak: the class says itself how it is copied, or keeps state elsewhere.
    """
    if not isinstance(value, ObjectValue) or isinstance(value, ExceptionValue):
        raise unsupported("copy", value)
    own = [name for name in _REDUCING if isinstance(getattr(value.cls, name, None),
                                                    types.FunctionType)]  # fmt: skip
    own += ["storage"] if native_base(value.cls) is not None else []
    slots = any("__slots__" in vars(base) for base in value.cls.__mro__[:-1])
    place = sources.Attribute(sources.Constant(copyreg), "dispatch_table")
    table = machine.recorder.wrap(copyreg.dispatch_table, place)
    assert isinstance(table, DictValue)
    if own or slots or dict_lookup(machine, table, Known(value.cls)) is not None:
        raise unsupported("copy", value)
    return allocate(machine, value.cls)


def _fields(machine: Machine, value: Any) -> list[tuple[str, Value]]:
    owner = InstanceDictValue(value.identity, dict, value.source, value)
    return [(name, item) for name, (_, item) in instance_entries(machine, owner).items()]


@special(copy.deepcopy)
def _deepcopy(machine: Machine, args: list[Value], keywords: dict[str, Value]) -> Steps[Value]:
    check_count(machine, copy.deepcopy, args, keywords, 1, 1)
    return (yield from _deep(machine, args[0], {}))


def _deep(machine: Machine, value: Value, memo: dict[int, Value]) -> Steps[Value]:
    """A copy of everything mutable; one object is copied once."""
    _refuse_with_attributes(machine, value)
    if is_known(value) or isinstance(value, (FunctionValue, BoundMethod)):
        return value
    if isinstance(value, TupleValue):
        items = []
        for item in value.items:
            items.append((yield from _deep(machine, item, memo)))
        return TupleValue(tuple(items), value.cls)
    if value.object_id in memo:
        return memo[value.object_id]
    if isinstance(value, TensorValue):
        made_of_it = memo[value.identity] = _copied_tensor(machine, value, "clone")
        return made_of_it
    if isinstance(value, ListValue):
        copy = memo[value.identity] = new_list(machine, [])
        for item in list_items(machine, value):
            copied = yield from _deep(machine, item, memo)
            machine.heap.write(copy.identity, (*machine.heap[copy.identity], copied))
        return copy
    if isinstance(value, DictValue) and not isinstance(value, InstanceDictValue):
        if value.cls is defaultdict:
            raise unsupported("copy.deepcopy", value)
        filled = memo[value.identity] = new_dict(machine, [], value.cls)
        for key, item in dict_entries(machine, value).values():
            left = yield from _deep(machine, key, memo)
            yield from store_key(machine, filled, left, (yield from _deep(machine, item, memo)))
        return filled
    if isinstance(value, SetValue) and all(
        is_known(v) for v in set_entries(machine, value).values()
    ):
        return (yield from machine.call_method(value, "copy", [], {}))
    if isinstance(value, ObjectValue) and hasattr(value.cls, "__deepcopy__"):
        raise unsupported("copy.deepcopy", value)
    made = _empty_like(machine, value)
    assert value.object_id is not None
    memo[value.object_id] = made
    for name, item in _fields(machine, value):
        yield from machine.set_plain_attribute(made, name, (yield from _deep(machine, item, memo)))
    return made
