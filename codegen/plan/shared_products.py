"""Matrix products that share work, made one: what unrolled recurrent networks are full of.

Each step of such a network multiplies a few rows by the same weights, and its gradient adds up one
product of a short inner dimension per step. Three forms cost less:

- a sum of products is one product of their operands put side by side: `a @ b + c @ d` is
  `[a c] @ [b; d]`, so that the result is written once;
- products of all slices of one array with the same matrix are one product of the array, so that the
  matrix is read and put in order once;
- a transposed matrix that several products with few rows read is copied in their order once.

Contract: values are those of the row `matmul` up to the order of its sums.
"""

from collections.abc import Sequence
from typing import Any, Final

from dynajit.codegen.loops.loop_ir import typical
from dynajit.core.types import dtypes
from dynajit.core.types.value_types import TensorType
from dynajit.ir.graph import Argument, Builder, Graph
from dynajit.ir.node import Node
from dynajit.ir.passes.eliminate_dead_code import eliminate_dead_code
from dynajit.ir.rebuild import as_operand, keep, rebuild
from dynajit.ops.rows.linear_algebra import transposed
from dynajit.ops.table.op_table import TABLE

FEW_ROWS: Final = 128
"""Rows up to which putting the right operand in order is a good part of a product: 512 columns of
128 elements take 10 us to turn around, and 32 rows with them 25 us to multiply."""
ENOUGH_READERS: Final = 4
"""Products for which a transposed matrix is copied: a copy costs about as much as one of them
spends on turning it."""


def share_products(graph: Graph) -> Graph:
    """The graph with products that share work made one; itself where there are none.

    Requires: differentiation is over.
    """
    for find in (_Sums, _Slices, _Turned):
        if sum(_is_product(node) for node in graph.nodes) < 2:
            return graph
        found = find(graph)
        if found.plans:
            graph = eliminate_dead_code(rebuild(graph, found.visit))
    return graph


def _is_product(node: object) -> bool:
    """True for a product of two matrices of floats that are not widened to be multiplied."""
    return (
        isinstance(node, Node)
        and node.op is TABLE.matmul
        and isinstance(node.type, TensorType)
        and node.type.dtype in (dtypes.float32, dtypes.float64)
        and all(len(a.type.shape) == 2 for a in node.args if isinstance(a, Node))
    )


def _rows(product: Node) -> int:
    return typical(product.type.shape[0])


class _Visitor:
    """What all three have in common. Mutable: the new graph's nodes are added as they are made."""

    def __init__(self) -> None:
        self.new: dict[Node, Any] = {}

    def visit(self, builder: Builder, node: Node, args: tuple[Argument, ...]) -> Any:
        """The visitor of `rebuild`."""
        made = self.make(builder, node)
        if made is None:
            made = keep(builder, node, args)
        self.new[node] = made
        return made

    def make(self, builder: Builder, node: Node) -> Any:
        """What stands for a node of the old graph; None where it stays."""
        raise NotImplementedError

    def operand(self, builder: Builder, node: Any) -> Any:
        """A node of the old graph in the new one."""
        return as_operand(builder, self.new[node])


