"""Facts about tensors: types, which are guarded, and whether gradients flow."""

from dynajit.capture.machine.machine import Machine
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.types.value_types import TensorType


def tensor_type(machine: Machine, value: TensorValue) -> TensorType:
    """Type of a tensor; that of an existing one is guarded."""
    machine.recorder.use(value)
    contents: TensorContents = machine.heap[value.identity]
    if contents.value is not None:
        found: TensorType = contents.value.node.type
        return found
    known: TensorType = machine.recorder.tensor_type(value)
    return known


def needs_gradient(machine: Machine, value: TensorValue) -> bool:
    """`value.requires_grad`."""
    machine.recorder.use(value)
    contents: TensorContents = machine.heap[value.identity]
    if contents.is_new_leaf:
        return True
    if contents.has_new_data and contents.tensor is not None:
        return bool(contents.tensor.requires_grad)
    if contents.value is not None:
        return bool(machine.recorder.builder.needs_gradient(machine.recorder.graph_value(value)))
    if any(memory.has_history for memory in tensor_memory.written(machine.recorder)):
        machine.recorder.graph_value(value)  # an input shares no storage with what got the history
    return bool(contents.tensor.requires_grad)
