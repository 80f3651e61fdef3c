"""Matrix products in C: tiles, each one call of our own products or of BLAS on one thread, and
loops for small ones and for dtypes that neither knows.

Contract: tiles depend on sizes and on the machine's cores, not on the team; transposed and sliced
operands are read where they lie.
"""

import math
import os

from dynajit.codegen.c.rows import EpilogueOver
from dynajit.codegen.c.support import (
    PARALLEL_WORK,
    Function,
    Work,
    function_text,
    loop,
    parallel,
    size_parameters,
    sizes_used,
)
from dynajit.codegen.loops.loop_ir import MatmulKernel, Matrix
from dynajit.codegen.plan.matrices import is_blas_matrix
from dynajit.core.arrays import _products
from dynajit.core.records import record
from dynajit.core.types import dtypes, symint
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import numel

TILE_WORK = 1 << 19
"""Multiplications that one call should do at least when a product is cut into tiles."""

LONG = 128
"""Rows or columns of a tile, of whichever there are more: the other operand is read anew for every
tile. On AVX-512, two cores, halves of 32x512 @ 512x128 take 17 us and the whole 30."""

TEAM_WORK = 4 * PARALLEL_WORK
"""Multiplications below which a product stays on one thread. On two such cores that are awake
64x64 @ 64x256, which has as many, takes 8.5 us instead of 15; 32x128 @ 128x512 17 instead of 32."""

VECTOR_BYTES = 1 << 18
"""Of a tile of a matrix that is multiplied with a vector: it is read once, at the speed of a core's
second cache. On two such cores that are awake 300x300 in float64 takes 4.2 us instead of 6.2."""

SHORT = 1024
"""The same of whichever there are fewer."""

LARGEST_TILE_COUNT = min(os.cpu_count() or 1, 16)
"""No more tiles than cores, whether or not the team uses them: on two cores halves of 1024 x 1024
instead of quarters are 5 to 15 % quicker, measured on AVX-512 with operands that are not cached."""

MANY = 16
"""Matrices of a batch from which none is cut."""

BLAS_BLOCK = 16
"""Tiles are multiples of this many rows and columns, as the inner blocks of BLAS are."""

SMALL = 64
"""Elements of a right operand up to which the product is unrolled (`DJ_SMALLEST` of products.h).
Measured on AVX-512, one thread: 4096 products of 4x4 take 13 us and 108 by BLAS, of 8x8 114 and
176, of 12x12 174 and 147; 10000x3 @ 3x3 takes 4.6 us and 13.7."""

FEW_ROWS, FEW_COLUMNS = 4, 12
"""Rows or columns below which our own products have orders of their own (`few_products.h`)."""

NAIVE_WORK = 400
"""Multiplications below which each product of a stack has the order of k there."""

LONGEST_SMALL = 8
"""Rows or columns of such an operand: 10000x16 @ 16x4 takes 88 us and 46 by BLAS."""

FEWEST_MIRRORED_ROWS, FEWEST_TERMS = 84, 32
"""A matrix times its transpose, of whose sums half are computed, has so many rows and as long sums
(MIRRORED_ROWS and MIRRORED_DEPTH of _products.c)."""

TILE_ROWS = 42
"""Rows that are multiplied at a time are multiples of this: of 6 and of 14, the rows of a tile of
`_products.c`."""

EPILOGUE_BYTES = 1 << 18
"""Of a result that meets its epilogue: they stay in a core's second cache, beside operands."""

MOST_INNER = 512
"""Length of the sums of a product up to which its result is worth keeping in cache: beyond, a pass
over it is less than 2 % of the multiplications."""

_SUFFIX = {
    "bool": "b8", "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "float32": "f32", "float64": "f64",
}  # fmt: skip


