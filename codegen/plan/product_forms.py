"""Matrix products written as rows that compute the same and cost less, before fusion.

A product over one element is a multiplication; one with a vector on either side is a sum of
products, which joins the kernels around it, unless the matrix is so large that BLAS is faster;
16-bit floats are multiplied as float32, which is what their row means, and BLAS knows.

Contract: values are those of the row `matmul` up to the order of its sums.
"""

from typing import Any, Final

from dynajit.codegen.loops.loop_ir import typical
from dynajit.core.types import dtypes
from dynajit.core.types.dtypes import Category, DType
from dynajit.core.types.symint import Number
from dynajit.ir.graph import Argument, Builder, Graph, Value
from dynajit.ir.node import Node
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.rows.linear_algebra import transposed
from dynajit.ops.table.op_table import TABLE

LARGEST_SUM: Final = 1 << 12
SMALLEST_SUM: Final = 1 << 19
"""Elements of a matrix that a vector is multiplied with by a generated loop, at most or at least.

Measured on AVX-512, one thread, whole calls: batches of 4x4 take a tenth of BLAS's time, 64x64 the
same. In between BLAS is faster: 64x4096 takes 19 us as a loop and 12 by BLAS. From memory both
have its speed (2048x2048: 0.58 ms), and loops have threads and take in what surrounds them."""

HALVES: Final = frozenset((dtypes.float16, dtypes.bfloat16))


def rewrite_products(graph: Graph) -> Graph:
    """The graph with every product in its cheapest form; itself where there are no products.

    Requires: differentiation is over.
    """
    if not any(node.op is TABLE.matmul for node in graph.nodes):
        return graph
    return rebuild(graph, _visit)


def _visit(builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
    if node.op is not TABLE.matmul:
        return keep(builder, node, args)
    left, right = (as_operand(builder, argument) for argument in args)
    mark = builder.snapshot()
    found = _rewritten(left, right, node.type.dtype)  # type: ignore[union-attr]
    if found is None:
        return keep(builder, node, args)
    return builder.rename_last(node.name) if builder.is_last(mark, found.node) else found


def _rewritten(left: Any, right: Any, dtype: DType) -> Any:
    """The product of two operands in another form, or None if BLAS is best."""
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    if inner == 1:
        return TABLE.mul(left, right)
    if dtype in HALVES:
        wide = _product(_widened(left), _widened(right))
        return TABLE.cast(wide, dtype=dtype)
    return _summed(left, right) if _is_sum(dtype, rows, inner, columns) else None


def _product(left: Any, right: Any) -> Any:
    """The product of two float32 operands."""
    found = _rewritten(left, right, dtypes.float32)
    return TABLE.matmul(left, right) if found is None else found


def _is_sum(dtype: DType, rows: Number, inner: Number, columns: Number) -> bool:
    """True if a product with a vector is a sum of products."""
    if dtype.category is not Category.FLOATING or 1 not in (rows, columns):
        return False
    if rows == columns == 1:
        return True
    elements: int = typical(inner) * typical(rows) * typical(columns)
    return elements <= LARGEST_SUM or elements >= SMALLEST_SUM


def _summed(left: Any, right: Any) -> Any:
    """The product as a sum of products, along the rows of the matrix as it lies in memory: a loop
    down the columns of a transposed one reads a line for each element (2048 by 1000: 245 ms, not
    0.1), and GCC 12 takes minutes for it."""
    if right.shape[-1] == 1:
        if _lies_in_columns(left):
            return _turned(_sum(TABLE.mul(_turned(left), right), -2))
        return _sum(TABLE.mul(left, _turned(right)), -1)
    if _lies_in_columns(right):
        return _turned(_sum(TABLE.mul(left, _turned(right)), -1))
    return _sum(TABLE.mul(_turned(left), right), -2)


def _turned(x: Value) -> Any:
    return transposed(TABLE, x)


def _lies_in_columns(x: Value) -> bool:
    """True for a matrix, or a stack of them, whose columns are rows of memory."""
    node: Node = x.node
    is_turned = False
    while node.op is TABLE.permute and isinstance(node.args[0], Node):
        dims = node.attributes["dims"]
        if dims[-2:] == (len(dims) - 1, len(dims) - 2):
            is_turned = not is_turned
        elif dims[-2:] != (len(dims) - 2, len(dims) - 1):
            return False
        node = node.args[0]
    strides = getattr(node.type, "strides", None)
    if strides is not None and len(strides) > 1 and strides[-2] == 1 != strides[-1]:
        return not is_turned
    return is_turned


def _sum(x: Value, dim: int) -> Any:
    return TABLE.sum(x, dim=(len(x.shape) + dim,), keepdim=True)


def _widened(x: Value) -> Any:
    """A 16-bit operand as float32, the cast below the views of it that keep all elements: it runs
    over memory as it lies, and BLAS reads the views where they are."""
    node: Node = x.node
    steps: list[Node] = []
    while node.is_view and isinstance(node.args[0], Node) and _keeps_elements(node):
        steps.append(node)
        node = node.args[0]
    wide = TABLE.cast(as_operand(x.builder, node), dtype=dtypes.float32)
    for step in reversed(steps):
        assert step.op is not None
        wide = step.op(wide, **step.attributes)
    return wide


def _keeps_elements(node: Node) -> bool:
    """True for another order or shape of the same elements."""
    return node.op is TABLE.reshape or node.op is TABLE.permute
