"""Convolutions and their gradients in CUDA: which calls have kernels, and what those call.

Contract: one product each (see headers/device_convolution.h): in tiles, by tensor cores where the
dtype allows it, or a thread or block for each element where groups have few rows. The gradient by
the weights is cut along its long inner index, and the parts are added up in order.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynajit.codegen.c.natives import number_text
from dynajit.codegen.c.support import ceil_div
from dynajit.codegen.cuda.columns import print_columns
from dynajit.codegen.cuda.units.steps import CudaKernel, Options
from dynajit.codegen.cuda.units.support import Choices, Launch, scalar_type, with_parameters
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Apply,
    Axis,
    Buffer,
    ColumnKernel,
    Load,
    NativeKernel,
    Slot,
    Store,
    typical,
)
from dynajit.codegen.loops.symbolic import cast, literal
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import TensorType, ValueType, numel

MOST_TAPS: Final = 1 << 16
DIMS: Final = 3

FEW_ROWS: Final = 16
"""Rows of a group that would leave most of a tile empty."""

FEW_RESULTS: Final = 1 << 10
"""Rows times columns of a group up to which each has a block of its own."""

MOST_UNROLLED: Final = 32
"""Inner indices that are written out, so that nothing is divided."""

WANTED_BLOCKS: Final = 264
"""Blocks up to which a gradient by weights is cut: two for each SM of the largest GPUs."""

UNKNOWN_CUTS: Final = 16
"""Parts of an inner index of unknown length."""

MOST_PARTS: Final = 65535
"""Blocks of a grid along z."""

THREADS: Final = 256
MMA_WIDE: Final = 128


def why_not_convolution(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call has no CUDA kernel, or None if it has."""
    tensors = [type for type in types if isinstance(type, TensorType)]
    if len(tensors) != sum(type is not None for type in types):
        return "an operand is a number."
    first = tensors[0]
    if not first.dtype.is_floating_point or any(t.dtype is not first.dtype for t in tensors):
        return "the operands are not all of one floating dtype."
    if any(type.strides is not None and not type.is_contiguous for type in tensors):
        return "an operand is not row-major."
    if any(0 in type.shape for type in tensors) or 0 in attributes.get("shape", ()):
        return "an operand is empty."
    size = attributes["size"] if "size" in attributes else tensors[1].shape[2:]
    if len(size) > DIMS:
        return "windows have more than three dims."
    known = [k for k in size if isinstance(k, int)]
    taps = numel(tuple(known))
    assert isinstance(taps, int)
    if len(known) != len(size) or not 0 < taps <= MOST_TAPS:
        return "the windows' size is not known, 0 or too large."
    strides = attributes["stride"]
    edges = (*attributes["before"], *attributes["after"])
    if all(k == 1 for k in size) and all(s == 1 for s in strides) and not any(edges):
        return "it is a matrix product."
    classes = numel(tuple(strides))
    groups = attributes["groups"]
    assert isinstance(classes, int)
    return "there are too many groups." if groups * classes > MOST_PARTS else None


@record
class _Problem:
    """A product; see headers/device_convolution.h.

    Args:
        function: the C++ type.
        rows, columns, inner: of one part.
        parts: groups, times classes.
    """

    function: str
    rows: Number
    columns: Number
    inner: Number
    parts: int


def _problem(row: str, numbers: Mapping[str, tuple[Any, ...]]) -> _Problem:
    (batch,), (groups,) = numbers["batch"], numbers["groups"]
    (outputs,), (channels,) = numbers["outputs"], numbers["channels"]
    taps, pixels = numel(numbers["size"]), batch * numel(numbers["out"])
    if row == "convolution":
        return _Problem("dj_forward", outputs, pixels, channels * taps, groups)
    if row == "convolution_weight":
        return _Problem("dj_weighing", outputs, channels * taps, pixels, groups)
    has_classes = all(d == 1 for d in numbers["dilation"])
    strides = numbers["stride"] if has_classes else (1,) * DIMS
    own = [ceil_div(size, s) for size, s in zip(numbers["in"], strides, strict=True)]
    classes = numel(tuple(strides))
    name = f"dj_transposed<{str(has_classes).lower()}>"
    return _Problem(name, channels, batch * numel(tuple(own)), outputs * taps, groups * classes)


