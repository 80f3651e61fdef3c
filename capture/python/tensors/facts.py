"""Facts about tensors: types, which are guarded, and whether gradients flow."""

from typing import Final

from dynajit.capture.machine.machine import Machine
from dynajit.capture.places import sources
from dynajit.capture.tensors import memory as tensor_memory
from dynajit.capture.tensors.known_contents import known_tensor
from dynajit.capture.values.symbolic import Value, constant
from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.types import dtypes
from dynajit.core.types.device import CPU
from dynajit.core.types.value_types import TensorType


def tensor_type(machine: Machine, value: TensorValue) -> TensorType:
    """Type of a tensor; that of an existing one is guarded."""
    machine.recorder.use(value)
    contents: TensorContents = machine.heap[value.identity]
    if contents.value is not None:
        found: TensorType = contents.value.type
        return found
    known: TensorType = machine.recorder.tensor_type(value)
    return known


#: Whose numbers C reads as Python does.
_READABLE: Final = (
    dtypes.bool_, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.float32, dtypes.float64,
)  # fmt: skip

#: Numbers of one tensor that are read one by one.
MOST_NUMBERS: Final = 16


def number_in(machine: Machine, value: TensorValue) -> Value | None:
    """The one number that a tensor holds, as the program reads it; None: it is not known before
    the launch."""
    found = numbers_in(machine, value)
    return found[0] if found is not None and len(found) == 1 else None


def numbers_in(machine: Machine, value: TensorValue) -> list[Value] | None:
    """The numbers of a tensor of one dimension, or none: constants of the graph, or what an
    argument that was not written holds when the region begins."""
    known = known_tensor(machine.recorder, value)
    if known is not None:
        return [constant(number) for number in known.flatten().tolist()]
    existing = machine.recorder.existing(value)
    if existing is None or not _is_as_at_entry(machine, value):
        return None
    type = tensor_type(machine, value)
    is_plain = type.device is CPU and any(type.dtype is dtype for dtype in _READABLE)
    place = machine.recorder.first_source(value)
    if not is_plain or isinstance(place.root, sources.Constant) or not place.is_guardable:
        return None
    if type.rank > 1 or not 0 < existing.array.size <= MOST_NUMBERS:
        return None
    if not all(isinstance(size, int) for size in type.shape):
        return None
    return [
        machine.recorder.wrap(existing.array.item(index), sources.Contents(place, index))
        for index in range(existing.array.size)
    ]


def _is_as_at_entry(machine: Machine, value: TensorValue) -> bool:
    """True if nothing was written to a tensor so far."""
    recorder = machine.recorder
    if tensor_memory.written(recorder):
        recorder.graph_value(value, is_detached=True)  # guards keep it apart from what was written
    contents: TensorContents = machine.heap[value.identity]
    if contents.has_new_data:
        return False
    return not contents.memory or not machine.heap[contents.memory].version


def needs_gradient(machine: Machine, value: TensorValue) -> bool:
    """`value.requires_grad`."""
    machine.recorder.use(value)
    contents: TensorContents = machine.heap[value.identity]
    if contents.is_new_leaf or contents.is_frozen:
        return contents.is_new_leaf
    if contents.has_new_data and contents.tensor is not None:
        return bool(contents.tensor.requires_grad)
    if contents.value is not None:
        return bool(machine.recorder.builder.needs_gradient(machine.recorder.graph_value(value)))
    if any(memory.has_history for memory in tensor_memory.written(machine.recorder)):
        machine.recorder.graph_value(value)  # an input shares no storage with what got the history
    return bool(contents.tensor.requires_grad)
