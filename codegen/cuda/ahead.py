"""What a team reads of its next row while it works on one: loads are always on their way.

Contract: for rows with column totals, whose blocks stay for many rows and are few on a
multiprocessor. Packs and numbers of a row that no data index and no condition chooses are read into
registers a row ahead; packs that all rows share are read once. The same numbers are computed.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import loop, unflattened
from dynajit.codegen.cuda.column_totals import Turns
from dynajit.codegen.cuda.units.packs import BASE, Packing
from dynajit.codegen.cuda.units.teams import REGISTER, Team
from dynajit.codegen.loops.loop_ir import Expression, Load, RowKernel, is_size
from dynajit.codegen.plan.lowering import unconditional
from dynajit.core.types import symint
from dynajit.core.types.dtypes import DType

FOLLOWING: Final = "following"
"""The variable of the row that is read ahead."""


def register_bytes(dtype: DType) -> int:
    """Registers of an element that several phases need: small ones are kept, and converted."""
    return dtype.itemsize if dtype.itemsize >= REGISTER else dtype.itemsize + REGISTER


class Ahead:
    """What of a kernel may be read ahead. Built once, then only read.

    Args:
        kernel: has elements along one loop.
        roots: all that it evaluates.
        packing: along that loop.
    """

    def __init__(self, kernel: RowKernel, roots: Sequence[Expression], packing: Packing) -> None:
        self.kernel, self.packing = kernel, packing
        self.rows = {axis.name for axis in kernel.rows}
        loads = [e for e in unconditional((*roots,)) if isinstance(e, Load)]
        whole = {load.expression for load in packing.loads(roots) if not load.path}
        here = self.rows | {packing.axis.name}
        packs = [e for e in loads if e in whole and not self._elsewhere(e, here)]
        self.streamed = [e for e in packs if self._changes(e)]
        self.steady = [e for e in packs if not self._changes(e)]
        self.numbers = [
            e for e in loads if self._changes(e) and not self._elsewhere(e, self.rows)
        ]  # fmt: skip

    def _changes(self, load: Load) -> bool:
        """True for a load that differs from row to row."""
        return bool(symint.symbols(load.offset) & self.rows)

    def _elsewhere(self, load: Load, allowed: set[str]) -> bool:
        """True for an offset that depends on more than some loops and sizes."""
        names = symint.symbols(load.offset) - allowed
        return not all(map(is_size, names))

    @property
    def packs(self) -> tuple[Load, ...]:
        """What is read in front of a row, or of all."""
        return (*self.streamed, *self.steady)

    @property
    def packs_bytes(self) -> int:
        """Registers of a pack of each, for the row at hand."""
        return self.packing.width * sum(register_bytes(load.dtype) for load in self.packs)

    @property
    def streamed_bytes(self) -> int:
        """Of a pack of each that differs from row to row."""
        return self.packing.width * sum(load.dtype.itemsize for load in self.streamed)


class AheadText:
    """Prints it. Built once, then only read.

    Args:
        ahead: what is read ahead.
        team: who reads; where it is not ahead, packs are read at the start of their row.
        integer: type of loop variables.
        turns: the loop over a lane's packs around some lines.
    """

    def __init__(self, ahead: Ahead, team: Team, integer: str, turns: Turns) -> None:
        self.ahead, self.team, self.integer, self.turns = ahead, team, integer, turns

    def known(self) -> dict[Expression, str]:
        """Elements of packs, as text in terms of `step` and `item`."""
        found: dict[Expression, str] = {}
        for array, loads in (("taken", self.ahead.streamed), ("steady", self.ahead.steady)):
            found |= {load: f"{array}{k}[step].at[item]" for k, load in enumerate(loads)}
        return found

    def known_numbers(self) -> dict[Expression, str]:
        """Numbers of the row at hand, as text."""
        if not self.team.is_ahead:
            return {}
        return {e: f"number{k}" for k, e in enumerate(self.ahead.numbers)}

    def first(self, root: Scope, row: str, stop: str) -> list[str]:
        """Lines in front of the rows: what all share, and the first row.

        Args:
            row, stop: the first row, and behind the last one.
        """
        lines = self._arrays(self.ahead.steady, "steady")
        lines += self._loads(self.ahead.steady, "steady", root)
        if not self.team.is_ahead:
            return lines
        lines += self._arrays(self.ahead.streamed, "next")
        lines += [f"{e.dtype.c} next_number{k};" for k, e in enumerate(self.ahead.numbers)]
        return [*lines, *self._fetch(root, row, stop)]

    def take(self, root: Scope, row: Scope, following: str, stop: str) -> list[str]:
        """Lines at the start of a row: its packs are taken, and the following row's are read.

        Args:
            root, row: the scopes of all rows and of this one.
            following, stop: the following row, and behind the last one.
        """
        ahead = self.ahead
        lines = self._arrays(ahead.streamed, "taken")
        if not self.team.is_ahead:
            return [*lines, *self._loads(ahead.streamed, "taken", row)]
        moves = [f"taken{k}[step] = next{k}[step];" for k in range(len(ahead.streamed))]
        steps = str(self.team.steps)
        lines += ["#pragma unroll", *loop("step", "0", steps, moves, integer="int")]
        lines += [
            f"const {e.dtype.c} number{k} = next_number{k};" for k, e in enumerate(ahead.numbers)
        ]
        return [*lines, *self._fetch(root, following, stop)]

    def _arrays(self, loads: Sequence[Load], name: str) -> list[str]:
        width = self.ahead.packing.width
        return [
            f"dj_pack<{load.dtype.c}, {width}> {name}{k}[{self.team.steps}];"
            for k, load in enumerate(loads)
        ]

    def _fetch(self, root: Scope, row: str, stop: str) -> list[str]:
        """Lines that read a row, if there is one."""
        rows = self.ahead.kernel.rows
        scope = root.child([axis.name for axis in rows])
        numbers = [f"next_number{k} = {scope.emit(e)};" for k, e in enumerate(self.ahead.numbers)]
        scope.add(*numbers)
        packs = self._loads(self.ahead.streamed, "next", scope)
        lines = [*unflattened(FOLLOWING, rows, self.integer), *scope.lines, *packs]
        return [
            "{",
            f"{INDENT}const {self.integer} {FOLLOWING} = {row};",
            f"{INDENT}if ({FOLLOWING} < {stop}) {{",
            *(INDENT * 2 + line for line in lines),
            f"{INDENT}}}",
            "}",
        ]

    def _loads(self, loads: Sequence[Load], array: str, around: Scope) -> list[str]:
        """The loop that reads packs."""
        if not loads:
            return []
        outer = around.child([BASE])
        own = [
            f"{array}{k}[step] = {self.ahead.packing.source(load, outer)};"
            for k, load in enumerate(loads)
        ]
        return self.turns([*outer.lines, *own])