def print_matmul(kernel: MatmulKernel) -> Function:
    """The C function of a product."""
    bias = () if kernel.bias is None else (kernel.bias,)
    over = _epilogue_over(kernel)
    beside = over.operands[:-1] if over else ()
    read = (kernel.left.buffer, kernel.right.buffer, *bias, *beside)
    buffers = tuple(dict.fromkeys((*read, kernel.result.buffer)))
    parameters = [
        f"{'' if b is kernel.result.buffer else 'const '}{b.dtype.c} *{b.name}" for b in buffers
    ]
    batch = numel(kernel.batch)
    width = symint.c(kernel.columns)
    ends = _ends_of_mirrored(kernel)
    tiles = _tiles(kernel, batch) if ends is None else _tiles_below_each_other(ends)
    across = f"task / {tiles.row_count} % {tiles.column_count}"
    task = [
        f"const int64_t row = {tiles.row};",
        f"const int64_t column = {across} * {tiles.columns};",
        f"const int64_t rows = dj_min_index({tiles.rows}, {symint.c(kernel.rows)} - row);",
        f"const int64_t columns = dj_min_index({tiles.columns}, {width} - column);",
        f"int64_t rest = task / ({tiles.row_count} * {tiles.column_count});",
        "int64_t left = 0, right = 0, result = 0;",
        *_batch_offsets(kernel),
        "(void)rest;",
    ]
    if over is None:
        task += call(kernel, how="0" if ends is None else "DJ_MIRRORED")
    else:
        task += _with_epilogue(kernel, over, tiles)
    multiplications = batch * kernel.rows * kernel.inner * kernel.columns
    work = Work(multiplications, 1 if _vector_tiles(kernel, batch) > 1 else TEAM_WORK)
    count = f"{symint.c(batch)} * {tiles.row_count} * {tiles.column_count}"
    if batch == 1 and tiles.is_one:
        lines = loop("task", "0", "1", task)
    else:
        lines = parallel(work, "task", count, task, "runtime->is_silenced ? threads : 1")
    body = [*tiles.head, *lines]
    sizes = sizes_used(body)
    team = f"{work.condition} && runtime->is_silenced" if work.condition else ""
    text = function_text(kernel.name, [*parameters, *size_parameters(sizes)], body, bool(team))
    return Function(kernel.name, kernel, text, buffers, False, sizes, team)


@record
class Tiles:
    """How each matrix of the batch is cut, as C.

    Args:
        row_count, column_count: tiles below and beside each other.
        rows, columns: of a tile; the last ones may have fewer.
        head: lines that compute these where sizes are not known.
        first_row: of the tile `task`, where rows are not cut evenly.
    """

    row_count: str
    column_count: str
    rows: str
    columns: str
    head: tuple[str, ...] = ()
    first_row: str = ""

    @property
    def row(self) -> str:
        """The first row of the tile `task`."""
        return self.first_row or f"task % {self.row_count} * {self.rows}"

    @property
    def most_rows(self) -> int:
        """Tiles below each other, as many as there may be."""
        return LARGEST_TILE_COUNT if self.head else int(self.row_count)

    @property
    def is_one(self) -> bool:
        """Nothing is cut."""
        return self.row_count == self.column_count == "1"


# ---------------------------------------------------------------------------------------------
# with epilogues


def may_have_epilogue(kernel: MatmulKernel) -> bool:
    """True for a product of many rows and columns whose result is worth keeping in cache."""
    sizes = (*kernel.batch, kernel.rows, kernel.inner, kernel.columns)
    if not all(isinstance(size, int) for size in sizes) or may_be_few(kernel):
        return False
    is_short = symint.is_at_least(MOST_INNER, kernel.inner)
    return is_short and calls_gemm(kernel) and _ends_of_mirrored(kernel) is None


def _epilogue_over(kernel: MatmulKernel) -> EpilogueOver | None:
    """The epilogue of the columns at hand, of the rows of all matrices from `top` to `bottom`."""
    if kernel.epilogue is None:
        return None
    return EpilogueOver(kernel.epilogue, ("top", "bottom"), "column", "columns", kernel.columns)


