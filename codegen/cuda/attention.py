"""Attention and its gradients in CUDA: which calls have kernels, and which functions they call.

Contract: operands are read where they lie, by their strides; sizes are those of the loop kernel,
known or symbolic. float32 and 16-bit floats of up to 128 features go to tensor cores (float32 in
three products, or in one where `Options.tf32` allows it), others through tiles. The functions are
in headers/device_attention.h and device_attention_mma.h.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dynajit.codegen.c.natives import number_text
from dynajit.codegen.c.support import ceil_div
from dynajit.codegen.cuda.units.steps import CudaKernel, Options
from dynajit.codegen.cuda.units.support import Launch, scalar_type, with_parameters
from dynajit.codegen.loops.loop_ir import Buffer, NativeKernel
from dynajit.codegen.plan.native_attention import BATCH_DIMS, FORWARD, operands_of
from dynajit.core.records import record
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import TensorType, ValueType, numel

MOST_FEATURES: Final = 256
"""Features or values of a head that tiles in shared memory have room for."""

MOST_MMA_FEATURES: Final = 128
"""The same where sums of a warp are in its registers."""

MOST_FLOAT_SUMS: Final = 160
"""Features and values of float32 for whose gradients, both of them, a warp has registers."""

SHARED_BYTES: Final = 99 << 10

TILE_THREADS: Final = 256
MMA_THREADS: Final = 128
MMA_ROWS: Final = 64
ALONG_THREADS: Final = 256

_TILES: Final = ((64, 64), (64, 32), (32, 32), (32, 16), (16, 16))
"""Queries and keys of a tile, the best first."""

_DIAGONAL: Final = 4

_TF32: Final = "dj_tf32"
"""The type of float32 that may be multiplied with ten bits of mantissa."""


def why_not_attention(
    row: str, types: Sequence[ValueType | None], attributes: Mapping[str, Any]
) -> str | None:
    """Why a call has no CUDA kernel, or None if it has."""
    if attributes["dropout_p"] != 0:
        return "dropout draws a number for each weight, which the kernel never stores."
    given = dict(zip(operands_of(row), types, strict=False))
    mask = given.pop("mask")
    level = given.pop("level", None)
    tensors = [type for type in given.values() if isinstance(type, TensorType)]
    query, value = given["query"], given["value"]
    assert isinstance(query, TensorType)
    assert isinstance(value, TensorType)
    if any(type.dtype is not query.dtype for type in tensors):
        return "the operands have several dtypes."
    if isinstance(level, TensorType) and level.dtype is not dtypes.compute_dtype(query.dtype):
        return "the level is not of the dtype of the computation."
    rank = max(type.rank for type in tensors)
    if isinstance(mask, TensorType):
        if mask.dtype not in (dtypes.bool_, query.dtype, dtypes.compute_dtype(query.dtype)):
            return "the mask is neither bool nor of the query's dtype."
        if mask.rank > rank:
            return "the mask has more dims than the result."
    if rank - 2 > BATCH_DIMS:
        return "there are more than four leading dims."
    if any(0 in type.shape for type in tensors):
        return "an operand is empty."
    features = (query.shape[-1], value.shape[-1])
    if any(not isinstance(size, int) or size > MOST_FEATURES for size in features):
        return f"there are more than {MOST_FEATURES} features, or they are not known."
    return None if _has_room(row, query.dtype, *map(_padded, features)) else "tiles have no room."


def _padded(size: Any) -> int:
    return -(-int(size) // 16) * 16


def _has_room(row: str, dtype: DType, features: int, values: int) -> bool:
    kinds = ("forward",) if row in FORWARD else ("keys", "queries")
    return all(
        _is_mma(kind, dtype, features, values) or _tile(kind, dtype, features, values) is not None
        for kind in kinds
    )


def _is_mma(kind: str, dtype: DType, features: int, values: int) -> bool:
    """True for tensor cores."""
    if kind == "keys" and dtype.itemsize == 4 and features + values > MOST_FLOAT_SUMS:
        return False
    return dtype.itemsize <= 4 and max(features, values) <= MOST_MMA_FEATURES


def _tile(kind: str, dtype: DType, features: int, values: int) -> tuple[int, int, int] | None:
    """Queries and keys of a tile, and the bytes of shared memory; None if there is no room."""
    size = dtypes.compute_dtype(dtype).itemsize
    for queries, keys in _TILES:
        if kind == "forward":
            wide = max(features, values) + 1
            count = queries * (features + 1) + keys * wide + queries * (keys + 1)
        else:
            # Rows of scores end with one more element: that of either side, the longer one.
            count = (queries + keys) * (features + values + 2) + (queries + 1) * (keys + 1)
        if count * size <= SHARED_BYTES and not (size == 8 and queries > 32):
            return queries, keys, count * size
    return None


@record
class _Sizes:
    """What all kernels of a call know.

    Args:
        numbers: of the loop kernel.
        dtype: of query, key and value.
        mask: the kind, with `_DIAGONAL`; `mask_dtype`: of an added mask.
        features, values: multiples of 16.
        scalar: the C++ type of query, key and value.
    """

    numbers: Mapping[str, tuple[Any, ...]]
    dtype: DType
    mask: int
    mask_dtype: DType
    features: int
    values: int
    scalar: str

    @property
    def heads(self) -> Number:
        """All of them."""
        return numel(self.numbers["batch"])

    def is_mma(self, kind: str) -> bool:
        """True for tensor cores."""
        return _is_mma(kind, self.dtype, self.features, self.values)

    def blocks(self, name: str, high: int) -> Number:
        """Blocks for every head's rows, `high` at a time."""
        return self.heads * ceil_div(self.numbers[name][0], high)

    def types(self) -> str:
        """Template arguments: dtypes and mask."""
        mask = scalar_type(self.mask_dtype)
        return f"{self.scalar}, {mask}, {self.mask}"

    def cast(self, buffer: Buffer | None) -> str:
        """A pointer to query, key, value or what has their dtype."""
        if buffer is None or self.scalar != _TF32:
            return _cast(buffer)
        return f"({self.scalar} *){buffer.name}"

    def residents(self, kind: str) -> int:
        """Threads of an SM that a kernel on tensor cores leaves registers for."""
        is_small = self.dtype.itemsize == 4 and max(self.features, self.values) <= 64
        return 384 if is_small and kind != "keys" else 256


