"""How the parameters of a unit are split into parts of processes.

Contract: a split says which run of a parameter's elements a process has, and where it lies in the
process's part; parts have one length in all processes. What is gathered has part after part, what
modules look at has parameter after parameter: a split turns one into the other. Two ways: all
parameters in one line, cut evenly (`Even`), and each cut along its first dim (`ByRows`), as a
`DTensor` lies.
"""

import math
from collections.abc import Sequence

from dynajit.core.records import record
from dynajit.distributed.groups import ProcessGroup
from dynajit.distributed.tensor.layouts import Layout, chunk
from dynajit.eager.tensor.tensor import Tensor
from dynajit.ops.functions.creation.creation import zeros
from dynajit.ops.functions.shapes.index import cat


@record
class Members:
    """The processes that share a unit.

    Args:
        group: those that have a part each.
        across: those that have the same part, in hybrid sharding; None: this process alone.
        smaller: those between which parameters are split from forward to backward; None: `group`.
    """

    group: ProcessGroup
    across: ProcessGroup | None = None
    smaller: ProcessGroup | None = None

    @property
    def count(self) -> int:
        """How many processes compute with the unit, each on its part of a batch."""
        return self.group.size() * (1 if self.across is None else self.across.size())


class Even:
    """All parameters in one line, cut evenly, whatever their shapes are. Immutable.

    Args:
        shapes: of the parameters.
        parts: how many there are.
    """

    def __init__(self, shapes: Sequence[tuple[int, ...]], parts: int) -> None:
        counts = [math.prod(shape) for shape in shapes]
        self.starts = [sum(counts[:index]) for index in range(len(counts))]
        self.counts = counts
        self.part_count = -(-sum(counts) // parts)
        self.whole_count = self.part_count * parts
        self.layouts: list[Layout] | None = None

    def span(self, index: int, rank: int) -> tuple[int, int, int]:
        """Of a parameter's part in a process: where it begins in the parameter and in the
        process's part, and its length."""
        begin = rank * self.part_count
        start, count = self.starts[index], self.counts[index]
        first = min(max(begin, start), start + count)
        last = max(min(begin + self.part_count, start + count), first)
        return first - start, max(first - begin, 0), last - first

    def whole(self, gathered: Tensor) -> Tensor:
        """Parameter after parameter, of part after part."""
        return gathered

    def by_part(self, whole: Tensor) -> Tensor:
        """Part after part, of parameter after parameter."""
        return whole


class ByRows:
    """Each parameter cut along its first dim, as `Tensor.chunk` cuts. Immutable.

    Args:
        shapes: of the parameters, of one dim or more.
        parts: how many there are.
        layouts: the DTensors that the parts are of.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], parts: int, layouts: list[Layout]
    ) -> None:
        self.layouts: list[Layout] | None = layouts
        self._parts = parts
        self._rows = [(shape[0], math.prod(shape[1:])) for shape in shapes]
        self._steps = [-(-rows // parts) * size for rows, size in self._rows]
        self._starts = [sum(self._steps[:index]) for index in range(len(shapes))]
        self.part_count = sum(self._steps)
        self.whole_count = sum(rows * size for rows, size in self._rows)

    def span(self, index: int, rank: int) -> tuple[int, int, int]:
        """See `Even.span`."""
        rows, size = self._rows[index]
        start, length = chunk(rows, self._parts, rank)
        return start * size, self._starts[index], length * size

    def whole(self, gathered: Tensor) -> Tensor:
        """See `Even.whole`: a copy, unless there is one part."""
        if self._parts == 1:
            return gathered
        table = gathered.view(self._parts, self.part_count)
        runs = []
        for (rows, size), start, step in zip(self._rows, self._starts, self._steps, strict=True):
            runs.append(table[:, start : start + step].reshape(-1)[: rows * size])
        found: Tensor = cat(runs)
        return found

    def by_part(self, whole: Tensor) -> Tensor:
        """See `Even.by_part`: a copy, unless there is one part; what is missing is 0."""
        if self._parts == 1:
            return whole
        table = zeros((self._parts, self.part_count), dtype=whole.dtype, device=whole.device)
        begin = 0
        for index, (rows, size) in enumerate(self._rows):
            count = rows * size
            for rank in range(self._parts):
                inside, at, length = self.span(index, rank)
                run = whole[begin + inside : begin + inside + length]
                table[rank, at : at + length].copy_(run)
            begin += count
        found: Tensor = table.view(-1)
        return found


Split = Even | ByRows
