"""Operations whose result nobody reads, and which may refuse their operands all the same.

Plain Python raises the error of an index out of range, or of an integer divided by zero, also where
the result is dropped. Such a node stays an output of the graph. Called by `capture.finish`.
"""

from collections.abc import Sequence
from typing import Final

from dynajit.core.dtypes import Category
from dynajit.core.types import TensorType
from dynajit.ir.graph import Node
from dynajit.ops.table import Kind

#: Kinds of rows that read or write at computed indices, themselves or in what they are made of.
_INDEXING: Final = (Kind.MOVEMENT, Kind.SCATTER, Kind.COMPOSITE)


def unread_checks(nodes: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """The nodes that may refuse their operands and from which no path leads to an output.

    Args:
        nodes: all, arguments first.
        outputs: those that are outputs anyway.
    """
    needed = set(outputs)
    found = []
    for node in reversed(nodes):
        if node not in needed and _may_refuse(node):
            found.append(node)
            needed.add(node)
        if node in needed:
            needed.update(argument for argument in node.args if isinstance(argument, Node))
    return found[::-1]


def _may_refuse(node: Node) -> bool:
    """True if an operand after the first holds indices, perhaps out of range, or divisors."""
    op = node.op
    if op is None or op.variadic:
        return False
    if op.kind in _INDEXING:
        return any(
            isinstance(argument, Node) and _is_integer(argument) for argument in node.args[1:]
        )
    divides = op.kind is Kind.POINTWISE and op.rule.divides and _is_integer(node)
    return divides and (isinstance(node.args[1], Node) or node.args[1] == 0)


def _is_integer(node: Node) -> bool:
    return isinstance(node.type, TensorType) and node.type.dtype.category is Category.INTEGER
