"""Totals over rows for each column of a row kernel, in CUDA.

Contract: a thread meets the same columns in every row, so it keeps their accumulators in registers;
at the end the teams of a block are combined in order and the block leaves its accumulators, which a
column kernel folds: no atomics.
"""

from collections.abc import Callable, Sequence
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Names, Scope
from dynajit.codegen.c.support import accumulator_names, combine, loop, start_values
from dynajit.codegen.cuda.units.packs import BASE, PACK_BYTES, Packing
from dynajit.codegen.cuda.units.support import folding, items
from dynajit.codegen.cuda.units.teams import Team
from dynajit.codegen.loops.loop_ir import Accumulate, Axis, Buffer, ColumnKernel, RowKernel

PART: Final = "part"
"""The loop variable of the blocks' accumulators."""

Turns = Callable[[Sequence[str]], list[str]]
"""The loop over a lane's packs around some lines."""


class ColumnTotals:
    """Prints the column totals of one row kernel. Built once, then only read.

    Args:
        kernel: has column totals, and elements along one loop of known size.
        team: keeps a number of packs that is known.
        packing: along that loop.
        blocks: that leave accumulators.
    """

    def __init__(self, kernel: RowKernel, team: Team, packing: Packing, blocks: int) -> None:
        self.kernel, self.team, self.packing, self.blocks = kernel, team, packing, blocks
        self.width = packing.width
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
        widest = max(total.element[0].dtype.itemsize for total in self._totals)
        return self.team.threads * self.team.steps * self.width * widest

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

    def finish(self, names: Names, turns: Turns, place: Sequence[str]) -> list[str]:
        """Lines behind the rows.

        Args:
            turns: the loop over the lane's packs around some lines.
            place: lines that define the pack's first element.
        """
        if self.team.per_block == 1:
            lines = [line for total in self._totals for line in self._written(total)]
            return turns([*place, *lines])
        lines = [f"__shared__ __align__(16) unsigned char all_columns[{self.shared_bytes}];"]
        for number, total in enumerate(self._totals):
            lines += ["__syncthreads();"] * (number > 0)
            lines += self._combined(names, total, turns)
        return lines

    def _written(self, total: Accumulate) -> list[str]:
        """Lines by which a lane of a whole block leaves one pack."""
        partial, packing = self.partials[total.name], self.packing
        if self.width > 1 and not packing.has_tail:
            pack_bytes = min(PACK_BYTES, self.width * partial.dtype.itemsize)
            place = f"{partial.name} + {self._target(BASE)}"
            vector = f"dj_is_aligned<{pack_bytes}>({partial.name})"
            return [
                "{",
                f"{INDENT}dj_pack<{partial.dtype.c}, {self.width}> all;",
                *(INDENT + line for line in items(
                    self.width, [f"all.at[item] = {self._place(total)};"])),
                f"{INDENT}dj_store_pack({place}, all, {vector});",
                "}",
            ]  # fmt: skip
        store = f"{partial.name}[{self._target(self.axis.name)}] = {self._place(total)};"
        return packing.print_items([store], "int") if self.width > 1 else [store]

    def _target(self, column: str) -> str:
        return f"blockIdx.x * {self.size} + {column}"

    def _combined(self, names: Names, total: Accumulate, turns: Turns) -> list[str]:
        """Lines by which the teams of a block become one, in order.

        Neighbouring threads write and read neighbouring words.
        """
        team, c = self.team, total.element[0].dtype.c
        lanes, own = team.lanes, team.lanes * team.steps * self.width
        memory = f"all_{self._name(total)}"
        word = f"(step * {self.width} + item) * {lanes} + lane"
        write = f"{memory}[threadIdx.x / {lanes} * {own} + {word}] = {self._place(total)};"
        following = Scope(names)
        self._combine(following, total, "all", "all", f"{memory}[turn * {own} + word]")
        partial = self.partials[total.name].name
        read = [
            f"const int pack = word / {lanes * self.width} * {lanes} + word % {lanes};",
            f"const int column = pack * {self.width} + word / {lanes} % {self.width};",
            f"if (column < {self.size}) {{",
            f"{INDENT}{c} all = {memory}[word];",
            *(INDENT + line for line in loop(
                "turn", "1", str(team.per_block), following.lines, integer="int")),
            f"{INDENT}{partial}[{self._target('column')}] = all;",
            "}",
        ]  # fmt: skip
        return [
            f"{c} *const {memory} = ({c} *)all_columns;",
            *turns(items(self.width, [write])),
            "__syncthreads();",
            *loop("word", "threadIdx.x", str(own), read, str(team.threads), "int"),
        ]

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
