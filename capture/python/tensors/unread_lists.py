"""Lists that turns of a loop have filled and that nobody has read: joined without being made.

Such a list stands for thousands of tensors that are rows of one array; what puts them side by side
needs the array alone. Contract: everything here answers None for what is not known to be alike, and
then the list is read as any other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from dynajit.capture.machine.machine import Machine
from dynajit.capture.python.contents import list_items, note_read
from dynajit.capture.tensors.rows import Run, joined_parts
from dynajit.capture.values.containers import ListValue
from dynajit.capture.values.symbolic import Constant, Value, constant
from dynajit.capture.values.tensors import TensorValue
from dynajit.ops import TABLE
from dynajit.ops.functions.arrays import shapes, types
from dynajit.ops.functions.shapes.index import cat, stack
from dynajit.ops.table.op_table import Op

#: Functions that put the items of a list side by side -> the row, and what they call the dim; "":
#: they have no such argument.
_JOINING: Final[dict[Any, tuple[Op, str]]] = {
    stack: (TABLE.stack, "dim"),
    cat: (TABLE.cat, "dim"),
    shapes.stack: (TABLE.stack, "axis"),
    shapes.concatenate: (TABLE.cat, "axis"),
    types.array: (TABLE.stack, ""),
    types.asarray: (TABLE.stack, ""),
}


def is_unread(machine: Machine, value: Value) -> bool:
    """True for a list that turns of a loop have filled and that nobody has read."""
    return isinstance(value, ListValue) and machine.heap.unread(value.identity) is not None


def told_items(machine: Machine, value: ListValue) -> Sequence[Value]:
    """Items of a list; of rows that nobody has asked for one that has their class."""
    unread = machine.heap.unread(value.identity)
    parts = None if unread is None else unread.parts()
    if parts is None:
        return list_items(machine, value)
    return [part.like if isinstance(part, Run) else part for part in parts]


def joined(
    machine: Machine,
    function: Callable[..., Any],
    args: Sequence[Value],
    keywords: Mapping[str, Value],
    takes: Callable[[Value], bool],
    tensor_of: Callable[[Value], TensorValue | None],
) -> TensorValue | None:
    """What a call gives that puts the items of an unread list side by side, over one tensor.

    Args:
        takes: whether the function takes such items.
        tensor_of: the tensor that an item is, or is over; None for other ones.
    """
    if function not in _JOINING or not args or not isinstance(args[0], ListValue):
        return None
    op, name = _JOINING[function]
    unread = machine.heap.unread(args[0].identity)
    parts = None if unread is None else unread.parts()
    dims = [*args[1:], *keywords.values()]
    if parts is None or len(dims) > bool(name) or not keywords.keys() <= {name}:
        return None
    run = next(part for part in parts if isinstance(part, Run))
    if not takes(run.like):
        return None
    rank = len(run.stack.shape) - (op is TABLE.cat)
    dim = dims[0] if dims else constant(0)
    if not isinstance(dim, Constant) or type(dim.value) is not int or not -rank <= dim.value < rank:
        return None
    whole = _alike(machine, parts, run, tensor_of)
    if whole is None:
        return None
    note_read(machine, args[0])
    recorder = machine.recorder
    made = joined_parts(recorder.builder, op, whole, dim.value % rank)
    return None if made is None else recorder.new_tensor(made)


def _alike(
    machine: Machine,
    parts: Sequence[Value | Run],
    run: Run,
    tensor_of: Callable[[Value], TensorValue | None],
) -> list[Any] | None:
    """Parts as the graph has them, where all are of one class, dtype, device and shape."""
    kind = run.stack.dtype, run.stack.device, run.stack.shape[1:]
    found: list[Any] = []
    for part in parts:
        if isinstance(part, Run):
            found.append(part)
            continue
        tensor = tensor_of(part) if part.python_type is run.like.python_type else None
        held = None if tensor is None else machine.recorder.graph_value(tensor)
        if held is None or (held.dtype, held.device, held.shape) != kind:
            return None
        found.append(held)
    return found


__all__ = ["is_unread", "joined", "told_items"]
