"""Arrays and numbers of NumPy's as values: instances of forms that hold a tensor."""

from collections.abc import Sequence
from types import FunctionType
from typing import Any, Final

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.library import arrays as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.facts import needs_gradient, tensor_type
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import TupleValue
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.types.value_types import contiguous_strides

_DISPATCHER: Final[type] = type(np.flip)

_FORMS: Final = frozenset(forms.FORMS.values())


def is_array(value: Value) -> bool:
    """True for an array or a number of NumPy's."""
    return isinstance(value, ObjectValue) and any(value.cls is form for form in _FORMS)


def tensor_in(machine: Machine, value: Any) -> TensorValue:
    """The tensor of an array or a number."""
    machine.recorder.use(value)
    contents: ObjectContents = machine.heap[value.identity]
    found = contents.written["tensor"]
    assert isinstance(found, TensorValue)
    return found


def new_array(machine: Machine, tensor: TensorValue, cls: Any) -> ObjectValue:
    """An array, or a number of a class of NumPy's, over a tensor."""
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), forms.FORMS[cls])


def strides_of_tensor(machine: Machine, value: TensorValue) -> Any:
    """Strides in elements that eager execution would give; None if not known."""
    contents: TensorContents = machine.heap[value.identity]
    if contents.value is None:
        known = tensor_type(machine, value)
        return known.strides or contiguous_strides(known.shape)
    return tensor_memory.strides_of(machine.recorder, value)


def array_of(machine: Machine, tensor: TensorValue) -> Value:
    """`tensor.numpy()`: an array over the same memory."""
    if needs_gradient(machine, tensor):
        raise GraphBreak(breaks.DATA_DEPENDENT_VALUE, "Tensor.numpy() with a gradient")
    return new_array(machine, machine.recorder.alias_of(tensor), np.ndarray)


def written_in_python(target: Any, arguments: Sequence[Value]) -> FunctionType | None:
    """NumPy's own Python code of one of its functions; None: it has none, or would ask arguments.

    Arguments that override functions (`__array_function__`) are asked first: only arrays, numbers
    and containers of Python's are known to be silent.
    """
    if type(target) is not _DISPATCHER or not all(map(_is_silent, arguments)):
        return None
    written = getattr(target, "_implementation", None)
    return written if isinstance(written, FunctionType) else None


def _is_silent(value: Value) -> bool:
    if isinstance(value, TupleValue):
        return all(map(_is_silent, value.items))
    return is_array(value) or not isinstance(value, (ObjectValue, TensorValue))
