"""Pointwise kernels in CUDA that read across the order in which they write: by tiles.

Contract: a block reads the arrays that lie along an outer loop in tiles, neighbouring threads from
neighbouring addresses, and computes the results from the tiles, again side by side; every element
is computed as elsewhere. Rows of a tile are padded so that columns meet no bank twice. `fits` says
for which kernels; the others are printed by `codegen.cuda.pointwise`, which calls this module.
"""

from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.support import ceil_div, loop, unflattened
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    WARP,
    Choices,
    Launch,
    define,
    index_type,
    names,
    target_of,
)
from dynajit.codegen.loops.loop_ir import Load, RowKernel, product_of, typical
from dynajit.codegen.plan import transposes
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

THREADS: Final = 256

SIDE: Final = 32
"""Rows and columns of a tile: a thread has four loads of each array on their way."""

SHARED_BYTES: Final = 48 << 10
"""Shared memory that a kernel may declare."""

BANK_BYTES: Final = 4


def _is_enough(size: Number, least: int) -> bool:
    return typical(size) >= least


def fits(kernel: RowKernel) -> bool:
    """True if a pointwise kernel reads some array along one of its outer loops."""
    found = transposes.find(kernel, _is_enough)
    return found is not None and _bytes(found.loads, SIDE) <= SHARED_BYTES


def _bytes(loads: tuple[Load, ...], side: int) -> int:
    return sum(side * (side + _padding(load)) * load.dtype.itemsize for load in loads)


def _padding(load: Load) -> int:
    """Elements behind each row of a tile: the rows' lengths are odd numbers of banks."""
    return max(1, BANK_BYTES // load.dtype.itemsize)


def print_transposed(kernel: RowKernel, choices: Choices) -> CudaKernel:
    """The kernel, if it `fits`."""
    found = transposes.find(kernel, _is_enough)
    assert found is not None
    near, (far,), loads = found.near, kernel.elements, found.loads
    sides = [side for side in (32, 64) if _bytes(loads, side) <= SHARED_BYTES]
    side = choices.of(kernel.name, "tile", sides, SIDE)
    outer = tuple(axis for axis in kernel.rows if axis is not near)
    stores = kernel.phases[0].stores
    expressions = transposes.expressions_of(stores)
    near_blocks, far_blocks = ceil_div(near.size, side), ceil_div(far.size, side)
    blocks = product_of(outer) * near_blocks * far_blocks
    offsets = [store.offset for store in stores]
    integer = index_type(expressions, offsets, blocks, near.size + side, far.size + side)
    root = Scope(names(()))
    around = root.child([axis.name for axis in outer])
    element = around.child([near.name, far.name])
    fill, tiles = [], []
    for number, load in enumerate(loads):
        tiles.append(f"__shared__ {load.dtype.c} tile{number}[{side}][{side + _padding(load)}];")
        fill.append(f"tile{number}[row][column] = {load.buffer.name}[{symint.c(load.offset)}];")
        element.known[load] = f"tile{number}[column][row]"
    for store in stores:
        element.store(target_of(element, store), store.buffer.dtype, store.value)

    def turns(along: str, across: str, lines: list[str]) -> list[str]:
        """A loop in which neighbouring threads go along one of the loops."""
        sizes = {far.name: far.size, near.name: near.size}
        inside = [f"{name} < {symint.c(sizes[name])}" for name in (across, along)]
        inner = [
            f"const int column = threadIdx.x % {WARP} + place % {side // WARP} * {WARP};",
            f"const int row = threadIdx.x / {WARP} + place / {side // WARP} * {THREADS // WARP};",
            f"const {integer} {across} = {across}_start + row, {along} = {along}_start + column;",
            f"if ({' && '.join(inside)}) {{", *(INDENT + line for line in lines), "}",
        ]  # fmt: skip
        count = str(side * side // THREADS)
        return ["#pragma unroll", *loop("place", "0", count, inner, integer="int")]

    far_count, near_count = symint.c(far_blocks), symint.c(near_blocks)
    body = [
        *tiles,
        f"const {integer} task = blockIdx.x, outer = task / {far_count} / {near_count};",
        f"const {integer} {far.name}_start = task % {far_count} * {side};",
        f"const {integer} {near.name}_start = task / {far_count} % {near_count} * {side};",
        *unflattened("outer", outer, integer),
        *root.lines,
        *around.lines,
        *turns(near.name, far.name, fill),
        "__syncthreads();",
        *turns(far.name, near.name, element.lines),
    ]
    launch = Launch(blocks, THREADS, _bytes(loads, side))
    return define(
        kernel, kernel.name, body, launch, expressions, [store.buffer for store in stores], ()
    )
