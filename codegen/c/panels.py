"""Panels of rows in C: products and row kernels, one after the other for a few rows at a time.

Contract: rows are cut by sizes and by the machine's cores, not by the team, and each is computed by
one thread: the bits of a result are those of the kernels one by one. Right operands are packed once
for all panels of a thread.
"""

from dynajit.codegen.c import products as c_products
from dynajit.codegen.c.panel_groups import packed_columns
from dynajit.codegen.c.rows import RowsBetween
from dynajit.codegen.c.support import Function, Work, block, define_over, loop, parallel
from dynajit.codegen.loops.loop_ir import Buffer, MatmulKernel, PanelKernel, RowKernel
from dynajit.core.types import symint
from dynajit.core.types.symint import Number


def print_panels(kernel: PanelKernel) -> Function:
    """The C function of products and row kernels."""
    return _Panels(kernel).function()


class _Panels:
    """Prints one kernel. Mutable: parameters are collected.

    Args:
        kernel: what is printed.
    """

    def __init__(self, kernel: PanelKernel) -> None:
        self.kernel = kernel
        self.read: list[Buffer] = []
        self.written: list[Buffer] = []
        self.scratch: list[Buffer] = []
        self.fails = False
        work: Number = 0
        for step in kernel.steps:
            if isinstance(step, MatmulKernel):
                work = work + step.rows * step.inner * step.columns
        self.tiles = c_products.tiles_of_rows(kernel.rows, work)
        self.work = Work(work, c_products.TEAM_WORK)
        condition = self.work.condition
        self.team = f"{condition} && runtime->is_silenced" if condition else ""

    def function(self) -> Function:
        kernel, rows = self.kernel, symint.c(self.kernel.rows)
        panel = [f"const int64_t bottom = dj_min_index(top + {kernel.panel}, past);"]
        panel += [line for buffer, width in kernel.local for line in self._local(buffer, width)]
        packed = 0
        for step in kernel.steps:
            if isinstance(step, MatmulKernel):
                panel += block("", self._product(step, packed))
                packed += packed_columns(step)
            else:
                panel += block("", self._rows(step))
        # As a condition on `top` this would have GCC compile a first turn of the loop for itself.
        panel.append("packed = DJ_IS_PACKED;")
        task = [
            f"const int64_t first = task * {self.tiles.rows};",
            f"const int64_t past = dj_min_index(first + {self.tiles.rows}, {rows});",
            "int packed = 0;",
            *loop("top", "first", "past", panel, step=str(kernel.panel)),
        ]
        count, team = self.tiles.row_count, "runtime->is_silenced ? threads : 1"
        body = [*self.tiles.head, *parallel(self.work, "task", count, task, team)]
        local = {buffer for buffer, _ in kernel.local}
        written = [buffer for buffer in dict.fromkeys(self.written) if buffer not in local]
        read = [b for b in dict.fromkeys(self.read) if b not in local and b not in written]
        written += self.scratch
        return define_over(kernel, kernel.name, body, read, written, self.fails, self.team)

    def _local(self, buffer: Buffer, width: int) -> list[str]:
        """A result of which a tile has memory for the rows at hand, as if all were there."""
        own = -(-self.kernel.panel * width // 64) * 64
        memory = Buffer(f"{buffer.name}_panel", buffer.dtype, own * self.tiles.most_rows)
        self.scratch.append(memory)
        c = buffer.dtype.c
        place = f"{memory.name} + task * {own}"
        return [f"{c} *{buffer.name} = DJ_BEGIN({c}, {place}, top * {width});"]

    def _product(self, step: MatmulKernel, packed: int) -> list[str]:
        self.read += [step.left.buffer, step.right.buffer]
        self.read += [] if step.bias is None else [step.bias]
        self.written.append(step.result.buffer)
        return [
            f"const int64_t row = top, rows = bottom - top, columns = {step.columns};",
            "const int64_t column = 0, left = 0, right = 0, result = 0;",
            *c_products.call(step, str(packed), "packed"),
        ]

    def _rows(self, step: RowKernel) -> list[str]:
        ends = ("top", "bottom")
        if not step.rows:
            (axis,) = step.elements
            width = symint.c(symint.floordiv(axis.size, self.kernel.rows))
            ends = (f"top * {width}", f"bottom * {width}")
        between = RowsBetween(step, ends, frozenset(buffer for buffer, _ in self.kernel.local))
        self.read += between.read
        self.written += between.written
        self.fails |= between.fails
        return between.lines
