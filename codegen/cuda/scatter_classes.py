"""Writes that are combined at computed places in CUDA, with the same bits every time.

Contract: every place of the target belongs to one thread, which goes through the writes in
row-major order and does those that are its own, as on the CPU. A loop whose variable can be read
off the place is spread over threads; what is left of the place (a row that comes from data, say) is
spread over `classes` residue classes. Each class reads all indices: for n writes along the data
loops a thread reads n indices and makes about n / classes updates.
"""

import math
from collections.abc import Sequence
from typing import Final

from dynajit.codegen.c.expressions import Scope
from dynajit.codegen.c.scatter import combined
from dynajit.codegen.c.support import block, ceil_div, loop, unflattened
from dynajit.codegen.cuda.pointwise import MOST_BLOCKS, THREADS
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import Launch, define, index_type, names, used_expressions
from dynajit.codegen.loops.loop_ir import Axis, Buffer, ScatterKernel, product_of, typical
from dynajit.core.types import symint
from dynajit.core.types.symint import Number

MOST_CLASSES: Final = 64
"""Reading an index takes about a tenth of the time of an update: more classes would not help."""

ENOUGH_THREADS: Final = 1 << 16
"""Threads that fill the largest GPUs; no classes are made beyond them."""


def print_classes(
    kernel: ScatterKernel, target: Buffer, spread: Sequence[Axis], serial: Sequence[Axis]
) -> tuple[CudaKernel, ...]:
    """The kernel that combines.

    Args:
        spread: loops whose variables can be read off the place.
        serial: the others.
    """
    offset = kernel.write.offset
    expressions, indices = used_expressions([kernel.write.value], [offset], kernel.indices)
    rest = symint.substitute(offset, {axis.name: 0 for axis in spread})
    lanes, turns = product_of(spread), product_of(serial)
    classes = _class_count(rest, lanes, turns)
    threads = lanes * classes
    integer = index_type(expressions, [offset], threads + THREADS * MOST_BLOCKS, turns)
    root = Scope(names(indices))
    thread = root.child([axis.name for axis in spread])
    write = thread.child([axis.name for axis in serial])
    write.bind([offset])
    arm = write.child(is_arm=True)
    value = arm.emit(kernel.write.value)
    place = f"{target.name}[{symint.c(offset)}]"
    update = [*arm.lines, f"{place} = {combined(kernel, place, value, 'cuda')};"]
    if classes > 1:
        update = block(f"if ({_key(rest)} % {classes} == own)", update)
    write.add(*update)
    turn = [*unflattened("turn", serial, integer), *write.lines]
    lines = [
        f"const {integer} lane = thread % {symint.c(lanes)};",
        f"const {integer} own = thread / {symint.c(lanes)};",
        *unflattened("lane", spread, integer),
        *thread.lines,
        *loop("turn", "0", symint.c(turns), turn, integer=integer),
    ]
    start = f"({integer})blockIdx.x * {THREADS} + threadIdx.x"
    step = f"({integer})gridDim.x * {THREADS}"
    body = loop("thread", start, symint.c(threads), lines, step, integer)
    blocks = symint.minimum(ceil_div(threads, THREADS), MOST_BLOCKS)
    return (
        define(
            kernel, kernel.name, [*root.lines, *body], Launch(blocks, THREADS), expressions,
            [target], indices,
        ),
    )  # fmt: skip


def _class_count(rest: Number, lanes: Number, turns: Number) -> int:
    if isinstance(rest, int):
        return 1
    fitting = min(MOST_CLASSES, typical(turns), ENOUGH_THREADS // max(typical(lanes), 1))
    return 1 << max(fitting, 1).bit_length() - 1


def _key(rest: Number) -> str:
    """A number of the place alone that neighbouring rows do not share."""
    assert not isinstance(rest, int)
    step = math.gcd(*(factor for monomial, factor in rest.terms if monomial))
    return symint.c(symint.floordiv(rest, step))
