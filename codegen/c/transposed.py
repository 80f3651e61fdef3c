"""Pointwise kernels that read across the order in which they write, in C: transposed copies.

Contract: such arrays are read in tiles, each in the order of its memory, and the results are
computed from the tiles; every element is computed as elsewhere, so bits are those of a plain loop.
`fits` says for which kernels; `codegen.c.rows`, which calls this module, prints the others.

A loop that reads one element of each line has every line brought again for its neighbours, once
the lines between have filled the cache. Measured on a Xeon (Sapphire Rapids), transposed copy of
4096^2 floats: 150 ms in one loop, 22 ms in tiles of 64 by 64, 35 ms of 16 by 16; tiles whose rows
do not end on a power of two are read column by column without meeting one cache set: 10 % faster.
"""

from collections.abc import Sequence

from dynajit.codegen.c.expressions import Names, Scope
from dynajit.codegen.c.support import (
    Function,
    block,
    ceil_div,
    define,
    loop,
    parallel,
    target,
    unflattened,
    work_of,
)
from dynajit.codegen.loops.loop_ir import Axis, Load, RowKernel, product_of
from dynajit.codegen.plan import transposes
from dynajit.core.types import symint
from dynajit.core.types.symint import is_at_least

TILE_BYTES = 1 << 15
"""Memory of all tiles of a kernel at most, about a first-level cache."""

SIDES = (64, 32, 16)
"""Rows and columns of a tile, the best first."""


def fits(kernel: RowKernel) -> bool:
    """True if a pointwise kernel reads some array along one of its outer loops."""
    found = transposes.find(kernel, is_at_least)
    return found is not None and _side(found.loads) is not None


def print_transposed(kernel: RowKernel) -> Function:
    """The C function of a kernel that `fits`."""
    found = transposes.find(kernel, is_at_least)
    assert found is not None
    near, loads = found.near, found.loads
    side = _side(loads)
    assert side is not None
    outer = tuple(axis for axis in kernel.rows if axis is not near)
    stores = kernel.phases[0].stores
    expressions = transposes.expressions_of(stores)
    work = work_of(expressions, product_of((*kernel.rows, *kernel.elements)))
    root = Scope(Names(()))
    around = root.child([axis.name for axis in outer])
    tiles = _tiles(kernel, near, loads, side, around)
    blocks = symint.c(ceil_div(near.size, side))
    lines = [
        f"const int64_t start = task % {blocks} * {side};",
        f"const int64_t stop = dj_min_index(start + {side}, {symint.c(near.size)});",
        f"const int64_t outer = task / {blocks};",
        "(void)outer;",
        *unflattened("outer", outer),
        *around.lines,
        *tiles,
    ]
    count = symint.c(product_of(outer) * ceil_div(near.size, side))
    root.add(*parallel(work, "task", count, lines))
    return define(kernel, kernel.name, root.lines, expressions, stores, (), (), work.condition)


def _tiles(
    kernel: RowKernel, near: Axis, loads: Sequence[Load], side: int, around: Scope
) -> list[str]:
    """The loop over the tiles of one block of rows: fill them, then compute from them."""
    (far,) = kernel.elements
    width = side + 1
    position = f"({far.name} - first) * {width} + {near.name} - start"
    fill: list[str] = []
    row = around.child([near.name, far.name])
    for number, load in enumerate(loads):
        fill.append(f"tile{number}[{position}] = {load.buffer.name}[{symint.c(load.offset)}];")
        row.known[load] = f"tile{number}[{position}]"
    for store in kernel.phases[0].stores:
        row.store(target(row, store), store.buffer.dtype, store.value)
    along = ["#pragma omp simd", *loop(near.name, "start", "stop", fill)]
    across = ["#pragma omp simd", *loop(far.name, "first", "last", row.lines)]
    lines = [
        f"const int64_t last = dj_min_index(first + {side}, {symint.c(far.size)});",
        *(f"{load.dtype.c} tile{k}[{side * width}];" for k, load in enumerate(loads)),
        *loop(far.name, "first", "last", along),
        *loop(near.name, "start", "stop", across),
    ]
    return block(f"for (int64_t first = 0; first < {symint.c(far.size)}; first += {side})", lines)


def _side(loads: Sequence[Load]) -> int | None:
    """Rows and columns of the tiles; None if there are too many arrays."""
    sizes = sum(load.dtype.itemsize for load in loads)
    return next((side for side in SIDES if side * side * sizes <= TILE_BYTES), None)