def _with_epilogue(kernel: MatmulKernel, over: EpilogueOver, tiles: Tiles) -> list[str]:
    """The lines for a tile, each part of which meets the epilogue while it is cached."""
    assert isinstance(kernel.inner, int)
    itemsize = kernel.result.buffer.dtype.itemsize
    most = min(EPILOGUE_BYTES // TILE_ROWS, _products.KEPT_BYTES // kernel.inner) // itemsize
    whole = int(tiles.columns)
    across = _step(whole, -(-whole // max(most - BLAS_BLOCK, BLAS_BLOCK)))
    panel = max(EPILOGUE_BYTES // (across * itemsize) // TILE_ROWS, 1) * TILE_ROWS
    is_high = panel < int(tiles.rows)
    rows = [
        f"const int64_t rows = dj_min_index({panel}, past - row);",
        *(call(kernel, "0", "packed") if is_high else call(kernel)),
        f"const int64_t top = result / {kernel.columns} + row, bottom = top + rows;",
        *over.lines,
        *(["packed = DJ_IS_PACKED;"] if is_high else []),
    ]
    columns = [
        f"const int64_t columns = dj_min_index({across}, end - column);",
        *(["int packed = 0;"] if is_high else []),
        *loop("row", "first", "past", rows, step=str(panel)),
    ]
    return [
        "const int64_t first = row, past = row + rows, start = column, end = column + columns;",
        *loop("column", "start", "end", columns, step=str(across)),
    ]


# ---------------------------------------------------------------------------------------------
# tiles


def _tiles(kernel: MatmulKernel, batch: Number) -> Tiles:
    """Tiles by the sizes alone, so that the bits of a result do not depend on the threads.

    The longer side is cut first: into two from half of LONG on, into more where each has LONG.
    """
    rows, columns = kernel.rows, kernel.columns
    work = rows * kernel.inner * columns
    count = _vector_tiles(kernel, batch)
    if count > 1:
        assert isinstance(rows, int)
        step = _step(rows, count)
        return Tiles(str(-(-rows // step)), "1", str(step), "1")
    if not all(isinstance(number, int) for number in (work, batch, rows, columns)):
        return _tiles_text(kernel, batch)
    assert isinstance(rows, int) and isinstance(columns, int)
    assert isinstance(work, int) and isinstance(batch, int)
    most = 1 if batch >= MANY else _most(work)
    longer, shorter = max(rows, columns), min(rows, columns)
    pieces = _pieces(longer, most)
    others = max(min(shorter // SHORT, most // pieces), 1)
    row_count, column_count = (pieces, others) if rows >= columns else (others, pieces)
    tile_rows, tile_columns = _step(rows, row_count), _step(columns, column_count)
    return Tiles(
        str(max(1, -(-rows // tile_rows))),
        str(max(1, -(-columns // tile_columns))),
        str(tile_rows),
        str(tile_columns),
    )


def _vector_tiles(kernel: MatmulKernel, batch: Number) -> int:
    """Tiles of the rows of a matrix that lie one behind the other, times a vector; 1: it is another
    product, or a small one."""
    rows, inner = kernel.rows, kernel.inner
    if kernel.columns != 1 or batch != 1 or kernel.left.column_stride != 1:
        return 1
    if not isinstance(rows, int) or not isinstance(inner, int) or not calls_gemm(kernel):
        return 1
    bytes_of_matrix = rows * inner * kernel.result.buffer.dtype.itemsize
    return max(min(bytes_of_matrix // VECTOR_BYTES, LARGEST_TILE_COUNT, rows // BLAS_BLOCK), 1)


def _ends_of_mirrored(kernel: MatmulKernel) -> list[int] | None:
    """Of a matrix times its own transpose: where its tiles of rows end; None: it is none, or small.

    The first tile is a square, of which half is computed (`product_loops.h`), others are as wide as
    the square that they end; all have the same work.
    """
    left, right, rows, inner = kernel.left, kernel.right, kernel.rows, kernel.inner
    if kernel.batch or kernel.bias is not None or rows != kernel.columns:
        return None
    if not isinstance(rows, int) or not isinstance(inner, int) or not calls_gemm(kernel):
        return None
    is_own = (left.buffer, left.offset) == (right.buffer, right.offset)
    strides = left.row_stride, left.column_stride
    if not is_own or strides != (right.column_stride, right.row_stride):
        return None
    if rows < FEWEST_MIRRORED_ROWS or inner < FEWEST_TERMS:
        return None
    count = _pieces(rows, _most(rows * inner * rows // 2))
    below, above = 0.0, 1.0  # the work of a tile, as a part of the whole product's
    for _ in range(40):
        middle = (below + above) / 2
        below, above = (middle, above) if _side(count, middle) < 1 else (below, middle)
    return [_even(rows * _side(number + 1, above)) for number in range(count - 1)] + [rows]


def _side(count: int, work: float) -> float:
    """The side of the square that so many tiles of as much work make up."""
    side = math.sqrt(2 * work)
    for _ in range(count - 1):
        side = (side + math.sqrt(side * side + 4 * work)) / 2
    return side


def _even(length: float) -> int:
    return round(length / BLAS_BLOCK) * BLAS_BLOCK


def _tiles_below_each_other(ends: list[int]) -> Tiles:
    text = ", ".join(map(str, (0, *ends)))
    head = (f"static const int64_t ends[] = {{{text}}};",)
    first, rows = "ends[task]", "(ends[task + 1] - ends[task])"
    return Tiles(str(len(ends)), "1", rows, str(ends[-1]), head, first)


def tiles_of_rows(rows: Number, work: Number) -> Tiles:
    """Tiles of all columns, for what does so many multiplications."""
    if isinstance(rows, int) and isinstance(work, int):
        step = _step(rows, _pieces(rows, _most(work)))
        return Tiles(str(max(1, -(-rows // step))), "1", str(step), "")
    text = symint.c(rows)
    head = (
        f"const int64_t most = {_most_text(work)};",
        *_pieces_text(text),
        f"const int64_t tile_rows = dj_tile_length({text}, pieces);",
        f"const int64_t row_count = dj_max_index(({text} + tile_rows - 1) / tile_rows, 1);",
    )
    return Tiles("row_count", "1", "tile_rows", "", head)


def _most(work: int) -> int:
    """Tiles at most."""
    return min(max(work // TILE_WORK, 1), LARGEST_TILE_COUNT)


def _pieces(longer: int, most: int) -> int:
    """Parts of the longer side."""
    return max(min(max(longer // LONG, min(2 * longer // LONG, 2)), most), 1)


def _most_text(work: Number) -> str:
    """What `_most` computes, in C."""
    return f"dj_max_index(dj_min_index({symint.c(work)} / {TILE_WORK}, {LARGEST_TILE_COUNT}), 1)"


def _pieces_text(longer: str) -> tuple[str, ...]:
    """What `_pieces` computes, in C."""
    return (
        f"const int64_t halves = dj_min_index(2 * {longer} / {LONG}, 2);",
        f"const int64_t wanted = dj_min_index(dj_max_index({longer} / {LONG}, halves), most);",
        "const int64_t pieces = dj_max_index(wanted, 1);",
    )


def _step(length: int, count: int) -> int:
    """Rows or columns of a tile; at least 1."""
    even = -(-max(length, 1) // count)
    return -(-even // BLAS_BLOCK) * BLAS_BLOCK if count > 1 else even


def _tiles_text(kernel: MatmulKernel, batch: Number) -> Tiles:
    """What `_tiles` computes, in C."""
    rows, columns = symint.c(kernel.rows), symint.c(kernel.columns)
    most = _most_text(kernel.rows * kernel.inner * kernel.columns)
    if symint.is_at_least(batch, MANY):
        most = "1"
    elif not isinstance(batch, int):
        most = f"{symint.c(batch)} >= {MANY} ? 1 : {most}"
    head = (
        f"const int64_t most = {most}, is_upright = {rows} >= {columns};",
        f"const int64_t longer = dj_max_index({rows}, {columns});",
        f"const int64_t shorter = dj_min_index({rows}, {columns});",
        *_pieces_text("longer"),
        f"const int64_t others = dj_max_index(dj_min_index(shorter / {SHORT}, most / pieces), 1);",
        f"const int64_t tile_rows = dj_tile_length({rows}, is_upright ? pieces : others);",
        f"const int64_t tile_columns = dj_tile_length({columns}, is_upright ? others : pieces);",
        f"const int64_t row_count = dj_max_index(({rows} + tile_rows - 1) / tile_rows, 1);",
        f"const int64_t columns_left = {columns} + tile_columns - 1;",
        "const int64_t column_count = dj_max_index(columns_left / tile_columns, 1);",
    )
    return Tiles("row_count", "column_count", "tile_rows", "tile_columns", head)


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


def calls_gemm(kernel: MatmulKernel) -> bool:
    """True if the product is one of our own, or of BLAS: the operands are such matrices."""
    dtype = kernel.result.buffer.dtype
    return (
        (dtype is dtypes.float32 or dtype is dtypes.float64)
        and is_blas_matrix(kernel.left, kernel.rows, kernel.inner)
        and is_blas_matrix(kernel.right, kernel.inner, kernel.columns)
        and not _is_small(kernel)
    )


def call(kernel: MatmulKernel, home: str = "-1", packed: str = "0", how: str = "0") -> list[str]:
    """The lines for `rows` from `row` on and `columns` from `column` on, of the matrices that begin
    at `left`, `right` and `result`: variables in C.

    Args:
        home, packed: `home` of product_loops.h, and DJ_IS_PACKED where columns are packed already.
        how: DJ_MIRRORED where it is.
    """
    left, right, result = kernel.left, kernel.right, kernel.result
    suffix = _SUFFIX[result.buffer.dtype.name]
    head, end = f"dj_product_{suffix}(", ", 0"
    if calls_gemm(kernel):
        head, end = f"dj_gemm_{suffix}(runtime, ", f", {home}, {_how(kernel, packed, how)}"
    elif _is_small(kernel):
        is_apart = left.buffer.dtype is dtypes.float32 and _products.ROUNDS_TERMS_OF_FEW
        head, end = f"dj_small_{'apart_' if is_apart else ''}{suffix}(", ""
    whole = symint.c(kernel.columns)
    tile = f"{result.buffer.name} + result + row * {whole} + column, {whole}"
    product = (
        f"{head}{_operand(left, 'left', f'row * {symint.c(left.row_stride)}')}, "
        f"{_operand(right, 'right', f'column * {symint.c(right.column_stride)}')}, "
        f"{tile}, rows, {symint.c(kernel.inner)}, columns{end});"
    )
    if _has_aligned_lanes(kernel):
        place = _place(left, "left", f"row * {symint.c(left.row_stride)}")
        unrolled = (
            f"dj_small_lanes_f32({place}, {symint.c(left.row_stride)}, "
            f"{_operand(right, 'right', f'column * {symint.c(right.column_stride)}')}, "
            f"{tile}, rows, {symint.c(kernel.inner)}, columns);"
        )
        return [f"if ((uintptr_t)({place}) % 16 == 0) {unrolled}", f"else {product}"]
    if kernel.bias is None:
        return [product]
    return [f"dj_begin_{suffix}({kernel.bias.name} + column, {tile}, rows, columns);", product]


def may_be_few(kernel: MatmulKernel) -> bool:
    """True unless a product has many rows and many columns."""
    is_many = symint.is_at_least(kernel.rows, FEW_ROWS) and symint.is_at_least(
        kernel.columns, FEW_COLUMNS
    )
    is_naive = bool(kernel.batch) and not symint.is_at_least(
        kernel.rows * kernel.inner * kernel.columns, NAIVE_WORK
    )
    return is_naive or not is_many


def _how(kernel: MatmulKernel, *given: str) -> str:
    """The bits of `How` (`_products.c`) for a part of the product, in C."""
    terms = [bit for bit in given if bit != "0"]
    if kernel.bias is not None:
        terms.append("DJ_ADDS")
    if may_be_few(kernel):
        sizes = ", ".join(map(symint.c, (kernel.rows, kernel.inner, kernel.columns)))
        terms.append(f"dj_few({sizes}, column, {int(bool(kernel.batch))})")
    return " | ".join(terms) or "0"


def _is_small(kernel: MatmulKernel) -> bool:
    """True if the product is unrolled instead of a call."""
    inner, columns = kernel.inner, kernel.columns
    if not isinstance(inner, int) or not isinstance(columns, int):
        return False
    fits = 0 < inner * columns <= SMALL and max(inner, columns) <= LONGEST_SMALL
    return fits and not (_products.ROUNDS_TERMS_OF_FEW and _has_lanes(kernel))


def _has_lanes(kernel: MatmulKernel) -> bool:
    """True for a product whose order is another one than that of k (`few_products.h`)."""
    inner, columns = kernel.inner, kernel.columns
    work = kernel.rows * inner * columns
    is_naive = bool(kernel.batch) and not symint.is_at_least(work, NAIVE_WORK)
    if kernel.left.buffer.dtype is not dtypes.float32 or is_naive:
        return False
    if kernel.right.column_stride != 1 and kernel.left.column_stride == 1:
        return symint.is_at_least(inner, 4) and not (inner < 8 and columns < 4)
    return symint.is_at_least(inner, 8) and kernel.columns not in (1, 2, 3, 4, 8)


def _has_aligned_lanes(kernel: MatmulKernel) -> bool:
    """True if `dj_small_lanes_f32` has the order of the product where rows are aligned."""
    inner, columns, step = kernel.inner, kernel.columns, kernel.left.row_stride
    if not all(isinstance(number, int) for number in (inner, columns, step)):
        return False
    return (
        bool(_products.ROUNDS_TERMS_OF_FEW)
        and kernel.bias is None
        and (inner == 8 or (inner == 4 and columns % 4 == 0))
        and 1 < columns <= LONGEST_SMALL
        and symint.is_at_least(kernel.rows, 2)
        and step % 4 == 0
        and _has_lanes(kernel)
        and kernel.right.column_stride != 1
    )


def _operand(matrix: Matrix, batch: str, first: str) -> str:
    strides = f"{symint.c(matrix.row_stride)}, {symint.c(matrix.column_stride)}"
    return f"{_place(matrix, batch, first)}, {strides}"


def _place(matrix: Matrix, batch: str, first: str) -> str:
    return f"{matrix.buffer.name} + {symint.c(matrix.offset)} + {batch} + {first}"
