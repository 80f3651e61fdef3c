"""Matrix products as steps of a launch plan: what cuBLASLt is told.

Contract: a product becomes one step; operands are read where they lie, transposed or sliced. One
loop over the batch, the longest, is left to the library, the others become calls one after the
other. float32 is multiplied in full, or with TF32 where `Config.allow_tf32` says so when it runs;
16-bit operands are added up in float32.
"""

from collections.abc import Callable
from typing import Any, Final

from dynajit.codegen import _device
from dynajit.codegen.cuda.units.steps import LibraryCall
from dynajit.codegen.device.words import Words
from dynajit.codegen.loops.loop_ir import Buffer, MatmulKernel, Matrix, typical
from dynajit.codegen.plan.matrices import is_blas_matrix
from dynajit.core.errors import CodegenError
from dynajit.core.types.symint import Number

_TYPES: Final = {
    "float16": _device.DATA_F16,
    "bfloat16": _device.DATA_BF16,
    "float32": _device.DATA_F32,
    "float64": _device.DATA_F64,
}

Place = Callable[[Buffer, Number], tuple[int, int]]
"""The address of an element of a buffer, as two words that are added."""


def product_step(call: LibraryCall, words: Words, place: Place) -> tuple[Any, ...]:
    """The step of a product, as `_device.Plan` takes it.

    Args:
        call: the product.
        words: for its sizes.
        place: where operands lie.

    Raises:
        CodegenError: an operand is no matrix that the library reads.
    """
    kernel = call.kernel
    left, right = kernel.left, kernel.right
    left_type, result_type = left.buffer.dtype.name, kernel.result.buffer.dtype.name
    if left_type not in _TYPES or result_type not in _TYPES:
        raise CodegenError(f"{call.name}: cuBLASLt does not multiply {left_type}.")
    is_left_transposed = _is_transposed(call, left, kernel.rows, kernel.inner)
    is_right_transposed = _is_transposed(call, right, kernel.inner, kernel.columns)
    batch, outer = _batch(kernel)
    numbers = (
        kernel.rows, kernel.inner, kernel.columns,
        left.column_stride if is_left_transposed else left.row_stride,
        right.column_stride if is_right_transposed else right.row_stride,
        kernel.result.row_stride, *batch,
    )  # fmt: skip
    return (
        _device.STEP_PRODUCT,
        _TYPES[left_type],
        _TYPES[result_type],
        is_left_transposed,
        is_right_transposed,
        _device.EPILOGUE_DEFAULT if kernel.bias is None else _device.EPILOGUE_BIAS,
        place(left.buffer, left.offset),
        place(right.buffer, right.offset),
        place(kernel.result.buffer, kernel.result.offset),
        place(kernel.bias or kernel.result.buffer, 0),
        tuple(map(words.of, numbers)),
        tuple(tuple(map(words.of, loop)) for loop in outer),
    )


def _is_transposed(call: LibraryCall, matrix: Matrix, rows: Number, columns: Number) -> bool:
    """Whether a matrix lies in memory by columns.

    Raises:
        CodegenError: it lies neither way.
    """
    if not is_blas_matrix(matrix, rows, columns):
        raise CodegenError(
            f"{call.name}: {matrix.buffer.name} with the strides {matrix.row_stride} and "
            f"{matrix.column_stride} is no matrix for cuBLASLt."
        )
    return matrix.column_stride != 1


def _batch(kernel: MatmulKernel) -> tuple[tuple[Number, ...], list[tuple[Number, ...]]]:
    """(size, strides of left, right and result in elements) of the loop that the library makes;
    (size, strides in bytes) of the others."""
    operands = (kernel.left, kernel.right, kernel.result)
    if not kernel.batch:
        return (1, 0, 0, 0), []
    dims = range(len(kernel.batch))
    chosen = max(dims, key=lambda d: typical(kernel.batch[d]))
    own = (kernel.batch[chosen], *(matrix.batch_strides[chosen] for matrix in operands))
    outer = [
        (
            kernel.batch[d],
            *(m.batch_strides[d] * m.buffer.dtype.itemsize for m in operands),
        )
        for d in dims
        if d != chosen
    ]
    return own, outer
