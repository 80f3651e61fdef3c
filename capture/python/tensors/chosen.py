"""Elements of an array that a mask chooses, as values: both whole, as long as that will do.

`a[a > 0]` has as many elements as the data say. What is computed of it by elements is computed of
all elements of `a`, and sums take those that count; where the array itself is needed it is made of
what the launch gives.
"""

from typing import Any, TypeGuard

from dynajit.capture.library import arrays as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Value
from dynajit.capture.values.tensors import TensorValue
from dynajit.ir.node import Node
from dynajit.ops import TABLE

#: Nodes of two masks that are compared.
MOST_NODES = 32


def is_by_mask(value: Value) -> TypeGuard[ObjectValue]:
    """True for elements that a mask chooses."""
    return isinstance(value, ObjectValue) and value.cls is forms.CHOSEN_FORM


def new_chosen(machine: Machine, tensor: TensorValue, mask: TensorValue) -> ObjectValue:
    """The elements of a tensor, which nobody else writes to, that a mask of its shape chooses."""
    contents = ObjectContents(None, {"tensor": tensor, "mask": mask})
    return ObjectValue(machine.heap.allocate(contents), forms.CHOSEN_FORM)


def parts_of(machine: Machine, value: ObjectValue) -> tuple[TensorValue, TensorValue]:
    """The tensor and the mask."""
    written = machine.heap[value.identity].written
    tensor, mask = written["tensor"], written["mask"]
    assert isinstance(tensor, TensorValue) and isinstance(mask, TensorValue)
    return tensor, mask


def are_same(machine: Machine, one: TensorValue, other: TensorValue) -> bool:
    """Whether two tensors were computed alike, of the same values."""
    recorder = machine.recorder
    pairs: list[tuple[Any, Any]] = [
        (recorder.graph_value(one).node, recorder.graph_value(other).node)
    ]
    for count, pair in enumerate(pairs):
        a, b = map(_original, pair)
        if a is b:
            continue
        if not isinstance(a, Node) or not isinstance(b, Node):
            if type(a) is type(b) and repr(a) == repr(b):
                continue
            return False
        is_alike = a.op is b.op and a.op is not None and repr(a.attributes) == repr(b.attributes)
        is_plain = a.op is not None and a.op.kind.name in ("POINTWISE", "MOVEMENT", "REDUCTION")
        if not is_alike or not is_plain or len(a.args) != len(b.args) or count > MOST_NODES:
            return False
        pairs += zip(a.args, b.args, strict=True)
    return True


def _original(node: Any) -> Any:
    """What a copy was made of."""
    while isinstance(node, Node) and node.op is TABLE.clone:
        node = node.args[0]
    return node
