"""Numbers and truths of Python's that the launch computes, as values.

They are instances of forms that hold a tensor (`capture.library.counts`); those of an int also say
the least and the largest that it may be.

Python's ints have no end, those of the graph do: what may be too large is not computed.
"""

from typing import Final

from dynajit.capture.library import counts as forms
from dynajit.capture.machine.machine import Machine
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Constant, Value
from dynajit.capture.values.tensors import TensorValue

#: No count is beyond: sums of two fit an int64.
LARGEST_COUNT: Final = 1 << 61


def is_count(value: Value) -> bool:
    """True for a number or a truth that the launch computes."""
    kinds = (forms.COUNT, forms.FLOAT, forms.TRUTH)
    return isinstance(value, ObjectValue) and any(value.cls is kind for kind in kinds)


def counted_in(machine: Machine, value: Value) -> TensorValue | None:
    """The tensor of such a value; None for all others."""
    if not is_count(value):
        return None
    assert isinstance(value, ObjectValue)
    machine.recorder.use(value)
    found = machine.heap[value.identity].written["tensor"]
    assert isinstance(found, TensorValue)
    return found


def bounds_of(machine: Machine, value: Value) -> tuple[int, int] | None:
    """The least and the largest that an int may be; None: it is no plain int, or not known."""
    if isinstance(value, Constant) and type(value.value) is int:
        return value.value, value.value
    if not isinstance(value, ObjectValue) or value.cls is not forms.COUNT:
        return None
    written = machine.heap[value.identity].written
    low, high = written["low"], written["high"]
    assert isinstance(low, Constant) and isinstance(high, Constant)
    return low.value, high.value


def new_count(machine: Machine, tensor: TensorValue, low: int, high: int) -> ObjectValue:
    """The int that a tensor of one int64 holds."""
    written: dict[str, Value] = {"tensor": tensor, "low": Constant(low), "high": Constant(high)}
    return ObjectValue(machine.heap.allocate(ObjectContents(None, written)), forms.COUNT)


def new_float(machine: Machine, tensor: TensorValue) -> ObjectValue:
    """The float that a tensor of one float64 holds."""
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), forms.FLOAT)


def new_truth(machine: Machine, tensor: TensorValue) -> ObjectValue:
    """The truth that a tensor of one bool holds."""
    contents = ObjectContents(None, {"tensor": tensor})
    return ObjectValue(machine.heap.allocate(contents), forms.TRUTH)
