"""What all CUDA printers share: printed kernels with their launches, teams of threads, exchanges.

Contract: the body of a kernel is a `Scope` of `c_expressions`, as in C; here are only the parts
that C does not have. Launch geometry depends on sizes alone, never on the device, so results have
the same bits on every GPU of an architecture. Called by `cuda_rows`, `cuda_columns` and
`cuda_scatter`.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dynajit.codegen.c_expressions import INDENT, Names, Scope
from dynajit.codegen.c_support import (
    accumulator_names,
    all_expressions,
    combine,
    may_fail,
    sizes_used,
)
from dynajit.codegen.cuda_steps import (
    STATUS,
    Argument,
    Block,
    CudaKernel,
    Grid,
    ScalarArgument,
    SizeArgument,
)
from dynajit.codegen.loops import (
    Accumulate,
    Accumulated,
    Axis,
    Buffer,
    DataIndex,
    Expression,
    Kernel,
    Load,
    Parameter,
    Store,
)
from dynajit.core import symint
from dynajit.core.symint import Number

THREADS: Final = 256
"""Threads of a block: eight warps, so that an SM of 64 warps holds eight blocks."""

LONG_ROW_THREADS: Final = 1024
"""Threads of a block that works on one row of more than `THREADS * MOST_STEPS` elements."""

WARP: Final = 32

MOST_BLOCKS: Final = 4096
"""Blocks of a grid-stride loop: some thirty per SM of the largest GPUs."""

NARROW_LIMIT: Final = 1 << 30
"""Index expressions below it are computed in 32 bits; a stride more cannot overflow."""


def product(axes: Sequence[Axis]) -> int:
    """Number of turns of nested loops."""
    total = 1
    for axis in axes:
        total *= axis.known
    return total


def power_of_two(count: int) -> int:
    """The smallest power of two that is not below `count`."""
    return 1 << max(count - 1, 0).bit_length()


def names(indices: Sequence[DataIndex]) -> Names:
    """Names of a CUDA function."""
    return Names(indices, "cuda")


def target_of(scope: Scope, store: Store) -> str:
    """The element that a store writes."""
    scope.bind([store.offset])
    return f"{store.buffer.name}[{symint.c(store.offset)}]"


# ---------------------------------------------------------------------------------------------
# the whole function


@dataclass(frozen=True, slots=True)
class Launch:
    """Geometry of a launch along x; see `CudaKernel`."""

    blocks: Number
    threads: int
    shared_bytes: int = 0
    dynamic_bytes: Number = 0

    @property
    def grid(self) -> Grid:
        """Numbers of blocks."""
        return (self.blocks, 1, 1)

    @property
    def block(self) -> Block:
        """Numbers of threads."""
        return (self.threads, 1, 1)


def roots_of(stores: Iterable[Store], accumulates: Iterable[Accumulate]) -> list[Expression]:
    """What a kernel evaluates."""
    roots = [store.value for store in stores]
    for accumulate in accumulates:
        roots.extend((*accumulate.element, *(accumulate.first or ())))
    return roots


def used_expressions(
    roots: Sequence[Expression], offsets: Iterable[Number], indices: Sequence[DataIndex]
) -> tuple[list[Expression], tuple[DataIndex, ...]]:
    """Expressions below `roots`, and the data indices that they and the offsets mention."""
    used: dict[str, DataIndex] = {}
    numbers = list(offsets)
    while True:
        expressions = all_expressions(roots, tuple(used.values()))
        mentioned = set[str]().union(
            *(symint.symbols(n) for n in numbers),
            *(symint.symbols(n) for e in expressions for n in e.numbers),
        )
        more = [i for i in indices if i.name in mentioned and i.name not in used]
        if not more:
            return expressions, tuple(used.values())
        used.update({index.name: index for index in more})


def define(
    kernel: Kernel,
    name: str,
    body: Sequence[str],
    launch: Launch,
    expressions: Sequence[Expression],
    written: Iterable[Buffer],
    indices: Sequence[DataIndex],
    also_read: Iterable[Buffer] = (),
) -> CudaKernel:
    """The kernel function: parameters are the buffers it reads and writes, then numbers."""
    outputs = tuple(dict.fromkeys(written))
    loaded = [e.buffer for e in expressions if isinstance(e, Load) and e.buffer.size != 0]
    inputs = tuple(b for b in dict.fromkeys((*loaded, *also_read)) if b not in outputs)
    arguments: list[Argument] = [*inputs, *outputs]
    parameters = [f"const {b.dtype.c} *__restrict__ {b.name}" for b in inputs]
    parameters += [f"{b.dtype.c} *__restrict__ {b.name}" for b in outputs]
    numbers = {e.position for e in expressions if isinstance(e, Parameter)}
    for position in sorted(numbers):
        arguments.append(ScalarArgument(position))
        parameters.append(f"const dj_scalar scalar{position}")
    body = [_SCALAR.sub(r"scalar\1", line) for line in body]
    for size in sizes_used(body):
        arguments.append(SizeArgument(symint.symbol(size)))
        parameters.append(f"const int64_t {size}")
    if may_fail(expressions, indices):
        arguments.append(STATUS)
        parameters.append("int64_t *status")
    listed = (",\n" + INDENT * 2).join(parameters)
    head = f'extern "C" __global__ void __launch_bounds__({launch.threads}) {name}('
    text = "\n".join((f"{head}\n{INDENT * 2}{listed}) {{", *(INDENT + line for line in body), "}"))
    return CudaKernel(
        name, name, text, launch.grid, launch.block, launch.shared_bytes, launch.dynamic_bytes,
        tuple(arguments), kernel,
    )  # fmt: skip


_SCALAR: Final = re.compile(r"\bscalars\[(\d+)\]")
"""How `c_expressions` spells a run-time number; here it is a parameter of its own."""


# ---------------------------------------------------------------------------------------------
# 32-bit indices


def magnitude(number: Number) -> int | None:
    """A bound of every intermediate result of computing `number`; None if there is none."""
    if isinstance(number, int):
        return abs(number)
    total = largest = 0
    for monomial, factor in number.terms:
        size = abs(factor)
        for atom in monomial:
            if atom.low is None or atom.high is None:
                return None
            size *= max(abs(atom.low), abs(atom.high), 1)
            for operand in atom.operands:
                inner = magnitude(operand)
                if inner is None:
                    return None
                largest = max(largest, inner)
        total += size
    return max(total, largest)


def index_type(expressions: Sequence[Expression], offsets: Iterable[Number], count: int) -> str:
    """The C type of loop variables: `int` where everything fits, since 64-bit division is slow."""
    numbers = [*offsets, *(number for e in expressions for number in e.numbers)]
    for number in numbers:
        size = magnitude(number)
        if size is None or size >= NARROW_LIMIT:
            return "int64_t"
    return "int" if count < NARROW_LIMIT else "int64_t"


# ---------------------------------------------------------------------------------------------
# accumulators of several threads


def exchange(scope: Scope, accumulate: Accumulate, prefix: str, size: int, mask: str) -> None:
    """Append: `size` neighbouring lanes combine their accumulators; all end with the result.

    A butterfly in which the lower lane is always the earlier side, so the order of elements is
    kept and every lane computes the same bits.
    """
    own = accumulator_names(accumulate, prefix)
    inner = Scope(scope.names)
    earlier, later = [], []
    for k, name in enumerate(own):
        c = accumulate.element[k].dtype.c
        inner.add(
            f"const {c} other{k} = dj_exchange({mask}, {name}, offset);",
            f"const {c} earlier{k} = is_later ? other{k} : {name};",
            f"const {c} later{k} = is_later ? {name} : other{k};",
        )
        earlier.append(f"earlier{k}")
        later.append(f"later{k}")
    values = combine(inner, accumulate, earlier, later)
    inner.add(*(f"{name} = {value};" for name, value in zip(own, values, strict=True)))
    if size > 1:
        scope.add(
            "#pragma unroll",
            f"for (int offset = 1; offset < {size}; offset *= 2) {{",
            f"{INDENT}const bool is_later = threadIdx.x & offset;",
            *inner.text(),
            "}",
        )


def remember(scope: Scope, accumulate: Accumulate, prefix: str) -> None:
    """From here on the accumulator's variables are its result."""
    for k, name in enumerate(accumulator_names(accumulate, prefix)):
        dtype = accumulate.element[k].dtype
        scope.known[Accumulated(accumulate.name, k, dtype)] = name


def is_ordered(accumulates: Iterable[Accumulate]) -> bool:
    """True if elements must be combined in order: ties of pairs go to the earlier one."""
    return any(len(accumulate.element) > 1 for accumulate in accumulates)


def partial_buffers(kernel_name: str, accumulate: Accumulate, size: int) -> list[Buffer]:
    """Device memory for `size` accumulators between two kernels."""
    parts = accumulator_names(accumulate, f"{kernel_name}_p")
    return [
        Buffer(name, element.dtype, size)
        for name, element in zip(parts, accumulate.element, strict=True)
    ]


def folding(
    accumulate: Accumulate, partials: Sequence[Buffer], offset: Number, first: Number
) -> Accumulate:
    """The reduction of partial accumulators, which takes the original's place.

    Args:
        offset: of a partial; `first`: of the first one.
    """
    start = None
    if accumulate.identity is None:
        start = tuple(Load(partial, first) for partial in partials)
    element = tuple(Load(partial, offset) for partial in partials)
    return Accumulate(accumulate.name, element, start, accumulate.identity, accumulate.combine)
