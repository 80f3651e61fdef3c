"""Operands of matrix products: which values are strided matrices in memory, so that our own
products and BLAS read them where they lie.

Contract: a value is a matrix if its elements' offsets are linear in its indices.
"""

from collections.abc import Sequence

from dynajit.codegen.loops.elements import Elements, Storage
from dynajit.codegen.loops.loop_ir import Axis, Buffer, Load, Matrix, size_symbols
from dynajit.core.records import record
from dynajit.core.types import symint
from dynajit.core.types.symint import Number, is_at_least
from dynajit.ir.graph import Graph
from dynajit.ir.node import Node, NodeKind


@record
class Strided:
    """A value in a buffer by its strides, in elements; 0 in dims of size 1."""

    buffer: Buffer
    offset: Number
    strides: tuple[Number, ...]


def operand_base(argument: Node, graph: Graph, *, for_blas: bool = True) -> Node:
    """What must be stored so that `argument` is a matrix for BLAS: the deepest value of which it is
    a strided view, else itself.

    Args:
        for_blas: False if any strides will do, and any number of dims.
    """
    chain = [argument]
    while chain[-1].is_view and isinstance(chain[-1].args[0], Node):
        chain.append(chain[-1].args[0])
    for base in reversed(chain[1:]):
        storage = Storage(graph.inputs)
        if base.kind is not NodeKind.PLACEHOLDER:
            storage.add(base)
        if not for_blas:
            if as_strided(Elements(storage), argument) is not None:
                return base
            continue
        matrix = as_matrix(Elements(storage), argument)
        if matrix is not None and is_blas_matrix(matrix, *argument.type.shape[-2:]):
            return base
    return argument


def as_strided(elements: Elements, argument: Node) -> Strided | None:
    """A stored value, or a view of one, by its strides; None if it has none."""
    axes = [Axis(f"i{d}", size) for d, size in enumerate(argument.type.shape)]
    value = elements.at(argument, tuple(axis.symbol for axis in axes))
    if not isinstance(value, Load):
        return None
    affine = _affine(value.offset, axes)
    return None if affine is None else Strided(value.buffer, affine[0], tuple(affine[1]))


def as_matrix(elements: Elements, argument: Node) -> Matrix | None:
    """A stored value, or a view of one, as strided matrices; None if it is not."""
    found = as_strided(elements, argument)
    if found is None:
        return None
    rows, columns = argument.type.shape[-2:]
    row, column = found.strides[-2:]
    if columns == 1:
        column = 1
    elif rows == 1:
        row = columns if column == 1 else 1
    return Matrix(found.buffer, found.offset, found.strides[:-2], row, column)


def is_blas_matrix(matrix: Matrix, rows: Number, columns: Number) -> bool:
    """True if one stride is 1 and the other one does not make rows overlap."""
    by_rows = matrix.column_stride == 1 and is_at_least(matrix.row_stride, columns)
    by_columns = matrix.row_stride == 1 and is_at_least(matrix.column_stride, rows)
    return by_rows or by_columns


def _affine(offset: Number, axes: Sequence[Axis]) -> tuple[Number, list[Number]] | None:
    """(constant, stride per axis) of an offset that is linear in the loop variables."""
    zeros = {axis.name: 0 for axis in axes}
    start = symint.substitute(offset, zeros)
    if symint.symbols(start) != size_symbols(start):
        return None
    strides: list[Number] = []
    total = start
    for axis in axes:
        if isinstance(axis.size, int) and axis.size <= 1:
            strides.append(0)
            continue
        step = symint.substitute(offset, {**zeros, axis.name: 1})
        if symint.symbols(step) != size_symbols(step):
            return None
        strides.append(step - start)
        total = total + axis.symbol * (step - start)
    return (start, strides) if total == offset else None
