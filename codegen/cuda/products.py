"""Matrix products on the GPU: library calls, with copies of operands that no library reads.

Contract: floating products are one `LibraryCall`; an operand that has no stride of one is copied
before. Products of integers and bools, which the library does not know, and those without inner
elements are loops.
"""

from dataclasses import replace

from dynajit.codegen.cuda.columns import print_columns
from dynajit.codegen.cuda.pointwise import print_pointwise
from dynajit.codegen.cuda.units.steps import LibraryCall, Step
from dynajit.codegen.cuda.units.support import Choices
from dynajit.codegen.loops.elements import linear
from dynajit.codegen.loops.loop_ir import (
    Accumulate,
    Accumulated,
    Axis,
    Buffer,
    ColumnKernel,
    Expression,
    Load,
    MatmulKernel,
    Matrix,
    Phase,
    RowKernel,
    Slot,
    Store,
)
from dynajit.codegen.loops.symbolic import Scalar, cast, literal
from dynajit.codegen.plan.matrices import is_blas_matrix
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import DType
from dynajit.core.types.symint import Number
from dynajit.core.types.value_types import contiguous_strides, numel


def print_matmul(kernel: MatmulKernel, choices: Choices) -> tuple[Step, ...]:
    """What multiplies, in running order; nothing where there is no result."""
    if 0 in (*kernel.batch, kernel.rows, kernel.columns):
        return ()
    if not kernel.result.buffer.dtype.is_floating_point or kernel.inner == 0:
        return print_columns(_as_loops(kernel), choices)
    left = _in_order(kernel, "left", kernel.left, kernel.rows, kernel.inner, choices)
    right = _in_order(kernel, "right", kernel.right, kernel.inner, kernel.columns, choices)
    whole = replace(kernel, left=left[0], right=right[0])
    return (*left[1], *right[1], LibraryCall(kernel.name, whole))


def _in_order(
    kernel: MatmulKernel,
    side: str,
    matrix: Matrix,
    rows: Number,
    columns: Number,
    choices: Choices,
) -> tuple[Matrix, tuple[Step, ...]]:
    """An operand that the library reads, and what copies it there."""
    if is_blas_matrix(matrix, rows, columns):
        return matrix, ()
    shape = (*kernel.batch, rows, columns)
    axes = tuple(Axis(f"i{d}", size) for d, size in enumerate(shape))
    index = [axis.symbol for axis in axes]
    copy = Buffer(f"{kernel.name}_{side}", matrix.buffer.dtype, numel(shape))
    source = Load(matrix.buffer, _offset(matrix, index))
    store = Store(copy, linear(index, shape), source)
    loops = RowKernel(copy.name, axes[:-1], axes[-1:], (Phase(stores=(store,)),))
    strides = contiguous_strides(shape)
    return Matrix(copy, 0, strides[:-2], *strides[-2:]), print_pointwise(loops, choices)


def _offset(matrix: Matrix, index: list[Number]) -> Number:
    offset = matrix.offset
    strides = (*matrix.batch_strides, matrix.row_stride, matrix.column_stride)
    for i, stride in zip(index, strides, strict=True):
        offset = offset + i * stride
    return offset


def _as_loops(kernel: MatmulKernel) -> ColumnKernel:
    """The product as a sum along the inner dim."""
    sizes = (*kernel.batch, kernel.rows, kernel.inner, kernel.columns)
    axes = [Axis(f"i{d}", size) for d, size in enumerate(sizes)]
    *batch, row, inner, column = (axis.symbol for axis in axes)
    dtype = kernel.result.buffer.dtype
    compute = dtypes.compute_dtype(dtype)
    factors = (
        Load(kernel.left.buffer, _offset(kernel.left, [*batch, row, inner])),
        Load(kernel.right.buffer, _offset(kernel.right, [*batch, inner, column])),
    )
    left, right = (Scalar(cast(factor, compute)) for factor in factors)
    total = Accumulate(
        kernel.name, ((left * right).expression,), None, (literal(0, compute),), _sum(compute)
    )
    value = cast(Accumulated(kernel.name, 0, compute), dtype)
    place = linear([*batch, row, column], (*kernel.batch, kernel.rows, kernel.columns))
    store = Store(kernel.result.buffer, place, value)
    return ColumnKernel(kernel.name, (*axes[:-2],), (axes[-2],), (axes[-1],), (total,), (store,))


def _sum(dtype: DType) -> tuple[Expression, ...]:
    a, b = (Scalar(Slot(side, 0, dtype)) for side in "ab")
    return ((a + b).expression,)
