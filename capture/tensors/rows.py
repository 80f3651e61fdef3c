"""Tensors that turns of a loop have left in a list: rows of one array, recorded when asked for.

A loop that appends to a list gives what it appended as one array, the stack. The list holds a
tensor per turn, with memory of its own, as plain Python leaves it; but as long as nobody looks at
one of them, it is no node of the graph. `joined` puts rows side by side by reading the stack.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dynajit.capture.values.tensors import TensorContents, TensorValue
from dynajit.core.records import record
from dynajit.core.types.device import Device
from dynajit.core.types.dtypes import DType
from dynajit.core.types.value_types import Shape, TensorType, contiguous_strides
from dynajit.eager import Tensor
from dynajit.ir import graph
from dynajit.ops import TABLE
from dynajit.ops.table.op_table import Op

if TYPE_CHECKING:
    from dynajit.capture.machine.recording import Recorder
    from dynajit.capture.tensors.graph_building import Builder

#: Neighbours that are read as one part of their stack.
FEWEST_ROWS: Final = 3


class Row(graph.Value):
    """A copy of a row of a stack. Mutable: its node is recorded when it is first asked for, and
    again where that was undone.

    Args:
        builder: of the capture.
        stack: rows along its first dim.
        index: which row.
    """

    __slots__ = ("_node", "_place", "identity", "index", "stack")

    def __init__(self, builder: "Builder", stack: graph.Value, index: int) -> None:
        self.builder: Any = builder
        self.stack, self.index = stack, index
        self.identity = 0
        self._node: graph.Node | None = None
        self._place = 0

    @property
    def node(self) -> graph.Node:  # type: ignore[override]
        """The node; recorded now if it is not."""
        builder = self.builder
        nodes, node = builder.nodes, self._node
        if node is not None and self._place < len(nodes) and nodes[self._place] is node:
            return node
        row = builder.call(TABLE.select, [self.stack], {"dim": 0, "index": self.index})
        builder.note_gradient(row, builder.needs_gradient(self.stack))
        made: graph.Node = builder.copy_of(row)
        self._node, self._place = made, len(nodes) - 1
        builder.recorder.owners[made] = self.identity
        return made

    @property
    def type(self) -> TensorType:
        """Type of the row."""
        return TensorType(self.stack.shape[1:], self.stack.dtype, self.stack.device)

    @property
    def shape(self) -> Shape:
        """Shape of the row."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.stack.dtype

    @property
    def device(self) -> Device:
        """Where the stack is."""
        return self.stack.device


def new_row(recorder: "Recorder", stack: graph.Value, index: int) -> TensorValue:
    """A tensor that holds a row, in memory of its own."""
    row = Row(recorder.builder, stack, index)
    row.identity = recorder.heap.allocate(TensorContents(row))
    return TensorValue(row.identity, Tensor)


@record
class Run:
    """Rows that follow each other in one stack.

    Args:
        stack: rows along its first dim.
        first: index of the first row.
        count: how many there are.
        like: a value that is of the class of what holds them; None: tensors.
    """

    stack: graph.Value
    first: int
    count: int
    like: Any = None


#: What is put side by side: a tensor of its own, or rows.
Part: TypeAlias = graph.Value | Run


def joined(builder: "Builder", op: Op, values: Sequence[Any], dim: int) -> graph.Value | None:
    """`cat` or `stack` of values; None where they are not mostly neighbours in stacks."""
    if len(values) < FEWEST_ROWS or not any(isinstance(value, Row) for value in values):
        return None
    parts = list(_parts(values))
    if all(isinstance(part, graph.Value) for part in parts):
        return None
    if op is TABLE.stack and any(value.shape != values[0].shape for value in values):
        return None
    return joined_parts(builder, op, parts, dim)


def joined_parts(builder: "Builder", op: Op, parts: Sequence[Part], dim: int) -> graph.Value | None:
    """`cat` or `stack` of tensors and rows; None where some have another layout than row-major.

    Args:
        parts: one or more, of one dtype; of shapes that go together.
    """
    if not all(_is_row_major(builder, part) for part in parts if isinstance(part, graph.Value)):
        return None
    is_new_dim = op is TABLE.stack
    pieces = []
    for part in parts:
        if isinstance(part, Run):
            pieces.append(_piece(part, dim, is_new_dim))
        elif is_new_dim:
            shape = part.shape
            pieces.append(TABLE.reshape(part, shape=(*shape[:dim], 1, *shape[dim:])))
        else:
            pieces.append(part)
    found: graph.Value
    if len(pieces) == 1:
        found = graph.Value(builder, builder.copy_of(pieces[0]))
    else:
        found = TABLE.cat(*pieces, dim=dim)
    builder.lay_out(found, contiguous_strides(found.shape))
    return found


def _is_row_major(builder: "Builder", value: graph.Value) -> bool:
    return bool(builder.strides_of(value) == contiguous_strides(value.shape))


def _parts(values: Sequence[Any]) -> Iterator[Part]:
    run: list[Row] = []
    for value in values:
        follows = (
            run
            and isinstance(value, Row)
            and value.stack is run[0].stack
            and value.index == run[-1].index + 1
        )
        if run and not follows:
            yield from _part(run)
            run = []
        if isinstance(value, Row):
            run.append(value)
        else:
            yield value
    yield from _part(run)


def _part(run: list[Row]) -> list[Part]:
    if len(run) < FEWEST_ROWS:
        return [*run]
    return [Run(run[0].stack, run[0].index, len(run))]


def _piece(run: Run, dim: int, is_new_dim: bool) -> graph.Value:
    """Rows of a stack along a dim."""
    stack, first, count = run.stack, run.first, run.count
    rank = len(stack.shape)
    found: graph.Value = stack
    if count < stack.shape[0]:
        start = (first, *(0,) * (rank - 1))
        stop = (first + count, *stack.shape[1:])
        found = TABLE.slice(stack, start=start, stop=stop, step=(1,) * rank)
    if dim:
        order = (*range(1, dim + 1), 0, *range(dim + 1, rank))
        found = TABLE.permute(found, dims=order)
    if is_new_dim:
        return found
    shape = list(stack.shape[1:])
    shape[dim] *= count
    return TABLE.reshape(found, shape=tuple(shape))  # type: ignore[no-any-return]


__all__ = ["FEWEST_ROWS", "Part", "Row", "Run", "joined", "joined_parts", "new_row"]
