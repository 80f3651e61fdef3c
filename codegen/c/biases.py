"""Biases from which the sums of a product go on, in C.

A sum that our own products cut is added to its bias part by part, as PyTorch's MKL does it
(`addmm`); a kernel behind the product would add the bias to the whole. Products whose bits are the
same either way are left alone: there, adding costs nothing in the kernel that follows.

Contract: a product of which every reader adds the same vector along its columns gets that vector as
its `bias`, and the readers find the sums.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from dynajit.codegen.c import products as c_products
from dynajit.codegen.loops import buffers, rewriting
from dynajit.codegen.loops.loop_ir import (
    Apply,
    Buffer,
    ColumnKernel,
    Expression,
    Kernel,
    Load,
    MatmulKernel,
    RowKernel,
)
from dynajit.core.types import dtypes, symint

UNCUT = 192
"""Terms of a sum that no CPU cuts (`DEPTH_ON_AMD` of `_products.c`)."""


def fold(kernels: Sequence[Kernel], kept: Collection[Buffer]) -> list[Kernel]:
    """The kernels, some of their products with a bias.

    Args:
        kernels: in running order.
        kept: buffers that somebody reads afterwards: results.
    """
    found = list(kernels)
    for place, product in enumerate(kernels):
        if not isinstance(product, MatmulKernel) or not _begins_with_bias(product):
            continue
        result = product.result.buffer
        readers = [i for i, kernel in enumerate(found) if result in buffers.read(kernel)]
        if result in kept or not readers or not _runs_before(place, readers):
            continue
        sums = _sums(product, [found[i] for i in readers])
        if sums is None:
            continue
        bias, known = sums
        if any(bias in buffers.written(kernel) for kernel in found[place:]):
            continue
        found[place] = replace(product, bias=bias)
        for i in readers:
            found[i] = rewriting.in_kernel(found[i], known)
    return found


def _begins_with_bias(product: MatmulKernel) -> bool:
    """Whether bits depend on it: the sum is cut, or one of few columns in the order of k."""
    if product.batch or product.result.buffer.dtype is not dtypes.float32:
        return False
    is_cut = not symint.is_at_least(UNCUT, product.inner)
    in_order = c_products.may_be_few(product) and product.right.column_stride == 1
    return (is_cut or in_order) and c_products.calls_gemm(product)


def _runs_before(place: int, readers: Sequence[int]) -> bool:
    return place < min(readers)


def _sums(
    product: MatmulKernel, readers: Sequence[Kernel]
) -> tuple[Buffer, dict[Expression, Expression]] | None:
    """(bias, {product + bias: product}) if that is all that is made of the product."""
    known: dict[Expression, Expression] = {}
    biases = set()
    for kernel in readers:
        if not isinstance(kernel, (RowKernel, ColumnKernel)):
            return None
        expressions = buffers.expressions(kernel)
        for expression in expressions:
            for given, bias in _additions(expression, product):
                known[expression] = given
                biases.add(bias.buffer)
        read = {e for e in expressions if isinstance(e, Load) and _reads(e, product)}
        users = [e for e in expressions if e not in known and not read.isdisjoint(e.operands)]
        stored = any(root in read for root in buffers.roots(kernel))
        if users or stored or not read:
            return None
    return (biases.pop(), known) if len(biases) == 1 else None


def _reads(load: Load, product: MatmulKernel) -> bool:
    return load.buffer == product.result.buffer


def _additions(expression: Expression, product: MatmulKernel) -> Iterator[tuple[Load, Load]]:
    """(product, bias), if the expression is their sum."""
    if not isinstance(expression, Apply) or expression.function != "add":
        return
    first, second = expression.arguments
    for given, bias in ((first, second), (second, first)):
        if not isinstance(given, Load) or not isinstance(bias, Load) or not _reads(given, product):
            continue
        fits = (
            not _reads(bias, product)
            and bias.buffer.dtype is product.result.buffer.dtype
            and bias.buffer.size == product.columns
            and bias.offset == symint.mod(given.offset, product.columns)
        )
        if fits:
            yield given, bias
