"""What all CUDA printers share: printed kernels with their launches, teams of threads, exchanges.

Contract: the body of a kernel is a `Scope` of `c_expressions`, as in C; here are only the parts
that C does not have. Launch geometry depends on sizes alone, never on the device, so results have
the same bits on every GPU of an architecture. Called by `cuda_rows`, `cuda_columns` and
`cuda_scatter`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from dynajit.codegen.c_expressions import INDENT, Names, Scope
from dynajit.codegen.c_support import accumulator_names, all_expressions, combine, may_fail
from dynajit.codegen.loops import (
    Accumulate,
    Accumulated,
    Axis,
    Buffer,
    DataIndex,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
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

SCALARS: Final = "scalars"
STATUS: Final = "status"

Argument: TypeAlias = Buffer | str


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A printed kernel and how it is launched.

    Args:
        name: of the `extern "C"` function.
        source: its text; `cuda_text.prelude` comes before it.
        grid: number of blocks.
        block: number of threads in a block.
        shared_bytes: shared memory that the kernel declares itself; the launch adds none.
        arguments: in order: buffers (device pointers), `SCALARS` (device pointer to the 8-byte
            run-time numbers) and `STATUS` (device pointer to four int64, zeroed by the launcher:
            code, value, size, lowest; see headers/indices.h).
        kernel: the loop kernel that this is, or belongs to.
    """

    name: str
    source: str
    grid: int
    block: int
    shared_bytes: int
    arguments: tuple[Argument, ...]
    kernel: Kernel

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers among the arguments; those that no graph value has are temporaries."""
        return tuple(argument for argument in self.arguments if isinstance(argument, Buffer))

    @property
    def may_fail(self) -> bool:
        """It may leave an error in the status."""
        return STATUS in self.arguments


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A matrix product: done by cuBLAS, not printed.

    Args:
        name: of the loop kernel.
        kernel: sizes and operands.
    """

    name: str
    kernel: MatmulKernel

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Operands and result."""
        kernel = self.kernel
        return (kernel.left.buffer, kernel.right.buffer, kernel.result.buffer)


Step: TypeAlias = CudaKernel | LibraryCall


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
    """Geometry of a launch; see `CudaKernel`."""

    grid: int
    block: int
    shared_bytes: int = 0


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
    """The kernel function: parameters are the buffers it reads and writes."""
    outputs = tuple(dict.fromkeys(written))
    loaded = [e.buffer for e in expressions if isinstance(e, Load) and e.buffer.size]
    inputs = tuple(b for b in dict.fromkeys((*loaded, *also_read)) if b not in outputs)
    arguments: list[Argument] = [*inputs, *outputs]
    parameters = [f"const {b.dtype.c} *__restrict__ {b.name}" for b in inputs]
    parameters += [f"{b.dtype.c} *__restrict__ {b.name}" for b in outputs]
    if any(isinstance(e, Parameter) for e in expressions):
        arguments.append(SCALARS)
        parameters.append("const dj_scalar *__restrict__ scalars")
    if may_fail(expressions, indices):
        arguments.append(STATUS)
        parameters.append("int64_t *status")
    listed = (",\n" + INDENT * 2).join(parameters)
    head = f'extern "C" __global__ void __launch_bounds__({launch.block}) {name}('
    text = "\n".join((f"{head}\n{INDENT * 2}{listed}) {{", *(INDENT + line for line in body), "}"))
    return CudaKernel(
        name, text, launch.grid, launch.block, launch.shared_bytes, tuple(arguments), kernel
    )


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
