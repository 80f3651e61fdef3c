"""Memory of which each turn of a loop writes one row: `history[i] = x`, `a[:, i] += b`.

Where the place of the row goes up or down with the counter, no two turns write the same one, and a
turn reads no other row of the memory, the loop need not hand the memory on: it collects the rows,
and what they are written to is read as it was in front of the loop. Behind the loop one write puts
all rows where they belong.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from dynajit.core.records import record
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
        row: what the turn leaves there.
        changes: to the turn, if it writes nothing.
    """

    dim: int
    number: graph.Node
    row: graph.Node
    changes: Changes

    def write(self, whole: graph.Value, rows: graph.Value, steps: Steps) -> graph.Value:
        """What memory holds behind the loop.

        Args:
            whole: what it held in front of it.
            rows: what each turn has left, in a new dim 0.
            steps: the places.
        """
        rank, count, dim = len(whole.shape), rows.shape[0], self.dim
        size = int(whole.shape[dim])
        ends = [steps.at(turn) % size for turn in (0, int(count) - 1)]
        found = rows if steps.step > 0 else TABLE.flip(rows, dims=(0,))
        order = (*range(1, dim + 1), 0, *range(dim + 1, rank))
        found = TABLE.permute(found, dims=order) if dim else found
        start = tuple(min(ends) if d == dim else 0 for d in range(rank))
        stop = tuple(max(ends) + 1 if d == dim else n for d, n in enumerate(whole.shape))
        step = tuple(abs(steps.step) if d == dim else 1 for d in range(rank))
        made: graph.Value = TABLE.slice_scatter(whole, found, start=start, stop=stop, step=step)
        return made


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
    dim, number = found.place
    steps, size = numbers[number], stand.type.shape[dim]
    if not isinstance(steps, Steps) or not steps.step:
        return None
    first, last = sorted(steps.at(turn) for turn in (0, turns - 1))
    if not (first >= 0 and last < size) and not (-size <= first and last < 0):
        return None
    return RowWrites(dim, number, found.parts[-1], Changes(found.replaced, found.gone, found.read))


class _Reading:
    """A memory through a turn. Mutable: nodes are looked at in their order."""

    def __init__(self, stand: graph.Node, numbers: Collection[graph.Node]) -> None:
        self._stand, self._numbers = stand, numbers
        self.level = {stand: 0}  #: node that holds all of it -> after how many writes
        self.parts: list[graph.Node] = []
        self.place: tuple[int, graph.Node] | None = None
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
        shape = tuple(n for d, n in enumerate(kind.shape) if d != self.place[0])
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
        """Whether a node reads or writes the row at the one number."""
        dims, number = node.attributes["dims"], node.args[1]
        while isinstance(number, graph.Node) and number.op is not None:
            if number.op.name not in (*_SAME, "full"):
                return False
            number = number.args[0]
        if len(dims) != 1 or not isinstance(number, graph.Node) or number not in self._numbers:
            return False
        place = dims[0], number
        self.place = self.place or place
        return self.place == place


__all__ = ["NO_CHANGES", "Changes", "RowWrites", "row_writes"]
