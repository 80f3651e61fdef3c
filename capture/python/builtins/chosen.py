"""Functions of NumPy's that are called with elements which a mask chooses.

Contract: `called` gives what NumPy gives: sums and the like as numbers, functions of elements as
elements that the same mask chooses. All else breaks, and NumPy gets the array.
"""

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python
from dynajit.capture.python.tensors.arrays import is_array, new_array, tensor_in
from dynajit.capture.python.tensors.chosen import are_same, is_by_mask, new_chosen, parts_of
from dynajit.capture.python.tensors.counts import new_count
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.values.objects import DISGUISED, ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Constant, Known, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.core.types import dtypes
from dynajit.ops.functions.arrays import masked
from dynajit.ops.functions.arrays.table import ELEMENTWISE
from dynajit.ops.table.op_table import TABLE

#: Calls a function over tensors with arrays: machine, name, function, arguments, keywords.
Call: TypeAlias = Callable[[Machine, str, Any, list[Value], dict[str, Value]], Value]


def refused(name: str) -> GraphBreak:
    """The break where the chosen elements themselves are needed."""
    return GraphBreak(breaks.DATA_DEPENDENT_VALUE, f"numpy.{name} of elements that a mask chooses")


def chosen_by(machine: Machine, array: Value, key: Value) -> Value | None:
    """`array[key]` where the key is a mask of the array's first dims; None: it is another key."""
    if not _is_plain_array(array) or not _is_plain_array(key):
        return None
    tensor, mask = tensor_in(machine, array), tensor_in(machine, key)
    kind, chosen = tensor_type(machine, tensor), tensor_type(machine, mask)
    if chosen.dtype is not dtypes.bool_ or not chosen.rank:
        return None
    if tuple(kind.shape)[: chosen.rank] != tuple(chosen.shape):
        return None
    own = native_call(machine, TABLE.clone, [tensor], {})
    by = native_call(machine, TABLE.clone, [mask], {})
    assert isinstance(own, TensorValue) and isinstance(by, TensorValue)
    return new_chosen(machine, own, by)


def _is_plain_array(value: Value) -> bool:
    is_one = isinstance(value, ObjectValue) and is_array(value)
    return is_one and DISGUISED[value.cls] is np.ndarray  # type: ignore[attr-defined]


def called(
    machine: Machine,
    call: Call,
    name: str,
    function: Any,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """A function, called with such elements.

    Raises:
        GraphBreak: it needs the elements themselves.
    """
    reduce = masked.REDUCED.get(function)
    if reduce is not None:
        return _reduced(machine, name, reduce, args, keywords)
    if function not in ELEMENTWISE or keywords:
        raise refused(name)
    operands: list[Value] = []
    masks: list[TensorValue] = []
    for value in args:
        if is_by_mask(value):
            tensor, mask = parts_of(machine, value)
            masks.append(mask)
            operands.append(new_array(machine, tensor, np.ndarray))
        elif _is_number(value):
            operands.append(value)
        else:
            raise refused(name)
    if not all(are_same(machine, masks[0], mask) for mask in masks[1:]):
        raise refused(name)
    made = call(machine, name, function, operands, {})
    if not _is_plain_array(made):
        raise refused(name)
    return new_chosen(machine, tensor_in(machine, made), masks[0])


def _is_number(value: Value) -> bool:
    """Whether an operand has no dims."""
    if isinstance(value, (Constant, Scalar)):
        return value.python_type in (bool, int, float)
    if isinstance(value, Known):
        return isinstance(value.object, np.generic)
    return is_array(value) and not _is_plain_array(value)


def _reduced(
    machine: Machine, name: str, reduce: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Over all of them, or along the dim in which there are as many as the data say."""
    array, *rest = args
    axis = rest[0] if rest else keywords.get("axis", constant(None))
    is_plain = isinstance(axis, Constant) and (axis.value is None or type(axis.value) is int)
    if len(rest) > 1 or keywords.keys() - {"axis"} or not is_by_mask(array) or not is_plain:
        raise refused(name)
    if (rest and "axis" in keywords) or as_python(machine, axis) not in (None, 0):
        raise refused(name)
    tensor, mask = parts_of(machine, array)
    of = tensor if as_python(machine, axis) is None else mask
    dims = Known(tuple(range(tensor_type(machine, of).rank)))
    made = native_call(machine, named(reduce, name), [tensor, mask, dims], {})
    assert isinstance(made, TensorValue)
    kind = tensor_type(machine, made)
    return new_array(machine, made, np.ndarray if kind.rank else kind.dtype.numpy.type)


def named(function: Any, name: str) -> Any:
    """The function as breaks name it."""

    @functools.wraps(function, assigned=())
    def run(*args: Any) -> Any:
        return function(*args)

    run.__qualname__ = f"numpy.{name}"
    return run


def put_back(machine: Machine, array: Value, key: Value, value: ObjectValue) -> Value:
    """What `array` holds where `array[key] = value` is written, and the same mask has chosen both.

    Raises:
        GraphBreak: it may be another one.
    """
    name = "ndarray.__setitem__"
    tensor, mask = parts_of(machine, value)
    if not _is_plain_array(array) or not _is_plain_array(key):
        raise refused(name)
    target, chosen = tensor_in(machine, array), tensor_in(machine, key)
    shapes = [tuple(tensor_type(machine, each).shape) for each in (target, tensor)]
    if shapes[0] != shapes[1] or not are_same(machine, mask, chosen):
        raise refused(name)
    made = native_call(machine, named(masked.put, name), [target, chosen, tensor], {})
    assert isinstance(made, TensorValue)
    return new_array(machine, made, np.ndarray)


def update(machine: Machine, array: ObjectValue, value: Value) -> None:
    """`array op= ...`, of which `value` is the result.

    Raises:
        GraphBreak: that is another array, or NumPy refuses it.
    """
    if not is_by_mask(value):
        raise refused("ndarray.__setitem__")
    own, mask = parts_of(machine, array)
    made = native_call(
        machine, named(masked.updated, "add"), [own, parts_of(machine, value)[0]], {}
    )
    contents = ObjectContents(None, {"tensor": made, "mask": mask})
    machine.heap.write(array.identity, contents)


def fact(machine: Machine, name: str, array: ObjectValue) -> Value:
    """An attribute.

    Raises:
        GraphBreak: one that follows from how many there are, but for the number itself.
    """
    tensor, mask = parts_of(machine, array)
    kind, by = tensor_type(machine, tensor), tensor_type(machine, mask)
    if name == "dtype":
        return Known(kind.dtype.numpy)
    if name == "itemsize":
        return constant(kind.dtype.itemsize)
    if name == "ndim":
        return constant(1 + kind.rank - by.rank)
    if name != "size" or kind.rank != by.rank:
        raise refused(f"ndarray.{name}")
    return counted(machine, mask)


def counted(machine: Machine, tensor: TensorValue) -> Value:
    """How many elements of a tensor are not 0, as an int of Python's."""
    made = native_call(machine, named(masked.count, "count_nonzero"), [tensor], {})
    assert isinstance(made, TensorValue)
    return new_count(machine, made, int)
