"""`as_strided` in captured code: a copy by known places, which stands for the view.

Contract: no operation of graphs looks at memory by strides. Where a tensor lies row by row, the
elements are gathered, and gradients are added up where places overlap. Nobody may tell the copy
from a view: writes to either are breaks, and if both outlive the region, capture starts again and
breaks here (`builtins.written_derivatives.refuse_copies`).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dynajit.capture import breaks
from dynajit.capture.breaks import GraphBreak
from dynajit.capture.machine.exceptions import NotKnown
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.basic import as_python
from dynajit.capture.python.contents import list_items
from dynajit.capture.python.tensors.facts import tensor_type
from dynajit.capture.python.tensors.native_calls import native_call
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.containers import ListValue
from dynajit.capture.values.symbolic import NONE, Value
from dynajit.capture.values.tensors import MemoryContents, TensorValue
from dynajit.core.types.value_types import numel


def as_strided(
    machine: Machine, value: TensorValue, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """`value.as_strided(size, stride, storage_offset)` of a tensor that lies row by row.

    Raises:
        GraphBreak: the places are not known, or are not those of the tensor's own elements.
    """
    given = dict(zip(("size", "stride", "storage_offset"), args, strict=False)) | keywords
    places = _places(machine, value, given)
    if machine.refusals.copies:
        raise GraphBreak(breaks.TENSOR_METHOD, "as_strided of memory that outlives the region")
    recorder = machine.recorder

    def gather(tensor: Any) -> Any:
        index = recorder.builder.constant(places.reshape(-1))
        return tensor.reshape(-1).index_select(0, index).reshape(places.shape)

    gather.__qualname__ = "Tensor.as_strided"
    made = native_call(machine, gather, [value], {})
    assert isinstance(made, TensorValue)
    bases = []
    for tensor in (value, made):
        memory = tensor_memory.memory_of(recorder, tensor)
        contents: MemoryContents = machine.heap[memory]
        machine.heap.write(memory, replace(contents, is_uncertain=True))
        bases.append(contents.base)
    recorder.copies.append((bases[0], bases[1]))
    return made


def _places(machine: Machine, value: TensorValue, given: dict[str, Value]) -> Any:
    """The places of the elements, counted from the first of the tensor, as an array of ints."""
    try:
        size, stride = (_numbers(machine, given[name]) for name in ("size", "stride"))
        offset = as_python(machine, given.get("storage_offset", NONE))
    except (KeyError, NotKnown):
        raise GraphBreak(breaks.TENSOR_METHOD, "Tensor.as_strided() by unknown numbers") from None
    shape = tensor_type(machine, value).shape
    strides = tensor_memory.strides_of(machine.recorder, value)
    is_whole = machine.recorder.existing(value) is None and not machine.heap[value.identity].steps
    if strides is None or not all(isinstance(n, int) for n in (*shape, *strides)):
        raise GraphBreak(breaks.TENSOR_METHOD, "Tensor.as_strided() of varying sizes")
    ones = [step for step, n in zip(strides, shape, strict=True) if n != 1]
    expected = [int(numel(shape[d + 1 :])) for d, n in enumerate(shape) if n != 1]
    counts = all(type(n) is int and n >= 0 for n in (*size, *stride))
    if ones != expected or len(size) != len(stride) or not counts or (offset and not is_whole):
        raise GraphBreak(breaks.TENSOR_METHOD, "Tensor.as_strided() of other memory")
    places = np.full(size, offset or 0, np.int64)
    for d, (count, step) in enumerate(zip(size, stride, strict=True)):
        line = np.arange(count, dtype=np.int64) * step
        places = places + line.reshape((-1,) + (1,) * (len(size) - d - 1))
    if places.size and places.max() >= int(numel(shape)):
        raise GraphBreak(breaks.TENSOR_FAILURE, "Tensor.as_strided() beyond the tensor")
    return places


def _numbers(machine: Machine, value: Value) -> tuple[Any, ...]:
    if isinstance(value, ListValue):
        return tuple(as_python(machine, item) for item in list_items(machine, value))
    found = as_python(machine, value)
    return found if isinstance(found, tuple) else (found,)
