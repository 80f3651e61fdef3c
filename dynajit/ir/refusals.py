"""Which nodes may refuse their operands because of what these hold.

Contract: a node that may refuse is run whether its result is read or not, and no pass loses it: the
program must raise what eager execution raises.
"""

from collections.abc import Iterable
from typing import Final

from dynajit.core.types.dtypes import Category
from dynajit.core.types.symint import known_comparison
from dynajit.core.types.value_types import TensorType
from dynajit.ir.node import Argument, Node, rearranges
from dynajit.ops.table.op_table import Indices, Kind

#: Kinds of rows that read or write at computed indices, themselves or in what they are made of.
_INDEXING: Final = (Kind.MOVEMENT, Kind.SCATTER, Kind.COMPOSITE)


def may_refuse(node: Node) -> bool:
    """True if an operand after the first holds indices, perhaps out of range, or divisors, or the
    row says that it refuses elements, or waits for what may have failed."""
    op = node.op
    if op is None:
        return False
    if op.kind is Kind.EXTERN:
        return bool(op.rule.refuses or op.rule.awaits)
    if op.variadic:
        return False
    if op.kind in _INDEXING:
        return not _is_within(node) and any(
            isinstance(argument, Node) and _is_integer(argument) for argument in node.args[1:]
        )
    divides = op.kind is Kind.POINTWISE and op.rule.divides and _is_integer(node)
    return divides and (isinstance(node.args[1], Node) or node.args[1] == 0)


def _is_within(node: Node) -> bool:
    """True for elements along a dim at positions of the same dim's elements: sorted ones."""
    assert node.op is not None
    is_along = node.op.indices in (Indices.ALONG, Indices.EACH)
    if node.op.kind is not Kind.MOVEMENT or not is_along or not isinstance(node.args[0], Node):
        return False
    index, source = node.args[1], node.args[0].type
    while isinstance(index, Node) and rearranges(index):
        index = index.args[0]
    if not isinstance(index, Node) or index.op is None or not index.op.gives_positions:
        return False
    given, dims = index.args[0], index.attributes["dim"]
    dims = dims if isinstance(dims, tuple) else (dims,)
    if not isinstance(given, Node) or len(dims) != 1 or not given.type.shape or not source.shape:
        return False
    sizes = given.type.shape[dims[0]], source.shape[node.attributes["dim"]]
    return known_comparison("==", *sizes) is True


def _is_integer(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.category is Category.INTEGER


class Refusals:
    """From which nodes that may refuse a value is computed, as bit sets. Mutable: nodes are added,
    arguments first."""

    def __init__(self) -> None:
        self._masks: dict[Argument, int] = {}
        self._count = 0

    def add(self, node: Node) -> None:
        """Note a node, whose arguments were added."""
        if node in self._masks:
            return
        mask = self.of(node.args)
        if may_refuse(node):
            mask |= 1 << self._count
            self._count += 1
        if mask:
            self._masks[node] = mask

    def of(self, values: Iterable[Argument]) -> int:
        """The nodes from which any of some values is computed."""
        mask = 0
        for value in values:
            if isinstance(value, Node):
                mask |= self._masks.get(value, 0)
        return mask


__all__ = ["Refusals", "may_refuse"]
