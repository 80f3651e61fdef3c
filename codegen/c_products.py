"""Matrix products in C: tiles over single-threaded BLAS, loops for what BLAS does not know.

Contract: tiles depend on sizes only; transposed and sliced operands are read where they lie.
Called by `codegen.c_text`.
"""

from dynajit.codegen.c_support import (
    PARALLEL_WORK,
    Function,
    Work,
    function_text,
    loop,
    parallel,
    size_parameters,
    sizes_used,
)
from dynajit.codegen.loops import MatmulKernel, Matrix
from dynajit.codegen.matrices import is_blas_matrix
from dynajit.core import dtypes, symint
from dynajit.core.symint import Number
from dynajit.core.types import numel

TILE_WORK = 1 << 21
"""Multiplications that one BLAS call should do at least when a product is cut into tiles."""

TILE_ROWS = 64
"""Rows of a tile at least: fewer make the packing of the right operand dominate."""

LARGEST_TILE_COUNT = 16

_SUFFIX = {
    "bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip


def print_matmul(kernel: MatmulKernel) -> Function:
    """The C function of a product."""
    dtype = kernel.result.buffer.dtype
    buffers = tuple(dict.fromkeys((kernel.left.buffer, kernel.right.buffer, kernel.result.buffer)))
    parameters = [
        f"{'' if b is kernel.result.buffer else 'const '}{b.dtype.c} *{b.name}" for b in buffers
    ]
    batch = numel(kernel.batch)
    tiles, rows, head = _tiles(kernel, batch)
    task = [
        f"const int64_t first = task % {tiles} * {rows};",
        f"const int64_t rows = dj_min_index({rows}, {symint.c(kernel.rows)} - first);",
        f"int64_t rest = task / {tiles}, left = 0, right = 0, result = 0;",
        *_batch_offsets(kernel),
        "(void)rest;",
        _call(kernel, dtype is dtypes.float32 or dtype is dtypes.float64, _SUFFIX[dtype.name]),
    ]
    multiplications = batch * kernel.rows * kernel.inner * kernel.columns
    count = symint.c(batch * int(tiles)) if not head else f"{symint.c(batch)} * tiles"
    work = Work(multiplications, 16 * PARALLEL_WORK)
    if count == "1":
        lines = loop("task", "0", count, task)
    else:
        lines = parallel(work, "task", count, task, "runtime->is_silenced ? threads : 1")
    body = [*head, *lines]
    sizes = sizes_used(body)
    team = f"{work.condition} && runtime->is_silenced" if work.condition else ""
    text = function_text(kernel.name, [*parameters, *size_parameters(sizes)], body, bool(team))
    return Function(kernel.name, kernel, text, buffers, False, sizes, team)


def _tiles(kernel: MatmulKernel, batch: Number) -> tuple[str, str, list[str]]:
    """(tiles, rows per tile) of each matrix of the batch, and the lines that compute them where
    the sizes are not known."""
    work = kernel.rows * kernel.inner * kernel.columns
    if not (isinstance(work, int) and isinstance(batch, int)):
        return _tiles_text(kernel, batch)
    assert isinstance(kernel.rows, int)
    count = min(max(work // TILE_WORK, 1), max(kernel.rows // TILE_ROWS, 1), LARGEST_TILE_COUNT)
    if batch >= LARGEST_TILE_COUNT:
        count = 1
    # A multiple of 8 rows keeps tiles on the boundaries of BLAS's own inner blocks.
    rows = -(-max(kernel.rows, 1) // count)
    rows = -(-rows // 8) * 8 if count > 1 else rows
    return str(max(1, -(-kernel.rows // rows))), str(rows), []


def _tiles_text(kernel: MatmulKernel, batch: Number) -> tuple[str, str, list[str]]:
    """What `_tiles` computes, in C."""
    rows, work = symint.c(kernel.rows), symint.c(kernel.rows * kernel.inner * kernel.columns)
    few = f"dj_min_index({work} / {TILE_WORK}, {rows} / {TILE_ROWS})"
    count = f"dj_max_index(dj_min_index({few}, {LARGEST_TILE_COUNT}), 1)"
    if symint.is_at_least(batch, LARGEST_TILE_COUNT):
        count = "1"
    elif not isinstance(batch, int):
        count = f"{symint.c(batch)} >= {LARGEST_TILE_COUNT} ? 1 : {count}"
    head = [
        f"const int64_t most = {count};",
        f"const int64_t even = (dj_max_index({rows}, 1) + most - 1) / most;",
        "const int64_t step = most > 1 ? (even + 7) / 8 * 8 : even;",
        f"const int64_t tiles = dj_max_index(({rows} + step - 1) / step, 1);",
    ]
    return "tiles", "step", head


def _batch_offsets(kernel: MatmulKernel) -> list[str]:
    lines = []
    for d in reversed(range(len(kernel.batch))):
        if kernel.batch[d] == 1:
            continue
        size = symint.c(kernel.batch[d])
        steps = [
            f"{name} += rest % {size} * {symint.c(matrix.batch_strides[d])};"
            for name, matrix in (
                ("left", kernel.left), ("right", kernel.right), ("result", kernel.result),
            )
            if matrix.batch_strides[d] != 0
        ]  # fmt: skip
        lines += [*steps, f"rest /= {size};"]
    return lines


def _call(kernel: MatmulKernel, is_real: bool, suffix: str) -> str:
    left, right, result = kernel.left, kernel.right, kernel.result
    blas = (
        is_real
        and is_blas_matrix(left, kernel.rows, kernel.inner)
        and is_blas_matrix(right, kernel.inner, kernel.columns)
    )
    gemm = {"f32": "(dj_sgemm_function)runtime->sgemm", "f64": "(dj_dgemm_function)runtime->dgemm"}
    head = f"dj_gemm_{suffix}({gemm[suffix]}, " if blas else f"dj_product_{suffix}("
    inner, columns = symint.c(kernel.inner), symint.c(kernel.columns)
    return (
        f"{head}{_operand(left, 'left', f'first * {symint.c(left.row_stride)}')}, "
        f"{_operand(right, 'right', '0')}, "
        f"{result.buffer.name} + result + first * {columns}, "
        f"rows, {inner}, {columns});"
    )


def _operand(matrix: Matrix, batch: str, row: str) -> str:
    place = f"{matrix.buffer.name} + {symint.c(matrix.offset)} + {batch} + {row}"
    return f"{place}, {symint.c(matrix.row_stride)}, {symint.c(matrix.column_stride)}"