class _Sums(_Visitor):
    """Sums of products, by the node that is the sum."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.users = graph.users()
        self.outputs = {output for output in graph.outputs if isinstance(output, Node)}
        self.plans: dict[Node, tuple[list[Node], list[Node]]] = {}
        inner: set[Node] = set()
        for node in reversed(graph.nodes):
            if node.op is not TABLE.add or node in inner:
                continue
            products: list[Node] = []
            others: list[Node] = []
            inner |= self._collect(node, products, others)
            if len(products) > 1:
                self.plans[node] = products, others

    def _collect(self, root: Node, products: list[Node], others: list[Node]) -> set[Node]:
        """Adds the summands of `root`, in order; gives the sums that only `root` needs."""
        sums: set[Node] = set()
        stack: list[Any] = [root]
        while stack:
            node = stack.pop()
            is_own = isinstance(node, Node) and node.type == root.type and self._has_one_user(node)
            if node is root or (is_own and node.op is TABLE.add):
                sums.add(node)
                stack += reversed(node.args)
            elif is_own and _is_product(node) and _is_short(node):
                products.append(node)
            else:
                others.append(node)
        return sums

    def _has_one_user(self, node: Node) -> bool:
        return len(self.users[node]) == 1 and node not in self.outputs

    def make(self, builder: Builder, node: Node) -> Any:
        if node not in self.plans:
            return None
        products, others = self.plans[node]
        lefts = [self.operand(builder, product.args[0]) for product in products]
        rights = [self.operand(builder, product.args[1]) for product in products]
        total = TABLE.matmul(_side_by_side(lefts, 1), _side_by_side(rights, 0))
        for other in others:
            known = self.operand(builder, other) if isinstance(other, Node) else other
            total = TABLE.add(total, known)
        return total


def _is_short(product: Node) -> bool:
    """True if its result is larger than its operands: writing it costs more than joining them."""
    left, right = product.args
    rows, inner = (typical(size) for size in left.type.shape)  # type: ignore[union-attr]
    columns = typical(right.type.shape[1])  # type: ignore[union-attr]
    return rows * columns > (rows + columns) * inner


def _side_by_side(operands: Sequence[Any], dim: int) -> Any:
    """Matrices joined along `dim`; transposed ones in the order in which they lie."""
    below = [operand.node.args[0] for operand in operands if _is_transposed(operand.node)]
    if len(below) < len(operands):
        return TABLE.cat(*operands, dim=dim)
    plain = [as_operand(operands[0].builder, node) for node in below]
    return transposed(TABLE, TABLE.cat(*plain, dim=1 - dim))


def _is_transposed(node: Any) -> bool:
    return isinstance(node, Node) and node.op is TABLE.permute and node.attributes["dims"] == (1, 0)


class _Slices(_Visitor):
    """Products of all slices of an array along one dim with one matrix, by product."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        groups: dict[tuple[Any, Any, int], list[Node]] = {}
        for node in graph.nodes:
            if _is_product(node) and _rows(node) <= FEW_ROWS:
                left, right = node.args
                if isinstance(left, Node) and left.op is TABLE.select:
                    key = (left.args[0], right, left.attributes["dim"])
                    groups.setdefault(key, []).append(node)
        self.plans: dict[Node, tuple[Any, Any, int]] = {}
        for (base, right, dim), products in groups.items():
            indices = {product.args[0].attributes["index"] for product in products}  # type: ignore[union-attr]
            if dim < 2 and len(indices) > 1 and len(indices) == base.type.shape[dim]:
                self.plans |= dict.fromkeys(products, (base, right, dim))
        self.whole: dict[tuple[Any, Any, int], Any] = {}

    def make(self, builder: Builder, node: Node) -> Any:
        plan = self.plans.get(node)
        if plan is None:
            return None
        base, right, dim = plan
        if plan not in self.whole:
            x = self.operand(builder, base)
            first, second, inner = x.shape
            rows = TABLE.reshape(x, shape=(first * second, inner))
            product = TABLE.matmul(rows, self.operand(builder, right))
            self.whole[plan] = TABLE.reshape(product, shape=(first, second, product.shape[1]))
        index = node.args[0].attributes["index"]  # type: ignore[union-attr]
        return TABLE.select(self.whole[plan], dim=dim, index=index)


class _Turned(_Visitor):
    """Products whose right operand is transposed for several of them, by product."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        readers: dict[Any, list[Node]] = {}
        for node in graph.nodes:
            if _is_product(node) and _rows(node) <= FEW_ROWS and _is_transposed(node.args[1]):
                readers.setdefault(node.args[1], []).append(node)
        self.plans = {
            product: right
            for right, products in readers.items()
            if len(products) >= ENOUGH_READERS
            for product in products
        }
        self.copies: dict[Node, Any] = {}

    def make(self, builder: Builder, node: Node) -> Any:
        right = self.plans.get(node)
        if right is None:
            return None
        if right not in self.copies:
            self.copies[right] = TABLE.clone(self.operand(builder, right))
        return TABLE.matmul(self.operand(builder, node.args[0]), self.copies[right])