def print_attention(kernel: NativeKernel, options: Options) -> tuple[CudaKernel, ...]:
    """The CUDA kernels of attention or its gradients, in running order."""
    numbers = dict(kernel.numbers)
    reads = dict(zip(operands_of(kernel.row), kernel.reads, strict=True))
    query, mask = reads["query"], reads["mask"]
    assert query is not None
    (kind,), (is_causal,) = numbers["mask_kind"], numbers["is_causal"]
    is_added = mask is not None and mask.dtype is not dtypes.bool_
    sizes = _Sizes(
        numbers,
        query.dtype,
        kind | (_DIAGONAL if is_causal else 0),
        mask.dtype if is_added and mask is not None else query.dtype,
        _padded(numbers["features"][0]),
        _padded(numbers["values"][0]),
        _TF32 if options.tf32 and query.dtype is dtypes.float32 else scalar_type(query.dtype),
    )
    if kernel.row in FORWARD:
        return (_forward(kernel, sizes, reads),)
    return _backward(kernel, sizes, reads)


def _forward(kernel: NativeKernel, sizes: _Sizes, reads: Mapping[str, Buffer | None]) -> CudaKernel:
    result, level = kernel.writes
    e, v = sizes.features, sizes.values
    given = [sizes.cast(reads[name]) for name in ("query", "key", "value")]
    given += [_name(reads["mask"]), sizes.cast(result), _name(level)]
    if sizes.is_mma("forward"):
        keys = 64 if sizes.dtype.itemsize == 2 or max(e, v) <= 64 else 32
        function = f"dj_attend_mma<{sizes.types()}, {keys}, {e}, {v}>"
        item = sizes.dtype.itemsize
        size = (MMA_ROWS + keys) * (e * item + 16) + keys * (v * item + 16)
        blocks = sizes.blocks("queries", MMA_ROWS)
        launch = Launch(blocks, MMA_THREADS, 0, size, sizes.residents("forward"))
    else:
        tile = _tile("forward", sizes.dtype, e, v)
        assert tile is not None
        queries, keys, size = tile
        function = f"dj_attend_tiles<{sizes.types()}, {queries}, {keys}, {e}, {v}>"
        launch = Launch(sizes.blocks("queries", queries), TILE_THREADS, 0, size, 256)
    used = [reads[name] for name in ("query", "key", "value", "mask")]
    return _kernel(kernel, kernel.name, sizes, function, given, launch, used, kernel.writes)


