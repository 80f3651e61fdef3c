"""What Python leaves out, computed all the same: operands that refuse nothing.

Both arms of a jump on a tensor are captured (`capture.execution.branches`). A row of an arm that
refuses what its operands hold, an index out of range or a divisor of zero, is not to refuse them
where Python runs the other arm: there it gets an index or divisor that suits everything. What it
gives is selected by nobody then.
"""

from collections.abc import Sequence
from typing import Any

from dynajit.core.types.dtypes import Category
from dynajit.core.types.value_types import TensorType
from dynajit.ir import graph
from dynajit.ir.node import Node
from dynajit.ops import TABLE
from dynajit.ops.table.op_table import Kind, Op


def harmless(op: Op, operands: Sequence[Any], arm: graph.Value) -> list[Any] | None:
    """The operands of a row that may refuse them; None: none holds elements that data decide.

    Args:
        arm: whether Python runs the arm, as a bool of no dims.
    """
    suiting = 1 if op.kind is Kind.POINTWISE else 0
    found = [*operands]
    for place, operand in enumerate(operands):
        if place and isinstance(operand, graph.Value) and _is_of_data(operand):
            found[place] = TABLE.where(arm, operand, suiting)
    return None if all(a is b for a, b in zip(found, operands, strict=True)) else found


def _is_of_data(operand: graph.Value) -> bool:
    """Whether integers are computed of the elements of tensors: numbers are asked otherwise."""
    kind = operand.type
    if not isinstance(kind, TensorType) or kind.dtype.category is not Category.INTEGER:
        return False
    work, seen = [operand.node], {operand.node}
    for node in work:
        if node.kind is graph.NodeKind.PLACEHOLDER and isinstance(node.type, TensorType):
            return True
        following = [a for a in node.args if isinstance(a, Node) and a not in seen]
        seen.update(following)
        work.extend(following)
    return False


__all__ = ["harmless"]
