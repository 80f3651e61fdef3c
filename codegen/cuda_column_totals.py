"""Totals over rows for each column of a row kernel, in CUDA.

Contract: a thread meets the same columns in every row, so it keeps their accumulators in registers;
at the end the teams of a block are combined in order and the block leaves its accumulators, which
a column kernel folds: no atomics. Called by `codegen.cuda_rows`; `codegen.joining` asks `may_hold`.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.codegen.c_expressions import INDENT, Names, Scope
from dynajit.codegen.c_support import accumulator_names, combine, loop, start_values
from dynajit.codegen.cuda_support import folding
from dynajit.codegen.cuda_teams import Team
from dynajit.codegen.loops import Accumulate, Axis, Buffer, ColumnKernel, RowKernel

PART: Final = "part"
"""The loop variable of the blocks' accumulators."""


class ColumnTotals:
    """Prints the column totals of one row kernel. Built once, then only read.

    Args:
        kernel: has column totals, and elements along one loop of known size.
        team: keeps a number of packs that is known.
        width: elements of a pack.
        blocks: that leave accumulators.
    """

    def __init__(self, kernel: RowKernel, team: Team, width: int, blocks: int) -> None:
        self.kernel, self.team, self.width, self.blocks = kernel, team, width, blocks
        (self.axis,) = kernel.elements
        self.size = self.axis.known
        self.partials = {
            total.name: Buffer(
                f"{kernel.name}_{self._name(total)}", total.element[0].dtype, blocks * self.size
            )
            for total in kernel.column_totals
        }

    @property
    def shared_bytes(self) -> int:
        """Shared memory of the kernel for them."""
        if self.team.per_block == 1:
            return 0
        return self.size * sum(total.element[0].dtype.itemsize for total in self._totals)

    @property
    def _totals(self) -> Sequence[Accumulate]:
        return self.kernel.column_totals

    def _name(self, total: Accumulate) -> str:
        return accumulator_names(total, "c")[0]

    def _place(self, total: Accumulate) -> str:
        item = "item" if self.width > 1 else "0"
        return f"{self._name(total)}[step * {self.width} + {item}]"

    def start(self, root: Scope) -> list[str]:
        """Lines in front of the rows: every accumulator is the identity."""
        lines, count = [], self.team.steps * self.width
        for total in self._totals:
            (value,) = start_values(root, total)
            name = self._name(total)
            lines += [f"{total.element[0].dtype.c} {name}[{count}];", "#pragma unroll"]
            lines += loop("k", "0", str(count), [f"{name}[k] = {value};"], integer="int")
        return lines

    def meet(self, scope: Scope) -> None:
        """Append what combines one element into its column's accumulator."""
        for total in self._totals:
            place = self._place(total)
            self._combine(scope, total, place, place, scope.emit(total.element[0]))

    def _combine(self, scope: Scope, total: Accumulate, target: str, left: str, right: str) -> None:
        inner = Scope(scope.names)
        (value,) = combine(inner, total, [left], [right])
        scope.add("{", *inner.text(), f"{INDENT}{target} = {value};", "}")

    def finish(self, names: Names, turns: Sequence[str]) -> list[str]:
        """Lines behind the rows.

        Args:
            turns: the loop over the lane's packs, around a line `{}`.
        """
        if self.team.per_block == 1:
            place = f"[blockIdx.x * {self.size} + {self.axis.name}]"
            return self._within(turns, [
                f"{self.partials[total.name].name}{place} = {self._place(total)};"
                for total in self._totals
            ])  # fmt: skip
        inner, stores, declared = Scope(names), [], []
        for total in self._totals:
            memory = f"all_{self._name(total)}"
            target = f"{memory}[{self.axis.name}]"
            declared.append(f"__shared__ {total.element[0].dtype.c} {memory}[{self.size}];")
            following = Scope(names)
            self._combine(following, total, target, target, self._place(total))
            inner.add(f"if (turn == 0) {target} = {self._place(total)};", "else {")
            inner.add(*following.text(), "}")
            partial = self.partials[total.name].name
            stores.append(f"{partial}[blockIdx.x * {self.size} + k] = {memory}[k];")
        own = [f"if (threadIdx.x / {self.team.lanes} == turn) {{"]
        own += [INDENT + line for line in self._within(turns, inner.lines)]
        return [
            *declared,
            *loop("turn", "0", str(self.team.per_block), [*own, "}", "__syncthreads();"],
                  integer="int"),
            *loop("k", "threadIdx.x", str(self.size), stores, str(self.team.threads), "int"),
        ]  # fmt: skip

    def _within(self, turns: Sequence[str], lines: Sequence[str]) -> list[str]:
        found: list[str] = []
        for line in turns:
            indent = line[: len(line) - len(line.lstrip())]
            found += [indent + own for own in lines] if line.strip() == "{}" else [line]
        return found

    def fold(self) -> ColumnKernel:
        """The second stage: the blocks are the rows."""
        part = Axis(PART, self.blocks)
        accumulates = tuple(
            folding(
                total, [self.partials[total.name]], part.symbol * self.size + self.axis.symbol,
                self.axis.symbol,
            )
            for total in self._totals
        )  # fmt: skip
        return ColumnKernel(
            f"{self.kernel.name}_columns", (), (part,), (self.axis,), accumulates,
            self.kernel.column_stores,
        )  # fmt: skip
