"""Biases that cuBLASLt adds while it writes a product.

Contract: a product whose only reader is a kernel that adds a vector along its columns, and does
nothing else, becomes one library call that does both. Values are the same but for one rounding to
16 bits less. Activations are not left to the library: its ReLU turns NaN into 0, and its GELU is
the other form.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from dynajit.codegen.loops import buffers
from dynajit.codegen.loops.loop_ir import (
    Apply,
    Buffer,
    Cast,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
    RowKernel,
    Store,
)
from dynajit.core.types import dtypes, symint
from dynajit.core.types.value_types import numel


def fold(kernels: Sequence[Kernel], kept: Collection[Buffer]) -> list[Kernel]:
    """The kernels with products that do such additions, in the place of those: the bias is there.

    Args:
        kernels: in running order.
        kept: buffers that somebody reads afterwards: results.
    """
    reads = Counter(buffer for kernel in kernels for buffer in buffers.read(kernel))
    products = {k.result.buffer: k for k in kernels if isinstance(k, MatmulKernel)}
    folded: dict[str, MatmulKernel] = {}
    gone: set[str] = set()
    for kernel in kernels:
        if not isinstance(kernel, RowKernel):
            continue
        found = _addition(kernel)
        if found is None:
            continue
        store, product_load, bias = found
        product = products.get(product_load.buffer)
        if product is None or product.result.buffer in kept or reads[product.result.buffer] != 1:
            continue
        if _adds_along_columns(kernel, product, store, product_load, bias):
            folded[kernel.name] = replace(
                product, result=replace(product.result, buffer=store.buffer), bias=bias.buffer
            )
            gone.add(product.name)
    return [folded.get(kernel.name, kernel) for kernel in kernels if kernel.name not in gone]


def _addition(kernel: RowKernel) -> tuple[Store, Load, Load] | None:
    """(store, product, bias) of a kernel that adds two loads and does nothing else."""
    others = (
        kernel.row_stores, kernel.totals, kernel.element_totals, kernel.finals, kernel.indices,
        kernel.in_place, kernel.column_totals, kernel.column_stores,
    )  # fmt: skip
    if any(others) or len(kernel.phases) != 1:
        return None
    (phase,) = kernel.phases
    if phase.accumulates or phase.keeps or len(phase.stores) != 1:
        return None
    (store,) = phase.stores
    value = _without_casts(store.value)
    if not isinstance(value, Apply) or value.function != "add":
        return None
    first, second = map(_without_casts, value.arguments)
    if not isinstance(first, Load) or not isinstance(second, Load):
        return None
    if first.dtype is not store.buffer.dtype or second.dtype is not store.buffer.dtype:
        return None
    return (store, first, second) if first.offset == store.offset else (store, second, first)


def _without_casts(value: Expression) -> Expression:
    """What a 16-bit float is computed from: it is widened and narrowed around the addition."""
    narrow = (dtypes.float16, dtypes.bfloat16)
    if isinstance(value, Cast) and (value.dtype in narrow or value.operand.dtype in narrow):
        return value.operand
    return value


def _adds_along_columns(
    kernel: RowKernel, product: MatmulKernel, store: Store, given: Load, bias: Load
) -> bool:
    """Whether each element of the product is stored where the library would write it, after the
    bias's element of its column was added."""
    axes = (*kernel.rows, *kernel.elements)
    size = numel((*product.batch, product.rows, product.columns))
    return (
        given.offset == store.offset
        and given.buffer != bias.buffer  # twice the product of one row
        and product.bias is None
        and product.inner != 0
        and product.result.buffer.dtype.is_floating_point  # others are loops
        and product.result.offset == 0
        and numel(tuple(axis.size for axis in axes)) == size == store.buffer.size
        and bias.buffer.size == product.columns
        and bias.offset == symint.mod(store.offset, product.columns)
    )