def print_convolution(
    kernel: NativeKernel, choices: Choices, options: Options
) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of a convolution or one of its gradients."""
    return _Printer(kernel, choices, options).steps()


class _Printer:
    """Prints one convolution. Built once, then only read."""

    def __init__(self, kernel: NativeKernel, choices: Choices, options: Options) -> None:
        self.kernel, self.choices = kernel, choices
        self.numbers = dict(kernel.numbers)
        self.problem = _problem(kernel.row, self.numbers)
        first, second, *bias = kernel.reads
        assert first is not None and second is not None
        # The left side is the weights, or the gradient of the result.
        is_weighing = kernel.row == "convolution_weight"
        self.left, self.right = (first, second) if is_weighing else (second, first)
        self.bias = bias[0] if bias else None
        (result,) = (buffer for buffer in kernel.writes if buffer is not None)
        self.result = result
        self.dtype: DType = result.dtype
        is_tf32 = options.tf32 and self.dtype is dtypes.float32
        self.is_mma = self.dtype.itemsize == 2 or is_tf32
        self.scalar = "dj_tf32" if is_tf32 else scalar_type(self.dtype)
        self.rectified = str(bool(self.numbers["is_rectified"][0])).lower()

    def steps(self) -> tuple[CudaKernel, ...]:
        """The kernels, in running order."""
        problem = self.problem
        if typical(problem.rows) < FEW_ROWS:
            if self.kernel.row != "convolution_weight":
                return (self._each(),)
            if typical(problem.rows * problem.columns) <= FEW_RESULTS:
                return (self._whole(),)
        return self._tiled()

    # -- the forms

    def _each(self) -> CudaKernel:
        problem = self.problem
        inner = problem.inner
        unrolled = inner if isinstance(inner, int) and inner <= MOST_UNROLLED else 0
        if problem.function == "dj_transposed<true>" and problem.parts != self._groups():
            unrolled = 0  # classes have fewer taps
        function = (
            f"dj_convolve_each<{problem.function}, {self.scalar}, {self.rectified}, {unrolled}>"
        )
        grid = (ceil_div(problem.columns, THREADS), problem.rows, problem.parts)
        given = [self._pointer(self.left), self._pointer(self.right), self._pointer(self.bias)]
        given.append(self._pointer(self.result, "*"))
        return self._kernel(self.kernel.name, function, given, Launch(grid, THREADS), self.result)

    def _groups(self) -> int:
        groups: int = self.numbers["groups"][0]
        return groups

    def _whole(self) -> CudaKernel:
        problem = self.problem
        function = f"dj_convolve_whole<{problem.function}, {self.scalar}>"
        grid = (problem.columns, problem.rows, problem.parts)
        given = [self._pointer(self.left), self._pointer(self.right)]
        given.append(self._pointer(self.result, "*"))
        return self._kernel(
            self.kernel.name, function, given, Launch(grid, THREADS, 64), self.result
        )

    def _tiled(self) -> tuple[CudaKernel, ...]:
        problem = self.problem
        high = 128 if typical(problem.rows) > 64 else 64
        high = self.choices.of(self.kernel.name, "high", (64, 128), high)
        if self.dtype is dtypes.float64:
            high = 64
        wide = MMA_WIDE if self.is_mma else high
        depth = 32 if self.dtype.itemsize == 2 else 16
        blocks = (ceil_div(problem.columns, wide), ceil_div(problem.rows, high))
        cuts = self._cuts(typical(blocks[0] * blocks[1]) * problem.parts, depth)
        compute = dtypes.compute_dtype(self.dtype)
        whole = problem.rows * problem.columns * self._groups()
        target = self.result
        if cuts > 1:
            target = Buffer(f"{self.kernel.name}_parts", compute, whole * cuts)
        kind = "mma" if self.is_mma else "tiles"
        own = scalar_type(target.dtype)
        function = (
            f"dj_convolve_{kind}<{problem.function}, {self.scalar}, {own}, {self.rectified}, "
            f"{high}, {wide}, {depth}>"
        )
        given = [self._pointer(self.left), self._pointer(self.right), self._pointer(self.bias)]
        given += [f"({own} *){target.name}", str(cuts), number_text(whole)]
        launch = self._launch((*blocks, problem.parts * cuts), high, wide, depth, compute)
        first = self._kernel(self.kernel.name, function, given, launch, target)
        return (first,) if cuts == 1 else (first, *self._fold(target, whole, cuts))

    def _launch(self, grid: Any, high: int, wide: int, depth: int, compute: DType) -> Launch:
        lines = 32 * depth
        if self.is_mma:
            count = high * (depth + 8) + depth * (wide + 8)
            size = count * (2 if self.dtype.itemsize == 2 else 4)
            return Launch(grid, THREADS, 0, -(-size // 16) * 16 + lines, 256)
        tiles = depth * (high + wide + 2) * compute.itemsize
        return Launch(grid, THREADS, tiles + lines, 0, 256)

    def _cuts(self, blocks: int, depth: int) -> int:
        """Parts of the inner index."""
        if self.kernel.row != "convolution_weight":
            return 1
        inner = self.problem.inner
        most = MOST_PARTS // self.problem.parts
        if not isinstance(inner, int):
            return min(UNKNOWN_CUTS, most)
        default = min(-(-WANTED_BLOCKS // max(blocks, 1)), max(1, inner // (8 * depth)), most)
        values = sorted({1, max(1, default // 2), default})
        return self.choices.of(self.kernel.name, "cuts", values, default)

    def _fold(self, parts: Buffer, whole: Number, cuts: int) -> tuple[CudaKernel, ...]:
        """The sum of all parts."""
        cut, place = Axis("i0", cuts), Axis("i1", whole)
        dtype = parts.dtype
        slots = (Slot("a", 0, dtype), Slot("b", 0, dtype))
        element = Load(parts, cut.symbol * whole + place.symbol)
        total = Accumulate(
            "sum", (element,), None, (literal(0, dtype),), (Apply("add", slots, dtype),)
        )
        value = cast(Accumulated("sum", 0, dtype), self.result.dtype)
        fold = ColumnKernel(
            f"{self.kernel.name}_fold", (), (cut,), (place,), (total,),
            (Store(self.result, place.symbol, value),),
        )  # fmt: skip
        return print_columns(fold, self.choices)

    # -- as text

    def _pointer(self, buffer: Buffer | None, kind: str = "const *") -> str:
        if buffer is None:
            return f"(const {self.scalar} *)nullptr"
        const = "const " if kind.startswith("const") else ""
        return f"({const}{self.scalar} *){buffer.name}"

    def _kernel(
        self, name: str, function: str, given: Sequence[str], launch: Launch, target: Buffer
    ) -> CudaKernel:
        body = ["dj_convolution c;"]
        for part, values in self.numbers.items():
            if part == "is_rectified":
                continue
            if len(values) == 1:
                body.append(f"c.{part} = {number_text(values[0])};")
            else:
                body += [f"c.{part}[{d}] = {number_text(n)};" for d, n in enumerate(values)]
        body.append(f"{function}({', '.join(['c', *given])});")
        reads = [self.left, self.right, self.bias]
        return with_parameters(self.kernel, name, body, launch, reads, [target])
