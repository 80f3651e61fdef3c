"""Operations whose result nobody reads, and which may refuse their operands all the same.

Plain Python raises the error of an index out of range, or of an integer divided by zero, also where
the result is dropped. Such a node stays an output of the graph. Called by `capture.finish`.
"""

from collections.abc import Sequence

from dynajit.ir.node import Argument, Node
from dynajit.ir.refusals import may_refuse
from dynajit.ops.table import TABLE


def unread_checks(nodes: Sequence[Node], outputs: Sequence[Node]) -> list[Node]:
    """The nodes that may refuse their operands and from which no path leads to an output.

    Args:
        nodes: all, arguments first.
        outputs: those that are outputs anyway.
    """
    needed = set(outputs)
    found = []
    for node in reversed(nodes):
        if node not in needed and may_refuse(node):
            found.append(node)
            needed.add(node)
        if node in needed:
            needed.update(argument for argument in _read(node) if isinstance(argument, Node))
    return found[::-1]


def _read(node: Node) -> Sequence[Argument]:
    """The arguments that are read: of what is overwritten as a whole, only the new elements."""
    is_overwritten = node.op in (TABLE.overwrite, TABLE.overwrite_unrecorded)
    return node.args[1:] if is_overwritten else node.args
