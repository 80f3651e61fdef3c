"""Tensors: handles whose heap contents say which memory a tensor looks at, and what it holds now.

Memory is an object of its own in the heap: one `MemoryContents` for a tensor and all its views. It
says what the tensor that all views start at (the base) holds now; a view is the base and the steps
that lead to it. A write replaces the contents of the memory, so every alias sees it; the graph
itself stays pure. A tensor that nobody wrote to or made a view of needs no memory object. See
`capture.tensors.memory`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from dynajit.capture.values.containers import HeapValue
from dynajit.capture.values.symbolic import Value
from dynajit.core.records import record
from dynajit.core.types.value_types import Shape
from dynajit.ops.table.op_table import Op


@record(eq=False)
class Step:
    """One view operation.

    Args:
        op: a view row, or `index` by numbers, which eager execution makes a view of.
        attributes: its attributes.
        is_recorded: made while gradients are recorded.
        is_data: made by `.data`: writes through it are not counted.
        numbers: the numbers of `index`, a tensor that nobody else sees.
        is_part: one of several views that one call gave.
        counted_by: heap id of the tensor that looks at the memory since its `data` was assigned: a
            write through it counts in its version, and in no other.
        start: of a window (`index` by consecutive numbers, which eager execution has as a slice), a
            tensor that holds where it begins and that nobody else sees.
    """

    op: Op
    attributes: Mapping[str, Any]
    is_recorded: bool
    is_data: bool = False
    numbers: "TensorValue | None" = None
    is_part: bool = False
    counted_by: int = 0
    start: "TensorValue | None" = None


@record
class TensorContents:
    """What a tensor is.

    Args:
        value: the graph value that it held when it was read last, or None for an existing tensor
            that no operation has used yet.
        tensor: the existing tensor, for one that came from outside.
        memory: heap id of its MemoryContents; 0: memory of its own, never written, without views.
        steps: how it is made from the memory's base.
        version: number of writes to the memory when `value` was read.
        attributes: what was stored in it by name.
        has_new_data: `data` was assigned: it looks at memory of another tensor from then on.
        writes_since: number of writes through it from then on.
        is_new_leaf: the captured code has made a leaf of it that requires a gradient.
        is_frozen: the captured code has made a leaf of it that requires none.
    """

    value: Any
    tensor: Any = None
    memory: int = 0
    steps: tuple[Step, ...] = ()
    version: int = 0
    attributes: Mapping[str, Value] = field(default_factory=dict)
    has_new_data: bool = False
    writes_since: int = 0
    is_new_leaf: bool = False
    is_frozen: bool = False


@record
class MemoryContents:
    """What a piece of memory holds.

    Args:
        base: the tensor that all steps start at.
        value: what the base holds, with its history.
        elements: the same without the history, where a write was not recorded; else `value`.
        strides: of the base, in elements; None if not known.
        version: number of writes so far.
        bumps: how many of them count in the tensor's version.
        is_recorded: a write happened while gradients are recorded.
        has_history: a write changed what the base's gradient is.
        is_uncertain: it is not known whether some tensor looks at this memory or at a copy.
    """

    base: "TensorValue"
    value: Any
    elements: Any
    strides: Shape | None
    version: int = 0
    bumps: int = 0
    is_recorded: bool = False
    has_history: bool = False
    is_uncertain: bool = False

    @property
    def hidden(self) -> int:
        """Writes that do not count: those through `.data`."""
        return self.version - self.bumps


class TensorValue(HeapValue):
    """A tensor; `cls` is its exact class (Tensor, Parameter, ...)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"TensorValue({self.identity})"
