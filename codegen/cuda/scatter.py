"""Scatter kernels in CUDA: the target is filled, then a thread for each write.

Contract: the result is that of writing one after the other, as on the CPU. Where several writes may
meet at one place, the last one of those that set is found first (`owner`: the largest number of a
write to each place); those that add are atomic. Sums of integers have the same bits every time;
those of floats do with `Options.deterministic`: then every place belongs to one thread (see
`codegen.cuda.scatter_classes`), as for products and extrema always. 16-bit floats are combined in a
float32 temporary and rounded once.
"""

import math
from collections.abc import Sequence
from typing import Final

from dynajit.codegen.c.expressions import INDENT, Scope
from dynajit.codegen.c.scatter import combined
from dynajit.codegen.c.support import ceil_div, loop, unflattened
from dynajit.codegen.cuda.pointwise import MOST_BLOCKS, THREADS, print_pointwise
from dynajit.codegen.cuda.scatter_classes import print_classes
from dynajit.codegen.cuda.units import packs as cuda_packs
from dynajit.codegen.cuda.units.packs import BASE, COUNT
from dynajit.codegen.cuda.units.steps import CudaKernel, Memset, Options, Step
from dynajit.codegen.cuda.units.support import (
    Choices,
    Launch,
    define,
    index_type,
    names,
    roots_of,
    used_expressions,
)
from dynajit.codegen.loops.elements import linear
from dynajit.codegen.loops.loop_ir import (
    Axis,
    Buffer,
    Cast,
    DataIndex,
    Load,
    Phase,
    RowKernel,
    ScatterKernel,
    Store,
    product_of,
    walk,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number

NARROW_COUNT: Final = (1 << 31) - 1
"""Writes that are numbered in 32 bits."""


def print_scatter(kernel: ScatterKernel, choices: Choices, options: Options) -> tuple[Step, ...]:
    """The steps of a scatter kernel, in running order."""
    buffer = kernel.initial.buffer
    is_wide = kernel.accumulator is not buffer.dtype
    target = buffer
    if is_wide:
        target = Buffer(f"{kernel.name}_wide", kernel.accumulator, buffer.size)
    fill = _pointwise(
        f"{kernel.name}_fill", kernel.fill, _filled(kernel, target), kernel.indices, choices
    )
    steps = [*fill, *_writes(kernel, target, options)]
    if is_wide:
        axis = Axis("i0", buffer.size)
        rounded = Store(buffer, axis.symbol, Cast(Load(target, axis.symbol), buffer.dtype))
        steps += _pointwise(f"{kernel.name}_round", (axis,), rounded, (), choices)
    return tuple(steps)


def _filled(kernel: ScatterKernel, target: Buffer) -> Store:
    value = kernel.initial.value
    if value.dtype is not kernel.accumulator:
        value = Cast(value, kernel.accumulator)
    return Store(target, kernel.initial.offset, value)


def _pointwise(
    name: str,
    axes: tuple[Axis, ...],
    store: Store,
    indices: tuple[DataIndex, ...],
    choices: Choices,
) -> tuple[CudaKernel, ...]:
    phase = Phase(stores=(store,))
    kernel = RowKernel(name, axes[:-1], axes[-1:], (phase,), indices=indices)
    return print_pointwise(kernel, choices)


def _writes(kernel: ScatterKernel, target: Buffer, options: Options) -> list[Step]:
    """The steps that write; none if nothing is written."""
    if product_of(kernel.loops) == 0:
        return []
    offset = kernel.write.offset
    spread = tuple(axis for axis in kernel.loops if can_spread(axis, offset))
    serial = tuple(axis for axis in kernel.loops if axis not in spread)
    if all(axis.size == 1 for axis in serial):
        return [_Writes(kernel, target, spread, "").kernel_text()]  # no two writes meet
    if kernel.mode == "set":
        return _with_owners(kernel, target, spread, serial)
    is_sum_of_floats = kernel.mode == "add" and kernel.accumulator.is_floating_point
    if kernel.mode != "add" or (is_sum_of_floats and options.deterministic):
        return list(print_classes(kernel, target, spread, serial))
    return [_Writes(kernel, target, spread, "atomic").kernel_text()]


# ---------------------------------------------------------------------------------------------
# the last of several writes


def _with_owners(
    kernel: ScatterKernel, target: Buffer, spread: Sequence[Axis], serial: tuple[Axis, ...]
) -> list[Step]:
    """Writes are numbered along the loops that cannot be read off the place: those that meet have
    the same values of the others."""
    count = product_of(serial)
    is_narrow = isinstance(count, int) and count < NARROW_COUNT
    dtype = dtypes.int32 if is_narrow else dtypes.int64
    owner = Buffer(f"{kernel.name}_owner", dtype, target.size)
    free = {axis.name: 0 for axis in spread if not _is_read_along(kernel, axis)}
    place = symint.substitute(kernel.write.offset, free)
    claiming = tuple(axis for axis in kernel.loops if axis.name not in free)
    turn = linear([axis.symbol for axis in serial], [axis.size for axis in serial])
    expressions, indices = used_expressions([], [place], kernel.indices)
    claims = product_of(claiming)
    integer = index_type(expressions, [place], claims + THREADS * MOST_BLOCKS)
    root = Scope(names(indices))
    write = root.child([axis.name for axis in claiming])
    write.bind([place])
    number = f"({dtype.c}){symint.c(turn)}"
    write.add(f"dj_atomic_max(&{owner.name}[{symint.c(place)}], {number});")
    lines = [*unflattened("turn", claiming, integer), *write.lines]
    body = _grid_stride(root, symint.c(claims), lines, integer)
    claim = define(
        kernel, f"{kernel.name}_claim", body, Launch(_blocks(claims), THREADS), expressions,
        [owner], indices,
    )  # fmt: skip
    condition = f"{owner.name}[{symint.c(place)}] == {number}"
    writes = _Writes(kernel, target, spread, condition, owner).kernel_text()
    return [Memset(owner.name, owner, 0xFF), claim, writes]


def _is_read_along(kernel: ScatterKernel, axis: Axis) -> bool:
    """True if a data index of the kernel depends on a loop."""
    return any(
        axis.name in symint.symbols(number)
        for index in kernel.indices
        for expression in walk((index.value,))
        for number in expression.numbers
    )


def _blocks(count: Number) -> Number:
    return symint.minimum(ceil_div(count, THREADS), MOST_BLOCKS)


def _grid_stride(root: Scope, count: str, lines: Sequence[str], integer: str) -> list[str]:
    start = f"({integer})blockIdx.x * {THREADS} + threadIdx.x"
    return [
        *root.lines,
        *loop("turn", start, count, lines, f"({integer})gridDim.x * {THREADS}", integer),
    ]


# ---------------------------------------------------------------------------------------------
# all writes at once


class _Writes:
    """Prints a kernel with a thread for each write, or pack of writes. Mutable: scopes fill up.

    Args:
        kernel: what is written.
        target: where.
        spread: loops that can be read off the place.
        how: "" if no writes meet, "atomic", or the C condition under which one is done.
        also_read: what the condition reads.
    """

    def __init__(
        self,
        kernel: ScatterKernel,
        target: Buffer,
        spread: Sequence[Axis],
        how: str,
        also_read: Buffer | None = None,
    ) -> None:
        self.kernel, self.target, self.spread, self.how = kernel, target, spread, how
        self.also_read = () if also_read is None else (also_read,)
        offset = kernel.write.offset
        self.expressions, self.indices = used_expressions(
            [kernel.write.value], [offset], kernel.indices
        )
        self.axes = kernel.loops or (Axis("i0", 1),)
        *self.outer, self.last = self.axes
        self.packing = cuda_packs.choose(
            self.last, [kernel.write.value], (), self.indices, may_cut=True
        )
        self.per_row: Number = ceil_div(self.last.size, self.packing.width)
        self.count: Number = product_of(self.outer) * self.per_row
        most = product_of(self.axes) + THREADS * MOST_BLOCKS
        self.integer = index_type(self.expressions, [offset], most)

    def kernel_text(self) -> CudaKernel:
        """The kernel."""
        kernel, packing, integer = self.kernel, self.packing, self.integer
        root = Scope(names(self.indices))
        outer = root.child([*(axis.name for axis in self.outer), BASE])
        inner = outer.child([self.last.name])
        before: list[str] = []
        roots = roots_of([kernel.write], ())
        if packing.width > 1:
            before = packing.print_loads(packing.loads(roots), outer, inner)
        inner.bind([kernel.write.offset])
        self._write(inner)
        if packing.width > 1:
            items = packing.print_items(inner.lines, integer)
            lines = [*self._place(), *outer.lines, *before, *items]
        else:
            lines = [*unflattened("turn", self.axes, integer), *outer.lines, *inner.lines]
        body = _grid_stride(root, symint.c(self.count), lines, integer)
        head = packing.print_flag(packing.loads(roots), ())
        return define(
            kernel, kernel.name, [*head, *body], Launch(_blocks(self.count), THREADS),
            self.expressions, [self.target], self.indices, self.also_read,
        )  # fmt: skip

    def _write(self, inner: Scope) -> None:
        """Append: one write."""
        kernel = self.kernel
        place = f"{self.target.name}[{symint.c(kernel.write.offset)}]"
        if self.how == "atomic":
            value = inner.emit(kernel.write.value)
            function = "or" if kernel.accumulator is dtypes.bool_ else "add"
            inner.add(f"dj_atomic_{function}(&{place}, {value});")
            return
        arm = inner.child(is_arm=True)
        value = combined(kernel, place, arm.emit(kernel.write.value), "cuda")
        lines = [*arm.lines, f"{place} = {value};"]
        if self.how:
            lines = [f"if ({self.how}) {{", *(INDENT + line for line in lines), "}"]
        inner.add(*lines)

    def _place(self) -> list[str]:
        """Definitions of the first element of a pack, and of its row."""
        integer, width, per_row = self.integer, self.packing.width, symint.c(self.per_row)
        position = "turn" if product_of(self.outer) == 1 else f"turn % {per_row}"
        lines = [f"const {integer} {BASE} = {position} * {width};"]
        if self.packing.has_tail:
            rest = f"{symint.c(self.last.size)} - {BASE}"
            lines.append(f"const int {COUNT} = (int)dj_min_index({rest}, {width});")
        return [*lines, *unflattened(f"(turn / {per_row})", self.outer, integer)]


def can_spread(axis: Axis, offset: Number) -> bool:
    """True if the loop's variable can be read off the offset, whatever the other variables are.

    The offset is then `larger + stride * i + smaller` with `smaller < stride` and `larger` a
    multiple of a number that is not below `stride * size`.
    """
    if not isinstance(axis.size, int) or axis.size < 2 or isinstance(offset, int):
        return False
    ((loop_symbol, _),) = symint.symbol(axis.name, 0, axis.known - 1).terms
    stride = dict(offset.terms).get(loop_symbol, 0)
    rest = offset - stride * axis.symbol
    if stride <= 0 or axis.name in symint.symbols(rest):
        return False
    larger = smaller = 0
    for monomial, factor in rest.terms if not isinstance(rest, int) else (((), rest),):
        high = 1
        for atom in monomial:
            if atom.low is None or atom.low < 0 or atom.high is None:
                return False
            high *= atom.high
        if factor < 0:
            return False
        if factor >= stride:
            larger = math.gcd(larger, factor)
        else:
            smaller += factor * high
    return smaller < stride and (larger == 0 or larger >= stride * axis.size)
