"""Products and the row kernels around them, computed for a few rows at a time.

Contract: `join(kernels, outside)` computes the same values in the same buffers, but for those that
nothing else reads: they have memory for the rows at hand only. What follows a product (bias,
activation, residual, softmax, norm) reads it while it is cached, and so does the next product.

A result that does not fit into a core's cache is written to memory and read again: for a product
over 64 that takes half as long as its multiplications. Measured on one core of an EPYC (Zen 3),
kernels one by one over panels: `relu(x @ w + b)` with 65536x64 @ 64x64 1.12, 65536x3 @ 3x256 1.43,
8192x128 @ 128x512 1.07, 65536x256 @ 256x256 1.04, 8192x512 @ 512x512 1.02; four such layers of 64
1.31, of 128 1.24, of 256 1.09.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.codegen.c import products as c_products
from dynajit.codegen.c import rows as c_rows
from dynajit.codegen.loops.buffers import loads, read, written
from dynajit.codegen.loops.loop_ir import Buffer, Kernel, MatmulKernel, PanelKernel, RowKernel
from dynajit.core.arrays import _products
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least
from dynajit.core.types.value_types import numel

PANEL_BYTES: Final = 1 << 17
"""Of the results of a panel: they stay in a core's second-level cache, beside packed operands."""

MOST_ROWS: Final = 378
"""Rows of a panel at most: what `_products.c` multiplies at a time."""

LEAST_BYTES: Final = 1 << 20
"""Size of a result from which it is worth keeping in cache."""

LARGEST_UNKNOWN: Final = 256
"""Columns of a result up to which it is, where the number of rows is not known: of a few rows,
columns would be shared among threads."""

NEAR: Final = 8
"""Kernels behind a panel's last one among which the next one is looked for."""

VECTOR: Final = 16
"""Columns that are packed side by side: the others of the last ones are zeros."""


def join(kernels: Sequence[Kernel], outside: frozenset[Buffer]) -> list[Kernel]:
    """The kernels, some of them in panels.

    Args:
        outside: buffers that are read when all kernels are done.
    """
    rest = [_Placed(kernel) for kernel in kernels]
    result: list[Kernel] = []
    while rest:
        first, *rest = rest
        group = _Group.begin(first.kernel)
        if group is None:
            result.append(first.kernel)
            continue
        rest = group.grow(rest)
        later = frozenset(buffer for placed in rest for buffer in placed.reads)
        result.append(group.kernel(first.kernel, outside | later))
    return result


