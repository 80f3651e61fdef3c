"""Truth and length, and comparisons that are guarded by their outcome."""

import enum
from collections import deque
from typing import Any, NoReturn

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.guards.facts import Predicate
from dynajit.capture.guards.kinds import Kind
from dynajit.capture.guards.relations import COMPARISONS
from dynajit.capture.machine.awaiting import checked_bool, length_is_true, then
from dynajit.capture.machine.exceptions import raise_python
from dynajit.capture.machine.frames import Steps
from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.python.basic import (
    as_python,
    defines,
    is_known,
    type_name,
    type_of,
    unsupported,
)
from dynajit.capture.python.contents import dict_entries, list_length, note_read, set_entries
from dynajit.capture.python.tensors.facts import number_in, tensor_type
from dynajit.capture.values.containers import (
    DictValue,
    DictViewValue,
    IteratorValue,
    ListValue,
    SetValue,
    TupleValue,
)
from dynajit.capture.values.functions import BoundMethod, CellValue, FunctionValue, NativeMethod
from dynajit.capture.values.objects import TracebackValue
from dynajit.capture.values.storage import DequeItems
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.capture.values.users_code import class_with_methods, user_method
from dynajit.core.types.symint import Number


def truth(machine: Machine, value: Value) -> Steps[bool]:
    """`bool(value)` as a Python bool."""
    if isinstance(value, Constant):
        machine.recorder.use(value)
        return bool(value.value)
    if isinstance(value, Scalar):
        return scalar_predicate(machine, value, "!=", 0)
    if isinstance(value, TensorValue):
        number = number_in(machine, value)
        if number is not None:
            return (yield from truth(machine, number))
        raise GraphBreak(breaks.DATA_DEPENDENT_BRANCH, "the truth of a tensor")
    if isinstance(value, TupleValue):
        machine.recorder.use(value)
        return bool(value.items)
    if isinstance(value, (ListValue, DictValue, SetValue)):
        return container_truth(machine, value)
    cls = class_with_methods(value, "__bool__", "__len__")
    if cls is not None:
        return (yield from _object_truth(machine, value, cls))
    if isinstance(value, DictViewValue):
        return bool(dict_entries(machine, value.dictionary))
    if isinstance(value, (Known, FunctionValue, BoundMethod, NativeMethod, CellValue)):
        machine.recorder.use(value)
        if user_method(value, "__bool__", "__len__") is not None:
            raise unsupported("bool", value)
        return bool(value.object) if isinstance(value, Known) else True
    if isinstance(value, (IteratorValue, TracebackValue)):
        machine.recorder.use(value)
        return True
    raise unsupported("bool", value)


def container_truth(machine: Machine, value: Any) -> bool:
    """Truth of a list, dict or set, without reading the items of one that was not read."""
    existing = machine.recorder.existing(value)
    if existing is not None and _is_as_it_was(machine, value):
        note_read(machine, value)
        is_filled = native_length(value, existing) > 0
        base = machine.recorder.first_source(value)
        machine.recorder.guard(base, Kind.TRUE_VALUE, is_filled, "truth of a container")
        return is_filled
    return length_of_container(machine, value) > 0


def _object_truth(machine: Machine, value: Value, cls: type) -> Steps[bool]:
    machine.recorder.use(value)
    for name in ("__bool__", "__len__"):
        if defines(cls, name):
            method = yield from machine.get_special(value, name)
            check = checked_bool if name == "__bool__" else length_is_true
            result = yield from then(machine.call(method, [], {}), check)
            if name == "__len__":
                return checked_length(machine, result) > 0
            if type_of(machine, result) is not bool:
                kind = type_name(result.python_type)
                raise_python(machine, TypeError, f"__bool__ should return bool, returned {kind}")
            return (yield from truth(machine, result))
    return True


def checked_length(machine: Machine, result: Value) -> int:
    """What `__len__` returned, as `len` takes it."""
    if not is_known(result):
        raise unsupported("len", result)
    found = as_python(machine, result)
    try:
        return range(found).__len__() if found >= 0 else _negative_length(machine)
    except TypeError as error:
        raise_python(machine, TypeError, *error.args)
        raise
    except OverflowError:
        raise_python(machine, OverflowError, "cannot fit 'int' into an index-sized integer")
        raise


def _negative_length(machine: Machine) -> NoReturn:
    raise_python(machine, ValueError, "__len__() should return >= 0")


