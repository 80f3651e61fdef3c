"""Memory of which each turn of a loop writes one row, or a window of rows: `history[i] = x`,
`a[:, i] += b`, `out[i:i + 8] = y`.

Where the place of the row goes up or down with the counter, no two turns write the same one, and a
turn reads no other row of the memory, the loop need not hand the memory on: it collects the rows,
and what they are written to is read as it was in front of the loop. Behind the loop one write puts
all rows where they belong.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, cast

from dynajit.core.records import record
from dynajit.core.types.dtypes import int64
from dynajit.core.types.value_types import TensorType
from dynajit.ir import graph
from dynajit.ir.loops import Steps
from dynajit.ops import TABLE


@record(eq=False)
class Changes:
    """What is done to the nodes of a turn when they become the body of a loop.

    Args:
        replaced: node -> what is read instead.
        gone: nodes that are left out.
        certain: nodes that refuse no operand.
    """

    replaced: Mapping[graph.Node, graph.Node] = field(default_factory=dict)
    gone: Collection[graph.Node] = ()
    certain: Collection[graph.Node] = ()

    def applied(self, node: graph.Node) -> graph.Node:
        """What is read where the turn reads a node."""
        while node in self.replaced:
            node = self.replaced[node]
        return node


NO_CHANGES: Final = Changes()

#: Rows whose result has the elements of their operand, in its shape here.
_SAME: Final = frozenset({"reshape", "detach", "clone"})


@record(eq=False)
class RowWrites:
    """What a turn does to a row.

    Args:
        dim: along which there are rows.
        number: the input of the turn that is the row's place.
        length: how many rows a window has; None: it is one row, without the dim.
        row: what the turn leaves there.
        changes: to the turn, if it writes nothing.
    """

    dim: int
    number: graph.Node
    length: int | None
    row: graph.Node
    changes: Changes

    def write(self, whole: graph.Value, rows: graph.Value, steps: Steps) -> graph.Value:
        """What memory holds behind the loop.

        Args:
            whole: what it held in front of it.
            rows: what each turn has left, in a new dim 0.
            steps: the places.
        """
        rank, count, dim = len(whole.shape), int(rows.shape[0]), self.dim
        length, stride = self.length or 1, abs(steps.step)
        first = min(steps.at(turn) % int(whole.shape[dim]) for turn in (0, count - 1))
        found = rows if steps.step > 0 else TABLE.flip(rows, dims=(0,))
        kept = len(rows.shape) - 1
        order = (*range(1, dim + 1), 0, *range(dim + 1, kept + 1))
        found = TABLE.permute(found, dims=order) if dim else found
        many = tuple(count * length if d == dim else n for d, n in enumerate(whole.shape))
        found = found if self.length is None else TABLE.reshape(found, shape=many)
        if length > 1 and stride != length:
            places = TABLE.reshape(
                _places(first, stride, count, length, whole), shape=(1, many[dim])
            )
            return cast(graph.Value, TABLE.index_put(whole, places, found, dims=(dim,)))
        end = first + (count - 1) * stride + length
        start = tuple(first if d == dim else 0 for d in range(rank))
        stop = tuple(end if d == dim else n for d, n in enumerate(whole.shape))
        step = tuple(stride // length if d == dim else 1 for d in range(rank))
        made: graph.Value = TABLE.slice_scatter(whole, found, start=start, stop=stop, step=step)
        return made


def _places(first: int, stride: int, count: int, length: int, whole: graph.Value) -> graph.Value:
    """Where the rows of windows are that begin at equal distances, for `index_put`."""
    given = {"dtype": int64, "device": whole.device}
    starts = TABLE.reshape(TABLE.arange(first, stride, size=count, **given), shape=(count, 1))
    each = TABLE.add(starts, TABLE.arange(0, 1, size=length, **given))
    found: graph.Value = TABLE.reshape(each, shape=(1, count * length))
    return found


def row_writes(
    stand: graph.Node,
    after: graph.Node,
    taken: Sequence[graph.Node],
    numbers: Mapping[graph.Node, Any],
    turns: int,
) -> RowWrites | None:
    """What a turn does to the rows of a memory; None where it does anything else.

    Args:
        stand: what the memory holds in front of the turn.
        after: what it holds after it.
        taken: the turn.
        numbers: inputs of the turn that are numbers -> what they are in every turn.
        turns: how many there are.
    """
    found = _Reading(stand, numbers)
    if not all(found.follows(node) for node in taken) or not found.parts:
        return None
    if found.level.get(after) != len(found.parts):
        return None
    assert found.place is not None
    dim, number, length = found.place
    steps, size = numbers[number], stand.type.shape[dim]
    if not isinstance(steps, Steps) or abs(steps.step) < (length or 1):
        return None
    first, last = sorted(steps.at(turn) for turn in (0, turns - 1))
    is_from_front = first >= 0 and last + (length or 1) <= size
    if not is_from_front and not (length is None and -size <= first and last < 0):
        return None
    changes = Changes(found.replaced, found.gone, found.read)
    return RowWrites(dim, number, length, found.parts[-1], changes)


class _Reading:
    """A memory through a turn. Mutable: nodes are looked at in their order."""

    def __init__(self, stand: graph.Node, numbers: Collection[graph.Node]) -> None:
        self._stand, self._numbers = stand, numbers
        self.level = {stand: 0}  #: node that holds all of it -> after how many writes
        self.parts: list[graph.Node] = []
        #: (dim, number, length of a window)
        self.place: tuple[int, graph.Node, int | None] | None = None
        self.replaced: dict[graph.Node, graph.Node] = {}
        self.gone: set[graph.Node] = set()
        self.read: set[graph.Node] = set()

    def follows(self, node: graph.Node) -> bool:
        """Whether a node does nothing to the memory but with one row of it."""
        wholes = [a for a in node.args if isinstance(a, graph.Node) and a in self.level]
        if not wholes:
            return True
        if len(wholes) > 1 or node.args[0] is not wholes[0] or node.op is None:
            return False
        level = self.level[wholes[0]]
        if node.op.name in _SAME and node.type.shape == self._stand.type.shape:
            self.level[node] = level
            self._drop(node, None if level else self._stand)
            return True
        if node.op.name not in ("index", "index_put") or not self._is_at_place(node):
            return False
        if node.op.name == "index_put":
            return self._writes(node, level)
        if level:
            self._drop(node, self.parts[level - 1])
        else:
            self.read.add(node)
        return True

    def _writes(self, node: graph.Node, level: int) -> bool:
        part, kind = node.args[2], node.type
        assert isinstance(kind, TensorType) and self.place is not None
        dim, _, length = self.place
        taken = () if length is None else (length,)
        shape = (*kind.shape[:dim], *taken, *kind.shape[dim + 1 :])
        if level != len(self.parts) or not isinstance(part, graph.Node):
            return False
        if not isinstance(part.type, TensorType) or part.type.shape != shape:
            return False
        if part.type.dtype is not kind.dtype:
            return False
        self.parts.append(part)
        self.level[node] = len(self.parts)
        self._drop(node, None)
        return True

    def _drop(self, node: graph.Node, instead: graph.Node | None) -> None:
        self.gone.add(node)
        if instead is not None:
            self.replaced[node] = instead

    def _is_at_place(self, node: graph.Node) -> bool:
        """Whether a node reads or writes the row, or the window, at the one number."""
        dims, number, length = node.attributes["dims"], _unchanged(node.args[1]), None
        if isinstance(number, graph.Node) and number.op is TABLE.add:
            each, number = map(_unchanged, number.args)
            length = _length_of_window(each)
            if length is None:
                return False
        if len(dims) != 1 or not isinstance(number, graph.Node) or number not in self._numbers:
            return False
        place = dims[0], number, length
        self.place = self.place or place
        return self.place == place


def _unchanged(argument: Any) -> Any:
    """The number, or the numbers, that rows show which change none."""
    while isinstance(argument, graph.Node) and argument.op is not None:
        if argument.op.name not in (*_SAME, "full"):
            break
        argument = argument.args[0]
    return argument


def _length_of_window(each: Any) -> int | None:
    """How many numbers there are, from 0 on; None: others."""
    if not isinstance(each, graph.Node) or each.op is not TABLE.arange or each.args != (0, 1):
        return None
    size = each.attributes["size"]
    return size if isinstance(size, int) else None


__all__ = ["NO_CHANGES", "Changes", "RowWrites", "row_writes"]
