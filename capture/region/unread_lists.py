"""Lists that turns of a loop have filled and that nobody has read, where a region ends.

What each holds becomes rows of one result (`capture.library.rows`), in place of a result for each
row. Contract: rows that several lists hold are made once; what somebody has read stays as it is.
"""

from typing import Any

import numpy as np

from dynajit.capture.library import arrays as forms
from dynajit.capture.library import rows
from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.tensors.counts import handed_on, is_count
from dynajit.capture.tensors.rows import Run
from dynajit.capture.values.objects import ObjectContents, ObjectValue
from dynajit.capture.values.symbolic import Constant, Scalar, Value, constant
from dynajit.capture.values.tensors import TensorValue


def settle_unread(machine: Machine) -> None:
    """Let unread lists hold parts of rows."""
    heap = machine.heap
    made: dict[Any, ObjectValue] = {}
    for identity, unread in heap.unread_objects():
        parts = unread.parts()
        if parts is not None and all(_is_simple(machine, part) for part in parts):
            items = [_part(machine, p, made) if isinstance(p, Run) else p for p in parts]
            heap.settle(identity, tuple(items))


def _is_simple(machine: Machine, part: Value | Run) -> bool:
    """Whether what a list holds is no container, which might hold the list."""
    return isinstance(part, (Run, Constant, Scalar)) or handed_on(machine, part) is not None


def _part(machine: Machine, run: Run, made: dict[Any, ObjectValue]) -> ObjectValue:
    """A part of the rows of all turns, which are in `made` by their stack."""
    whole = made.get(run.stack.node)
    if whole is None:
        tensor, kind = machine.recorder.new_tensor(run.stack), _kind_of(run.like)
        whole = _new(machine, rows.Rows, {"tensor": tensor, "kind": constant(kind)})
        made[run.stack.node] = whole
    ends = {"first": constant(run.first), "stop": constant(run.first + run.count)}
    return _new(machine, rows.Part, {"rows": whole, **ends})


def _new(machine: Machine, form: type, fields: dict[str, Value]) -> ObjectValue:
    return ObjectValue(machine.heap.allocate(ObjectContents(None, fields)), form)


def _kind_of(like: Value) -> str:
    if isinstance(like, TensorValue):
        return rows.TENSORS
    if is_count(like):
        return rows.NUMBERS
    assert isinstance(like, ObjectValue)
    return rows.ARRAYS if like.cls is forms.FORMS[np.ndarray] else rows.NUMPY_NUMBERS


__all__ = ["settle_unread"]
