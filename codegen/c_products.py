"""Matrix products in C: tiles over single-threaded BLAS, loops for what BLAS does not know.

Contract: tiles depend on sizes only; transposed and sliced operands are read where they lie.
Called by `codegen.c_text`.
"""

from dynajit.codegen.c_support import Function, function_text, loop, parallel
from dynajit.codegen.fusion import is_blas_matrix
from dynajit.codegen.loops import MatmulKernel, Matrix
from dynajit.core import dtypes

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
    batch = 1
    for size in kernel.batch:
        batch *= size
    tiles, rows = _tiles(kernel, batch)
    task = [
        f"const int64_t first = task % {tiles} * {rows};",
        f"const int64_t rows = dj_min_index({rows}, {kernel.rows} - first);",
        f"int64_t rest = task / {tiles}, left = 0, right = 0, result = 0;",
        *_batch_offsets(kernel),
        "(void)rest;",
        _call(kernel, dtype is dtypes.float32 or dtype is dtypes.float64, _SUFFIX[dtype.name]),
    ]
    multiplications = batch * kernel.rows * kernel.inner * kernel.columns
    tasks = loop("task", "0", str(batch * tiles), task)
    team = "runtime->is_silenced ? threads : 1"
    lines = tasks if batch * tiles == 1 else parallel(multiplications // 16, tasks, team)
    text = function_text(kernel.name, parameters, lines)
    return Function(kernel.name, kernel, text, buffers, False)


def _tiles(kernel: MatmulKernel, batch: int) -> tuple[int, int]:
    """(number of tiles, rows per tile) of each matrix of the batch."""
    work = kernel.rows * kernel.inner * kernel.columns
    count = min(max(work // TILE_WORK, 1), max(kernel.rows // TILE_ROWS, 1), LARGEST_TILE_COUNT)
    if batch >= LARGEST_TILE_COUNT:
        count = 1
    # A multiple of 8 rows keeps tiles on the boundaries of BLAS's own inner blocks.
    rows = -(-max(kernel.rows, 1) // count)
    rows = -(-rows // 8) * 8 if count > 1 else rows
    return max(1, -(-kernel.rows // rows)), rows


def _batch_offsets(kernel: MatmulKernel) -> list[str]:
    lines = []
    for d in reversed(range(len(kernel.batch))):
        if kernel.batch[d] == 1:
            continue
        steps = [
            f"{name} += rest % {kernel.batch[d]} * {matrix.batch_strides[d]};"
            for name, matrix in (
                ("left", kernel.left), ("right", kernel.right), ("result", kernel.result),
            )
            if matrix.batch_strides[d]
        ]  # fmt: skip
        lines += [*steps, f"rest /= {kernel.batch[d]};"]
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
    return (
        f"{head}{_operand(left, 'left', f'first * {left.row_stride}')}, "
        f"{_operand(right, 'right', '0')}, "
        f"{result.buffer.name} + result + first * {kernel.columns}, "
        f"rows, {kernel.inner}, {kernel.columns});"
    )


def _operand(matrix: Matrix, batch: str, row: str) -> str:
    place = f"{matrix.buffer.name} + {matrix.offset} + {batch} + {row}"
    return f"{place}, {matrix.row_stride}, {matrix.column_stride}"
