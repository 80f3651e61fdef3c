"""Sorting orders in CUDA: rows in a block's shared memory, runs of longer ones merged.

Contract: positions are those of a stable order, so results are exactly those of the row. The number
of merging passes follows from a row's length; where that is not known, those of every length are
there, and the launch takes what it needs (see headers/device_ordering.h).
"""

from typing import Any, Final

from dynajit.codegen.c.natives import number_text
from dynajit.codegen.c.support import ceil_div
from dynajit.codegen.cuda.units.steps import CudaKernel
from dynajit.codegen.cuda.units.support import (
    Launch,
    only_if,
    power_of_two,
    scalar_type,
    with_parameters,
)
from dynajit.codegen.loops.loop_ir import Buffer, NativeKernel, typical
from dynajit.core.types import dtypes, symint
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import numel

BLOCK: Final = 2048
"""Elements that a block sorts: DJ_ORDER_BLOCK of headers/device_ordering.h."""

THREADS: Final = 512
MERGE_THREADS: Final = 256
MOST_BLOCKS: Final = 1 << 14

LONGEST: Final = 1 << 36
"""Elements of a row of unknown length at most: more than the memory of any GPU."""

_NARROW_COUNT: Final = (1 << 31) - 1


def print_ordering(kernel: NativeKernel) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of an order, in running order."""
    return _Printer(kernel).steps()


class _Printer:
    """Prints one order. Built once, then only read."""

    def __init__(self, kernel: NativeKernel) -> None:
        self.kernel = kernel
        self.numbers = dict(kernel.numbers)
        (source,), (result,) = kernel.reads, kernel.writes
        assert source is not None and result is not None
        self.source, self.result = source, result
        self.size: Number = self.numbers["size"][0]
        self.stop: Number = self.numbers["stop"][0]
        self.rows: Number = numel(self.numbers.get("sizes", ()))
        is_narrow = isinstance(self.size, int) and self.size < _NARROW_COUNT
        self.position = dtypes.int32 if is_narrow else dtypes.int64
        wide = source.dtype in (dtypes.float64, dtypes.int64)
        self.key_c, self.key = ("uint64_t", dtypes.int64) if wide else ("uint32_t", dtypes.int32)
        self.scalar = scalar_type(source.dtype)
        self.dims = len(self.numbers.get("sizes", ()))

    def steps(self) -> tuple[CudaKernel, ...]:
        """The kernels."""
        if 0 in (self.rows, self.size):
            return ()
        if isinstance(self.size, int) and self.size <= BLOCK:
            return (self._blocks(power_of_two(max(self.size, 2)), is_result=True, known=True),)
        if isinstance(self.size, int):
            return self._merged()
        # One form or the other, by the length of the rows.
        return (self._blocks(BLOCK, is_result=True, known=False), *self._merged())

    def _merged(self) -> tuple[CudaKernel, ...]:
        is_known = isinstance(self.size, int)
        steps = [self._blocks(BLOCK, is_result=False, known=is_known)]
        longest = self.size if isinstance(self.size, int) else LONGEST
        length, number = BLOCK, 0
        while length < longest:
            is_last = is_known and 2 * length >= longest
            if not is_last:
                steps.append(self._merge(length, number, is_result=False, known=is_known))
            if is_last or not is_known:
                steps.append(self._merge(length, number, is_result=True, known=is_known))
            length, number = 2 * length, number + 1
        return tuple(steps)

    # -- memory between the kernels

    def _runs(self, length: int) -> Number:
        """Places that are kept of all runs."""
        return self.rows * ceil_div(self.size, length) * symint.minimum(length, self.stop)

    def _buffers(self, number: int) -> tuple[Buffer, Buffer]:
        """Keys and positions: two pairs take turns."""
        parity = number % 2
        if isinstance(self.size, int):
            lengths = [BLOCK << parity]
            while 2 * lengths[-1] < self.size:
                lengths.append(4 * lengths[-1])
            size = max(map(self._runs, lengths), key=typical)
        else:
            size = self.rows * (2 * self.size + BLOCK)  # the last run is no longer than the row

        def made(what: str, dtype: DType) -> Buffer:
            return Buffer(f"{self.kernel.name}_{what}{parity}", dtype, size)

        return made("keys", self.key), made("places", self.position)

    # -- kernels

    def _blocks(self, row: int, *, is_result: bool, known: bool) -> CudaKernel:
        """Rows or runs in a block's memory."""
        blocks = ceil_div(self.rows * ceil_div(self.size, row), BLOCK // row)
        if not known:
            low, high = (0, BLOCK) if is_result else (BLOCK + 1, None)
            blocks = only_if(blocks, self.size, low, high)
        is_descending = bool(self.numbers["is_descending"][0])
        flags = f"{str(is_descending).lower()}, {str(is_result).lower()}"
        function = f"dj_order_blocks<{row}, {flags}, {self.key_c}, {self.position.c}>"
        targets: tuple[Buffer, ...] = (self.result,) if is_result else self._buffers(0)
        given = ["c", f"(const {self.scalar} *){self.source.name}", *self._targets(targets)]
        shared = BLOCK * (self.key.itemsize + self.position.itemsize)
        launch = Launch(blocks, THREADS, shared)
        name = self.kernel.name if is_result else f"{self.kernel.name}_runs"
        return self._kernel(
            name, f"{function}({', '.join(given)});", launch, [self.source], targets
        )

    def _targets(self, targets: tuple[Buffer, ...]) -> list[str]:
        """The result, keys and positions that are written, those that are not as null."""
        keys, position = self.key_c, self.position.c
        if len(targets) == 1:
            return [targets[0].name, f"({keys} *)nullptr", f"({position} *)nullptr"]
        return ["(int64_t *)nullptr", f"({keys} *){targets[0].name}", targets[1].name]

    def _merge(self, length: int, number: int, *, is_result: bool, known: bool) -> CudaKernel:
        """One pass over all runs."""
        blocks = symint.minimum(ceil_div(self._runs(length), MERGE_THREADS), MOST_BLOCKS)
        if not known:
            low, high = (length + 1, 2 * length) if is_result else (2 * length + 1, None)
            blocks = only_if(blocks, self.size, low, high)
        keys, positions = self._buffers(number)
        targets: tuple[Buffer, ...] = (self.result,) if is_result else self._buffers(number + 1)
        own = [f"(const {self.key_c} *){keys.name}", positions.name]
        given = ["c", f"INT64_C({length})", *own, *self._targets(targets)]
        call = f"dj_order_merge<{str(is_result).lower()}>({', '.join(given)});"
        name = f"{self.kernel.name}_merge{number}{'' if not is_result else '_last'}"
        launch = Launch(blocks, MERGE_THREADS)
        return self._kernel(name, call, launch, [keys, positions], targets)

    def _kernel(
        self, name: str, call: str, launch: Launch, reads: Any, writes: tuple[Buffer, ...]
    ) -> CudaKernel:
        body = [f"dj_order<{self.dims}> c;"]
        for part in ("size", "start", "stop", "step", "offset", "inner"):
            body.append(f"c.{part} = {number_text(self.numbers[part][0])};")
        for part in ("sizes", "strides"):
            for d, number in enumerate(self.numbers.get(part, ())):
                body.append(f"c.{part}[{d}] = {number_text(number)};")
        return with_parameters(self.kernel, name, [*body, call], launch, reads, writes)
