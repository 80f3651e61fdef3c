"""Scatter kernels in CUDA: filled, then written without atomics, in the order of the C code.

Contract: every place of the target belongs to one thread, which goes through the writes in
row-major order and does those that are its own: results are the same every time and the same as on
the CPU. A loop whose variable can be read off the target's place is spread over threads; what
is left of the place (a row that comes from data, say) is spread over `classes` residue classes.
Each class reads all indices: for n writes along the data loops a thread reads n indices and makes
about n / classes updates. 16-bit targets add in a float32 temporary and round once. Compiled, not
yet run on a GPU. Called by `codegen.cuda_text`.
"""

import math
from typing import Final

from dynajit.codegen.c_expressions import Scope
from dynajit.codegen.c_support import block, loop, product_of, unflattened
from dynajit.codegen.cuda_pointwise import MOST_BLOCKS, THREADS, print_pointwise
from dynajit.codegen.cuda_steps import CudaKernel
from dynajit.codegen.cuda_support import (
    Choices,
    Launch,
    define,
    index_type,
    names,
    used_expressions,
)
from dynajit.codegen.loops import (
    Axis,
    Buffer,
    Cast,
    DataIndex,
    Load,
    Phase,
    RowKernel,
    ScatterKernel,
    Store,
    typical,
)
from dynajit.core import dtypes, symint
from dynajit.core.symint import Number

MOST_CLASSES: Final = 64
"""Reading an index takes about a tenth of the time of an update: more classes would not help."""

ENOUGH_THREADS: Final = 1 << 16
"""Threads that fill the largest GPUs; no classes are made beyond them."""


def print_scatter(kernel: ScatterKernel, choices: Choices) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a scatter kernel, in running order."""
    buffer = kernel.initial.buffer
    is_wide = kernel.accumulator is not buffer.dtype
    target = buffer
    if is_wide:
        target = Buffer(f"{kernel.name}_wide", kernel.accumulator, buffer.size)
    fill = _pointwise(
        f"{kernel.name}_fill", kernel.fill, _filled(kernel, target), kernel.indices, choices
    )
    steps = [*fill, *_Writes(kernel, target).kernels()]
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


class _Writes:
    """Prints the writing kernel. Mutable: scopes fill up."""

    def __init__(self, kernel: ScatterKernel, target: Buffer) -> None:
        self.kernel = kernel
        self.target = target
        offset = kernel.write.offset
        self.expressions, self.indices = used_expressions(
            [kernel.write.value], [offset], kernel.indices
        )
        self.spread = tuple(axis for axis in kernel.loops if _can_spread(axis, offset))
        self.serial = tuple(axis for axis in kernel.loops if axis not in self.spread)
        self.rest = symint.substitute(offset, {axis.name: 0 for axis in self.spread})
        self.lanes, self.turns = product_of(self.spread), product_of(self.serial)
        self.classes = self._class_count()
        self.threads = self.lanes * self.classes
        self.integer = index_type(self.expressions, [offset], max(self.threads, self.turns))
        self.names = names(self.indices)

    def _class_count(self) -> int:
        if isinstance(self.rest, int):
            return 1
        fitting = min(
            MOST_CLASSES, typical(self.turns), ENOUGH_THREADS // max(typical(self.lanes), 1)
        )
        return 1 << max(fitting, 1).bit_length() - 1

    def kernels(self) -> tuple[CudaKernel, ...]:
        """The writing kernel, or none if nothing is written."""
        if self.lanes * self.turns == 0:
            return ()
        kernel, integer = self.kernel, self.integer
        root = Scope(self.names)
        thread = root.child([axis.name for axis in self.spread])
        write = thread.child([axis.name for axis in self.serial])
        write.bind([kernel.write.offset])
        update = self._update(write)
        if self.classes > 1:
            update = block(f"if ({self._is_own()})", update)
        write.add(*update)
        turns = [*unflattened("turn", self.serial, integer), *write.lines]
        lines = [
            f"const {integer} lane = thread % {self.lanes};",
            f"const {integer} own = thread / {self.lanes};" if self.classes > 1 else "",
            *unflattened("lane", self.spread, integer),
            *thread.lines,
            *loop("turn", "0", str(self.turns), turns, integer=integer),
        ]
        grid = max(1, min(MOST_BLOCKS, -(-self.threads // THREADS)))
        start = f"({integer})blockIdx.x * {THREADS} + threadIdx.x"
        step = str(grid * THREADS)
        body = loop("thread", start, str(self.threads), list(filter(None, lines)), step, integer)
        return (
            define(
                kernel, kernel.name, [*root.lines, *body], Launch(grid, THREADS),
                self.expressions, [self.target], self.indices,
            ),
        )  # fmt: skip

    def _update(self, write: Scope) -> list[str]:
        """The write of this turn; what it loads is loaded for the thread's own writes only."""
        arm = write.child(is_arm=True)
        value = arm.emit(self.kernel.write.value)
        place = f"{self.target.name}[{symint.c(self.kernel.write.offset)}]"
        if self.kernel.mode == "add":
            dtype = self.kernel.accumulator
            operator = "|" if dtype is dtypes.bool_ else "+"
            value = f"({dtype.c})({place} {operator} {value})"
        return [*arm.lines, f"{place} = {value};"]

    def _is_own(self) -> str:
        """Whether the write belongs to the thread's class: a function of the place alone."""
        assert not isinstance(self.rest, int)
        step = math.gcd(*(factor for monomial, factor in self.rest.terms if monomial))
        key = symint.c(symint.floordiv(self.rest, step))
        return f"({key} & {self.classes - 1}) == own"


def _can_spread(axis: Axis, offset: Number) -> bool:
    """True if the loop's variable can be read off the offset, whatever the other variables are.

    The offset is then `larger + stride * i + smaller` with `smaller < stride` and `larger` a
    multiple of a number that is not below `stride * size`.
    """
    if axis.size < 2 or isinstance(offset, int):
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
