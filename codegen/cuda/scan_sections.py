"""Rows and columns of scans in sections: what each starts from.

Contract: a first kernel leaves the total of every section, `scan_text` turns them into what each
section starts from, and a last kernel computes the running values.
"""

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import accumulator_names, combine_into, loop, start_values
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import Launch, define, names
from dynajit.codegen.loops.loop_ir import Accumulate, Buffer, Load, ScanKernel, product_of
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

THREADS = 256


class Sections:
    """The sections of one scan kernel. Built once, then only read.

    Args:
        kernel: has one phase that accumulates, if it has several sections.
        count: sections of each line.
    """

    def __init__(self, kernel: ScanKernel, count: int) -> None:
        self.kernel, self.count = kernel, count
        self.accumulates = [a for phase in kernel.phases for a in phase.accumulates]
        self.lines: Number = product_of((*kernel.outer, *kernel.columns))
        self.totals = {
            a.name: Buffer(f"{kernel.name}_{name}", a.element[0].dtype, self.lines * count)
            for a in self.accumulates
            for name in accumulator_names(a, "t")
        }

    def place(self, line: str, section: str) -> str:
        """Where the total of a section is; lines lie side by side."""
        return f"[{section} * {symint.c(self.lines)} + {line}]"

    def total(self, accumulate: Accumulate, line: str, section: str) -> str:
        """The total of a section, or what it starts from."""
        return f"{self.totals[accumulate.name].name}{self.place(line, section)}"

    def starts(self, line: Scope, kind: str, is_total: bool) -> list[str]:
        """Lines that declare what a section starts from.

        Args:
            kind: of the names of running values (`accumulator_names`).
            is_total: the section's total is computed: it starts from nothing.
        """
        found = []
        for accumulate in self.accumulates:
            (name,) = accumulator_names(accumulate, kind)
            start = start_values(line, accumulate)[0]
            if self.count > 1 and not is_total:
                start = self.total(accumulate, "line", "section")
            found.append(f"{accumulate.element[0].dtype.c} {name} = {start};")
        return found

    def scan_text(self) -> CudaKernel:
        """A thread per line: the total of a section becomes that of all before it."""
        integer = "int64_t"
        root = Scope(names(()))
        line, turn = Scope(root.names), Scope(root.names)
        for accumulate in self.accumulates:
            (running,) = accumulator_names(accumulate, "r")
            c = accumulate.element[0].dtype.c
            line.add(f"{c} {running} = {start_values(line, accumulate)[0]};")
            total = self.total(accumulate, "line", "section")
            turn.add(f"const {c} own_{running} = {total};", f"{total} = {running};")
            combine_into(turn, accumulate, [running], [f"own_{running}"])
        last = self.count - 1
        section = f"{last} - turn" if self.kernel.is_reverse else "turn"
        turns = [f"const int section = {section};", *turn.lines]
        lines = [*line.lines, *loop("turn", "0", str(self.count), turns, integer="int")]
        body = [
            f"const {integer} line = ({integer})blockIdx.x * {THREADS} + threadIdx.x;",
            f"if (line < {symint.c(self.lines)}) {{",
            *(INDENT + text for text in lines),
            "}",
        ]
        loads = [Load(buffer, 0) for buffer in self.totals.values()]
        blocks = symint.floordiv(self.lines + THREADS - 1, THREADS)
        return define(
            self.kernel, f"{self.kernel.name}_starts", body, Launch(blocks, THREADS),
            loads, self.totals.values(), (),
        )  # fmt: skip