class _Placed:
    """A kernel, and the buffers that it reads and writes."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.reads = frozenset(read(kernel))
        self.writes = frozenset(written(kernel))


class _Group:
    """Kernels that shall run panel by panel. Mutable: it grows.

    Args:
        product: the first of them.
    """

    def __init__(self, product: MatmulKernel) -> None:
        self.rows = product.rows
        self.steps: list[RowKernel | MatmulKernel] = [product]
        self.writers: dict[Buffer, RowKernel | MatmulKernel] = {product.result.buffer: product}
        self.links: dict[Buffer, int] = {}
        self.packed = _packed_bytes(product)

    @classmethod
    def begin(cls, kernel: Kernel) -> "_Group | None":
        """A group with a product that may be computed in panels."""
        if not isinstance(kernel, MatmulKernel) or not _is_worth(kernel):
            return None
        group = cls(kernel)
        return group if group.packed <= _products.KEPT_BYTES else None

    def grow(self, rest: list[_Placed]) -> list[_Placed]:
        """Takes in what follows; the other kernels remain."""
        left: list[_Placed] = []
        passed: set[Buffer] = set()
        while rest and len(left) < NEAR:
            candidate, *rest = rest
            if candidate.reads.isdisjoint(passed) and self._takes(candidate):
                continue
            left.append(candidate)
            passed |= candidate.writes
        return [*left, *rest]

    def _takes(self, placed: _Placed) -> bool:
        """True if a kernel joins the group: what it reads of it are rows of large results."""
        kernel = placed.kernel
        inside = [buffer for buffer in placed.reads if buffer in self.writers]
        if not inside or not isinstance(kernel, (RowKernel, MatmulKernel)):
            return False
        if isinstance(kernel, MatmulKernel):
            fits = self._fits_product(kernel)
        else:
            fits = c_rows.may_run_between(kernel)
        widths = {buffer: self._width(buffer, kernel) for buffer in inside} if fits else {}
        links = {buffer: width for buffer, width in widths.items() if width is not None}
        if len(links) < len(inside) or not any(_is_large(buffer) for buffer in links):
            return False
        self.links.update(links)
        self.steps.append(kernel)
        self.writers.update(dict.fromkeys(placed.writes, kernel))
        if isinstance(kernel, MatmulKernel):
            self.packed += _packed_bytes(kernel)
        return True

    def _fits_product(self, kernel: MatmulKernel) -> bool:
        """True for a product over the same rows whose right operand is known before."""
        return (
            kernel.rows == self.rows
            and _is_possible(kernel)
            and kernel.right.buffer not in self.writers
            and self.packed + _packed_bytes(kernel) <= _products.KEPT_BYTES
        )

    def _width(self, buffer: Buffer, reader: RowKernel | MatmulKernel) -> int | None:
        """Elements of a row of a result, if the reader's rows are its rows; else None."""
        width = symint.floordiv(buffer.size, self.rows)
        if not isinstance(width, int) or width * self.rows != buffer.size:
            return None
        is_read = _reads_rows(reader, buffer, self.rows, width)
        is_written = _writes_rows(self.writers[buffer], buffer, self.rows, width)
        return width if is_read and is_written else None

    def kernel(self, alone: Kernel, outside: frozenset[Buffer]) -> Kernel:
        """What runs in place of the first product, `alone` if the group has nothing else."""
        if len(self.steps) == 1:
            return alone
        first, last = self.steps[0], self.steps[-1]
        name = f"{first.name}_and_{last.name.partition('_')[2]}"
        row = sum(width * buffer.dtype.itemsize for buffer, width in self.links.items())
        panel = max(PANEL_BYTES // row // c_products.TILE_ROWS, 1)
        panel = min(panel * c_products.TILE_ROWS, MOST_ROWS)
        local = tuple(link for link in self.links.items() if link[0] not in outside)
        return PanelKernel(name, self.rows, panel, tuple(self.steps), local)


def packed_columns(product: MatmulKernel) -> int:
    """Elements that the right operand takes when it is packed."""
    assert isinstance(product.inner, int) and isinstance(product.columns, int)
    return product.inner * (-(-product.columns // VECTOR) * VECTOR)


def _packed_bytes(product: MatmulKernel) -> int:
    return packed_columns(product) * product.result.buffer.dtype.itemsize


def _is_possible(product: MatmulKernel) -> bool:
    """True if the rows of a product can be computed apart."""
    inner, columns = product.inner, product.columns
    if not isinstance(inner, int) or not isinstance(columns, int) or product.batch:
        return False
    return 0 < inner <= c_products.MOST_INNER and columns > 1 and c_products.calls_gemm(product)


def _is_worth(product: MatmulKernel) -> bool:
    """True if it is possible, and the result large enough, and not wider than high."""
    if not _is_possible(product) or not _is_large(product.result.buffer):
        return False
    widest = product.rows if isinstance(product.rows, int) else LARGEST_UNKNOWN
    return is_at_least(widest, product.columns)


def _is_large(buffer: Buffer) -> bool:
    """True if a result does not stay in a core's cache, as far as its size is known."""
    return not is_at_least((LEAST_BYTES - 1) // buffer.dtype.itemsize, buffer.size)


def _reads_rows(reader: RowKernel | MatmulKernel, buffer: Buffer, rows: Number, width: int) -> bool:
    """True if a kernel reads of a buffer, for a row of its own, that row only."""
    if isinstance(reader, RowKernel):
        offsets = [load.offset for load in loads(reader) if load.buffer == buffer]
        return all(_is_in_row(offset, reader, rows, width) for offset in offsets)
    left = reader.left
    assert isinstance(reader.inner, int)
    is_inside = isinstance(left.offset, int) and 0 <= left.offset <= width - reader.inner
    return (left.row_stride, left.column_stride) == (width, 1) and is_inside


def _writes_rows(
    writer: RowKernel | MatmulKernel, buffer: Buffer, rows: Number, width: int
) -> bool:
    """True if a kernel writes to a buffer, for a row of its own, that row only."""
    if isinstance(writer, MatmulKernel):
        return writer.columns == width
    stores = [*(store for phase in writer.phases for store in phase.stores), *writer.row_stores]
    offsets = [store.offset for store in stores if store.buffer == buffer]
    return all(_is_in_row(offset, writer, rows, width) for offset in offsets)


def _is_in_row(offset: Number, kernel: RowKernel, rows: Number, width: int) -> bool:
    """True if an offset of a kernel's row lies in the same row of a buffer of that width."""
    if not kernel.rows:  # its only row is all of the buffer
        (axis,) = kernel.elements
        return axis.size == rows * width and offset == axis.symbol
    position: Number = 0
    for axis in kernel.rows:
        position = position * axis.size + axis.symbol
    count = numel(tuple(axis.size for axis in kernel.rows))
    inside = symint.substitute(offset, {axis.name: 0 for axis in kernel.rows})
    if count != rows or offset - inside != position * width:
        return False
    low, high = symint.bounds(inside)
    return low is not None and high is not None and low >= 0 and high < width