def _backward(
    kernel: NativeKernel, sizes: _Sizes, reads: Mapping[str, Buffer | None]
) -> tuple[CudaKernel, ...]:
    """What a query's gradient has along its result; gradients of keys and values; of queries."""
    to_query, to_key, to_value = kernel.writes
    compute = dtypes.compute_dtype(sizes.dtype)
    along = Buffer(f"{kernel.name}_along", compute, sizes.heads * sizes.numbers["queries"][0])
    c = scalar_type(sizes.dtype)
    rows = ceil_div(sizes.heads * sizes.numbers["queries"][0], ALONG_THREADS // 32)
    first = _kernel(
        kernel, f"{kernel.name}_sums", sizes, f"dj_attention_along<{c}>",
        [_cast(reads["gradient"]), _cast(reads["result"]), along.name],
        Launch(rows, ALONG_THREADS), [reads["gradient"], reads["result"]], [along],
    )  # fmt: skip
    steps = [first]
    names = ("gradient", "query", "key", "value")
    given = [*(sizes.cast(reads[name]) for name in names), _name(reads["mask"])]
    given += [_name(reads["level"]), along.name]
    used = [*(reads[name] for name in (*names, "mask", "level")), along]
    for kind, results in (("keys", (to_key, to_value)), ("queries", (to_query,))):
        if any(result is not None for result in results):
            function, launch = _gradient(kind, sizes)
            arguments = [*given, *map(_name, results)]
            steps.append(_kernel(kernel, f"{kernel.name}_{kind}", sizes, function, arguments,
                                 launch, used, results))  # fmt: skip
    return tuple(steps)


def _gradient(kind: str, sizes: _Sizes) -> tuple[str, Launch]:
    """The function of a gradient kernel, and its launch."""
    e, v = sizes.features, sizes.values
    if sizes.is_mma(kind):
        row = (e + v) * sizes.dtype.itemsize + 32
        other = _other(kind, sizes, row)
        function = f"dj_attend_{kind}_mma<{sizes.types()}, {other}, {e}, {v}>"
        size = (MMA_ROWS + 2 * other) * row
        blocks = sizes.blocks(kind, MMA_ROWS)
        return function, Launch(blocks, MMA_THREADS, 0, size, sizes.residents(kind))
    tile = _tile(kind, sizes.dtype, e, v)
    assert tile is not None
    queries, keys, size = tile
    function = f"dj_attend_{kind}_tiles<{sizes.types()}, {queries}, {keys}, {e}, {v}>"
    high = keys if kind == "keys" else queries
    return function, Launch(sizes.blocks(kind, high), TILE_THREADS, 0, size, 256)


def _other(kind: str, sizes: _Sizes, row: int) -> int:
    """Rows of the tiles that a block of a gradient goes over: `row` bytes of both sides."""
    e, v = sizes.features, sizes.values
    # Sums, scores and slopes of a warp fill its registers; added masks take some more.
    is_added = sizes.mask & 2
    if sizes.dtype.itemsize == 4:
        is_crowded = kind == "keys" and (e + v > 128 or is_added)
        return 16 if is_crowded or (MMA_ROWS + 2 * 32) * row > SHARED_BYTES else 32
    is_crowded = kind == "keys" and e + v > 192 and is_added
    return 64 if max(e, v) <= 64 else 16 if is_crowded else 32


def _name(buffer: Buffer | None) -> str:
    return "nullptr" if buffer is None else buffer.name


def _cast(buffer: Buffer | None) -> str:
    """A pointer to elements of the type that C++ tells from others of 16 bits."""
    if buffer is None or buffer.dtype.itemsize != 2:
        return _name(buffer)
    return f"({scalar_type(buffer.dtype)} *){buffer.name}"


def _kernel(
    kernel: NativeKernel,
    name: str,
    sizes: _Sizes,
    function: str,
    given: Sequence[str],
    launch: Launch,
    reads: Sequence[Buffer | None],
    writes: Sequence[Buffer | None],
) -> CudaKernel:
    """A kernel that calls one function."""
    body = ["dj_attention c = {};"]
    for part, values in sizes.numbers.items():
        if part in ("is_causal", "mask_kind"):
            continue
        if part in ("query", "key", "value", "mask", "gradient", "result", "level"):
            offset, *batch, row, column = values
            body += [f"c.{part}.offset = {number_text(offset)};"]
            body += [f"c.{part}.batch[{d}] = {number_text(n)};" for d, n in enumerate(batch)]
            body += [f"c.{part}.row = {number_text(row)};"]
            body += [f"c.{part}.column = {number_text(column)};"]
        elif len(values) == 1:
            body.append(f"c.{part} = {number_text(values[0])};")
        else:
            body += [f"c.{part}[{d}] = {number_text(n)};" for d, n in enumerate(values)]
    typed = [
        text.replace("(dj_", "(const dj_") if _is_read(text, reads) else text for text in given
    ]
    body.append(f"{function}({', '.join(['c', *typed])});")
    return with_parameters(kernel, name, body, launch, reads, writes)


def _is_read(text: str, reads: Sequence[Buffer | None]) -> bool:
    return any(buffer is not None and text.endswith(f"){buffer.name}") for buffer in reads)
