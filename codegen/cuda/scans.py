"""Scan kernels in CUDA: running values along rows by teams of lanes, along columns by threads.

Contract: along the last loop a team goes over a row in chunks: each lane combines neighbours, lanes
combine by shuffles and warps through shared memory, always the earlier values on the left, and what
the chunk gives is carried into the next one. Along other loops a thread walks down a column, beside
its neighbours in memory. Where rows or columns are too few to fill a GPU, they are cut into
sections: their totals are scanned first.
"""

from dataclasses import replace
from typing import Final

from dynajit.codegen.cuda.column_scans import ColumnScan
from dynajit.codegen.cuda.row_scans import RowScan
from dynajit.codegen.cuda.scan_sections import Sections
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import Choices
from dynajit.codegen.loops.loop_ir import ScanKernel, product_of, typical

FEW_COLUMNS: Final = 8
"""Columns that would leave lanes idle: each is a row then, whose elements lie apart."""

FEW_LINES: Final = {True: 128, False: 1 << 14}
"""Rows (True) and columns that do not fill a GPU: a block and a thread for each."""

LEAST_SECTION: Final = {True: 4096, False: 64}
"""Elements of a section at least."""

MOST_SECTIONS: Final = 256


def print_scan(kernel: ScanKernel, choices: Choices) -> tuple[CudaKernel, ...]:
    """The kernels, in running order; none if no element is computed."""
    if not any(phase.stores for phase in kernel.phases):
        return ()
    if 0 in (product_of((*kernel.outer, *kernel.columns)), kernel.scanned.size):
        return ()
    columns = product_of(kernel.columns)
    if kernel.columns and isinstance(columns, int) and columns <= FEW_COLUMNS:
        kernel = replace(kernel, outer=(*kernel.outer, *kernel.columns), columns=())
    printer = ColumnScan if kernel.columns else RowScan
    sections = Sections(kernel, _section_count(kernel, choices))
    if sections.count == 1:
        return (printer(kernel, sections, is_total=False).kernel_text(),)
    return (
        printer(kernel, sections, is_total=True).kernel_text(),
        sections.scan_text(),
        printer(kernel, sections, is_total=False).kernel_text(),
    )


def _section_count(kernel: ScanKernel, choices: Choices) -> int:
    """Sections of each row or column: more than one where they are few and long."""
    if sum(bool(phase.accumulates) for phase in kernel.phases) > 1:
        return 1  # what is scanned depends on another scan
    is_rows = not kernel.columns
    lines = typical(product_of((*kernel.outer, *kernel.columns)))
    if not isinstance(kernel.scanned.size, int) or lines >= FEW_LINES[is_rows]:
        return 1
    fitting = kernel.scanned.size // LEAST_SECTION[is_rows]
    wanted = -(-2 * FEW_LINES[is_rows] // max(lines, 1))
    default = max(1, min(fitting, wanted, MOST_SECTIONS))
    values = sorted({1, max(1, default // 2), default})
    return choices.of(kernel.name, "sections", values, default)