def scalar_predicate(machine: Machine, value: Scalar, symbol: str, other: int | float) -> bool:
    """The outcome of comparing a run-time number with a constant; the outcome is guarded."""
    outcome = COMPARISONS[symbol](value.value, other)
    size = machine.recorder.sizes.expression_of(value) if type(other) is int else None
    if size is not None and (value.symbolic is not None or value.expression is not None):
        assert isinstance(other, int)
        machine.recorder.use_scalar_type(value)
        return machine.recorder.sizes.decide(symbol, size, other)
    if value.symbolic is not None or value.expression is not None:
        asked = Scalar(outcome, None, (symbol, (value, Constant(other))))
        machine.recorder.use_scalar_type(value)
        if not machine.recorder.guard_number(asked, "comparison of a number"):
            machine.recorder.specialise(value)
        return bool(outcome)
    fact = Predicate(value.python_type, ((symbol, other),), negated=not outcome)
    machine.recorder.guard(value.source, Kind.PREDICATE, fact, "comparison of a number")
    return bool(outcome)


def guard_other_text(machine: Machine, a: Value, b: Value) -> bool:
    """True if a text of the program's input differs from a text that stays the same; guarded.

    Only that it differs: one version serves every other text. What equals a constant is that
    constant, which the caller guards.
    """
    if not (isinstance(a, Constant) and isinstance(b, Constant)):
        return False
    if not (type(a.value) is type(b.value) is str) or a.value == b.value:
        return False
    if not _is_argument(a):
        a, b = b, a
    if not _is_argument(a) or _is_argument(b):
        return False
    machine.recorder.use(b)
    fact = Predicate(str, (("!=", b.value),))
    machine.recorder.guard(a.source, Kind.PREDICATE, fact, "comparison of a text")
    return True


def _is_argument(value: Constant) -> bool:
    """True for what an argument holds: other calls may bring another one."""
    return isinstance(getattr(value.source, "root", None), sources.Local)


def length(machine: Machine, value: Value) -> Steps[Number]:
    """`len(value)` as an int, which is symbolic for a tensor whose size varies."""
    if isinstance(value, Constant) and hasattr(value.value, "__len__"):
        machine.recorder.use(value)
        try:
            return len(value.value)
        except OverflowError as error:  # a range
            raise_python(machine, OverflowError, *error.args)
    if isinstance(value, TensorValue):
        shape = tensor_type(machine, value).shape
        if not shape:
            raise_python(machine, TypeError, "len() of a 0-d tensor")
        return shape[0]
    if isinstance(value, (TupleValue, ListValue, DictValue, SetValue)):
        return length_of_container(machine, value)
    if isinstance(value, DictViewValue):
        return len(dict_entries(machine, value.dictionary))
    cls = class_with_methods(value, "__len__")
    if cls is not None and defines(cls, "__len__"):
        method = yield from machine.get_special(value, "__len__")
        result = yield from machine.call(method, [], {})
        if isinstance(result, Scalar) and result.symbolic is not None:
            size: Number = result.symbolic
            return size
        return checked_length(machine, result)
    if isinstance(value, Known) and isinstance(value.object, enum.EnumMeta):
        return len(as_python(machine, value))
    if not defines(value.python_type, "__len__"):
        raise_python(
            machine,
            TypeError,
            f"object of type '{type_name(type_of(machine, value))}' has no len()",
        )
    raise unsupported("len", value)


def native_length(value: Any, existing: Any) -> int:
    """The length of an existing container, whatever a derived class says."""
    own: Any = deque if isinstance(value, DequeItems) else value.cls
    count: int = own.__len__(existing)
    return count


def _is_as_it_was(machine: Machine, value: Any) -> bool:
    """Whether nobody has read an object that existed, nor written to it."""
    heap = machine.heap
    return heap.unread(value.identity) is None and heap[value.identity] is None


def length_of_container(machine: Machine, value: Any) -> int:
    """Number of items of a tuple, list, dict or set."""
    if isinstance(value, TupleValue):
        machine.recorder.use(value)
        return len(value.items)
    existing = machine.recorder.existing(value)
    if existing is not None and _is_as_it_was(machine, value):
        note_read(machine, value)
        count = native_length(value, existing)
        machine.recorder.guard(machine.recorder.first_source(value), Kind.LENGTH, count, "length")
        return count
    if isinstance(value, ListValue):
        return list_length(machine, value)
    if isinstance(value, DictValue):
        return len(dict_entries(machine, value))
    return len(set_entries(machine, value))
