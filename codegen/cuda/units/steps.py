"""What a CUDA unit is made of: kernels with their launches, library calls, fills, as frozen data.

Contract: a step says everything that launching it takes: which function, how many blocks, how much
shared memory, which arguments. Sizes and geometry are numbers, or expressions over the symbols of
the graph that are evaluated for each call. **A step whose grid has a 0 is left out**: nothing is to
be computed, or another step is meant for such sizes. Made by the CUDA printers and
`codegen.cuda.text`; read by the launcher and by the tests' emulator.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from dynajit.codegen.loops.loop_ir import Buffer, Kernel, MatmulKernel
from dynajit.core.records import record
from dynajit.core.types.symint import Number

STATUS: Final = "status"
"""Argument: a device pointer to four int64 that are zero before: code, value, size, lowest of the
first problem (see headers/indices.h). Kernels write it once and never read it."""


@record
class ScalarArgument:
    """A run-time number by value, as 8 bytes: int64, double, or a bool as int64.

    Args:
        position: among the scalar arguments of the graph.
    """

    position: int


@record
class SizeArgument:
    """An int64 by value.

    Args:
        value: over the symbols of the graph.
    """

    value: Number


Word: TypeAlias = Buffer | ScalarArgument | SizeArgument
"""What fills 8 bytes: a device pointer or a number."""


@record
class TableArgument:
    """A structure by value: words row by row.

    Args:
        rows: all of one length.
    """

    rows: tuple[tuple[Word, ...], ...]


Argument: TypeAlias = Word | TableArgument | str

Grid: TypeAlias = tuple[Number, Number, Number]
Block: TypeAlias = tuple[int, int, int]


@record
class CudaKernel:
    """A launch of a printed function.

    Args:
        name: unique in its unit.
        entry: the `extern "C"` function; kernels that differ in their arguments alone share one.
        source: text of the function; `codegen.cuda.text.prelude` comes before it.
        grid: number of blocks in x, y and z.
        block: number of threads in x, y and z.
        shared_bytes: shared memory that the function declares itself.
        dynamic_bytes: shared memory that the launch adds.
        arguments: in the order of the function's parameters.
        kernel: the loop kernel that this is, or belongs to.
    """

    name: str
    entry: str
    source: str
    grid: Grid
    block: Block
    shared_bytes: int
    dynamic_bytes: Number
    arguments: tuple[Argument, ...]
    kernel: Kernel

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers among the arguments; those that no graph value has are temporaries."""
        return tuple(word for word in self.words() if isinstance(word, Buffer))

    @property
    def may_fail(self) -> bool:
        """It may leave an error in the status."""
        return STATUS in self.arguments

    def words(self) -> Iterator[Word]:
        """The arguments, those of tables one by one; without the status."""
        for argument in self.arguments:
            if isinstance(argument, TableArgument):
                for row in argument.rows:
                    yield from row
            elif not isinstance(argument, str):
                yield argument


@record
class LibraryCall:
    """A matrix product: done by cuBLAS, not printed.

    16-bit operands are multiplied and added up in float32. The result has the operands' dtype, or
    is float32. A bias is added to each row before the result is rounded.

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
        bias = () if kernel.bias is None else (kernel.bias,)
        return (kernel.left.buffer, kernel.right.buffer, *bias, kernel.result.buffer)


@record
class Memset:
    """All bytes of a buffer become `byte`.

    Args:
        name: unique in its unit.
        buffer: what is filled.
        byte: from 0 to 255.
    """

    name: str
    buffer: Buffer
    byte: int

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffer."""
        return (self.buffer,)


Step: TypeAlias = CudaKernel | LibraryCall | Memset


@record
class Choice:
    """A number that changes how fast a kernel is, and which bits a sum has, but not what it means.

    Args:
        name: of the loop kernel and of what is chosen, with a colon between.
        values: that may be tried.
        default: what is taken unless the caller says otherwise.
    """

    name: str
    values: tuple[int, ...]
    default: int


@record
class Options:
    """What may be asked of a whole unit.

    Args:
        deterministic: the same bits in every run; otherwise float values that meet at one place of
            a scatter are added in any order.
        tf32: float32 convolutions and attention may multiply with 10 bits of mantissa, on tensor
            cores.
    """

    deterministic: bool = False
    tf32: bool = False
